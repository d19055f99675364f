//! What one task's state means to those that wait for it.
//!
//! Each blocked task counts the conditions that do not hold yet. An end walks over the edges to
//! its dependents once, taking off a condition here and skipping a task there, and a skipped task
//! is an end again; so the whole run costs as many steps as there are edges. The walk is a loop
//! with a list of its own: chains are as long as manifests are.

use std::collections::VecDeque;

use crate::domain::outcome::{Reason, TaskCause, TaskReason, TaskState};
use crate::domain::plan::When;
use crate::domain::time::Timestamp;

use super::event::Effect;
use super::run::{Phase, Schedule};
use super::task::State;

impl Schedule {
    /// Moves a task to a terminal state and tells those that wait for it.
    pub(super) fn settle(&mut self, task: usize, state: State, now: Timestamp) {
        self.move_to(task, state, now);
        self.spread(task, now);
    }

    /// A task that waits for nothing more is ready, or fails when nobody could ever take it.
    pub(super) fn unblock(&mut self, task: usize, now: Timestamp) {
        if !self.make_ready(task, now) {
            self.spread(task, now);
        }
    }

    /// Moves a task to `Ready`. False when no agent carries its tags and it has failed instead: a
    /// checked plan has no such task, but a run must not wait for ever on one.
    pub(super) fn make_ready(&mut self, task: usize, now: Timestamp) -> bool {
        let group = self.dispatch.pool().group(task);
        if !self.dispatch.pool().is_served(group) {
            let message = "no agent carries all the tags it needs".to_owned();
            let reason = TaskReason::Command(Reason::StartFailed { message });
            self.move_to(task, State::Failed { reason, environment: true }, now);
            return false;
        }
        self.move_to(task, State::Ready, now);
        if !self.withheld.contains(&task) {
            self.queue(task);
        }
        true
    }

    /// Takes a task out of the lists that its present state has it in.
    pub(super) fn withdraw(&mut self, task: usize) {
        match self.tasks[task].state {
            State::Ready => self.unqueue(task),
            State::Retrying { until, .. } => {
                self.retrying.remove(&(until, task));
            }
            State::BackingOff(ref waits) => {
                self.retrying.remove(&(waits.due, task));
            }
            _ => {}
        }
    }

    /// Changes a task's state and says so.
    pub(super) fn move_to(&mut self, task: usize, state: State, now: Timestamp) {
        let name = state.name();
        self.struck |= matches!(name, TaskState::Failed | TaskState::TimedOut);
        let reason = state.reason().cloned();
        if !matches!(name, TaskState::Ready | TaskState::Running) {
            self.intentions.gone(task);
        }
        let record = &mut self.tasks[task];
        record.state = state;
        record.since = now;
        self.effects.push(Effect::Moved { task, state: name, reason });
    }

    /// A service is ready: it counts as a success for those that wait for one.
    pub(super) fn vouch(&mut self, task: usize, now: Timestamp) {
        self.tasks[task].vouched = true;
        for place in self.graph.dependents(task) {
            let edge = self.graph.dependent(task, place);
            if edge.when == When::Success && self.meet(edge.task, now) == Met::Settled {
                self.spread(edge.task, now);
            }
        }
    }

    /// A service that was ready runs no longer, and may yet run again: who has not started waits
    /// for it once more.
    pub(super) fn retract(&mut self, task: usize, now: Timestamp) {
        if !std::mem::take(&mut self.tasks[task].vouched) {
            return;
        }
        for place in self.graph.dependents(task) {
            let edge = self.graph.dependent(task, place);
            if edge.when != When::Success || self.tasks[edge.task].attempts > 0 {
                continue;
            }
            match &mut self.tasks[edge.task].state {
                State::Blocked { unmet } => *unmet += 1,
                State::Ready => {
                    self.withdraw(edge.task);
                    self.move_to(edge.task, State::Blocked { unmet: 1 }, now);
                }
                _ => {}
            }
        }
    }

    /// Whether a condition on a task holds.
    pub(super) fn holds(&self, task: usize, when: When) -> bool {
        let record = &self.tasks[task];
        let state = record.state.name();
        match when {
            When::Success => record.vouched || state == TaskState::Succeeded,
            When::Failure => is_failure(state),
            When::Done => state.is_terminal(),
        }
    }

    /// Carries the end of `task` to all that wait for it, directly or behind others.
    pub(super) fn spread(&mut self, task: usize, now: Timestamp) {
        let mut ended = VecDeque::from([task]);
        while let Some(cause) = ended.pop_front() {
            // A service's word is good for as long as it runs, or ended well.
            let vouched = std::mem::take(&mut self.tasks[cause].vouched);
            let state = self.tasks[cause].state.name();
            for place in self.graph.dependents(cause) {
                let edge = self.graph.dependent(cause, place);
                let holds = self.holds(cause, edge.when);
                let told = vouched && edge.when == When::Success;
                let settled = match (holds, told) {
                    (true, true) => false,
                    (true, false) => self.meet(edge.task, now) == Met::Settled,
                    (false, _) => self.skip(edge.task, cause, state, edge.when, now),
                };
                if settled {
                    ended.push_back(edge.task);
                }
            }
        }
    }

    /// One condition of a blocked task holds now, and what follows from it.
    pub(super) fn meet_one(&mut self, task: usize, now: Timestamp) {
        if self.meet(task, now) == Met::Settled {
            self.spread(task, now);
        }
    }

    /// One condition of a blocked task holds now.
    fn meet(&mut self, task: usize, now: Timestamp) -> Met {
        let State::Blocked { unmet } = &mut self.tasks[task].state else { return Met::Waits };
        *unmet = unmet.saturating_sub(1);
        if *unmet > 0 || self.phase == Phase::Waiting || self.make_ready(task, now) {
            Met::Waits
        } else {
            Met::Settled
        }
    }

    /// One condition of a task can no longer hold. Whoever has started goes on; true when the task
    /// is skipped by this.
    fn skip(
        &mut self,
        task: usize,
        cause: usize,
        state: TaskState,
        when: When,
        now: Timestamp,
    ) -> bool {
        let record = &self.tasks[task];
        let waits = match record.state {
            // Also one that has run before and waits for its conditions anew.
            State::Blocked { .. } => true,
            State::Ready => record.attempts == 0,
            _ => false,
        };
        if !waits {
            return false;
        }
        self.withdraw(task);
        // Behind a row of skipped tasks the one that began it is named.
        let reason = match &self.tasks[cause].state {
            State::Skipped { reason } if when == When::Success && !is_decided(reason) => {
                reason.clone()
            }
            _ => TaskReason::Task(TaskCause::Dependency { task: self.ids[cause].clone(), state }),
        };
        self.move_to(task, State::Skipped { reason }, now);
        true
    }
}

/// What a condition that holds has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// The task waits still, or is ready.
    Waits,
    /// Nobody can take it: it has failed.
    Settled,
}

/// A decision about one task is none about those behind it: they follow from it.
fn is_decided(reason: &TaskReason) -> bool {
    matches!(reason, TaskReason::Task(TaskCause::Decided))
}

fn is_failure(state: TaskState) -> bool {
    matches!(state, TaskState::Failed | TaskState::TimedOut | TaskState::Cancelled)
}
