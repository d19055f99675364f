//! Who holds what, as it happens: touches are judged, the later one of two is stopped, and those that
//! wait for a resource are told when it is free (design, section 6).

use super::action::Action;
use super::desk::Desk;
use super::sessions::Owner;
use super::touches::Past;
use crate::domain::conflict::{Conflict, Party};
use crate::domain::event::Event as Record;
use crate::domain::ids::{AttemptId, CommandId, RunId, SessionId};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::{How, Touched};
use crate::domain::time::Timestamp;
use crate::policy::holdings::Claim;
use crate::scheduler::attempt;
use crate::scheduler::event::Event;
use crate::session::wire::{Ask, CommandEnd};

impl Desk {
    /// For whom a session's processes act: its attempt, or the command that runs in it.
    fn party(&self, id: &SessionId, command: Option<&CommandId>) -> Option<Party> {
        let session = self.sessions.get(id)?;
        match &session.owner {
            Owner::Attempt { attempt, .. } => Some(Party::Attempt { attempt: attempt.clone() }),
            Owner::Upcoming { .. } => None,
            Owner::Call { .. } | Owner::Kept { .. } => {
                let running = session.commands.iter().rev().find(|command| command.end.is_none());
                let command = command.cloned().or_else(|| Some(running?.id.clone()))?;
                Some(Party::Command { session: id.clone(), command })
            }
        }
    }

    /// Somebody whose touches count is alive from now on.
    pub(super) fn party_begins(&mut self, party: Party, session: &SessionId) {
        let before = self.holdings.alive();
        self.holdings.begin(party);
        self.attend(before, Some(session));
    }

    /// What somebody has decided about a task's resources holds for its attempt.
    pub(super) fn exempt(&mut self, run: &RunId, task: usize, attempt: AttemptId) {
        let Some(run) = self.runs.get(run) else { return };
        let party = Party::Attempt { attempt };
        for resource in run.schedule.exempt(task) {
            self.holdings.exempt(party.clone(), resource.to_owned());
        }
    }

    /// Its process tree is gone: what it held is free.
    pub(super) fn party_ends(&mut self, party: &Party, now: Timestamp) {
        let before = self.holdings.alive();
        let freed = self.holdings.end(party);
        self.attend(before, None);
        if !freed.is_empty() {
            self.tell_wanted(now);
        }
    }

    /// A command outside of any run has ended.
    pub(super) fn command_party_ends(
        &mut self,
        id: &SessionId,
        command: &CommandId,
        now: Timestamp,
    ) {
        let party = Party::Command { session: id.clone(), command: command.clone() };
        self.party_ends(&party, now);
    }

    /// Holders ask before a call goes on as long as more than one party is alive. A session that has
    /// just been opened is told, too.
    pub(super) fn attend(&mut self, before: usize, fresh: Option<&SessionId>) {
        let others = self.holdings.alive() > 1;
        let mut told = Vec::new();
        let mut tell = |session: &mut super::sessions::Session| {
            if session.traced && session.shell.is_some() && session.attends != Some(others) {
                session.attends = Some(others);
                told.push(session.id.clone());
            }
        };
        if others == (before > 1) {
            if let Some(session) = fresh.and_then(|id| self.sessions.get_mut(id)) {
                tell(session);
            }
        } else {
            self.sessions.values_mut().for_each(tell);
        }
        for session in told {
            self.tell(&session, Ask::Attend { others });
        }
    }

    /// A process is about to change something, and waits for the verdict.
    pub(super) fn may_touch(
        &mut self,
        id: &SessionId,
        request: u64,
        command: Option<&CommandId>,
        touched: &Touched,
        now: Timestamp,
    ) {
        let found = self.claim(id, command, touched, now);
        let held_by = found.as_ref().map(|(_, conflict)| conflict.holder.to_string());
        // Ahead of what ends the command: the call is held until then.
        self.tell(id, Ask::Verdict { request, held_by });
        if let Some((party, conflict)) = found {
            self.stop(&party, Conflict { prevented: true, ..conflict }, now);
        }
    }

    /// What a session's processes have changed already.
    pub(super) fn judge(
        &mut self,
        id: &SessionId,
        command: Option<&CommandId>,
        touched: &[Touched],
        now: Timestamp,
    ) {
        for touched in touched {
            if let Some((party, conflict)) = self.claim(id, command, touched, now) {
                return self.stop(&party, conflict, now);
            }
        }
    }

    /// A session's processes listen on a port no longer.
    pub(super) fn let_go(&mut self, id: &SessionId, resource: &str, now: Timestamp) {
        let Some(party) = self.party(id, None) else { return };
        if self.holdings.release(&party, resource) {
            self.tell_wanted(now);
        }
    }

    /// Takes a resource for whoever touches it; the conflict where another one has it.
    fn claim(
        &mut self,
        id: &SessionId,
        command: Option<&CommandId>,
        touched: &Touched,
        now: Timestamp,
    ) -> Option<(Party, Conflict)> {
        let party = self.party(id, command)?;
        match self.holdings.touch(&party, touched, now) {
            Claim::Taken => {
                let is_wanted = |run: &super::runs::Run| {
                    run.schedule.wanted().any(|wanted| wanted == touched.resource)
                };
                if self.runs.values().any(is_wanted) {
                    self.tell_wanted(now);
                }
                None
            }
            Claim::Own | Claim::Unknown => None,
            Claim::Held { by, resource, since } => {
                let conflict = Conflict {
                    resource,
                    mode: touched.mode.clone(),
                    how: touched.how,
                    at: now,
                    holder: by,
                    since,
                    prevented: false,
                    hashes: None,
                };
                Some((party, conflict))
            }
        }
    }

    /// Ends the later one of two: an attempt backs off, a command outside of any run has failed.
    fn stop(&mut self, party: &Party, conflict: Conflict, now: Timestamp) {
        let seen =
            Record::ConflictSeen { party: party.clone(), conflict: Box::new(conflict.clone()) };
        match party {
            Party::Attempt { attempt } => {
                let Some((run, task)) = self.running(attempt) else { return };
                tracing::info!(%attempt.run, %attempt.task, resource = conflict.resource,
                    holder = %conflict.holder, "a conflict");
                self.record_durably(seen, now);
                let conflict = Box::new(conflict);
                self.attempt_step(&run, task, attempt::Event::Conflicted { conflict }, now);
            }
            // A commit touches nothing any more.
            Party::Commit { .. } => {}
            Party::Command { session, command } => {
                let Some(record) =
                    self.sessions.get_mut(session).and_then(|session| session.command(command))
                else {
                    return;
                };
                if record.conflict.is_some() {
                    return;
                }
                let reason = conflict.reason();
                record.conflict = Some(Box::new(reason.clone()));
                self.record_durably(seen, now);
                self.tell(session, Ask::End { command: command.clone(), reason });
            }
        }
    }

    /// The place of an attempt that runs and has not been stopped.
    fn running(&self, attempt: &AttemptId) -> Option<(RunId, usize)> {
        let run = self.runs.get(&attempt.run)?;
        let mut live = run.attempts.iter();
        let (task, _) = live.find(|(task, live)| {
            run.attempt_id(**task, live.number) == *attempt && !live.machine.has_conflict()
        })?;
        Some((run.id.clone(), *task))
    }

    /// Tells every run whether what its tasks back off for is free.
    pub(super) fn tell_wanted(&mut self, now: Timestamp) {
        let wanted: Vec<(RunId, String)> = self
            .runs
            .values()
            .flat_map(|run| {
                let wanted = run.schedule.wanted();
                wanted.map(|resource| (run.id.clone(), resource.to_owned()))
            })
            .collect();
        for (run, resource) in wanted {
            let free = self.holdings.is_free(&resource);
            self.run_step(&run, Event::Resource { resource, free }, now);
        }
    }

    /// After a recovery: whoever is alive holds what it has been seen to touch.
    pub(super) fn hold_again(&mut self, past: Past, now: Timestamp) {
        let sessions: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in &sessions {
            if let Some(party) = self.party(id, None) {
                self.holdings.begin(party);
            }
        }
        // What a holder has not told yet is known from who was stopped for it.
        for conflict in past.conflicts {
            let Conflict { resource, holder, since, .. } = conflict;
            let touched = Touched { resource, mode: "write".to_owned(), how: How::Traced };
            let _settled_then = self.holdings.touch(&holder, &touched, since);
        }
        for (id, at, touched) in past.touched {
            let Some(party) = self.party(&id, None) else { continue };
            for touched in &touched {
                let _settled_then = self.holdings.touch(&party, touched, at);
            }
        }
        for id in &sessions {
            let ports = self.sessions.get(id).map(|session| session.listeners.clone());
            for listener in ports.unwrap_or_default() {
                let port = port(&listener);
                if let Some(party) = self.party(id, None) {
                    let _settled_then = self.holdings.touch(&party, &port, now);
                }
            }
        }
        // What was told by an earlier coordinator is not known.
        let before = if self.holdings.alive() > 1 { 0 } else { 2 };
        self.attend(before, None);
        self.tell_wanted(now);
    }
}

/// A port that somebody listens on, as a touch.
pub(super) fn port(listener: &crate::session::wire::Listener) -> Touched {
    Touched {
        resource: super::ports::port_key(listener),
        mode: "bind".to_owned(),
        how: How::Inferred,
    }
}

/// The end of a command that was stopped: whatever its status, it is the conflict that counts.
pub(super) fn as_conflict(mut end: CommandEnd, reason: Option<&Reason>) -> CommandEnd {
    if let Some(reason) = reason {
        end.state = CommandState::Failed;
        end.reason = Some(reason.clone());
    }
    end
}

impl Action {
    /// A verdict is memory's alone, and a process stands still for it.
    pub(super) fn is_verdict(&self) -> bool {
        matches!(self, Self::Tell { ask: Ask::Verdict { .. }, .. })
    }
}
