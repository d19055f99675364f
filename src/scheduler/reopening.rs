//! A run that goes on after it was lost, or after its end; and one that tasks are added to.

use std::collections::BTreeSet;

use crate::domain::event::RunOptions;
use crate::domain::outcome::{TaskCause, TaskReason, TaskState};
use crate::domain::plan::{TaskSpec, When};
use crate::domain::time::Timestamp;

use super::event::Effect;
use super::run::{Phase, Schedule, fresh};
use super::task::{Running, State, Task};

impl Schedule {
    /// An attempt was started, whatever we would decide now.
    pub(super) fn recall_attempt(
        &mut self,
        task: usize,
        attempt: u32,
        agent: usize,
        now: Timestamp,
    ) {
        let is_known = self.graph.has(task) && agent < self.dispatch.pool().agents();
        if !is_known || attempt <= self.tasks[task].attempts {
            return;
        }
        if let State::Running(before) = self.tasks[task].state {
            // Its end is not on record, and it has one all the same: another was started after it.
            self.leave(task, before);
            if before.holds_slot() {
                self.dispatch.release(before.agent);
            }
        }
        self.withdraw(task);
        self.dispatch.take(self.dispatch.pool().group(task), self.graph.rank(task), agent);
        self.intentions.runs(task);
        let record = &mut self.tasks[task];
        record.attempts = attempt;
        record.agent = Some(agent);
        record.started_at.get_or_insert(now);
        // It would not have started otherwise.
        record.outside = 0;
        let running = Running { attempt, agent, ready: None, awaiting: None, ending: None };
        self.enter(task, running);
        self.move_to(task, State::Running(running), now);
    }

    /// A task was settled then, whatever follows from the rest: what has led to it need not be on
    /// record (a task of another run that had failed, a service that failed while it was ended).
    pub(super) fn recall_settled(
        &mut self,
        task: usize,
        state: TaskState,
        reason: Option<TaskReason>,
        now: Timestamp,
    ) {
        if !self.recalling || !self.graph.has(task) {
            return;
        }
        let reason = reason.unwrap_or(TaskReason::Task(TaskCause::Cancelled));
        let was_retried = match self.tasks[task].state {
            State::Retrying { environment, .. } => Some(environment),
            State::Blocked { .. }
            | State::Ready
            | State::BackingOff(_)
            | State::Escalated { .. } => None,
            // It is where it stays; or it runs, and its end is still to come.
            _ => return,
        };
        let settled = match state {
            TaskState::Failed => {
                State::Failed { reason, environment: was_retried.unwrap_or_default() }
            }
            TaskState::TimedOut => State::TimedOut { reason },
            TaskState::Cancelled => State::Cancelled { reason },
            TaskState::Skipped => State::Skipped { reason },
            // Only an attempt's end leads to the others.
            _ => return,
        };
        if was_retried.is_some() && matches!(state, TaskState::Failed | TaskState::TimedOut) {
            self.tasks[task].retries_spent = self.tasks[task].retries_spent.saturating_sub(1);
        }
        self.withdraw(task);
        self.settle(task, settled, now);
    }

    pub(super) fn withhold(&mut self, tasks: Vec<usize>) {
        for task in tasks {
            if !self.graph.has(task) {
                continue;
            }
            if matches!(self.tasks[task].state, State::Ready) {
                self.withdraw(task);
            }
            self.withheld.insert(task);
        }
    }

    pub(super) fn release(&mut self) {
        for task in std::mem::take(&mut self.withheld) {
            if matches!(self.tasks[task].state, State::Ready) {
                self.queue(task);
            }
        }
    }

    /// True while a task could start if its client were here.
    pub(super) fn waits_for_client(&self) -> bool {
        let ready = |task: &usize| matches!(self.tasks[*task].state, State::Ready);
        self.withheld.iter().any(ready)
    }

    pub(super) fn reopen(&mut self, options: RunOptions, now: Timestamp) {
        if !self.has_ended() {
            return;
        }
        self.dispatch.resize(self.options.jobs, options.jobs);
        self.options = options;
        self.take_up();
        let again: Vec<usize> =
            self.graph.members.iter().copied().filter(|task| self.goes_again(*task)).collect();
        self.start_over(&again, now);
    }

    /// Whether a task of a run that has ended has something to do in one that goes on.
    fn goes_again(&self, task: usize) -> bool {
        let record = &self.tasks[task];
        match record.state {
            // A decision holds for the run, however often it goes on.
            State::Skipped { reason: TaskReason::Task(TaskCause::Decided) } => false,
            State::Cancelled { .. }
            | State::Skipped { .. }
            | State::Blocked { .. }
            | State::Ready
            | State::Retrying { .. }
            | State::BackingOff(_) => true,
            // It ran for others, and ended with the run: they need it again.
            State::Succeeded if record.service => self.graph.dependents(task).any(|place| {
                let dependent = self.graph.dependent(task, place).task;
                !matches!(self.tasks[dependent].state, State::Succeeded)
            }),
            State::Succeeded
            | State::Failed { .. }
            | State::TimedOut { .. }
            | State::Escalated { .. }
            | State::Running(_) => false,
        }
    }

    /// These tasks wait for their conditions as at the run's beginning, where others have ended
    /// already.
    fn start_over(&mut self, tasks: &[usize], now: Timestamp) {
        let tasks = &self.with_blocked_behind(tasks);
        for &task in tasks {
            self.withdraw(task);
            let unmet = self.graph.dependencies(task).len() + self.tasks[task].outside;
            self.tasks[task].vouched = false;
            self.move_to(task, State::Blocked { unmet }, now);
        }
        for &task in tasks {
            let edges = self.graph.dependencies(task);
            let met = edges.iter().filter(|edge| self.holds(edge.task, edge.when)).count();
            let lost = edges
                .iter()
                .find(|edge| self.is_settled(edge.task) && !self.holds(edge.task, edge.when))
                .copied();
            let all = edges.len() + self.tasks[task].outside;
            let State::Blocked { unmet } = &mut self.tasks[task].state else { continue };
            *unmet = all - met;
            if let Some(edge) = lost {
                let state = self.tasks[edge.task].state.name();
                let cause = TaskCause::Dependency { task: self.ids[edge.task].clone(), state };
                let reason = TaskReason::Task(cause);
                self.settle(task, State::Skipped { reason }, now);
            } else if self.tasks[task].state == (State::Blocked { unmet: 0 }) {
                self.unblock(task, now);
            }
        }
    }

    /// With those that wait for one of them: what they have counted of it holds no longer.
    fn with_blocked_behind(&self, tasks: &[usize]) -> Vec<usize> {
        let mut all = tasks.to_vec();
        let mut known: BTreeSet<usize> = tasks.iter().copied().collect();
        let mut at = 0;
        while let Some(&task) = all.get(at) {
            at += 1;
            for place in self.graph.dependents(task) {
                let behind = self.graph.dependent(task, place).task;
                let waits = matches!(self.tasks[behind].state, State::Blocked { .. });
                if waits && known.insert(behind) {
                    all.push(behind);
                }
            }
        }
        all
    }

    fn is_settled(&self, task: usize) -> bool {
        self.tasks[task].state.name().is_terminal()
    }

    pub(super) fn retry_task(&mut self, task: usize, now: Timestamp) {
        if !self.graph.has(task) {
            return;
        }
        let state = self.tasks[task].state.name();
        let may = state.is_terminal() || state == TaskState::Escalated;
        if !may {
            return;
        }
        if self.phase != Phase::Waiting {
            self.take_up();
        }
        self.tasks[task].vouched = false;
        // Nobody watches other runs for it any more, and whoever asks for it knows of them.
        self.tasks[task].outside = 0;
        let services = self.services_gone(&[task]);
        // One that has run before has had its conditions then, but for services that are gone.
        if self.tasks[task].attempts > 0 && services.is_empty() {
            self.make_ready(task, now);
        } else {
            self.start_over(&[services, vec![task]].concat(), now);
        }
        let behind = self.waiting_behind(task);
        let services = self.services_gone(&behind);
        self.start_over(&[services, behind].concat(), now);
    }

    /// The run goes on, with a clean slate. One that had ended takes no more tasks: nobody would
    /// ever seal it.
    fn take_up(&mut self) {
        self.is_open &= !self.has_ended();
        self.phase = Phase::Going;
        self.struck = false;
        self.cancel_why = None;
    }

    /// The services that these tasks need and that have ended with the run, and those that these
    /// need in turn. They run again, as they would for a run that is reopened.
    fn services_gone(&self, tasks: &[usize]) -> Vec<usize> {
        let mut seen: BTreeSet<usize> = tasks.iter().copied().collect();
        let mut found = Vec::new();
        let mut open = tasks.to_vec();
        while let Some(task) = open.pop() {
            for edge in self.graph.dependencies(task) {
                let record = &self.tasks[edge.task];
                let is_gone = record.service && record.state == State::Succeeded;
                if edge.when == When::Success && is_gone && seen.insert(edge.task) {
                    found.push(edge.task);
                    open.push(edge.task);
                }
            }
        }
        found
    }

    /// The tasks that wait for `task`, and those that were skipped because of how it had ended,
    /// with all behind these.
    fn waiting_behind(&self, task: usize) -> Vec<usize> {
        let mut found = vec![task];
        let mut seen = BTreeSet::from([task]);
        let mut at = 0;
        while let Some(&from) = found.get(at) {
            at += 1;
            for place in self.graph.dependents(from) {
                let next = self.graph.dependent(from, place).task;
                let waits = match &self.tasks[next].state {
                    State::Skipped { reason: TaskReason::Task(TaskCause::Dependency { .. }) } => {
                        true
                    }
                    State::Blocked { .. } => from == task,
                    State::Ready => from == task && self.tasks[next].attempts == 0,
                    _ => false,
                };
                if waits && seen.insert(next) {
                    found.push(next);
                }
            }
        }
        found.split_off(1)
    }

    /// Whether a task can be added: the run is open, and there is who can take it.
    ///
    /// # Errors
    /// Why not.
    pub fn may_add(&self, spec: &TaskSpec) -> Result<(), AddError> {
        if !self.is_open || self.phase != Phase::Going {
            return Err(AddError::Closed);
        }
        if !self.dispatch.pool().can_serve(&spec.needs) {
            return Err(AddError::NoAgent);
        }
        match spec.after.iter().find(|dependency| !self.graph.has(dependency.task)) {
            Some(unknown) => Err(AddError::NoSuchTask(unknown.task)),
            None => Ok(()),
        }
    }

    pub(super) fn add(&mut self, spec: &TaskSpec, outside: usize, now: Timestamp) {
        let task = self.graph.add(spec);
        self.dispatch.add(&spec.needs);
        self.intentions.add(spec);
        self.ids.push(spec.id.clone());
        let unmet = self.graph.dependencies(task).len() + outside;
        self.tasks.push(Task { outside, ..fresh(spec, unmet) });
        self.effects.push(Effect::Moved { task, state: TaskState::Blocked, reason: None });
        match self.phase {
            Phase::Waiting | Phase::Going => self.start_over(&[task], now),
            // It came too late, and ends like the rest.
            Phase::FailingFast => {
                let reason = TaskReason::Task(TaskCause::FailFast);
                self.settle(task, State::Skipped { reason }, now);
            }
            Phase::Cancelling | Phase::Ended(_) => {
                let reason = TaskReason::Task(self.cancel_cause());
                self.settle(task, State::Cancelled { reason }, now);
            }
        }
    }
}

/// Why a task cannot be added to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The run takes no more tasks.
    #[error("the run takes no more tasks")]
    Closed,
    /// Nobody could take it.
    #[error("no agent carries all the tags that the task needs")]
    NoAgent,
    /// It is to wait for a task that the run does not have.
    #[error("there is no task {0} in the run to wait for")]
    NoSuchTask(usize),
}
