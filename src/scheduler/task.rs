//! What the machine keeps of each task.

use std::collections::BTreeSet;

use crate::domain::conflict::Conflict;
use crate::domain::outcome::{TaskReason, TaskState};
use crate::domain::time::Timestamp;

use super::conflicts::{BackedOff, BackingOff};
use super::event::EndWhy;

/// A task: where it is, and what it has spent.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// Where it is.
    pub(super) state: State,
    /// Since when.
    pub(super) since: Timestamp,
    /// Every start counts.
    pub(super) attempts: u32,
    /// Retries spent by attempts that failed, timed out or were interrupted.
    pub(super) retries_spent: u32,
    /// Retries it may spend.
    pub(super) retries: u32,
    /// How many of its attempts ended by conflict.
    pub(super) conflicts: u32,
    /// Its waits after conflicts.
    pub(super) backoffs: Vec<BackedOff>,
    /// The conflict that it was escalated for.
    pub(super) last_conflict: Option<Box<Conflict>>,
    /// Resources that somebody has decided are nobody's to it.
    pub(super) exempt: BTreeSet<String>,
    /// True when an attempt failed by itself, not because it was interrupted or lost.
    pub(super) stumbled: bool,
    /// Who had its last attempt.
    pub(super) agent: Option<usize>,
    /// When its first attempt started.
    pub(super) started_at: Option<Timestamp>,
    /// When its last attempt ended.
    pub(super) ended_at: Option<Timestamp>,
    /// Whether its last command is a service.
    pub(super) service: bool,
    /// A service that is ready: those that wait for its success have been told so.
    pub(super) vouched: bool,
    /// How many tasks of other runs it waits for.
    pub(super) outside: usize,
}

/// Where a task is, with the facts that only this state has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Waits for its dependencies.
    Blocked {
        /// How many conditions do not hold yet.
        unmet: usize,
    },
    /// Waits for an agent and a slot.
    Ready,
    /// An attempt runs.
    Running(Running),
    /// Waits before the next try.
    Retrying {
        /// How long.
        until: Timestamp,
        /// Why the last try did not do.
        reason: TaskReason,
        /// Whether the environment is to blame.
        environment: bool,
    },
    /// Waits after a conflict.
    BackingOff(Box<BackingOff>),
    /// Waits for a decision.
    Escalated {
        /// What kind of decision.
        cause: EscalationCause,
        /// What happened.
        reason: TaskReason,
    },
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed {
        /// Why.
        reason: TaskReason,
        /// Whether the environment is to blame.
        environment: bool,
    },
    /// Ended by a time limit.
    TimedOut {
        /// Which.
        reason: TaskReason,
    },
    /// Ended on request.
    Cancelled {
        /// Whose.
        reason: TaskReason,
    },
    /// Never started.
    Skipped {
        /// Why not.
        reason: TaskReason,
    },
}

/// The facts of a running attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    /// Its number.
    pub(super) attempt: u32,
    /// On whom.
    pub(super) agent: usize,
    /// Since when its service is ready.
    pub(super) ready: Option<Timestamp>,
    /// Since when it waits for input.
    pub(super) awaiting: Option<Timestamp>,
    /// Why it was asked to end.
    pub(super) ending: Option<EndWhy>,
}

/// What a running attempt means to the rest of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It will end or ask by itself, or has been asked to end: something is still to come.
    Active,
    /// It waits for input.
    Awaiting,
    /// A ready service: it only keeps running, and takes up neither a slot nor its agent. What it
    /// reads from its terminal is nobody's question: many servers listen for keys all the time.
    Serving,
}

impl Running {
    /// What the attempt means to the rest of the run.
    pub(super) fn standing(self) -> Standing {
        if self.ending.is_some() {
            Standing::Active
        } else if self.ready.is_some() {
            Standing::Serving
        } else if self.awaiting.is_some() {
            Standing::Awaiting
        } else {
            Standing::Active
        }
    }

    /// Whether it takes up a slot and its agent.
    pub(super) fn holds_slot(self) -> bool {
        self.ready.is_none()
    }
}

/// What an escalated task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscalationCause {
    /// A question of its terminal that nobody answered.
    Input,
    /// Its `verify` script failed.
    Verify,
    /// Its policy asks for a person's word.
    Policy,
    /// What it wants is held by another one, for the sixth time.
    Conflict,
}

impl EscalationCause {
    /// The name as reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Verify => "verify",
            Self::Policy => "policy",
            Self::Conflict => "conflict",
        }
    }
}

impl State {
    /// The state's name.
    pub(super) fn name(&self) -> TaskState {
        match self {
            Self::Blocked { .. } => TaskState::Blocked,
            Self::Ready => TaskState::Ready,
            Self::Running(_) => TaskState::Running,
            Self::Retrying { .. } => TaskState::Retrying,
            Self::BackingOff(_) => TaskState::BackingOff,
            Self::Escalated { .. } => TaskState::Escalated,
            Self::Succeeded => TaskState::Succeeded,
            Self::Failed { .. } => TaskState::Failed,
            Self::TimedOut { .. } => TaskState::TimedOut,
            Self::Cancelled { .. } => TaskState::Cancelled,
            Self::Skipped { .. } => TaskState::Skipped,
        }
    }

    /// Why the task is here, where there is a reason.
    pub(super) fn reason(&self) -> Option<&TaskReason> {
        match self {
            Self::Retrying { reason, .. }
            | Self::Escalated { reason, .. }
            | Self::Failed { reason, .. }
            | Self::TimedOut { reason }
            | Self::Cancelled { reason }
            | Self::Skipped { reason } => Some(reason),
            Self::BackingOff(waits) => Some(&waits.reason),
            Self::Blocked { .. } | Self::Ready | Self::Running(_) | Self::Succeeded => None,
        }
    }
}
