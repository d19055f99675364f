//! News of runs, for connections that follow one.

use serde::{Deserialize, Serialize};

use crate::domain::board::{BoardEntry, Version};
use crate::domain::claim::Claim;
use crate::domain::ids::{AgentName, RunId, TaskId};
use crate::domain::outcome::{TaskReason, TaskState};
use crate::domain::result::Awaiting;
use crate::domain::time::Timestamp;
use crate::report::record::RunReport;

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
    /// The terminal of a task's session has another holder.
    Claimed {
        /// The run.
        run: RunId,
        /// The task.
        task: TaskId,
        /// Who has it now.
        claim: Claim,
    },
    /// The run is over; nothing follows.
    RunEnded {
        /// The record.
        report: Box<RunReport>,
    },
    /// An entry of the board, as it is now.
    Board {
        /// The entry; without a value it was removed.
        entry: BoardEntry,
    },
    /// What was told of the board is void: all that there is follows. After a gap.
    BoardAnew,
    /// Everything of the board up to this version has been told: whoever watches again can go on from
    /// there.
    BoardThrough {
        /// The version.
        version: Version,
    },
    /// Notices were left out because the client did not keep up.
    Gap {
        /// How many.
        missed: u64,
    },
}
