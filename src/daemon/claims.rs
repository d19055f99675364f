//! Claims at the desk: every session is held by somebody from its beginning, and every door that
//! acts on one asks `policy::claim` first.

use std::collections::BTreeSet;

use super::desk::Desk;
use super::inbox::ConnectionId;
use super::names;
use super::session_calls::not_open;
use super::sessions::{Asker, Owner, Session, SessionState};
use super::story::CommandRecord;
use crate::control::{Answer, Failure, FailureKind, Notice};
use crate::domain::claim::{Claim, Scope};
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::session::Size;
use crate::domain::time::Timestamp;
use crate::policy::claim::{
    GRACE_MS, Handing, Operation, Requester, Right, Standing, Verdict, decide,
};
use crate::session::wire::Ask;

/// What a take-over is called in a session's history.
pub(super) const TAKE_OVER: &str = "take_over";
/// A window has at least one cell, and no more than a terminal can count.
const CELLS: std::ops::RangeInclusive<u16> = 1..=10_000;

/// A client at a session's own terminal.
#[derive(Debug)]
pub(super) struct Stay {
    /// Its name among the session's commands.
    command: CommandId,
    /// Over which connections.
    connections: BTreeSet<ConnectionId>,
    /// With none left: when it ends.
    lapses_at: Option<Timestamp>,
}

impl Session {
    /// Who holds it at its beginning. All command-line calls of a user are one client; a task's
    /// session belongs to the task.
    pub(super) fn first_claim(owner: &Owner, person: &Claim) -> Claim {
        match owner {
            Owner::Attempt { label, .. } | Owner::Upcoming { label, .. } => {
                Claim::session(label.clone())
            }
            Owner::Call { .. } | Owner::Kept { .. } => person.clone(),
        }
    }

    /// True while a client is at its terminal, or is expected back.
    pub(super) fn is_taken_over(&self) -> bool {
        self.stay.is_some()
    }

    fn standing(&self, now: Timestamp) -> Standing {
        let (home, task) = match &self.owner {
            Owner::Attempt { label, service, .. } => (Some(label.clone()), !service),
            Owner::Upcoming { label, .. } => (Some(label.clone()), true),
            Owner::Call { .. } | Owner::Kept { .. } => (None, false),
        };
        let lapses_at = self.stay.as_ref().and_then(|stay| stay.lapses_at);
        Standing {
            exited: self.state == SessionState::Closing,
            home,
            task,
            taken_over: self.is_taken_over(),
            lapsed: lapses_at.is_some_and(|at| at <= now),
            unknown: false,
        }
    }

    /// The claim that it goes back to.
    fn home(&self, turn: Option<u32>) -> Option<Claim> {
        let Owner::Attempt { label, .. } = &self.owner else { return None };
        let running = self.commands.iter().find(|record| {
            record.started.is_some() && record.end.is_none() && record.text != TAKE_OVER
        });
        let scope = match (turn, running) {
            (Some(turn), Some(record)) => {
                Scope { turn_id: Some(turn.to_string()), tool_call_id: Some(record.id.to_string()) }
            }
            _ => Scope::default(),
        };
        Some(Claim::session(label.clone()).scoped(scope))
    }
}

impl Desk {
    fn person_asks(&self) -> Requester {
        let id = match &self.person {
            Claim::Client { client_id } => client_id.clone(),
            Claim::Session { session, .. } => session.clone(),
        };
        Requester::Client { id, right: Right::Write }
    }

    /// Whether the command line may do this to an open session.
    ///
    /// # Errors
    /// The decision's own words.
    pub(super) fn may(
        &self,
        id: &SessionId,
        operation: &Operation,
        now: Timestamp,
    ) -> Result<Verdict, Failure> {
        let Some(session) = self.sessions.get(id) else { return Err(not_open(id)) };
        let asks = self.person_asks();
        match decide(&session.claim, &asks, operation, &session.standing(now)) {
            Verdict::Deny(denial) => Err(Failure {
                kind: FailureKind::Claimed,
                message: format!("session `{id}`: {denial}"),
                hint: Some(format!(
                    "`callboard session attach --read-only {id}` looks on without a claim"
                )),
            }),
            verdict => Ok(verdict),
        }
    }

    /// A client wants the session's own terminal.
    pub(super) fn attach(&mut self, asker: Asker, id: &SessionId, size: Size, now: Timestamp) {
        if let Err(failure) = fits(size) {
            return self.refuse_asker(asker, failure);
        }
        let verdict = match self.may(id, &Operation::Claim(self.person.clone()), now) {
            Ok(verdict) => verdict,
            Err(failure) => return self.refuse_asker(asker, failure),
        };
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.state == SessionState::Closing {
            return self.refuse_asker(asker, not_open(id));
        }
        let handed = matches!(verdict, Verdict::Hand(..));
        session.claim = verdict.applied_to(session.claim.clone());
        session.used = now;
        session.size = size;
        let connections = BTreeSet::from([asker.connection]);
        let command = match &mut session.stay {
            Some(stay) => {
                stay.connections.extend(connections);
                stay.lapses_at = None;
                stay.command.clone()
            }
            None => {
                let command = names::stay(id, session.asked.saturating_add(1));
                session.take(CommandRecord::new(command.clone(), TAKE_OVER.to_owned()), now);
                let stay = Stay { command: command.clone(), connections, lapses_at: None };
                session.stay = Some(stay);
                let by = self.person.to_string();
                self.tell(id, Ask::TakeOver { command: command.clone(), by });
                command
            }
        };
        self.tell(id, Ask::Resize { size });
        if handed {
            self.tell_claim(id);
        }
        self.changed(id, now);
        let Some(session) = self.sessions.get(id) else { return };
        let view = Box::new(session.view(None, None, now));
        self.reply(asker.connection, asker.request, Answer::Attached { command, view });
    }

    /// A client leaves the terminal. With the last of them it goes back at once.
    pub(super) fn detach(&mut self, asker: Asker, id: &SessionId, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else {
            return self.refuse_asker(asker, not_open(id));
        };
        session.used = now;
        if let Some(stay) = &mut session.stay
            && stay.connections.remove(&asker.connection)
            && stay.connections.is_empty()
        {
            self.hand_back(id, now);
        }
        self.reply(asker.connection, asker.request, Answer::Detached);
    }

    /// What a client types at a terminal. Answered only when it is refused.
    pub(super) fn typed_raw(
        &mut self,
        asker: Asker,
        id: &SessionId,
        bytes: Vec<u8>,
        now: Timestamp,
    ) {
        match self.may(id, &Operation::Input, now) {
            Ok(_) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.used = now;
                }
                self.tell(id, Ask::Type { bytes });
            }
            Err(failure) => self.refuse_asker(asker, failure),
        }
    }

    /// A client's window has another size. Answered only when it is refused.
    pub(super) fn resize(&mut self, asker: Asker, id: &SessionId, size: Size, now: Timestamp) {
        let may = fits(size).and_then(|()| self.may(id, &Operation::Resize, now));
        if let Err(failure) = may {
            return self.refuse_asker(asker, failure);
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.size = size;
            self.tell(id, Ask::Resize { size });
            self.changed(id, now);
        }
    }

    /// A client is gone: it has its grace to come back.
    pub(super) fn drop_attached(&mut self, connection: ConnectionId, now: Timestamp) {
        for session in self.sessions.values_mut() {
            if let Some(stay) = &mut session.stay
                && stay.connections.remove(&connection)
                && stay.connections.is_empty()
            {
                stay.lapses_at = Some(now.plus_ms(GRACE_MS));
            }
        }
    }

    /// Terminals whose clients have not come back go back to their sessions.
    pub(super) fn return_lapsed(&mut self, now: Timestamp) {
        let lapsed: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.standing(now).lapsed)
            .map(|session| session.id.clone())
            .collect();
        for id in lapsed {
            self.hand_back(&id, now);
        }
    }

    /// When the next of them does.
    pub(super) fn next_lapse(&self) -> Option<Timestamp> {
        let stays = self.sessions.values().filter_map(|session| session.stay.as_ref());
        stays.filter_map(|stay| stay.lapses_at).min()
    }

    fn hand_back(&mut self, id: &SessionId, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        // The shell comes back as soon as what the person runs has ended; the claim at once.
        session.stay = None;
        self.tell(id, Ask::HandBack);
        self.claim_by_server(id, now);
        self.changed(id, now);
    }

    /// A session's claim follows what runs in it, unless a client has it.
    pub(super) fn claim_follows(&mut self, id: &SessionId, now: Timestamp) {
        if self.sessions.get(id).is_some_and(|s| matches!(s.claim, Claim::Session { .. })) {
            self.claim_by_server(id, now);
        }
    }

    fn claim_by_server(&mut self, id: &SessionId, now: Timestamp) {
        let turn = self.writer_of(id).attempt;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(home) = session.home(turn) else { return };
        let operation = Operation::Claim(home);
        let verdict =
            decide(&session.claim, &Requester::Server, &operation, &session.standing(now));
        let back = matches!(verdict, Verdict::Hand(Handing::GiveBack, _));
        session.claim = verdict.applied_to(session.claim.clone());
        if back {
            self.tell_claim(id);
        }
    }

    /// The shell says that somebody is at its prompt. When we know of nobody, an earlier coordinator
    /// let a client in, and that one has its grace to come back.
    pub(super) fn taken_over(&mut self, id: &SessionId, command: &CommandId, now: Timestamp) {
        let person = self.person.clone();
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.stay.is_some() {
            return;
        }
        let lapses_at = Some(now.plus_ms(GRACE_MS));
        let command = command.clone();
        session.stay = Some(Stay { command, connections: BTreeSet::new(), lapses_at });
        session.claim = person;
        self.changed(id, now);
    }

    /// The shell itself says that nobody is at its prompt any more.
    pub(super) fn handed_back(&mut self, id: &SessionId, command: &CommandId, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.stay.as_ref().is_some_and(|stay| stay.command == *command) {
            session.stay = None;
            self.claim_by_server(id, now);
        }
        self.changed(id, now);
    }

    /// Whoever follows the task's run is told who has its terminal.
    fn tell_claim(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        let Owner::Attempt { run, task, .. } = &session.owner else { return };
        let (run, task, claim) = (run.clone(), *task, session.claim.clone());
        let Some(task) = self.runs.get(&run).map(|run| run.plan.tasks[task].id.clone()) else {
            return;
        };
        let notice = Notice::Claimed { run: run.clone(), task, claim };
        self.tell_followers(&run, &notice);
    }
}

fn fits(size: Size) -> Result<(), Failure> {
    if CELLS.contains(&size.cols) && CELLS.contains(&size.rows) {
        return Ok(());
    }
    Err(Failure {
        kind: FailureKind::Usage,
        message: format!("no window has {} columns and {} rows", size.cols, size.rows),
        hint: None,
    })
}
