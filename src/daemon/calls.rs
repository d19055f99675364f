//! Requests of clients.

use std::path::Path;

use super::action::{Action, ExecForm};
use super::desk::{Desk, NO_ROOM, not_found};
use super::inbox::ConnectionId;
use super::names;
use super::rejoining::Resumption;
use super::sessions::{Asker, EXEC_KEEP, Owner, Session};
use super::story::CommandRecord;
use crate::control::{
    Answer, CONTROL_VERSION, Call, CoordinatorLine, EnvSources, EscalationCall, Exec, Failure,
    FailureKind, Request, Response, Status, TaskCall,
};
use crate::domain::board::key::KeyKind;
use crate::domain::conflict::Tracing;
use crate::domain::environment::{self, Layers, SessionFacts};
use crate::domain::event::CancelWhy;
use crate::domain::ids::SessionId;
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::session::{SessionLimits, SessionOwner, SessionSpec, Shell, Size};
use crate::domain::time::Timestamp;
use crate::policy::role;
use crate::session::wire::{CommandEnd, Span};

/// What to do about a coordinator of another version.
pub(super) const REPLACE: &str =
    "`callboard serve --replace` takes its work over: runs and sessions go on";

/// How long a command may wait for input when nobody said.
pub(super) const INPUT_TIMEOUT_MS: u64 = 10 * 60_000;

impl Desk {
    pub(super) fn asked(&mut self, connection: ConnectionId, request: Request, now: Timestamp) {
        let Request { id, call } = request;
        let asker = Asker { connection, request: id };
        if let Err(failure) = self.may_ask(connection, &call) {
            return self.refuse(connection, id, failure);
        }
        match call {
            Call::Hello { version, callboard } => self.hello(asker, version, callboard.as_deref()),
            Call::Submit { submit } => self.submit(asker, *submit, now),
            Call::WatchRun { run } => self.watch_run(connection, id, &run, now),
            Call::CancelRun { run, now: at_once } => {
                if self.runs.contains_key(&run) {
                    self.cancel_run(&run, CancelWhy::Requested, at_once, now);
                    self.reply(connection, id, Answer::Cancelling);
                } else if self.past.iter().any(|line| line.run_id == run) {
                    self.refuse(connection, id, ended(run.as_str()));
                } else {
                    self.refuse(connection, id, unknown_run(run.as_str()));
                }
            }
            Call::ListRuns => {
                let runs = self.run_lines(now);
                self.reply(connection, id, Answer::Runs { runs });
            }
            Call::Report { run } => match self.report_draft(&run, now) {
                Some(draft) => {
                    let draft = Box::new(draft);
                    self.act(Action::SendReport { connection, request: id, draft });
                }
                None if self.past.iter().any(|line| line.run_id == run) => {
                    self.act(Action::ReadReport { connection, request: id, run });
                }
                None => self.refuse(connection, id, unknown_run(run.as_str())),
            },
            Call::Rejoin { run, env } => self.rejoin(asker, &run, env, now),
            Call::Resume { run, options, env, detach } => {
                self.resume(asker, &run, Resumption { options, env, detach }, now);
            }
            Call::HandOver => self.hand_over(asker),
            Call::Status => {
                let status = Box::new(self.status(now));
                self.reply(connection, id, Answer::Status { status });
            }
            Call::Board => self.read_board(asker, String::new(), now),
            Call::ReadBoard { told } => self.read_board(asker, told, now),
            Call::SetEntry { key, value } => self.write_entry(asker, key, Some(value), now),
            Call::RemoveEntry { key } => self.write_entry(asker, key, None, now),
            Call::WatchBoard { told, since } => self.watch_board(asker, told, since, now),
            Call::Task { task } => self.asked_of_tasks(asker, *task, now),
            Call::Escalation { escalation } => self.asked_of_escalations(asker, escalation, now),
            of_a_session => self.asked_of_session(asker, of_a_session, now),
        }
    }

    /// What concerns sessions and what runs in them.
    fn asked_of_session(&mut self, asker: Asker, call: Call, now: Timestamp) {
        let Asker { connection, request: id } = asker;
        match call {
            Call::Exec { exec } => self.exec(asker, *exec, now),
            Call::Reclaim { ticket, session } => {
                self.reclaim(asker, &ticket, session.as_deref(), now);
            }
            Call::ExecStart { exec } => self.exec_start(asker, *exec, now),
            Call::Wait { session, command, wait_ms } => {
                self.wait(asker, &session, command, wait_ms, now);
            }
            Call::OpenSession { new } => {
                self.open_session(asker, *new, now);
            }
            Call::ListSessions => {
                let sessions = self.session_lines();
                self.reply(connection, id, Answer::Sessions { sessions });
            }
            Call::CloseSession { session } => {
                self.close_asked(asker, &session, now);
            }
            Call::Attach { session, size } => self.attach(asker, &session, size, now),
            Call::Detach { session } => self.detach(asker, &session, now),
            Call::Type { session, bytes } => self.typed_raw(asker, &session, bytes, now),
            Call::Resize { session, size } => self.resize(asker, &session, size, now),
            Call::Look { session, command, seen } => {
                self.look(asker, &session, command, seen, now);
            }
            Call::Input { session, command, input } => {
                self.input(asker, &session, command, input, now);
            }
            Call::Interrupt { session, command } => {
                self.interrupt_session(asker, &session, command, now);
            }
            Call::CancelExec { request } => {
                self.interrupt_exec(Asker { connection, request });
                self.reply(connection, id, Answer::Cancelling);
            }
            other => {
                let message = format!("no session has an answer to {other:?}");
                let failure = Failure { kind: FailureKind::Internal, message, hint: None };
                self.refuse(connection, id, failure);
            }
        }
    }

    fn hello(&mut self, asker: Asker, version: u32, callboard: Option<&str>) {
        let Asker { connection, request: id } = asker;
        let ours = env!("CARGO_PKG_VERSION");
        if version == CONTROL_VERSION {
            let welcome = Answer::Welcome { version: ours.to_owned(), pid: std::process::id() };
            return self.reply(connection, id, welcome);
        }
        let message = format!(
            "the coordinator of this workspace is callboard {ours} and speaks version \
             {CONTROL_VERSION} of the control grammar, this client is{} and speaks version {version}",
            callboard.map_or_else(String::new, |callboard| format!(" callboard {callboard}"))
        );
        let hint = REPLACE.to_owned();
        self.refuse(
            connection,
            id,
            Failure { kind: FailureKind::Version, message, hint: Some(hint) },
        );
    }

    pub(super) fn reply(&mut self, connection: ConnectionId, id: u64, answer: Answer) {
        self.respond(connection, Response::Reply { id, answer: Box::new(answer) });
    }

    fn status(&self, now: Timestamp) -> Status {
        let coordinator = CoordinatorLine {
            pid: std::process::id(),
            since: self.since,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Status {
            schema_version: SCHEMA_VERSION,
            workspace_id: self.workspace.clone(),
            coordinator: Some(coordinator),
            runs: self.run_lines(now),
            tasks: self.task_lines(),
            sessions: self.session_lines(),
            waiting: self.waiting(),
            remarks: self.remarks(),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let full = (!self.has_room).then(|| NO_ROOM.to_owned());
        self.remarks.iter().cloned().chain(full).chain(self.stale_lines()).collect()
    }

    pub(super) fn new_session(
        &mut self,
        owner: Owner,
        parent: Option<SessionId>,
        exec: &Exec,
        now: Timestamp,
    ) -> (SessionId, Option<Box<SessionSpec>>) {
        let id = match (&owner, &exec.ticket) {
            // Its client finds it again by nothing but that.
            (Owner::Call { .. }, Some(ticket)) => {
                names::of_ticket(ticket).unwrap_or_else(names::session)
            }
            _ => names::session(),
        };
        let env = self.own_env(&id, &exec.env);
        let mut spec = self.session_spec(id.clone(), owner.told(exec.defaults), &exec.cwd, env);
        spec.parent = parent;
        spec.shell = exec.shell;
        spec.policy =
            Some(&exec.policy).filter(|policy| !policy.is_empty()).into_iter().cloned().collect();
        self.register(&spec, owner, now);
        (id, Some(Box::new(spec)))
    }

    /// The environment of a session that belongs to no task.
    pub(super) fn own_env(&self, id: &SessionId, from: &EnvSources) -> Vec<environment::Variable> {
        environment::snapshot(&Layers {
            client: &from.client,
            default_env: &from.defaults,
            default_env_pass: &from.pass,
            agent: None,
            task: None,
            command_line: &from.told,
            session: &self.session_facts(id),
        })
    }

    /// What only the session itself can say to its environment.
    pub(super) fn session_facts(&self, id: &SessionId) -> SessionFacts {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        SessionFacts {
            session: id.as_str().to_owned(),
            tmp: text(&self.folders.tmp.join(id.as_str())),
            socket: Some(text(&self.folders.socket)),
            board: Some(text(&self.folders.board)),
            task: None,
            attempt: None,
            inputs: None,
        }
    }

    /// The spec of a session that starts in `cwd` with `env`.
    pub(super) fn session_spec(
        &self,
        id: SessionId,
        owner: SessionOwner,
        cwd: &Path,
        env: Vec<environment::Variable>,
    ) -> SessionSpec {
        let mut spec = SessionSpec {
            traced: false,
            root: None,
            owner,
            parent: None,
            door: self.folders.doors.clone(),
            patience_ms: self.patience_ms,
            cwd: cwd.to_owned(),
            env: environment::pairs(env),
            shell: Shell::default(),
            profile: None,
            size: Size::default(),
            transcript: self.folders.sessions.join(id.as_str()),
            tmp: self.folders.tmp.join(id.as_str()),
            policy: Vec::new(),
            limits: SessionLimits::default(),
            id,
        };
        self.watching.apply(Tracing::Auto, &mut spec);
        spec
    }

    /// Keeps a session that is about to be opened.
    pub(super) fn register(&mut self, spec: &SessionSpec, owner: Owner, now: Timestamp) {
        let session = Session::new(spec, owner, &self.person, now);
        self.sessions.insert(spec.id.clone(), session);
    }

    /// Answers for one command of an open session that is not an attempt's.
    pub(super) fn answer(
        &mut self,
        session: &SessionId,
        asker: Asker,
        index: usize,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.get(session) else { return };
        let action = answer_of(session, asker, index, ExecForm::Ran, now);
        action.into_iter().for_each(|action| self.act(action));
    }
}

/// The answer for one command of a session.
pub(super) fn answer_of(
    session: &Session,
    asker: Asker,
    index: usize,
    form: ExecForm,
    now: Timestamp,
) -> Option<Action> {
    let record = session.commands.get(index)?;
    let story = Box::new(session.story(record, now, EXEC_KEEP));
    let Asker { connection, request } = asker;
    Some(Action::AnswerExec { connection, request, story, form, end: session.end })
}

/// The end of a command of which nothing else is known.
pub(super) fn end_without_status(
    record: &CommandRecord,
    reason: Reason,
    now: Timestamp,
) -> CommandEnd {
    let offset = record.started.map_or(0, |(_, offset)| offset);
    let started_at = record.started.map(|(at, _)| at);
    CommandEnd {
        command: record.id.clone(),
        state: CommandState::Failed,
        reason: Some(reason),
        exit_code: None,
        pipe_status: None,
        cwd: String::new(),
        started_at,
        duration_ms: started_at.map_or(0, |at| now.ms_since(at)),
        children: Vec::new(),
        notes: Vec::new(),
        awaiting: record.awaiting.clone(),
        span: Span { raw_start: offset, raw_end: u64::MAX, idx_start: 0, idx_end: u64::MAX },
        merged: false,
        unstored: Vec::new(),
    }
}

/// What a call is, as far as roles are concerned.
pub(super) fn kind_of(call: &Call) -> role::Call {
    match call {
        Call::Hello { .. } => role::Call::Hello,
        Call::Submit { .. } => role::Call::Submit,
        Call::WatchRun { .. } => role::Call::WatchRun,
        Call::CancelRun { .. } | Call::Rejoin { .. } | Call::Resume { .. } => role::Call::ChangeRun,
        Call::ListRuns
        | Call::Report { .. }
        | Call::ListSessions
        | Call::Status
        | Call::Board
        | Call::ReadBoard { .. }
        | Call::WatchBoard { .. } => role::Call::Read,
        Call::SetEntry { key, .. } | Call::RemoveEntry { key } => match KeyKind::of(key) {
            Some(kind) if kind.is_told() => role::Call::Publish,
            // What is wrong with a key of no kind is told when it is checked.
            None => role::Call::Publish,
            Some(_) => role::Call::Post,
        },
        Call::Task { task } => match &**task {
            TaskCall::List | TaskCall::Show { .. } | TaskCall::Wait { .. } => role::Call::Read,
            TaskCall::Cancel { .. } | TaskCall::Retry { .. } => role::Call::ChangeRun,
            TaskCall::Dispatch { .. } => role::Call::Submit,
        },
        Call::Escalation { escalation } => match escalation {
            EscalationCall::List => role::Call::Read,
            EscalationCall::Resolve { .. } => role::Call::ChangeRun,
        },
        Call::Exec { .. } => role::Call::Exec,
        Call::ExecStart { .. } => role::Call::ExecStart,
        Call::Reclaim { .. } | Call::CancelExec { .. } => role::Call::OwnExec,
        Call::OpenSession { .. } => role::Call::OpenSession,
        Call::Wait { .. } | Call::Look { .. } => role::Call::Watch,
        Call::Input { .. } | Call::Interrupt { .. } | Call::Type { .. } | Call::Resize { .. } => {
            role::Call::Type
        }
        Call::Attach { .. } | Call::Detach { .. } => role::Call::Attach,
        Call::CloseSession { .. } => role::Call::CloseSession,
        Call::HandOver => role::Call::HandOver,
    }
}

pub(super) fn shutting_down() -> Failure {
    Failure {
        kind: FailureKind::ShuttingDown,
        message: "the coordinator of this workspace is ending".to_owned(),
        hint: Some("call again in a moment: another one is started then".to_owned()),
    }
}

fn unknown_run(run: &str) -> Failure {
    not_found(&format!("run `{run}`"), "`callboard run ls` lists the runs")
}

fn ended(run: &str) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!("run `{run}` has already ended"),
        hint: Some(format!("`callboard report {run}` shows how")),
    }
}
