//! What an answer to an escalation does to its task.

use crate::domain::conflict::Answer;
use crate::domain::outcome::{TaskCause, TaskReason};
use crate::domain::time::Timestamp;

use super::run::{Phase, Schedule};
use super::task::State;

impl Schedule {
    /// A decision about a task; one about a task that waits for none changes nothing. Counters stay
    /// as they are.
    pub(super) fn answered(&mut self, task: usize, answer: &Answer, now: Timestamp) {
        if !self.graph.has(task) {
            return;
        }
        let State::Escalated { reason, .. } = &self.tasks[task].state else { return };
        match answer {
            Answer::Fail => {
                let reason = reason.clone();
                self.settle(task, State::Failed { reason, environment: false }, now);
            }
            Answer::Skip => {
                let reason = TaskReason::Task(TaskCause::Decided);
                self.settle(task, State::Skipped { reason }, now);
            }
            Answer::Wait if self.phase == Phase::Going => self.wait_for_free(task, now),
            Answer::Force => {
                let record = &mut self.tasks[task];
                let wanted = record.last_conflict.as_ref().map(|what| what.resource.clone());
                record.exempt.extend(wanted);
                self.goes_on_with(task, now);
            }
            // What is sent is none of this machine's business. A run that has ended has waited.
            Answer::Retry | Answer::Wait | Answer::Input { .. } => self.goes_on_with(task, now),
        }
    }

    fn goes_on_with(&mut self, task: usize, now: Timestamp) {
        match self.phase {
            Phase::Waiting | Phase::Going => self.retry_task(task, now),
            // It stands as one that has not started: it does when the run goes on.
            Phase::FailingFast | Phase::Cancelling | Phase::Ended(_) => {
                let unmet = self.graph.dependencies(task).len() + self.tasks[task].outside;
                self.move_to(task, State::Blocked { unmet }, now);
            }
        }
    }
}
