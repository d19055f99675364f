//! What a run that tasks are added to has of other runs: a number for each task, of those elsewhere
//! that it waits for. Whoever knows those runs tells when one of them is met.

use crate::domain::ids::TaskId;
use crate::domain::outcome::{TaskCause, TaskReason, TaskState};
use crate::domain::time::Timestamp;

use super::run::{Phase, Schedule};
use super::task::State;

impl Schedule {
    /// Whether tasks can be added.
    pub fn is_open(&self) -> bool {
        self.is_open && matches!(self.phase, Phase::Waiting | Phase::Going)
    }

    /// Whether a task that is settled, or waits for a decision, can be tried again: not while the
    /// run is being ended.
    pub fn takes_retries(&self) -> bool {
        matches!(self.phase, Phase::Going | Phase::Ended(_))
    }

    /// The task for which another one can no longer run, as things stand.
    pub fn doomed_by(&self, task: usize) -> Option<usize> {
        let edges = self.graph.dependencies(task).iter();
        let mut lost = edges.filter(|edge| {
            self.tasks[edge.task].state.name().is_terminal() && !self.holds(edge.task, edge.when)
        });
        lost.next().map(|edge| edge.task)
    }

    /// One of the tasks of other runs that it waits for has succeeded.
    pub(super) fn outside_met(&mut self, task: usize, now: Timestamp) {
        if let Some(record) = self.tasks.get_mut(task)
            && record.outside > 0
        {
            record.outside -= 1;
            self.meet_one(task, now);
        }
    }

    /// One of them has ended, and not well.
    pub(super) fn outside_failed(
        &mut self,
        task: usize,
        on: TaskId,
        ended: TaskState,
        now: Timestamp,
    ) {
        let Some(record) = self.tasks.get_mut(task) else { return };
        record.outside = record.outside.saturating_sub(1);
        let waits = matches!(record.state, State::Blocked { .. } | State::Ready);
        if waits && record.attempts == 0 {
            self.withdraw(task);
            let reason = TaskReason::Task(TaskCause::Dependency { task: on, state: ended });
            self.settle(task, State::Skipped { reason }, now);
        }
    }
}
