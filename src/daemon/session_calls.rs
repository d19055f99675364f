//! Requests about sessions that are kept, and answers to those that wait for something in one.

use super::action::{Action, ExecForm};
use super::calls::{answer_of, shutting_down};
use super::desk::Desk;
use super::names;
use super::pending::{What, Wish};
use super::sessions::{Asker, Owner, Session, SessionState};
use crate::control::{Answer, Closed, ClosedWhy, Failure, FailureKind, NewSession, Seen};
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::time::Timestamp;
use crate::policy::claim::Operation;
use crate::session::wire::Ask;

/// Longest name of a session, in bytes.
const NAME_BYTES_MAX: usize = 64;

impl Desk {
    pub(super) fn open_session(&mut self, asker: Asker, new: NewSession, now: Timestamp) {
        if self.is_terminating() {
            return self.refuse_asker(asker, shutting_down());
        }
        self.heed(new.defaults);
        if let Some(name) = &new.name {
            if let Err(failure) = check_name(name) {
                return self.refuse_asker(asker, failure);
            }
            if let Some(id) = self.names.get(name) {
                return self.refuse_asker(asker, name_is_taken(name, id));
            }
        }
        let parent = match self.room_for_session(now).and_then(|()| self.room_inside(asker)) {
            Ok(parent) => parent,
            Err(failure) => return self.refuse_asker(asker, failure),
        };
        self.stay_for_session(now);
        let id = names::session();
        let env = self.own_env(&id, &new.env);
        let owner = Owner::Kept { name: new.name.clone(), by_exec: false, askers: Vec::new() };
        let mut spec = self.session_spec(id.clone(), owner.told(new.defaults), &new.cwd, env);
        spec.parent = parent;
        spec.shell = new.shell;
        spec.size = new.size;
        spec.policy = Some(new.policy).filter(|policy| !policy.is_empty()).into_iter().collect();
        self.register(&spec, owner, now);
        self.set_ttl(&id, new.defaults);
        if let Some(name) = new.name {
            self.names.insert(name, id.clone());
        }
        self.wish(&id, Wish { asker, what: What::Opened, due: None });
        self.act(Action::Open { spec: Box::new(spec), then: Vec::new() });
    }

    pub(super) fn close_asked(&mut self, asker: Asker, id: &SessionId, now: Timestamp) {
        let Some(session) = self.sessions.get(id) else {
            return self.refuse_asker(asker, not_open(id));
        };
        if let Owner::Attempt { label, .. } = &session.owner {
            let failure = Failure {
                kind: FailureKind::Usage,
                message: format!("session `{id}` is task {label}'s, and ends with it"),
                hint: Some("`callboard run cancel` ends a run with all its sessions".to_owned()),
            };
            return self.refuse_asker(asker, failure);
        }
        if let Err(failure) = self.may(id, &Operation::Close, now) {
            return self.refuse_asker(asker, failure);
        }
        if self.wish(id, Wish { asker, what: What::Closed, due: None }) {
            self.close_session(id, ClosedWhy::Closed, now);
        }
    }

    pub(super) fn look(
        &mut self,
        asker: Asker,
        id: &SessionId,
        command: Option<CommandId>,
        seen: Option<Seen>,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return self.refuse_asker(asker, not_open(id));
        };
        match seen {
            None => {
                // Somebody begins to read. Waiting for more later keeps nothing alive.
                session.used = now;
                let view = Box::new(session.view(command.as_ref(), None, now));
                self.reply(asker.connection, asker.request, Answer::View { view });
            }
            Some(seen) => {
                if self.wish(id, Wish { asker, what: What::News { command, seen }, due: None }) {
                    self.serve(id, now);
                }
            }
        }
    }

    pub(super) fn wait(
        &mut self,
        asker: Asker,
        id: &SessionId,
        command: CommandId,
        wait_ms: Option<u64>,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return self.refuse_asker(asker, not_open(id));
        };
        if session.index_of(&command).is_none() {
            return self.refuse_asker(asker, no_command(id, &command));
        }
        session.used = now;
        let due = wait_ms.map(|ms| now.plus_ms(ms));
        if self.wish(id, Wish { asker, what: What::Command { command }, due }) {
            self.serve(id, now);
        }
    }

    pub(super) fn interrupt_session(
        &mut self,
        asker: Asker,
        id: &SessionId,
        command: Option<CommandId>,
        now: Timestamp,
    ) {
        if let Err(failure) = self.may(id, &Operation::Interrupt, now) {
            return self.refuse_asker(asker, failure);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.used = now;
        // One that is still in the queue can be meant by its id, or be all there is.
        let open = |record: &&super::story::CommandRecord| record.end.is_none();
        let meant = match &command {
            Some(wanted) => session.commands.iter().filter(open).find(|r| r.id == *wanted),
            None => session.running().or_else(|| session.commands.iter().find(open)),
        };
        let Some(command) = meant.map(|record| record.id.clone()) else {
            let none = Answer::Interrupted { result: None };
            return self.reply(asker.connection, asker.request, none);
        };
        let what = What::Interrupted { command: command.clone() };
        if self.wish(id, Wish { asker, what, due: None }) {
            self.tell(id, Ask::End { command, reason: Reason::INTERRUPT });
        }
    }

    /// Has a request wait; refuses it, and says so, where too many wait already.
    pub(super) fn wish(&mut self, id: &SessionId, wish: Wish) -> bool {
        let has_room = self.pending.has_room();
        if has_room {
            self.pending.add(id, wish);
        } else {
            let failure = Failure {
                kind: FailureKind::Environment,
                message: "too many requests wait at this workspace's coordinator".to_owned(),
                hint: Some("wait for some of them first".to_owned()),
            };
            self.refuse_asker(wish.asker, failure);
        }
        has_room
    }

    /// Something has changed in a session: whoever waits for that is answered.
    pub(super) fn changed(&mut self, id: &SessionId, now: Timestamp) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.changes += 1;
            self.serve(id, now);
        }
    }

    /// Answers whoever waits at a session for what is so by now.
    pub(super) fn serve(&mut self, id: &SessionId, now: Timestamp) {
        let wishes = self.pending.take(id);
        if wishes.is_empty() {
            return;
        }
        let mut kept = Vec::new();
        for wish in wishes {
            if let Some(wish) = self.grant(id, wish, now) {
                kept.push(wish);
            }
        }
        self.pending.put_back(id, kept);
    }

    /// Answers a wish if it is so, and gives it back otherwise.
    fn grant(&mut self, id: &SessionId, wish: Wish, now: Timestamp) -> Option<Wish> {
        let session = self.sessions.get(id)?;
        let asker = wish.asker;
        let is_late = wish.due.is_some_and(|due| due <= now);
        match &wish.what {
            What::Opened => {
                if session.state == SessionState::Starting {
                    return Some(wish);
                }
                let session = Box::new(session.line());
                self.reply(asker.connection, asker.request, Answer::SessionOpened { session });
            }
            What::News { command, seen } => {
                if session.changes == seen.changes && session.end <= seen.end {
                    return Some(wish);
                }
                let view = Box::new(session.view(command.as_ref(), None, now));
                self.reply(asker.connection, asker.request, Answer::View { view });
            }
            What::Command { command } => {
                let index = session.index_of(command)?;
                let waits = matches!(
                    session.commands[index].state(),
                    CommandState::Pending | CommandState::Running
                );
                if waits && !is_late {
                    return Some(wish);
                }
                let answer = answer_of(session, asker, index, ExecForm::Waited, now);
                answer.into_iter().for_each(|action| self.act(action));
            }
            What::Interrupted { command } => {
                let index = session.index_of(command)?;
                if session.commands[index].end.is_none() {
                    return Some(wish);
                }
                let answer = answer_of(session, asker, index, ExecForm::Interrupted, now);
                answer.into_iter().for_each(|action| self.act(action));
            }
            What::Closed | What::Receipt { .. } => return Some(wish),
        }
        None
    }

    /// A session is over: everybody who waits at it is told.
    pub(super) fn serve_closed(&mut self, session: &Session, closed: &Closed, now: Timestamp) {
        for wish in self.pending.take(&session.id) {
            let Asker { connection, request } = wish.asker;
            let answer = match wish.what.clone() {
                What::Opened => {
                    let failure = could_not_open(session.trouble.as_deref());
                    self.refuse(connection, request, failure);
                    continue;
                }
                What::Closed => Answer::SessionClosed {
                    session: session.id.clone(),
                    survivors: closed.survivors.clone(),
                },
                What::News { command, .. } => Answer::View {
                    view: Box::new(session.view(command.as_ref(), Some(closed.clone()), now)),
                },
                What::Command { command } | What::Interrupted { command } => {
                    let form = match wish.what {
                        What::Command { .. } => ExecForm::Waited,
                        _ => ExecForm::Interrupted,
                    };
                    let index = session.index_of(&command);
                    let answer = index.and_then(|i| answer_of(session, wish.asker, i, form, now));
                    match answer {
                        Some(action) => self.act(action),
                        None => self.refuse(connection, request, not_open(&session.id)),
                    }
                    continue;
                }
                What::Receipt { .. } => {
                    self.refuse(connection, request, not_open(&session.id));
                    continue;
                }
            };
            self.reply(connection, request, answer);
        }
    }

    pub(super) fn refuse_asker(&mut self, asker: Asker, failure: Failure) {
        self.refuse(asker.connection, asker.request, failure);
    }
}

/// A name that a person can type, and that nobody takes for an id.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let wrong = |what: &str| Failure {
        kind: FailureKind::Usage,
        message: format!("`{}` cannot be a session's name: {what}", name.escape_debug()),
        hint: Some("letters, digits, `.`, `_` and `-`, as in `build-1`".to_owned()),
    };
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(wrong(&format!("it has to have 1 to {NAME_BYTES_MAX} bytes")));
    }
    if name.starts_with("s-") {
        return Err(wrong("`s-` begins an id"));
    }
    if name.starts_with(['-', '.']) {
        return Err(wrong("it has to begin with a letter, a digit or `_`"));
    }
    if !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-')) {
        return Err(wrong("it has a character that no name may have"));
    }
    Ok(())
}

fn name_is_taken(name: &str, id: &SessionId) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!("there is a session `{name}` already: {id}"),
        hint: Some(format!(
            "use it with `callboard exec --session {name}`, or end it with `callboard session \
             close {name}`"
        )),
    }
}

/// The refusal for a session that is not open.
pub(super) fn not_open(id: &SessionId) -> Failure {
    Failure {
        kind: FailureKind::SessionClosed,
        message: format!("session `{id}` is not open"),
        hint: Some("`callboard session ls` lists the open ones".to_owned()),
    }
}

fn no_command(id: &SessionId, command: &CommandId) -> Failure {
    Failure {
        kind: FailureKind::NotFound,
        message: format!("session `{id}` has no command `{command}` that could be waited for"),
        hint: Some(format!("`callboard session show {id}` lists its commands")),
    }
}

fn could_not_open(words: Option<&str>) -> Failure {
    Failure {
        kind: FailureKind::Environment,
        message: match words {
            Some(words) => format!("the session could not be opened: {words}"),
            None => "the session ended before its shell was ready".to_owned(),
        },
        hint: None,
    }
}
