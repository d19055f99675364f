//! What comes back: answers, refusals, news.

use serde::{Deserialize, Serialize};

use super::{EscalationLine, Notice, RunLine, SessionLine, SessionView, Status, TaskAnswer};
use crate::domain::board::{BoardEntry, BoardView};
use crate::domain::ids::{CommandId, RunId, SessionId};
use crate::domain::key::Written;
use crate::domain::result::{Child, CommandResult};
use crate::report::record::RunReport;

/// What comes back over a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To `Hello`.
    Welcome {
        /// The coordinator's version.
        version: String,
        /// Its pid.
        pid: u32,
    },
    /// To `Submit` and `Resume`. Unless the run is detached the connection follows it from here on, as after
    /// `WatchRun`.
    Submitted {
        /// The run's id.
        run: RunId,
        /// The record before anything has started, its tasks left out.
        report: Box<RunReport>,
    },
    /// To `WatchRun` and `Report`; to a `Submit` that is said again, of a run that has ended
    /// meanwhile.
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
    /// To `Task`.
    Task {
        /// What.
        task: Box<TaskAnswer>,
    },
    /// To `Escalation`: all of them, or the one that was resolved.
    Escalations {
        /// In the order in which they were raised.
        escalations: Vec<EscalationLine>,
    },
    /// To `Exec`.
    Ran {
        /// The result.
        result: Box<CommandResult>,
    },
    /// To `ExecStart`: it has its place in the session's queue.
    Begun {
        /// The session.
        session: SessionId,
        /// The command.
        command: CommandId,
    },
    /// To `Wait`.
    Waited {
        /// The result as far as it has come.
        result: Box<CommandResult>,
        /// Where its bytes begin in the session's transcript; `None` while it is queued.
        from: Option<u64>,
        /// Where they end by now.
        end: u64,
    },
    /// To `OpenSession`.
    SessionOpened {
        /// The session.
        session: Box<SessionLine>,
    },
    /// To `ListSessions`: in the order of their ids.
    Sessions {
        /// The open ones.
        sessions: Vec<SessionLine>,
    },
    /// To `CloseSession`: everything in it is gone.
    SessionClosed {
        /// The session.
        session: SessionId,
        /// Processes that could not be ended, such as another user's.
        survivors: Vec<Child>,
    },
    /// To `Look`.
    View {
        /// The session as it is now.
        view: Box<SessionView>,
    },
    /// To `Input`.
    Written {
        /// How much the terminal took, and why not more.
        written: Written,
        /// Where in the transcript that which follows begins, at the earliest.
        offset: u64,
    },
    /// To `Interrupt`.
    Interrupted {
        /// The command's result; `None` when none ran.
        result: Option<Box<CommandResult>>,
    },
    /// To `Attach`: the terminal is this client's.
    Attached {
        /// What the stay is called among the session's commands.
        command: CommandId,
        /// The session as it is now.
        view: Box<SessionView>,
    },
    /// To `Detach`.
    Detached,
    /// To `HandOver`.
    HandingOver,
    /// To `Status`.
    Status {
        /// The picture.
        status: Box<Status>,
    },
    /// To `SetEntry` and `RemoveEntry`: the journal has it.
    EntryWritten {
        /// The entry as it is now.
        entry: Box<BoardEntry>,
    },
    /// To `WatchBoard`.
    WatchingBoard {
        /// False when only what has changed after `since` follows. True when all that there is does:
        /// nothing was known, or so long ago that removals since then are forgotten.
        whole: bool,
    },
    /// To `Board` and `ReadBoard`.
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
    /// As many sessions are open as may be.
    SessionLimit,
    /// Somebody else holds the session's terminal.
    Claimed,
    /// Whoever asks may not: a process of a session asks for more than its session's role has.
    NotAllowed,
    /// Nobody can tell what became of a command: it may have run.
    Unknown,
    /// Client and coordinator are of different versions.
    Version,
    /// The machine cannot: a full disk, no ptys, a read-only folder.
    Environment,
    /// The coordinator is ending.
    ShuttingDown,
    /// A defect of ours.
    Internal,
}
