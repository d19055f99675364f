//! Commands that clients ask for: `exec` in a session of its own, or in one that is kept.

use super::action::Action;
use super::calls::{INPUT_TIMEOUT_MS, shutting_down};
use super::desk::Desk;
use super::names;
use super::session_calls::{check_name, not_open};
use super::sessions::{Asker, Owner, Session, SessionState};
use super::story::CommandRecord;
use crate::command::tier;
use crate::control::{Answer, Exec, Failure, FailureKind};
use crate::domain::conflict::Party;
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::plan::{StopRule, TimeLimits};
use crate::domain::result::Note;
use crate::domain::session::{CommandSpec, SessionSpec, Shell, UnansweredInput};
use crate::domain::time::Timestamp;
use crate::policy::claim::Operation;
use crate::session::wire::Ask;

/// What a result says that may lack something of its output.
const NO_SPACE: &str = "no space left on the disk of the state folder";

impl Desk {
    pub(super) fn exec(&mut self, asker: Asker, exec: Exec, now: Timestamp) {
        if let Err(failure) = self.may_exec(&exec) {
            return self.refuse_asker(asker, failure);
        }
        self.stay_for_exec(now);
        if exec.session.is_some() {
            match self.exec_in_kept(asker, exec, now) {
                Ok((session, command)) => {
                    if let Some(Session { owner: Owner::Kept { askers, .. }, .. }) =
                        self.sessions.get_mut(&session)
                    {
                        askers.push((command, asker));
                    }
                }
                Err(failure) => self.refuse_asker(asker, failure),
            }
            return;
        }
        let room = self.room_for_session(now).and_then(|()| self.room_inside(asker));
        let parent = match room {
            Ok(parent) => parent,
            Err(failure) => return self.refuse_asker(asker, failure),
        };
        let owner = Owner::Call { asker: Some(asker) };
        let (session, then) = self.new_session(owner, parent, &exec, now);
        self.run_in(&session, &exec, then, now);
    }

    /// Gives a command its place in a kept session's queue, and leaves it there.
    pub(super) fn exec_start(&mut self, asker: Asker, exec: Exec, now: Timestamp) {
        let place = self.may_exec(&exec).and_then(|()| {
            if exec.session.is_some() {
                return self.exec_in_kept(asker, exec, now);
            }
            let message = "a command that is left alone needs a session that is kept".to_owned();
            Err(Failure { kind: FailureKind::Usage, message, hint: None })
        });
        match place {
            Ok((session, command)) => {
                self.reply(asker.connection, asker.request, Answer::Begun { session, command });
            }
            Err(failure) => self.refuse_asker(asker, failure),
        }
    }

    fn may_exec(&self, exec: &Exec) -> Result<(), Failure> {
        if self.is_terminating() {
            return Err(shutting_down());
        }
        let Some(offset) = exec.text.bytes().position(|byte| byte == 0) else { return Ok(()) };
        let message = format!("the command has a NUL byte at offset {offset}; nothing was run");
        let hint = Some("a shell cannot take NUL bytes: write them with printf".to_owned());
        Err(Failure { kind: FailureKind::Usage, message, hint })
    }

    fn exec_in_kept(
        &mut self,
        asker: Asker,
        exec: Exec,
        now: Timestamp,
    ) -> Result<(SessionId, CommandId), Failure> {
        let told = exec.session.as_deref().unwrap_or_default();
        let (session, then) = match self.kept(told)? {
            Some(id) => {
                self.may(&id, &Operation::Run, now)?;
                if let Some(session) = self.sessions.get(&id)
                    && exec.shell_given
                    && session.shell_kind != exec.shell
                {
                    return Err(other_shell(told, session.shell_kind, exec.shell));
                }
                if let Some(prompt) = self.prompt_in(&id) {
                    // Behind it a command would wait in silence for as long as nobody answers.
                    return Err(waits_for_input(told, &prompt));
                }
                (id, None)
            }
            None => {
                check_name(told)?;
                self.heed(exec.defaults);
                self.room_for_session(now)?;
                let parent = self.room_inside(asker)?;
                let name = told.to_owned();
                let owner =
                    Owner::Kept { name: Some(name.clone()), by_exec: true, askers: Vec::new() };
                let (id, spec) = self.new_session(owner, parent, &exec, now);
                self.set_ttl(&id, exec.defaults);
                self.names.insert(name, id.clone());
                (id, spec)
            }
        };
        let command = self.run_in(&session, &exec, then, now);
        Ok((session, command))
    }

    /// The open session of that name or id; `None` for a name that is free.
    ///
    /// # Errors
    /// When it is an id, and the session is not open or admits no commands.
    fn kept(&self, told: &str) -> Result<Option<SessionId>, Failure> {
        let open = |id: &SessionId| {
            self.sessions.get(id).filter(|session| session.state != SessionState::Closing)
        };
        if let Some(id) = self.names.get(told) {
            return Ok(open(id).map(|session| session.id.clone()));
        }
        let id = SessionId::from(told);
        match open(&id) {
            Some(session) if session.is_kept() => Ok(Some(id)),
            Some(_) => Err(Failure {
                kind: FailureKind::Usage,
                message: format!("session `{id}` is not kept: it admits no further commands"),
                hint: None,
            }),
            None if told.starts_with("s-") => Err(not_open(&id)),
            None => Ok(None),
        }
    }

    /// What a session's command waits for.
    fn prompt_in(&self, id: &SessionId) -> Option<String> {
        let session = self.sessions.get(id)?;
        let waiting = |record: &&CommandRecord| record.end.is_none() && record.awaiting.is_some();
        let record = session.commands.iter().find(waiting)?;
        Some(record.awaiting.as_ref()?.prompt.clone())
    }

    fn run_in(
        &mut self,
        session: &SessionId,
        exec: &Exec,
        open: Option<Box<SessionSpec>>,
        now: Timestamp,
    ) -> CommandId {
        let asked = self.sessions.get(session).map_or(0, |session| session.asked);
        let id = names::command(session, asked.saturating_add(1));
        let limits = TimeLimits { timeout_ms: exec.timeout_ms, ..TimeLimits::default() };
        let p95_ms = self.durations.p95_ms(&exec.text);
        let spec = CommandSpec {
            ticket: exec.ticket.clone(),
            id: id.clone(),
            text: exec.text.clone(),
            // A new session starts there; one that is kept stays where it is unless told.
            cwd: (open.is_none() && exec.cwd_given).then(|| exec.cwd.clone()),
            limit: tier::limit(&exec.text, exec.class, limits, p95_ms),
            input_timeout_ms: INPUT_TIMEOUT_MS,
            on_input: Vec::new(),
            inputs: exec.inputs.clone(),
            unanswered: UnansweredInput::Wait,
            stop_on: exec
                .stop_on
                .iter()
                .map(|pattern| StopRule { pattern: pattern.clone(), reason: None })
                .collect(),
            merge: exec.merge,
            ready: None,
        };
        if let Some(session) = self.sessions.get_mut(session) {
            let mut record = CommandRecord::new(id.clone(), exec.text.clone());
            if !self.has_room {
                record.notes.push(Note::CaptureDegraded { message: NO_SPACE.to_owned() });
            }
            session.take(CommandRecord { ticket: exec.ticket.clone(), ..record }, now);
        }
        let ask = Ask::Run { spec };
        let party = Party::Command { session: session.clone(), command: id.clone() };
        self.party_begins(party, session);
        match open {
            // Told with the opening, so that not even its first call goes on unasked.
            Some(spec) if spec.traced && self.holdings.alive() > 1 => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.attends = Some(true);
                }
                let then = vec![Ask::Attend { others: true }, ask];
                self.act(Action::Open { spec, then });
            }
            Some(spec) => self.act(Action::Open { spec, then: vec![ask] }),
            None => self.act(Action::Tell { session: session.clone(), ask }),
        }
        id
    }
}

fn waits_for_input(session: &str, prompt: &str) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!(
            "session `{session}` waits for input, and nothing more runs in it: {prompt}"
        ),
        hint: Some(format!(
            "answer it with `callboard session send {session} TEXT --enter`, end it with `callboard \
             session interrupt {session}`, or use another session"
        )),
    }
}

fn other_shell(session: &str, is: Shell, wanted: Shell) -> Failure {
    let (is, wanted) = (is.name(), wanted.name());
    Failure {
        kind: FailureKind::Usage,
        message: format!("session `{session}` has {is} as its shell, not {wanted}"),
        hint: Some(format!("leave `--shell` out, or open another session with `--shell {wanted}`")),
    }
}
