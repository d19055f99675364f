//! Single tasks of runs that go on: asking about them, ending them, waiting for them, adding to
//! them. What runs that have ended came to is in their reports.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::TaskLine;
use crate::domain::event::ClientEnv;
use crate::domain::ids::{RunId, TaskId};
use crate::domain::outcome::TaskState;
use crate::domain::plan::Plan;

/// How many tasks one call can name.
pub const TASKS_NAMED_MAX: usize = 10_000;

/// A task of a run: `RUN/ID`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskRef {
    /// The run.
    pub run: RunId,
    /// The task, as its manifest calls it.
    pub task: TaskId,
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.task)
    }
}

impl FromStr for TaskRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((run, task)) if !run.is_empty() && !task.is_empty() => {
                Ok(Self { run: run.into(), task: task.into() })
            }
            _ => Err(format!("`{}` is not of the form RUN/ID", text.escape_debug())),
        }
    }
}

/// What can be asked of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum TaskCall {
    /// All tasks of the runs that go on, settled ones too. Answered with `Tasks`.
    List,
    /// One of them, as reports show it. Answered with `Report`, which has this task alone.
    Show {
        /// Which.
        task: TaskRef,
    },
    /// End tasks that are not settled; all of them or, where one is not known, none. Answered with
    /// `Tasks`, as they stand once their end has begun: `Wait` tells when it is over.
    Cancel {
        /// Which.
        tasks: Vec<TaskRef>,
    },
    /// Give a task that is settled, or waits for a decision, another attempt. Answered with
    /// `Tasks`.
    Retry {
        /// Which.
        task: TaskRef,
    },
    /// Wait for tasks. Answered with `Waited` as soon as it is so, or `wait_ms` are over.
    Wait {
        /// Which; each has to be known.
        tasks: Vec<TaskRef>,
        /// What for.
        mode: WaitMode,
        /// How long at most, in ms.
        wait_ms: u64,
    },
    /// Add a task to the standing run of these agents and this environment. Answered with
    /// `Dispatched` once it is durable.
    Dispatch {
        /// What.
        dispatch: Box<Dispatch>,
    },
}

/// What is waited for. A task is over once it is settled, waits for a decision, or its run has
/// ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// One of them is over.
    Any,
    /// All of them are.
    All,
    /// One of them is over, or has begun an attempt after this one.
    Attempt(u32),
}

/// A task to add.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The agents, what holds for every session, and one task: this one. Its id is made by the
    /// coordinator.
    pub plan: Plan,
    /// How many tasks of the standing run run at a time.
    pub jobs: u32,
    /// The caller's environment, filtered.
    pub env: ClientEnv,
    /// Tasks of runs that go on which have to succeed before.
    pub after: Vec<TaskRef>,
    /// Likewise of runs that have ended, with what they came to.
    pub after_ended: Vec<EndedTask>,
    /// The client's own, unguessable name for this call: the same one is never added twice.
    pub ticket: String,
}

/// A task whose run has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedTask {
    /// Which.
    pub task: TaskRef,
    /// Where it ended.
    pub state: TaskState,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum TaskAnswer {
    /// To `List`, `Cancel` and `Retry`.
    Tasks {
        /// In the order of their runs and manifests, or in which they were named.
        tasks: Vec<TaskLine>,
    },
    /// To `Wait`.
    Waited {
        /// The tasks as they stand, in the order in which they were named.
        tasks: Vec<TaskLine>,
        /// True when it is so; false when the time is over.
        done: bool,
    },
    /// To `Dispatch`.
    Dispatched {
        /// The task.
        task: TaskRef,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_with_its_run() {
        let task: TaskRef = "r-1/build".parse().unwrap();
        assert_eq!((task.run.as_str(), task.task.as_str()), ("r-1", "build"));
        assert_eq!(task.to_string(), "r-1/build");
        for text in ["", "build", "/build", "r-1/"] {
            assert!(text.parse::<TaskRef>().is_err(), "{text}");
        }
    }
}
