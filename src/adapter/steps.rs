//! The text of each step of a task, by the kind of the agent that has it.

use super::shell;
use crate::domain::plan::{AdapterKind, TaskSpec};

/// The text of a step of a task for an agent of that kind: `run` in order, then `verify`. `None`
/// when the task has no such step.
pub fn command(kind: AdapterKind, task: &TaskSpec, step: usize) -> Option<&str> {
    match kind {
        AdapterKind::Shell => shell::command(task, step),
    }
}
