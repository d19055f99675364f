//! The record of a run, as the JSON report shows it (design, section 7.2).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::board::BoardView;
pub use crate::domain::conflict::Backoff;
use crate::domain::event::CancelWhy;
use crate::domain::ids::{AgentName, RunId, SessionId, Tag, TaskId, WorkspaceId};
use crate::domain::outcome::{RunOutcome, TaskReason, TaskState};
use crate::domain::result::CommandResult;
use crate::domain::time::Timestamp;
use crate::domain::worktree::WorktreeReport;

/// A run, while it goes on or once it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Version of this document's shape.
    pub schema_version: u32,
    /// The run.
    pub run_id: RunId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// How it ended; `None` while it goes on.
    pub outcome: Option<RunOutcome>,
    /// Its exit code; `None` while it goes on.
    pub exit_code: Option<u8>,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// How long it took, or has gone on.
    pub duration_ms: u64,
    /// How many tasks are in each state; states that none is in are left out.
    pub counts: BTreeMap<TaskState, usize>,
    /// Why it was cancelled, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<CancelWhy>,
    /// The tasks, in the manifest's order.
    pub tasks: Vec<TaskReport>,
    /// The board as the run left it.
    pub board: BoardView,
    /// Questions that needed a decision.
    pub escalations: Vec<Escalation>,
}

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// As the manifest calls it.
    pub id: TaskId,
    /// Where it is.
    pub state: TaskState,
    /// Who had its last attempt.
    pub agent: Option<AgentName>,
    /// The tags it needs.
    pub needs: Vec<Tag>,
    /// How many starts.
    pub attempts: u32,
    /// How many conflicts.
    pub conflicts: u32,
    /// The session of its last attempt.
    pub session_id: Option<SessionId>,
    /// When its first attempt started.
    pub started_at: Option<Timestamp>,
    /// From the start of its first attempt to the end of its last.
    pub duration_ms: u64,
    /// Why it is where it is; null when it succeeded.
    pub reason: Option<TaskReason>,
    /// `environment`, `flaky` …: what kind of failure it was, where that is known.
    pub class: Option<String>,
    /// The tasks it waited for.
    pub waited_on: Vec<TaskId>,
    /// The commands of its last attempt.
    pub commands: Vec<CommandResult>,
    /// Its backoffs.
    pub backoffs: Vec<Backoff>,
    /// Board keys it published.
    pub published: Vec<String>,
    /// Files that its `artifacts` globs match, relative to the root.
    pub artifacts: Vec<String>,
    /// What else should be known of its last attempt, in words: a contract that changed while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What became of its worktree, for a task that has one (`isolation = "worktree"`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeReport>,
}

/// A question that needed a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// Its id.
    pub id: String,
    /// The task.
    pub task: TaskId,
    /// `input`, `conflict`, `verify`, `budget` …
    pub cause: String,
    /// Whom it was put to.
    pub to: String,
    /// The whole story, for reading.
    pub story: String,
    /// The answer, once there is one.
    pub answer: Option<String>,
}
