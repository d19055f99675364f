//! What the journal tells of tasks that were dispatched before this coordinator began.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::TaskRef;
use crate::domain::event::{AttemptEnd, Event as Record};
use crate::domain::ids::RunId;

/// What the journal tells of tasks that were added to runs which have not ended.
#[derive(Debug, Default)]
pub(super) struct PastDispatches {
    /// In the order of the runs' tasks.
    pub(super) added: BTreeMap<RunId, Vec<Added>>,
    /// The tasks of other runs that some of them wait for, and whether they have succeeded.
    others: BTreeMap<TaskRef, bool>,
}

/// A task that was added.
#[derive(Debug)]
pub(super) struct Added {
    /// What it waits for in other runs.
    pub(super) others: BTreeSet<TaskRef>,
    /// The client's name for its call.
    pub(super) ticket: Option<String>,
}

impl PastDispatches {
    /// Takes a record in, in order.
    pub(super) fn fold(&mut self, event: &Record) {
        match event {
            Record::TaskAdded { run, after_others, ticket, .. } => {
                let others: BTreeSet<TaskRef> =
                    after_others.iter().filter_map(|task| task.parse().ok()).collect();
                for other in &others {
                    self.others.entry(other.clone()).or_default();
                }
                let added = Added { others, ticket: ticket.clone() };
                self.added.entry(run.clone()).or_default().push(added);
            }
            Record::AttemptEnded { attempt, end: AttemptEnd::Succeeded }
                if !self.others.is_empty() =>
            {
                let task = TaskRef { run: attempt.run.clone(), task: attempt.task.clone() };
                if let Some(succeeded) = self.others.get_mut(&task) {
                    *succeeded = true;
                }
            }
            Record::RunEnded { run, .. } => {
                self.added.remove(run);
            }
            _ => {}
        }
    }

    /// Whether a task of another run has succeeded that some of them wait for.
    pub(super) fn has_succeeded(&self, task: &TaskRef) -> bool {
        self.others.get(task) == Some(&true)
    }
}
