//! Runs that change while they go on: tasks that are added, tasks that are tried again.
//!
//! A run that is open for more does not end by itself before it is sealed. What a task waits for in
//! other runs is a number here: whoever knows those runs tells when one of them is met.

use std::collections::VecDeque;

use crate::domain::event::RunOptions;
use crate::domain::ids::TaskId;
use crate::domain::outcome::{TaskCause, TaskReason, TaskState};
use crate::domain::plan::{Plan, TaskSpec, When};
use crate::domain::time::Timestamp;

use super::run::{Phase, Schedule};
use super::task::{State, Task};

/// What a task's conditions have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    /// So many do not hold yet.
    Waits { unmet: usize },
    /// The condition on this task cannot hold any more.
    Doomed { by: usize, when: When },
}

impl Schedule {
    /// A run that is open for more tasks up to `Event::Seal`. It waits for `Event::Begin`.
    pub fn open_ended(plan: &Plan, options: &RunOptions) -> Self {
        Self { is_open: true, ..Self::new(plan, None, options) }
    }

    /// Whether tasks can be added.
    pub fn is_open(&self) -> bool {
        self.is_open && matches!(self.phase, Phase::Waiting | Phase::Going)
    }

    /// Whether a task that is settled, or waits for a decision, can be tried again: not when the run
    /// is being ended.
    pub fn takes_retries(&self) -> bool {
        self.phase == Phase::Going
    }

    /// The task for which another one can no longer run, as things stand.
    pub fn doomed_by(&self, task: usize) -> Option<usize> {
        match self.outlook(task) {
            Outlook::Doomed { by, .. } => Some(by),
            Outlook::Waits { .. } => None,
        }
    }

    /// Takes one more task in.
    pub(super) fn add(&mut self, spec: &TaskSpec, outside: usize, now: Timestamp) {
        if !self.is_open() {
            return;
        }
        let task = self.tasks.len();
        self.graph.add(spec.priority, &spec.after);
        self.dispatch.add_task(&spec.needs);
        self.ids.push(spec.id.clone());
        self.tasks.push(Task { since: now, outside, ..Task::new(spec, 0) });
        match self.outlook(task) {
            Outlook::Doomed { by, when } => {
                let state = self.tasks[by].state.name();
                self.skip(task, by, state, when, now);
            }
            Outlook::Waits { unmet: 0 } if self.phase == Phase::Going => self.unblock(task, now),
            Outlook::Waits { unmet } => self.tasks[task].state = State::Blocked { unmet },
        }
    }

    /// Nothing is added any more.
    pub(super) fn seal(&mut self) {
        self.is_open = false;
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

    /// A task that is settled, or waits for a decision, gets another attempt. What has not started
    /// and looks to it waits for it again.
    pub(super) fn retry_task(&mut self, task: usize, now: Timestamp) {
        if !self.graph.has(task) || !self.takes_retries() {
            return;
        }
        let name = self.tasks[task].state.name();
        if !(name.is_terminal() || name == TaskState::Escalated) {
            return;
        }
        // One that has run before has had its conditions then.
        let unmet = match self.outlook(task) {
            _ if self.tasks[task].attempts > 0 => 0,
            Outlook::Waits { unmet } => unmet,
            Outlook::Doomed { .. } => return,
        };
        // Not terminal any more, before others look at it.
        self.tasks[task].state = State::Blocked { unmet };
        self.tasks[task].vouched = false;
        self.look_again_behind(task, now);
        if unmet == 0 {
            self.unblock(task, now);
        } else {
            self.move_to(task, State::Blocked { unmet }, now);
        }
    }

    /// Whatever has not started behind a task makes its conditions out anew.
    fn look_again_behind(&mut self, task: usize, now: Timestamp) {
        let mut changed = VecDeque::from([task]);
        while let Some(cause) = changed.pop_front() {
            for place in self.graph.dependents(cause) {
                let behind = self.graph.dependent(place).task;
                let record = &self.tasks[behind];
                let started = record.attempts > 0;
                let was_skipped = matches!(record.state, State::Skipped { .. });
                let waits = matches!(record.state, State::Blocked { .. } | State::Ready);
                if started || !(was_skipped || waits) {
                    continue;
                }
                let Outlook::Waits { unmet } = self.outlook(behind) else { continue };
                if unmet == 0 {
                    continue;
                }
                self.withdraw(behind);
                self.move_to(behind, State::Blocked { unmet }, now);
                if was_skipped {
                    changed.push_back(behind);
                }
            }
        }
    }

    fn outlook(&self, task: usize) -> Outlook {
        let mut unmet = self.tasks[task].outside;
        for edge in self.graph.dependencies(task) {
            if self.holds(edge.task, edge.when) {
                continue;
            }
            if self.tasks[edge.task].state.name().is_terminal() {
                return Outlook::Doomed { by: edge.task, when: edge.when };
            }
            unmet += 1;
        }
        Outlook::Waits { unmet }
    }
}
