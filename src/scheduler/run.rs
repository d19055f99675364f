//! The run: what it hears, one event at a time, and what follows.
//!
//! Every step has three beats: the event changes the states it concerns (`settle` carries an end
//! to the tasks that wait for it), then ready tasks are given out, and at last, when nothing can
//! proceed by itself any more, the run decides how it ends (`ending`).

use std::collections::BTreeSet;

use crate::domain::event::{AttemptEnd, CancelWhy, RunOptions};
use crate::domain::ids::TaskId;
use crate::domain::outcome::{RunOutcome, TaskCause, TaskReason};
use crate::domain::plan::{Plan, TaskSpec};
use crate::domain::time::Timestamp;

use super::dispatch::Dispatch;
use super::event::{Effect, EndWhy, Event};
use super::graph::Graph;
use super::intentions::Intentions;
use super::pool::Pool;
use super::retry;
use super::task::{EscalationCause, Running, Standing, State, Task};

/// One run as a machine. Tasks and agents are indices into its plan.
#[derive(Debug)]
pub struct Schedule {
    pub(super) graph: Graph,
    pub(super) dispatch: Dispatch,
    pub(super) ids: Vec<TaskId>,
    pub(super) tasks: Vec<Task>,
    pub(super) options: RunOptions,
    pub(super) phase: Phase,
    /// Tasks that wait for their next try, by when.
    pub(super) retrying: BTreeSet<(Timestamp, usize)>,
    /// How many attempts are `Standing::Active`.
    pub(super) active: usize,
    /// The attempts that are `Standing::Awaiting`.
    pub(super) awaiting: BTreeSet<usize>,
    /// The attempts that are `Standing::Serving`.
    pub(super) serving: BTreeSet<usize>,
    /// Whether a task has failed for good.
    pub(super) struck: bool,
    /// Why somebody has ended it, if somebody has.
    pub(super) cancel_why: Option<CancelWhy>,
    /// What happened once is being told again: nothing is decided.
    pub(super) recalling: bool,
    /// Tasks that may not start before a client has come.
    pub(super) withheld: BTreeSet<usize>,
    /// Tasks may be added: the run does not end before it is sealed.
    pub(super) is_open: bool,
    /// What tasks have told that they mean to do.
    pub(super) intentions: Intentions,
    /// The effects of the present step.
    pub(super) effects: Vec<Effect>,
}

/// Where the whole run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// `Begin` has not been heard.
    Waiting,
    /// Tasks are given out.
    Going,
    /// A failure has ended it; what ran is being ended.
    FailingFast,
    /// Somebody has ended it; what ran is being ended.
    Cancelling,
    /// Nothing follows.
    Ended(RunOutcome),
}

impl Schedule {
    /// A run of `plan` that waits for `Event::Begin`. With `selected` only those tasks take part:
    /// they start as if what they wait for outside the selection had been satisfied.
    pub fn new(plan: &Plan, selected: Option<&[usize]>, options: &RunOptions) -> Self {
        let graph = Graph::new(plan, selected);
        let tasks = (0..plan.tasks.len())
            .map(|task| fresh(&plan.tasks[task], graph.dependencies(task).len()));
        Self {
            tasks: tasks.collect(),
            dispatch: Dispatch::new(Pool::new(plan), options.jobs),
            ids: plan.tasks.iter().map(|task| task.id.clone()).collect(),
            graph,
            options: options.clone(),
            phase: Phase::Waiting,
            retrying: BTreeSet::new(),
            active: 0,
            awaiting: BTreeSet::new(),
            serving: BTreeSet::new(),
            struck: false,
            cancel_why: None,
            recalling: false,
            withheld: BTreeSet::new(),
            is_open: false,
            intentions: Intentions::new(plan),
            effects: Vec::new(),
        }
    }

    /// A run that waits for `Event::Begin`, and is told then what was decided already
    /// (`Event::Recalled`) until `Event::GoOn`.
    pub fn recalled(plan: &Plan, selected: Option<&[usize]>, options: &RunOptions) -> Self {
        Self { recalling: true, ..Self::new(plan, selected, options) }
    }

    /// The same, open for more tasks (`Event::Add`) until `Event::Seal`.
    #[must_use]
    pub fn open_ended(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// Hears one event and says what is to be done, in order. Events of attempts that are over,
    /// of tasks that take no part, and after the end, change nothing.
    pub fn step(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        if self.has_ended() && !event.is_for_the_ended() {
            return Vec::new();
        }
        match event {
            Event::Begin => self.begin(now),
            Event::ServiceReady { task, attempt } => self.service_ready(task, attempt, now),
            Event::InputAwaited { task, attempt } => self.input_awaited(task, attempt, now),
            Event::InputAnswered { task, attempt } => self.input_answered(task, attempt),
            Event::AttemptEnded { task, attempt, end } => {
                self.attempt_ended(task, attempt, end, now)
            }
            Event::CancelTask { task } => self.cancel_task(task, now),
            Event::CancelRun { why } => {
                self.cancel_why.get_or_insert(why);
                self.stop(Phase::Cancelling, now);
            }
            Event::Tick => {}
            Event::Recalled { task, attempt, agent } => {
                self.recall_attempt(task, attempt, agent, now);
            }
            Event::RecalledEnd { outcome } => self.phase = Phase::Ended(outcome),
            Event::RecalledSettled { task, state, reason } => {
                self.recall_settled(task, state, reason, now);
            }
            Event::GoOn => self.recalling = false,
            Event::Withhold { tasks } => self.withhold(tasks),
            Event::Release => self.release(),
            Event::Reopen { options } => self.reopen(options, now),
            Event::RetryTask { task } => self.retry_task(task, now),
            Event::Answered { task, answer } => self.answered(task, &answer, now),
            Event::Add { task, outside } => self.add(&task, outside, now),
            Event::OutsideMet { task } => self.outside_met(task, now),
            Event::OutsideFailed { task, on, state } => self.outside_failed(task, on, state, now),
            Event::Resource { resource, free } => self.resource(&resource, free, now),
            Event::Seal => self.is_open = false,
        }
        if self.struck && self.options.fail_fast && self.phase == Phase::Going {
            self.stop(Phase::FailingFast, now);
        }
        if self.phase != Phase::Waiting && !self.recalling && !self.has_ended() {
            self.wake(now);
            self.start_what_can(now);
            self.conclude();
        }
        std::mem::take(&mut self.effects)
    }

    /// When `Event::Tick` is to be sent at the latest, unless another event comes first.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.recalling || self.has_ended() {
            return None;
        }
        self.retrying.first().map(|(until, _)| *until)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    fn begin(&mut self, now: Timestamp) {
        if self.phase != Phase::Waiting {
            return;
        }
        self.phase = Phase::Going;
        for at in 0..self.graph.members.len() {
            let task = self.graph.members[at];
            match self.tasks[task].state {
                State::Blocked { unmet: 0 } => self.unblock(task, now),
                State::Blocked { .. } => self.tasks[task].since = now,
                _ => {}
            }
        }
    }

    /// Tasks whose wait is over are ready again.
    fn wake(&mut self, now: Timestamp) {
        while let Some(&(until, task)) = self.retrying.first()
            && until <= now
        {
            self.retrying.pop_first();
            if !self.waits_on(task, now) {
                self.try_again(task, now);
            }
        }
    }

    fn start_what_can(&mut self, now: Timestamp) {
        if self.phase != Phase::Going {
            return;
        }
        self.admit();
        while let Some(pick) = self.dispatch.take_next() {
            let (task, agent) = (pick.rank.task, pick.agent);
            let record = &mut self.tasks[task];
            record.attempts = record.attempts.saturating_add(1);
            record.agent = Some(agent);
            record.started_at.get_or_insert(now);
            let attempt = record.attempts;
            let running = Running { attempt, agent, ready: None, awaiting: None, ending: None };
            self.effects.push(Effect::Start { task, attempt, agent });
            self.enter(task, running);
            self.move_to(task, State::Running(running), now);
        }
    }

    fn service_ready(&mut self, task: usize, attempt: u32, now: Timestamp) {
        let Some(mut running) = self.running(task, attempt) else { return };
        if !self.tasks[task].service || running.ready.is_some() || running.ending.is_some() {
            return;
        }
        self.dispatch.release(running.agent);
        running.ready = Some(now);
        self.change(task, running);
        self.vouch(task, now);
    }

    fn input_awaited(&mut self, task: usize, attempt: u32, now: Timestamp) {
        let Some(mut running) = self.running(task, attempt) else { return };
        if running.awaiting.is_none() {
            running.awaiting = Some(now);
            self.change(task, running);
        }
    }

    /// An answer that crossed our giving up: the attempt goes on, and may ask again.
    fn input_answered(&mut self, task: usize, attempt: u32) {
        let Some(mut running) = self.running(task, attempt) else { return };
        running.awaiting = None;
        if running.ending == Some(EndWhy::Unanswered) {
            running.ending = None;
        }
        self.change(task, running);
    }

    fn attempt_ended(&mut self, task: usize, attempt: u32, end: AttemptEnd, now: Timestamp) {
        let Some(running) = self.running(task, attempt) else { return };
        self.leave(task, running);
        self.tasks[task].ended_at = Some(now);
        if running.holds_slot() {
            self.dispatch.release(running.agent);
        }
        let cancelled = match running.ending {
            Some(EndWhy::Cancelled) => Some(self.cancel_cause()),
            Some(EndWhy::FailFast) => Some(TaskCause::FailFast),
            _ => None,
        };
        match (end, cancelled) {
            (AttemptEnd::Succeeded, _) => self.settle(task, State::Succeeded, now),
            (AttemptEnd::Failed { reason, permanent, environment }, _) => {
                if !retry::was_interrupted(&reason) {
                    self.tasks[task].stumbled = true;
                }
                let state = State::Failed { reason, environment };
                self.ended_badly(task, state, permanent, running.ending, now);
            }
            (AttemptEnd::TimedOut { reason }, _) => {
                self.tasks[task].stumbled = true;
                self.ended_badly(task, State::TimedOut { reason }, false, running.ending, now);
            }
            (AttemptEnd::Cancelled, cause) => {
                let reason = TaskReason::Task(cause.unwrap_or(TaskCause::Cancelled));
                self.settle(task, State::Cancelled { reason }, now);
            }
            (
                AttemptEnd::NeedsInput { .. }
                | AttemptEnd::VerifyFailed { .. }
                | AttemptEnd::Conflict { .. }
                | AttemptEnd::PolicyAsks { .. },
                Some(cause),
            ) => {
                let reason = TaskReason::Task(cause);
                self.settle(task, State::Cancelled { reason }, now);
            }
            (AttemptEnd::NeedsInput { reason }, None) => {
                self.escalate(task, EscalationCause::Input, reason, now);
            }
            (AttemptEnd::VerifyFailed { reason }, None) => {
                self.escalate(task, EscalationCause::Verify, reason, now);
            }
            (AttemptEnd::Conflict { conflict }, None) => self.back_off(task, *conflict, now),
            (AttemptEnd::PolicyAsks { reason }, None) => {
                self.escalate(task, EscalationCause::Policy, reason, now);
            }
        }
    }

    /// An attempt failed or timed out by itself: the task is tried again where it may be. Once somebody
    /// wants it to end, no retry is spent: where one was left, that is what was cancelled.
    fn ended_badly(
        &mut self,
        task: usize,
        state: State,
        permanent: bool,
        ending: Option<EndWhy>,
        now: Timestamp,
    ) {
        let record = &mut self.tasks[task];
        let may_retry = !permanent && record.retries_spent < record.retries;
        let cause = match ending {
            _ if !may_retry => return self.settle(task, state, now),
            Some(EndWhy::ServiceDone) => return self.settle(task, state, now),
            Some(EndWhy::Cancelled) => self.cancel_cause(),
            Some(EndWhy::FailFast) => TaskCause::FailFast,
            Some(EndWhy::Unanswered) | None => {
                record.retries_spent += 1;
                let wait_ms = retry::wait_ms(self.options.seed, task, record.retries_spent);
                return self.retry(task, state, now.plus_ms(wait_ms), now);
            }
        };
        self.settle(task, State::Cancelled { reason: TaskReason::Task(cause) }, now);
    }

    fn retry(&mut self, task: usize, state: State, until: Timestamp, now: Timestamp) {
        let (reason, environment) = match state {
            State::Failed { reason, environment } => (reason, environment),
            State::TimedOut { reason } => (reason, false),
            _ => return,
        };
        self.retract(task, now);
        self.retrying.insert((until, task));
        self.move_to(task, State::Retrying { until, reason, environment }, now);
    }

    pub(super) fn escalate(
        &mut self,
        task: usize,
        cause: EscalationCause,
        reason: TaskReason,
        now: Timestamp,
    ) {
        self.retract(task, now);
        self.move_to(task, State::Escalated { cause, reason }, now);
    }

    fn cancel_task(&mut self, task: usize, now: Timestamp) {
        if !self.graph.has(task) {
            return;
        }
        let reason = TaskReason::Task(TaskCause::Cancelled);
        match self.tasks[task].state {
            State::Running(_) => self.ask_to_end(task, EndWhy::Cancelled),
            State::Blocked { .. }
            | State::Ready
            | State::Retrying { .. }
            | State::BackingOff(_)
            | State::Escalated { .. } => {
                self.withdraw(task);
                self.settle(task, State::Cancelled { reason }, now);
            }
            State::Succeeded
            | State::Failed { .. }
            | State::TimedOut { .. }
            | State::Cancelled { .. }
            | State::Skipped { .. } => {}
        }
    }

    /// Asks a running attempt to end. A request from outside takes the place of our own.
    pub(super) fn ask_to_end(&mut self, task: usize, why: EndWhy) {
        let State::Running(mut running) = self.tasks[task].state else { return };
        let goes = match running.ending {
            None => true,
            Some(EndWhy::ServiceDone | EndWhy::Unanswered) => {
                matches!(why, EndWhy::Cancelled | EndWhy::FailFast)
            }
            Some(EndWhy::Cancelled | EndWhy::FailFast) => false,
        };
        if goes {
            running.ending = Some(why);
            self.change(task, running);
            self.effects.push(Effect::End { task, attempt: running.attempt, why });
        }
    }

    /// The task's attempt, if it is this one that runs.
    fn running(&self, task: usize, attempt: u32) -> Option<Running> {
        match self.tasks.get(task)?.state {
            State::Running(running) if running.attempt == attempt => Some(running),
            _ => None,
        }
    }

    /// Gives a running attempt new facts.
    fn change(&mut self, task: usize, running: Running) {
        if let State::Running(before) = self.tasks[task].state {
            self.leave(task, before);
            self.enter(task, running);
            self.tasks[task].state = State::Running(running);
        }
    }

    pub(super) fn enter(&mut self, task: usize, running: Running) {
        match running.standing() {
            Standing::Active => self.active += 1,
            Standing::Awaiting => {
                self.awaiting.insert(task);
            }
            Standing::Serving => {
                self.serving.insert(task);
            }
        }
    }

    pub(super) fn leave(&mut self, task: usize, running: Running) {
        match running.standing() {
            Standing::Active => self.active -= 1,
            Standing::Awaiting => {
                self.awaiting.remove(&task);
            }
            Standing::Serving => {
                self.serving.remove(&task);
            }
        }
    }
}

/// A task that nothing has happened to.
pub(super) fn fresh(spec: &TaskSpec, unmet: usize) -> Task {
    Task {
        state: State::Blocked { unmet },
        since: Timestamp::default(),
        attempts: 0,
        retries_spent: 0,
        retries: spec.retries,
        conflicts: 0,
        backoffs: Vec::new(),
        last_conflict: None,
        exempt: BTreeSet::new(),
        stumbled: false,
        agent: None,
        started_at: None,
        ended_at: None,
        service: spec.service.is_some(),
        vouched: false,
        outside: 0,
    }
}
