//! What runs and what waits, in lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SessionLine;
use crate::domain::event::CancelWhy;
use crate::domain::ids::{AgentName, RunId, SessionId, WorkspaceId};
use crate::domain::outcome::{RunOutcome, TaskReason, TaskState};
use crate::domain::time::Timestamp;

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
    /// Why it was cancelled, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<CancelWhy>,
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
    /// The session of its latest attempt.
    pub session_id: Option<SessionId>,
    /// Why it is there.
    pub reason: Option<TaskReason>,
    /// `environment`, `flaky` …: what kind of failure it was, where that is known.
    pub class: Option<String>,
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
