//! Records of a journal that do not fit those before them.

use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;

/// A record that does not fit those before it. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its time.
    pub at: Timestamp,
    /// Its run.
    pub run: RunId,
    /// What is wrong with it.
    pub why: Unfit,
}

/// Why a record does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The run's name is taken.
    #[error("a run of this name is known already")]
    RunKnown,
    /// Only a run that has ended can be resumed.
    #[error("the run has not ended, and cannot be resumed")]
    RunOpen,
    /// Nothing starts in a run that has ended.
    #[error("the run had ended before")]
    RunEnded,
    /// The run has no such task.
    #[error("the run has no task `{0}`")]
    NoSuchTask(String),
    /// The run has no such agent.
    #[error("the run has no agent `{0}`")]
    NoSuchAgent(String),
    /// A task of that name is there.
    #[error("the run has a task `{0}` already")]
    TaskKnown(String),
    /// Attempts count up.
    #[error("attempt {attempt} of `{task}` starts after attempt {latest}")]
    AttemptsGoBack {
        /// The task.
        task: String,
        /// The attempt that is said to start.
        attempt: u32,
        /// The latest one that has.
        latest: u32,
    },
    /// An attempt that nobody has started.
    #[error("attempt {attempt} of `{task}` has never started")]
    NeverStarted {
        /// The task.
        task: String,
        /// The attempt.
        attempt: u32,
    },
    /// Only what is settled can be tried again.
    #[error("`{0}` is not settled, and cannot be tried again")]
    NotSettled(String),
    /// An answer to nothing.
    #[error("escalation `{0}` was answered and never raised")]
    NeverAsked(String),
}
