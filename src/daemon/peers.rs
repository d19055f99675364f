//! In whose name a client asks: its process is walked up to a holder of ours, and acts in that
//! session's role then; else it is a person's.

use super::calls::kind_of;
use super::desk::Desk;
use super::inbox::ConnectionId;
use super::sessions::{Asker, Owner, Session};
use crate::control::{Call, EscalationCall, Failure, FailureKind, TaskCall, TaskRef};
use crate::domain::event::CancelWhy;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::process::ProcessIdentity;
use crate::domain::time::Timestamp;
use crate::policy::role::{self, Role, Whose};

/// How many sessions and runs may be open that were made from inside of one session.
const CHILDREN_MAX: usize = 8;
/// How deep they may be nested.
const DEPTH_MAX: usize = 3;
/// How many ancestors are looked at. A chain as long as this is nobody's by accident.
const ANCESTORS_MAX: usize = 256;

/// A process and those that it comes from, nearest first: their ids and when they started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lineage(Vec<(i32, u64)>);

impl Lineage {
    /// That of a process as it is now. A double-forked child of a session has its holder for a
    /// parent, which is a subreaper. `None` when the process is gone, or its ancestors end nowhere.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let mut pid = i32::try_from(pid).ok()?;
        let mut lineage = Vec::new();
        let (mut parent, started) = stat(pid)?;
        lineage.push((pid, started));
        while parent > 0 {
            if lineage.len() == ANCESTORS_MAX {
                return None;
            }
            pid = parent;
            // One that has ended meanwhile has left its children to somebody else: once more.
            let Some((next, started)) = stat(pid) else { return Self::again(lineage.first()?) };
            lineage.push((pid, started));
            parent = next;
        }
        // The same process from the first look to the last: its id was not used anew.
        let (pid, started) = *lineage.first()?;
        (stat(pid)?.1 == started).then_some(Self(lineage))
    }

    fn again((pid, started): &(i32, u64)) -> Option<Self> {
        stat(*pid).filter(|(_, now)| now == started)?;
        u32::try_from(*pid).ok().and_then(Self::of)
    }

    fn leads_to(&self, identity: &ProcessIdentity) -> bool {
        self.0.contains(&(identity.pid, identity.start_time))
    }
}

/// A process' parent, and when it started, in clock ticks since the boot (`proc_pid_stat(5)`).
fn stat(pid: i32) -> Option<(i32, u64)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have any bytes, brackets included.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    Some((parent, fields.nth(17)?.parse().ok()?))
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A person, or one whose pid namespace has nothing to do with ours.
    Person,
    /// A process with these ancestors.
    Process(Lineage),
    /// It was gone before it could be looked at.
    Gone,
}

impl Desk {
    /// Whether a client may ask this.
    ///
    /// # Errors
    /// Why not, and what is allowed.
    pub(super) fn may_ask(&self, connection: ConnectionId, call: &Call) -> Result<(), Failure> {
        let (role, inside) = self.role_of(connection);
        if role == Role::Person {
            return Ok(());
        }
        let kind = kind_of(call);
        let whose = inside.map_or(Whose::Other, |inside| self.whose(call, inside));
        role::may(role, kind, whose).map_err(|denial| Failure {
            kind: FailureKind::NotAllowed,
            message: denial.to_string(),
            hint: Some(denial.instead().to_owned()),
        })
    }

    /// The session from inside of which a client asks.
    pub(super) fn inside(&self, connection: ConnectionId) -> Option<SessionId> {
        self.role_of(connection).1.cloned()
    }

    fn role_of(&self, connection: ConnectionId) -> (Role, Option<&SessionId>) {
        let lineage = match self.peers.get(&connection) {
            None | Some(Peer::Person) => return (Role::Person, None),
            Some(Peer::Gone) => return (Role::Stray, None),
            Some(Peer::Process(lineage)) => lineage,
        };
        let holds = |session: &&Session| {
            session.holder.as_ref().is_some_and(|holder| lineage.leads_to(holder))
        };
        match self.sessions.values().find(holds) {
            Some(session) => (Role::Session, Some(&session.id)),
            // Every holder that we have made descends from us, and so do their strays.
            None if lineage.leads_to(&self.here) => (Role::Stray, None),
            None => (Role::Person, None),
        }
    }

    fn whose(&self, call: &Call, inside: &SessionId) -> Whose {
        match call {
            Call::CancelRun { run, .. } | Call::Rejoin { run, .. } | Call::Resume { run, .. } => {
                self.whose_run(run, inside)
            }
            Call::Exec { exec } | Call::ExecStart { exec } => match &exec.session {
                None => Whose::New,
                Some(told) => {
                    let id = self.names.get(told).cloned().unwrap_or_else(|| told.as_str().into());
                    self.whose_session(&id, inside)
                }
            },
            Call::Wait { session, .. }
            | Call::Look { session, .. }
            | Call::Input { session, .. }
            | Call::Interrupt { session, .. }
            | Call::Attach { session, .. }
            | Call::Detach { session }
            | Call::Type { session, .. }
            | Call::Resize { session, .. }
            | Call::CloseSession { session } => self.whose_session(session, inside),
            Call::Task { task } => self.whose_tasks(task, inside),
            Call::SetEntry { key, .. } | Call::RemoveEntry { key } => self.whose_entry(key, inside),
            // One that is not known is refused for that.
            Call::Escalation { escalation: EscalationCall::Resolve { escalation, .. } } => {
                match self.run_asked_by(escalation) {
                    Some(run) => self.whose_run(&run, inside),
                    None => Whose::New,
                }
            }
            _ => Whose::New,
        }
    }

    /// Of several tasks the one that is least one's own counts.
    fn whose_tasks(&self, call: &TaskCall, inside: &SessionId) -> Whose {
        let whose = |task: &TaskRef| self.whose_run(&task.run, inside);
        match call {
            TaskCall::Cancel { tasks } => {
                let all: Vec<Whose> = tasks.iter().map(whose).collect();
                [Whose::Other, Whose::Own, Whose::Child]
                    .into_iter()
                    .find(|whose| all.contains(whose))
                    .unwrap_or(Whose::New)
            }
            TaskCall::Retry { task } => whose(task),
            TaskCall::List
            | TaskCall::Show { .. }
            | TaskCall::Wait { .. }
            | TaskCall::Dispatch { .. } => Whose::New,
        }
    }

    /// Whether a client may be that run's.
    pub(super) fn has_say_over(&self, connection: ConnectionId, run: &RunId) -> bool {
        match self.role_of(connection) {
            (Role::Person, _) => true,
            (_, Some(inside)) => self.whose_run(run, inside) == Whose::Child,
            (_, None) => false,
        }
    }

    fn whose_session(&self, id: &SessionId, inside: &SessionId) -> Whose {
        match self.sessions.get(id) {
            None => Whose::New,
            Some(_) if id == inside => Whose::Own,
            Some(_) if self.line_of(id).contains(inside) => Whose::Child,
            Some(_) => Whose::Other,
        }
    }

    fn whose_run(&self, id: &RunId, inside: &SessionId) -> Whose {
        let Some(run) = self.runs.get(id).or_else(|| self.resumable.get(id)) else {
            return Whose::New;
        };
        let is_part = match self.sessions.get(inside).map(|session| &session.owner) {
            Some(Owner::Attempt { run, .. }) => run == id,
            _ => false,
        };
        let parent = run.parent.as_ref();
        if is_part {
            Whose::Own
        } else if parent.is_some_and(|p| p == inside || self.line_of(p).contains(inside)) {
            Whose::Child
        } else {
            Whose::Other
        }
    }

    /// The sessions that one was made from inside of, nearest first.
    fn line_of(&self, id: &SessionId) -> Vec<SessionId> {
        let mut line = Vec::new();
        let mut next = self.parent_of(id);
        while let Some(parent) = next.filter(|parent| !line.contains(parent)) {
            next = self.parent_of(&parent);
            line.push(parent);
        }
        line
    }

    /// The session that a session, or the run that it works for, was made from inside of.
    fn parent_of(&self, id: &SessionId) -> Option<SessionId> {
        let session = self.sessions.get(id)?;
        if session.parent.is_some() {
            return session.parent.clone();
        }
        match &session.owner {
            Owner::Attempt { run, .. } => self.runs.get(run)?.parent.clone(),
            Owner::Upcoming { attempt, .. } => self.runs.get(&attempt.run)?.parent.clone(),
            Owner::Call { .. } | Owner::Kept { .. } => None,
        }
    }

    /// Whether one more session or run may be made from inside of a session; that session.
    ///
    /// # Errors
    /// When there are as many as may be, or they are nested too deep.
    pub(super) fn room_inside(&self, asker: Asker) -> Result<Option<SessionId>, Failure> {
        let Some(inside) = self.inside(asker.connection) else { return Ok(None) };
        let refusal = |message: String, hint: &str| Failure {
            kind: FailureKind::SessionLimit,
            message,
            hint: Some(hint.to_owned()),
        };
        if self.line_of(&inside).len() >= DEPTH_MAX {
            let message =
                format!("sessions within sessions are {DEPTH_MAX} deep here, as deep as may be");
            return Err(refusal(message, "run the command directly"));
        }
        let of_inside = |parent: &Option<SessionId>| parent.as_ref() == Some(&inside);
        let sessions = self.sessions.values().filter(|session| of_inside(&session.parent)).count();
        let runs = self.runs.values().filter(|run| run.ended.is_none() && of_inside(&run.parent));
        if sessions + runs.count() >= CHILDREN_MAX {
            let message = format!(
                "{CHILDREN_MAX} sessions and runs are open that were made from inside session \
                 `{inside}`, as many as may be"
            );
            return Err(refusal(message, "close one with `callboard session close`, or wait"));
        }
        Ok(Some(inside))
    }

    /// How many tasks at a time a run from inside of a session may have: as many as the run that
    /// the session works for.
    pub(super) fn jobs_inside(&self, inside: &SessionId) -> Option<u32> {
        match &self.sessions.get(inside)?.owner {
            Owner::Attempt { run, .. } => Some(self.runs.get(run)?.options.jobs),
            _ => None,
        }
    }

    /// A session ends: so does what was made from inside of it.
    pub(super) fn end_children(&mut self, of: &SessionId, now: Timestamp) {
        let is_of = |parent: &Option<SessionId>| parent.as_ref() == Some(of);
        let sessions: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| is_of(&session.parent))
            .map(|session| session.id.clone())
            .collect();
        let mut runs = Vec::new();
        for run in self.runs.values_mut().filter(|run| is_of(&run.parent)) {
            run.parent = None;
            if run.ended.is_none() {
                runs.push(run.id.clone());
            }
        }
        for session in sessions {
            self.close_session(&session, crate::control::ClosedWhy::Closed, now);
        }
        for run in runs {
            self.cancel_run(&run, CancelWhy::ClientLost, false, now);
        }
    }

    /// What was made from inside of sessions that an earlier coordinator's end has taken along.
    pub(super) fn end_orphaned(&mut self, now: Timestamp) {
        let sessions = self.sessions.values().filter_map(|session| session.parent.clone());
        let runs = self.runs.values().filter_map(|run| run.parent.clone());
        let gone: std::collections::BTreeSet<SessionId> =
            sessions.chain(runs).filter(|parent| !self.sessions.contains_key(parent)).collect();
        for parent in gone {
            self.end_children(&parent, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_comes_from_its_parents() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let lineage = Lineage::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(lineage.0[0].0, i32::try_from(child.id()).unwrap());
        assert_eq!(lineage.0[1].0, i32::try_from(own).unwrap());
        let here = crate::session::identity::own().unwrap();
        assert!(lineage.leads_to(&here));
        let earlier = ProcessIdentity { start_time: here.start_time + 1, ..here };
        assert!(!lineage.leads_to(&earlier), "a later process of that id");
        assert_eq!(Lineage::of(child.id()), None);
    }
}
