//! What holders report, and what becomes of it for each kind of owner.

use super::action::Action;
use super::calls::end_without_status;
use super::claims::TAKE_OVER;
use super::desk::Desk;
use super::holding::as_conflict;
use super::inbox::ConnectionId;
use super::names;
use super::reading;
use super::sessions::{Asker, Owner, SessionState};
use super::shelf::Entry;
use super::story::CommandRecord;
use crate::control::ClosedWhy;
use crate::domain::board::Writer;
use crate::domain::event::Event as Record;
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::process::ProcessIdentity;
use crate::domain::result::{Awaiting, Child, Note};
use crate::domain::session::SessionDefaults;
use crate::domain::time::Timestamp;
use crate::scheduler::attempt::{self, CommandEnded};
use crate::session::wire::{Ask, CommandEnd, Fact, FactBody};

/// Facts are acknowledged in groups of this many.
const ACK_EVERY: u64 = 32;

impl Desk {
    pub(super) fn fact(&mut self, id: &SessionId, fact: Fact, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if fact.seq <= session.heard {
            // Told again after a lost acknowledgement.
            return;
        }
        session.heard = fact.seq;
        self.take_fact(id, fact.body, now);
        if fact.seq.is_multiple_of(ACK_EVERY) {
            // Behind all that follows from it: what is not acknowledged is told again.
            self.tell(id, Ask::Ack { through: fact.seq });
        }
    }

    fn take_fact(&mut self, id: &SessionId, body: FactBody, now: Timestamp) {
        match body {
            FactBody::Opened { holder, start_time, shell } => {
                self.opened(id, self.identity(holder, start_time), shell, now);
            }
            // Only adopted holders introduce themselves, and that is heard before this.
            FactBody::Present { .. } => {}
            FactBody::OpenFailed { message } => self.open_failed(id, &message, now),
            FactBody::Started { command, at, offset } => {
                self.started(id, &command, at, offset, now)
            }
            FactBody::Output { end } => self.grown(id, end, now),
            FactBody::Awaiting { command, awaiting } => self.awaiting(id, &command, awaiting, now),
            FactBody::Resumed { command } => self.resumed(id, &command, now),
            FactBody::Answered { command, prompt } => {
                tracing::info!(session = %id, %command, prompt, "answered a prompt");
            }
            FactBody::Input { request, written } => self.input_taken(id, request, &written, now),
            FactBody::Noted { command, note } => {
                let session = self.sessions.get_mut(id);
                if let Some(record) = session.and_then(|session| session.command(&command)) {
                    record.notes.push(note);
                }
            }
            FactBody::ServiceReady { command } => self.service_ready(id, &command, now),
            FactBody::TakenOver { command, by, during } => {
                tracing::info!(session = %id, %command, by, ?during, "taken over");
                self.taken_over(id, &command, now);
            }
            FactBody::HandedBack { command } => {
                tracing::info!(session = %id, %command, "handed back");
                self.handed_back(id, &command, now);
            }
            FactBody::Touched { touches } => self.touched(id, touches, now),
            FactBody::MayTouch { request, command, touched } => {
                self.may_touch(id, request, command.as_ref(), &touched, now);
            }
            FactBody::Listening { ports } => self.listening(id, ports, now),
            FactBody::Ended { end } => self.command_ended(id, *end, now),
            FactBody::Closed { survivors } => {
                let closed = attempt::Event::Closed { survivors: survivors.clone() };
                self.closed(id, &survivors, closed, now);
            }
        }
    }

    /// A holder is gone without having said that its session is closed: it was killed. What it
    /// left behind is ended before anything is said of its session.
    pub(super) fn link_lost(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        tracing::warn!(session = %id, "the session's holder died");
        session.state = SessionState::Closing;
        session.why = Some(ClosedWhy::Lost);
        let dead = session.holder.clone();
        let others = self.sessions.values().filter(|session| session.id != *id);
        let kept = others.filter_map(|session| Some(session.holder.as_ref()?.pid)).collect();
        self.act(Action::Sweep { session: id.clone(), dead, kept });
    }

    pub(super) fn swept(&mut self, id: &SessionId, survivors: Vec<Child>, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let open: Vec<CommandEnd> = session
            .commands
            .iter()
            .filter(|record| record.end.is_none())
            .map(|record| end_without_status(record, Reason::Lost, now))
            .collect();
        for end in open {
            self.command_ended(id, end, now);
        }
        let lost = attempt::Event::Lost { survivors: survivors.clone() };
        self.closed(id, &survivors, lost, now);
    }

    /// A holder of ours, of this boot and in our pid namespace.
    fn identity(&self, pid: i32, start_time: u64) -> ProcessIdentity {
        ProcessIdentity { pid, start_time, ..self.here.clone() }
    }

    fn opened(&mut self, id: &SessionId, holder: ProcessIdentity, shell: i32, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let is_news = session.shell.is_none();
        session.holder = Some(holder.clone());
        session.shell = Some(shell);
        if session.state == SessionState::Starting {
            session.state = SessionState::Idle;
        }
        // What an `exec` of its own leaves is written once, at its end.
        if is_news && !matches!(session.owner, Owner::Call { .. }) && !session.is_on_shelf {
            session.is_on_shelf = true;
            let (folder, entries) = (session.transcript.clone(), vec![session.opened_entry()]);
            self.act(Action::Shelve { folder, entries });
        }
        if is_news {
            self.record_opened(id, holder, now);
        }
        self.changed(id, now);
        self.attend(self.holdings.alive(), Some(id));
        self.attempt_hears(id, attempt::Event::Opened, now);
    }

    /// What is kept for a client is on the disk before that is told so; an attempt's session is
    /// named by its start already.
    fn record_opened(&mut self, id: &SessionId, holder: ProcessIdentity, now: Timestamp) {
        let Some(session) = self.sessions.get(id) else { return };
        let owner = session
            .owner
            .told(SessionDefaults { ttl_ms: session.ttl_ms, ..SessionDefaults::default() });
        let is_kept = session.is_kept();
        let opened = Record::SessionOpened { session: id.clone(), owner, holder };
        if is_kept {
            self.record_durably(opened, now);
        } else {
            self.record(opened, now);
        }
    }

    /// Its transcript has grown.
    fn grown(&mut self, id: &SessionId, end: u64, now: Timestamp) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.grow(end, now);
            self.serve(id, now);
        }
    }

    fn open_failed(&mut self, id: &SessionId, message: &str, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.state = SessionState::Closing;
        session.why = Some(ClosedWhy::NotOpened);
        session.trouble = Some(message.to_owned());
        let reason = Reason::StartFailed { message: message.to_owned() };
        let ends: Vec<CommandEnd> = session
            .commands
            .iter()
            .map(|record| end_without_status(record, reason.clone(), now))
            .collect();
        for end in ends {
            self.command_ended(id, end, now);
        }
        let failed = attempt::Event::OpenFailed { message: message.to_owned() };
        self.closed(id, &[], failed, now);
    }

    fn started(
        &mut self,
        id: &SessionId,
        command: &CommandId,
        at: Timestamp,
        offset: u64,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.state = SessionState::Busy;
        session.used = now;
        session.grow(offset, now);
        if names::is_stay(command) && session.index_of(command).is_none() {
            // A coordinator that was lost had it asked for.
            session.take(CommandRecord::new(command.clone(), TAKE_OVER.to_owned()), now);
        }
        // What has changed before is not what this command will have changed.
        self.check_locks(now);
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(record) = session.command(command) else { return };
        record.started = Some((at, offset));
        let (text, entry) = (record.text.clone(), Entry::Command { record: record.clone() });
        self.shelve(id, entry);
        self.claim_follows(id, now);
        self.changed(id, now);
        let session = id.clone();
        let command = command.clone();
        self.record(Record::CommandStarted { session, command, text }, now);
    }

    fn awaiting(
        &mut self,
        id: &SessionId,
        command: &CommandId,
        awaiting: Awaiting,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(index) = session.index_of(command) else { return };
        session.commands[index].awaiting = Some(awaiting.clone());
        session.commands[index].asked_at = Some(now);
        session.commands[index].settles_at = None;
        self.changed(id, now);
        let Some(session) = self.sessions.get_mut(id) else { return };
        match &mut session.owner {
            Owner::Attempt { .. } => {
                let Awaiting { prompt, secret, .. } = awaiting.clone();
                self.tell_awaiting(id, &awaiting);
                self.attempt_hears(id, attempt::Event::Awaiting { prompt, secret }, now);
            }
            // No command is run in it.
            Owner::Upcoming { .. } => {}
            // An `exec` returns as soon as its command waits; its session ends with it.
            Owner::Call { .. } => {
                session.commands[index].left_waiting = true;
                self.close_session(id, ClosedWhy::Closed, now);
            }
            // In a kept session the command goes on waiting, and only the call returns.
            Owner::Kept { askers, .. } => {
                let asker = take_asker(askers, command);
                if let Some(asker) = asker {
                    self.answer(id, asker, index, now);
                }
            }
        }
    }

    fn resumed(&mut self, id: &SessionId, command: &CommandId, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if let Some(record) = session.command(command).filter(|record| !record.left_waiting) {
            record.awaiting = None;
            record.settles_at = None;
        }
        self.changed(id, now);
        self.attempt_hears(id, attempt::Event::Resumed, now);
    }

    pub(super) fn service_ready(&mut self, id: &SessionId, command: &CommandId, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let running = session.command(command).is_some_and(|record| record.end.is_none());
        if running {
            self.attempt_hears(id, attempt::Event::ServiceReady, now);
        }
    }

    pub(super) fn writer_of(&self, id: &SessionId) -> Writer {
        match self.sessions.get(id).map(|session| &session.owner) {
            Some(Owner::Attempt { run, task, label, .. }) => Writer {
                task: Some(label.clone()),
                attempt: self.runs.get(run).and_then(|run| run.attempt_number(*task)),
            },
            _ => Writer::default(),
        }
    }

    pub(super) fn command_ended(&mut self, id: &SessionId, end: CommandEnd, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.used = now;
        let others = session.commands.iter().filter(|record| record.id != end.command);
        let more = others.clone().any(|r| r.started.is_some() && r.end.is_none());
        if session.state == SessionState::Busy && !more {
            session.state = SessionState::Idle;
        }
        let Some(index) = session.index_of(&end.command) else { return };
        let record = &mut session.commands[index];
        if record.end.is_some() {
            return;
        }
        let is_stay = record.text == TAKE_OVER;
        let is_news = !std::mem::take(&mut record.is_retold);
        if is_news && end.state == CommandState::Completed && !is_stay {
            self.durations.record(&record.text, end.duration_ms);
        }
        let end = as_conflict(end, record.conflict.as_deref());
        let end = record.close(end);
        let entry = Entry::Command { record: record.clone() };
        if end.span.raw_end != u64::MAX {
            session.grow(end.span.raw_end, now);
        }
        if end.notes.contains(&Note::SessionEnded) {
            session.why.get_or_insert(ClosedWhy::ShellEnded);
        }
        if is_news {
            self.shelve(id, entry);
        }
        if is_news && !is_stay {
            self.note_installs(id, &end, now);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        let command = end.command.clone();
        let ended = Record::CommandEnded {
            session: id.clone(),
            command: end.command.clone(),
            state: end.state,
            reason: end.reason.clone(),
            exit_code: end.exit_code,
            duration_ms: end.duration_ms,
        };
        match &mut session.owner {
            Owner::Attempt { .. } => self.attempt_command_ended(id, &end, now),
            Owner::Upcoming { .. } => {}
            // Answered once the session is closed: what it left behind is gone by then.
            Owner::Call { .. } if is_stay => {}
            Owner::Call { .. } => self.close_session(id, ClosedWhy::Closed, now),
            Owner::Kept { askers, .. } => {
                if let Some(asker) = take_asker(askers, &end.command) {
                    self.answer(id, asker, index, now);
                }
                self.stay_for_session(now);
            }
        }
        if is_news {
            self.record(ended, now);
        }
        self.command_party_ends(id, &command, now);
        self.claim_follows(id, now);
        self.changed(id, now);
        if let Some(session) = self.sessions.get_mut(id) {
            session.forget_old_commands();
        }
    }

    fn attempt_command_ended(&mut self, id: &SessionId, end: &CommandEnd, now: Timestamp) {
        let Some(index) = self.command_index(id, &end.command) else { return };
        let ended = CommandEnded {
            index,
            state: end.state,
            reason: end.reason.clone(),
            exit_code: end.exit_code,
            session_ended: end.notes.contains(&Note::SessionEnded),
            stderr_tail: self.stderr_tail(id, end),
        };
        self.attempt_hears(id, attempt::Event::Ended(ended), now);
    }

    /// Adds a line to a session's record, if it is being written already.
    fn shelve(&mut self, id: &SessionId, entry: Entry) {
        let Some(session) = self.sessions.get(id) else { return };
        if !session.is_on_shelf {
            return;
        }
        // A quick command's begin and end are heard together, and the later line holds.
        let same_round = self.decision.actions.iter_mut().rev().find_map(|action| match action {
            Action::Shelve { folder, entries } if *folder == session.transcript => Some(entries),
            _ => None,
        });
        match same_round {
            Some(entries) => {
                if entries.last().is_some_and(|last| entry.holds_instead_of(last)) {
                    entries.pop();
                }
                entries.push(entry);
            }
            None => {
                let folder = session.transcript.clone();
                self.act(Action::Shelve { folder, entries: vec![entry] });
            }
        }
    }

    /// The last words of a command that failed, for telling the environment's failures from its
    /// own. Only a failure is read, and of that only the end.
    fn stderr_tail(&self, id: &SessionId, end: &CommandEnd) -> String {
        match self.sessions.get(id) {
            Some(session) if end.state == CommandState::Failed => {
                reading::tail(&session.transcript, end, session.charset.as_deref())
            }
            _ => String::new(),
        }
    }

    /// A client is gone: what it asked for is ended, and nobody is answered.
    pub(super) fn drop_asker(&mut self, connection: ConnectionId, now: Timestamp) {
        let mut close = Vec::new();
        let mut end = Vec::new();
        for session in self.sessions.values_mut() {
            match &mut session.owner {
                Owner::Call { asker } if asker.is_some_and(|a| a.connection == connection) => {
                    *asker = None;
                    close.push(session.id.clone());
                }
                Owner::Kept { askers, .. } => {
                    for (command, _) in askers.extract_if(.., |(_, a)| a.connection == connection) {
                        end.push((session.id.clone(), command));
                    }
                }
                Owner::Call { .. } | Owner::Attempt { .. } | Owner::Upcoming { .. } => {}
            }
        }
        for session in close {
            self.close_session(&session, ClosedWhy::Closed, now);
        }
        for (session, command) in end {
            self.tell(&session, Ask::End { command, reason: Reason::INTERRUPT });
        }
    }

    /// Interrupts the command that somebody waits for, and goes on waiting for its result. One
    /// that has ended, or was never asked for, needs no interrupt.
    pub(super) fn interrupt_exec(&mut self, of: Asker) {
        let found = self.sessions.values().find_map(|session| {
            let command = match &session.owner {
                Owner::Call { asker } if *asker == Some(of) => &session.commands.first()?.id,
                Owner::Kept { askers, .. } => &askers.iter().find(|(_, asker)| *asker == of)?.0,
                Owner::Call { .. } | Owner::Attempt { .. } | Owner::Upcoming { .. } => return None,
            };
            Some((session.id.clone(), command.clone()))
        });
        if let Some((session, command)) = found {
            self.tell(&session, Ask::End { command, reason: Reason::INTERRUPT });
        }
    }

    pub(super) fn tell(&mut self, session: &SessionId, ask: Ask) {
        self.act(Action::Tell { session: session.clone(), ask });
    }
}

fn take_asker(askers: &mut Vec<(CommandId, Asker)>, command: &CommandId) -> Option<Asker> {
    let index = askers.iter().position(|(id, _)| id == command)?;
    Some(askers.remove(index).1)
}
