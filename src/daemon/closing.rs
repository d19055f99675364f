//! The end of a session: asking for it, seeing to it that it comes, and what follows from it.

use super::action::{Action, ExecForm};
use super::calls::{answer_of, end_without_status};
use super::desk::Desk;
use super::sessions::{Owner, Session, SessionState};
use super::shelf::Entry;
use crate::control::{Closed, ClosedWhy};
use crate::domain::event::Event as Record;
use crate::domain::ids::SessionId;
use crate::domain::outcome::Reason;
use crate::domain::result::Child;
use crate::domain::time::Timestamp;
use crate::scheduler::attempt;
use crate::session::wire::{Ask, CommandEnd};

/// How long a holder may take to close its session. It says so within 15 s, with the survivors;
/// one that does not is stopped, or hangs, and is killed.
const CLOSING_MS: u64 = 20_000;

impl Desk {
    /// Asks a session's holder to end everything in it.
    pub(super) fn close_session(&mut self, id: &SessionId, why: ClosedWhy, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.state != SessionState::Closing {
            session.state = SessionState::Closing;
            session.why.get_or_insert(why);
            session.close_by = Some(now.plus_ms(CLOSING_MS));
            self.tell(id, Ask::Close);
            self.end_children(id, now);
        }
    }

    /// Kills holders that do not close their sessions. An attempt keeps this deadline itself.
    pub(super) fn kill_overdue(&mut self, now: Timestamp) {
        let overdue = |session: &&mut Session| {
            !session.is_attempts() && session.close_by.is_some_and(|by| by <= now)
        };
        let mut killed = Vec::new();
        for session in self.sessions.values_mut().filter(overdue) {
            session.close_by = None;
            killed.push((session.id.clone(), session.holder.clone()));
        }
        for (session, holder) in killed {
            self.act(Action::Kill { session, holder });
        }
    }

    /// A session is over, with everything in it: whoever has to know is told.
    pub(super) fn closed(
        &mut self,
        id: &SessionId,
        survivors: &[Child],
        for_attempt: attempt::Event,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.note_closed(survivors);
        let open: Vec<CommandEnd> = session
            .commands
            .iter()
            .filter(|record| record.end.is_none() && record.awaiting.is_none())
            .map(|record| end_without_status(record, Reason::SessionClosed, now))
            .collect();
        for end in open {
            self.command_ended(id, end, now);
        }
        self.listening(id, Vec::new(), now);
        self.release_session_files(id, now);
        let Some(session) = self.sessions.remove(id) else { return };
        // The answer first: whoever reads the record afterwards asks here before, and is heard later.
        if let Owner::Call { asker: Some(asker) } = &session.owner {
            let answer = answer_of(&session, *asker, 0, ExecForm::Ran, now);
            answer.into_iter().for_each(|action| self.act(action));
        }
        self.end_session(&session, survivors, now);
        match &session.owner {
            Owner::Call { asker: Some(_) } => self.stay_for_exec(now),
            Owner::Kept { name, .. } => {
                if let Some(name) = name {
                    self.names.remove(name);
                }
                self.stay_for_session(now);
            }
            _ => {}
        }
        self.record(Record::SessionClosed { session: id.clone() }, now);
        self.end_children(id, now);
        self.act(Action::Forget { session: id.clone(), tmp: session.tmp.clone() });
        self.attempt_closed(&session, for_attempt, now);
    }

    /// Writes a session's end down, and tells everybody who waits at it.
    fn end_session(&mut self, session: &Session, survivors: &[Child], now: Timestamp) {
        let why = session.why.unwrap_or(ClosedWhy::ShellEnded);
        let closed = Closed { at: now, why, survivors: survivors.to_vec() };
        let mut entries = Vec::new();
        if !session.is_on_shelf {
            entries.push(session.opened_entry());
            let commands = session.commands.iter().cloned();
            entries.extend(commands.map(|record| Entry::Command { record }));
        }
        let line = session.view(None, Some(closed.clone()), now).session;
        entries.push(Entry::Closed { session: line });
        self.act(Action::Shelve { folder: session.transcript.clone(), entries });
        self.serve_closed(session, &closed, now);
    }
}

impl Session {
    /// With the session everything in it was ended, but for `survivors`.
    fn note_closed(&mut self, survivors: &[Child]) {
        let ends = self.commands.iter_mut().filter_map(|record| record.end.as_mut());
        for child in ends.flat_map(|end| &mut end.children) {
            child.ended = !survivors.iter().any(|survivor| survivor.pid == child.pid);
        }
    }
}
