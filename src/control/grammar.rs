//! Requests, replies and notices. Each document is one frame (`domain::frame`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::domain::board::BoardView;
use crate::domain::event::{ClientEnv, RunOptions};
use crate::domain::ids::{AgentName, RunId, SessionId, TaskId, WorkspaceId};
use crate::domain::outcome::{RunOutcome, TaskReason, TaskState};
use crate::domain::permission::Permissions;
use crate::domain::plan::{Class, Plan};
use crate::domain::raw_path;
use crate::domain::result::{Awaiting, CommandResult};
use crate::domain::time::Timestamp;
use crate::report::record::RunReport;

/// Version of this grammar. Client and coordinator have to agree on it exactly.
pub const CONTROL_VERSION: u32 = 1;

/// A client's question. Replies carry its number, so several may be under way at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The client's own number for it.
    pub id: u64,
    /// What it asks.
    pub call: Call,
}

/// What a client can ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// Always the first.
    Hello {
        /// `CONTROL_VERSION` of the client.
        version: u32,
    },
    /// Start a run. Answered with `Submitted` once the run is durable.
    Submit {
        /// What to run.
        submit: Box<Submit>,
    },
    /// Follow a run: answered with `Report`, its tasks left out, then `Notice`s up to `RunEnded`;
    /// with the whole `Report` alone once the run has ended.
    WatchRun {
        /// Which.
        run: RunId,
    },
    /// End a run: gracefully, or at once when asked a second time with `now`.
    CancelRun {
        /// Which.
        run: RunId,
        /// Straight to KILL.
        now: bool,
    },
    /// All runs that the workspace knows.
    ListRuns,
    /// A run's whole report as far as it goes.
    Report {
        /// Which.
        run: RunId,
    },
    /// Run one command in a session of its own. Answered with `Ran`.
    Exec {
        /// What.
        exec: Box<Exec>,
    },
    /// Interrupt an `Exec` of this connection. Answered with `Cancelling`; the `Exec` itself is
    /// answered with `Ran` once its command's tree is gone.
    CancelExec {
        /// The number of its request.
        request: u64,
    },
    /// What runs and what waits.
    Status,
    /// The board.
    Board,
}

/// A run to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    /// The checked manifest with its agents.
    pub plan: Plan,
    /// Only these tasks (indices into the plan), when set.
    pub selected: Option<Vec<usize>>,
    /// Options.
    pub options: RunOptions,
    /// The caller's environment, filtered.
    pub env: ClientEnv,
    /// True when the run outlives its client (`--detach`); otherwise the run is cancelled once the
    /// connection that submitted it is gone.
    pub detach: bool,
}

/// One command to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// The text for the shell.
    pub text: String,
    /// Where a new session starts, absolute.
    #[serde(with = "raw_path")]
    pub cwd: PathBuf,
    /// True when the cwd was asked for: a session that is kept changes to it as well.
    pub cwd_given: bool,
    /// Added to the environment, over the allow-list.
    pub env: BTreeMap<String, String>,
    /// The caller's environment, filtered.
    pub client_env: ClientEnv,
    /// Exact time limit in ms.
    pub timeout_ms: Option<u64>,
    /// Tier, if told.
    pub class: Option<Class>,
    /// Answers, in order.
    pub inputs: Vec<String>,
    /// Patterns that end it early.
    pub stop_on: Vec<String>,
    /// One terminal for both streams.
    pub merge: bool,
    /// What may be run in a session that has to be made.
    pub policy: Permissions,
    /// Keep the session afterwards and reuse it next time under this name.
    pub session: Option<String>,
}

/// What comes back over a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Response {
    /// The answer to a request: it has happened.
    Reply {
        /// The request's number.
        id: u64,
        /// What came of it.
        answer: Box<Answer>,
    },
    /// The request was refused or failed.
    Refusal {
        /// The request's number.
        id: u64,
        /// Why.
        failure: Failure,
    },
    /// News of a run that the connection follows.
    Notice {
        /// The news.
        notice: Box<Notice>,
    },
}

/// Answers, one kind for each call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To `Hello`.
    Welcome {
        /// The coordinator's version.
        version: String,
        /// Its pid.
        pid: u32,
    },
    /// To `Submit`. Unless the run is detached the connection follows it from here on, as after
    /// `WatchRun`.
    Submitted {
        /// The run's id.
        run: RunId,
        /// The record before anything has started, its tasks left out.
        report: Box<RunReport>,
    },
    /// To `WatchRun` and `Report`.
    Report {
        /// The record.
        report: Box<RunReport>,
    },
    /// To `CancelRun` and `CancelExec`: the end has begun; `RunEnded` or `Ran` says when it is over.
    Cancelling,
    /// To `ListRuns`.
    Runs {
        /// Newest first.
        runs: Vec<RunLine>,
    },
    /// To `Exec`.
    Ran {
        /// The result.
        result: Box<CommandResult>,
    },
    /// To `Status`.
    Status {
        /// The picture.
        status: Box<Status>,
    },
    /// To `Board`.
    Board {
        /// The view.
        view: Box<BoardView>,
    },
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A word for programs.
    pub kind: FailureKind,
    /// What happened, and where.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

/// Kinds of refusals, by whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request was wrong.
    Usage,
    /// No such run, task or session.
    NotFound,
    /// The session has ended.
    SessionClosed,
    /// Client and coordinator are of different versions.
    Version,
    /// The machine cannot: a full disk, no ptys, a read-only folder.
    Environment,
    /// The coordinator is ending.
    ShuttingDown,
    /// A defect of ours.
    Internal,
}

/// News of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// A task moved.
    Task {
        /// The run.
        run: RunId,
        /// The task.
        task: TaskId,
        /// Where it is now.
        state: TaskState,
        /// Which attempt, from 1; 0 when there was none.
        attempt: u32,
        /// On which agent.
        agent: Option<AgentName>,
        /// Why.
        reason: Option<TaskReason>,
        /// When.
        at: Timestamp,
    },
    /// A service of the run is ready.
    ServiceReady {
        /// The run.
        run: RunId,
        /// The task.
        task: TaskId,
    },
    /// A command waits for input.
    Awaiting {
        /// The run.
        run: RunId,
        /// The task.
        task: TaskId,
        /// What for.
        awaiting: Awaiting,
    },
    /// The run is over; nothing follows.
    RunEnded {
        /// The record.
        report: Box<RunReport>,
    },
    /// Notices were left out because the client did not keep up.
    Gap {
        /// How many.
        missed: u64,
    },
}

/// One line of `run ls`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunLine {
    /// The run.
    pub run_id: RunId,
    /// How it ended; null while it goes on.
    pub outcome: Option<RunOutcome>,
    /// Its exit code; null while it goes on.
    pub exit_code: Option<u8>,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// How many tasks are in each state.
    pub counts: BTreeMap<TaskState, usize>,
}

/// What runs and what waits (`status --json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this document's shape.
    pub schema_version: u32,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Null when none runs.
    pub coordinator: Option<CoordinatorLine>,
    /// The runs, newest first.
    pub runs: Vec<RunLine>,
    /// Tasks of the runs that go on.
    pub tasks: Vec<TaskLine>,
    /// Open sessions.
    pub sessions: Vec<SessionLine>,
    /// Everything that waits, and on what.
    pub waiting: Vec<Waiting>,
}

/// The process that owns the workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinatorLine {
    /// Its pid.
    pub pid: u32,
    /// Since when.
    pub since: Timestamp,
    /// Its version.
    pub version: String,
}

/// A task in `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskLine {
    /// `RUN/ID`.
    pub task_id: String,
    /// Where it is.
    pub state: TaskState,
    /// On which agent.
    pub agent: Option<AgentName>,
    /// Which attempt.
    pub attempt: u32,
    /// Since when it is there.
    pub since: Timestamp,
}

/// A session in `status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionLine {
    /// The session.
    pub session_id: SessionId,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// `starting`, `idle`, `busy`, `closing`.
    pub state: String,
    /// What it is for: for people and models, never in AHP state.
    pub origin: Origin,
    /// The shell's pid; null while starting.
    pub pid: Option<i32>,
}

/// What a session is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// `task`, `exec`.
    pub purpose: String,
    /// The command it was opened for.
    pub command: Option<String>,
    /// `RUN/ID`.
    pub task: Option<String>,
    /// True for a service.
    pub service: bool,
}

/// Something that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// `RUN/ID` or a session.
    pub what: String,
    /// On what: `task build`, `an agent with rust`, `input: Continue? [y/N]` …
    pub on: String,
    /// Since when.
    pub since: Timestamp,
    /// Until when at most; null where something else has the deadline.
    pub deadline: Option<Timestamp>,
}
