//! How a run comes to its end, and what it then was.

use crate::domain::event::CancelWhy;
use crate::domain::outcome::{RunOutcome, TaskCause, TaskReason};
use crate::domain::plan::When;
use crate::domain::time::Timestamp;

use super::event::{Effect, EndWhy};
use super::run::{Phase, Schedule};
use super::task::State;

/// The exit code of a run that ended so (design, section 7.1).
pub fn exit_code(outcome: RunOutcome) -> u8 {
    match outcome {
        RunOutcome::Succeeded => 0,
        RunOutcome::Failed => 1,
        RunOutcome::Environment | RunOutcome::Incomplete => 3,
        RunOutcome::Escalated => 4,
        RunOutcome::Cancelled => 130,
    }
}

impl Schedule {
    /// How the run ended; `None` while it goes on.
    pub fn outcome(&self) -> Option<RunOutcome> {
        match self.phase {
            Phase::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Why somebody has ended the run, if it ends or has ended by that.
    pub fn cancelled_why(&self) -> Option<CancelWhy> {
        match self.phase {
            Phase::Ended(RunOutcome::Cancelled) => Some(self.cancel_why.unwrap_or_default()),
            Phase::Cancelling => self.cancel_why,
            _ => None,
        }
    }

    /// The reason of a task that is ended on request: the run's, where all of it is.
    pub(super) fn cancel_cause(&self) -> TaskCause {
        self.cancel_why.unwrap_or_default().cause()
    }

    /// Ends everything: what runs is asked to, what does not run never will.
    pub(super) fn stop(&mut self, phase: Phase, now: Timestamp) {
        if self.phase == phase {
            return;
        }
        self.phase = phase;
        self.dispatch.clear();
        self.intentions.clear();
        self.retrying.clear();
        let cancelling = phase == Phase::Cancelling;
        let why = if cancelling { EndWhy::Cancelled } else { EndWhy::FailFast };
        for at in 0..self.graph.members.len() {
            let task = self.graph.members[at];
            match self.tasks[task].state {
                State::Running(_) => self.ask_to_end(task, why),
                // A question stays open under `--fail-fast`: its answer is still wanted.
                State::Escalated { .. } if !cancelling => {}
                State::Blocked { .. }
                | State::Ready
                | State::Retrying { .. }
                | State::BackingOff(_)
                | State::Escalated { .. } => {
                    let state = if cancelling {
                        State::Cancelled { reason: TaskReason::Task(self.cancel_cause()) }
                    } else {
                        State::Skipped { reason: TaskReason::Task(TaskCause::FailFast) }
                    };
                    self.move_to(task, state, now);
                }
                State::Succeeded
                | State::Failed { .. }
                | State::TimedOut { .. }
                | State::Cancelled { .. }
                | State::Skipped { .. } => {}
            }
        }
    }

    /// When nothing can proceed by itself: gives up questions that nobody will answer, then ends
    /// the services, then the run. Tasks that are ready at that point cannot start either: all
    /// slots or agents they need are held by attempts that wait for input.
    pub(super) fn conclude(&mut self) {
        if self.active > 0 || !self.retrying.is_empty() || self.waits_for_client() {
            return;
        }
        if !self.awaiting.is_empty() {
            if !self.options.attended {
                for task in self.awaiting.clone() {
                    self.ask_to_end(task, EndWhy::Unanswered);
                }
            }
            return;
        }
        if !self.serving.is_empty() {
            for task in self.services_to_end() {
                self.ask_to_end(task, EndWhy::ServiceDone);
            }
            return;
        }
        if self.is_open && self.phase == Phase::Going {
            return;
        }
        let outcome = self.judge();
        self.phase = Phase::Ended(outcome);
        let exit_code = exit_code(outcome);
        self.effects.push(Effect::RunEnded { outcome, exit_code });
    }

    /// The services whose end others wait for, the rest kept for those; all when there are none.
    fn services_to_end(&self) -> Vec<usize> {
        let serving = || self.serving.iter().copied();
        let awaited: Vec<usize> = serving().filter(|task| self.end_is_awaited(*task)).collect();
        if awaited.is_empty() { serving().collect() } else { awaited }
    }

    fn end_is_awaited(&self, task: usize) -> bool {
        self.graph.dependents(task).any(|place| {
            let edge = self.graph.dependent(task, place);
            edge.when != When::Success
                && matches!(self.tasks[edge.task].state, State::Blocked { .. })
        })
    }

    /// What the run was: the first of 130, 4, 1, 3, 0 that applies.
    fn judge(&self) -> RunOutcome {
        if self.phase == Phase::Cancelling {
            return RunOutcome::Cancelled;
        }
        let mut outcome = RunOutcome::Succeeded;
        for &task in &self.graph.members {
            let here = match self.tasks[task].state {
                State::Escalated { .. } => RunOutcome::Escalated,
                State::Failed { environment: true, .. } => RunOutcome::Environment,
                State::Failed { .. } | State::TimedOut { .. } => RunOutcome::Failed,
                State::Cancelled { .. }
                | State::Blocked { .. }
                | State::Ready
                | State::Retrying { .. }
                | State::BackingOff(_)
                | State::Running(_) => RunOutcome::Incomplete,
                // Skipped is no verdict of its own: what it goes back to has one, unless the
                // condition asked for the skip.
                State::Succeeded | State::Skipped { .. } => RunOutcome::Succeeded,
            };
            if weight(here) > weight(outcome) {
                outcome = here;
            }
        }
        outcome
    }
}

/// Which outcome goes before which.
fn weight(outcome: RunOutcome) -> u8 {
    match outcome {
        RunOutcome::Succeeded => 0,
        RunOutcome::Incomplete => 1,
        RunOutcome::Environment => 2,
        RunOutcome::Failed => 3,
        RunOutcome::Escalated => 4,
        RunOutcome::Cancelled => 5,
    }
}
