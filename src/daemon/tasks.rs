//! What clients ask of single tasks of runs that go on: lists, ends, retries, waiting.

use std::collections::BTreeSet;

use super::action::Action;
use super::calls::shutting_down;
use super::desk::Desk;
use super::inbox::ConnectionId;
use super::rejoining::lacks;
use super::runs::Run;
use super::sessions::Asker;
use crate::control::{
    Answer, Failure, FailureKind, TASKS_NAMED_MAX, TaskAnswer, TaskCall, TaskLine, TaskRef,
    WaitMode,
};
use crate::domain::event::Event as Record;
use crate::domain::ids::RunId;
use crate::domain::outcome::TaskState;
use crate::domain::time::Timestamp;
use crate::scheduler::event::Event;

/// Most calls that wait for tasks at a time.
const WAITS_MAX: usize = 4096;
/// How many unknown tasks are named in a refusal.
const UNKNOWN_NAMED_MAX: usize = 50;

/// A task of a run that goes on, by its place.
type Place = (RunId, usize);

/// A call that waits for tasks.
#[derive(Debug)]
struct TaskWait {
    asker: Asker,
    /// In the order in which they were named.
    tasks: Vec<Place>,
    mode: WaitMode,
    due: Timestamp,
    /// Those that it is not over with.
    open: BTreeSet<Place>,
}

/// All calls that wait for tasks.
#[derive(Debug, Default)]
pub(super) struct TaskWaits {
    waits: Vec<TaskWait>,
}

impl TaskWaits {
    /// When the next one has waited for long enough.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.waits.iter().map(|wait| wait.due).min()
    }

    /// A client is gone, and with it all that it waits for.
    pub(super) fn drop_connection(&mut self, connection: ConnectionId) {
        self.waits.retain(|wait| wait.asker.connection != connection);
    }
}

impl Desk {
    pub(super) fn asked_of_tasks(&mut self, asker: Asker, call: TaskCall, now: Timestamp) {
        match call {
            TaskCall::List => {
                let tasks = self.runs.values().flat_map(|run| run.lines(|_| true)).collect();
                self.tell_tasks(asker, TaskAnswer::Tasks { tasks });
            }
            TaskCall::Show { task } => self.show_task(asker, &task, now),
            TaskCall::Cancel { tasks } => self.cancel_tasks(asker, &tasks, now),
            TaskCall::Retry { task } => self.retry_task(asker, &task, now),
            TaskCall::Wait { tasks, mode, wait_ms } => {
                self.wait_for_tasks(asker, &tasks, mode, now.plus_ms(wait_ms));
            }
            TaskCall::Dispatch { dispatch } => self.dispatch(asker, *dispatch, now),
        }
    }

    pub(super) fn tell_tasks(&mut self, asker: Asker, answer: TaskAnswer) {
        let answer = Answer::Task { task: Box::new(answer) };
        self.reply(asker.connection, asker.request, answer);
    }

    /// The places of tasks that are all there; the refusal names every one that is not.
    pub(super) fn places(&self, tasks: &[TaskRef]) -> Result<Vec<Place>, Failure> {
        if tasks.len() > TASKS_NAMED_MAX {
            let message =
                format!("{} tasks in one call: {TASKS_NAMED_MAX} are the most", tasks.len());
            return Err(Failure { kind: FailureKind::Usage, message, hint: None });
        }
        let mut places = Vec::with_capacity(tasks.len());
        let mut unknown = Vec::new();
        for task in tasks {
            match self.place(task) {
                Some(place) => places.push(place),
                None => unknown.push(format!("`{task}`")),
            }
        }
        if unknown.is_empty() {
            return Ok(places);
        }
        let more = unknown.len().saturating_sub(UNKNOWN_NAMED_MAX);
        unknown.truncate(UNKNOWN_NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(Failure {
            kind: FailureKind::NotFound,
            message: format!("no run that goes on has {}{more}", unknown.join(", ")),
            hint: Some("`callboard task ls --all` lists the tasks".to_owned()),
        })
    }

    /// Where a task is; `None` when no run that goes on has it.
    pub(super) fn place(&self, task: &TaskRef) -> Option<Place> {
        let run = self.runs.get(&task.run)?;
        let mut members = run.schedule.members().iter().copied();
        let index = members.find(|index| run.plan.tasks[*index].id == task.task)?;
        Some((task.run.clone(), index))
    }

    fn lines_of(&self, places: &[Place]) -> Vec<TaskLine> {
        let line = |(run, task): &Place| self.runs.get(run)?.line(*task);
        places.iter().filter_map(line).collect()
    }

    fn show_task(&mut self, asker: Asker, task: &TaskRef, now: Timestamp) {
        let Asker { connection, request } = asker;
        match self.places(std::slice::from_ref(task)) {
            Err(failure) => self.refuse(connection, request, failure),
            Ok(places) => {
                let draft = places.first().and_then(|(run, task)| {
                    Some(self.draft_of(self.runs.get(run)?, &[*task], now))
                });
                if let Some(draft) = draft {
                    let draft = Box::new(draft);
                    self.act(Action::SendReport { connection, request, draft });
                }
            }
        }
    }

    fn cancel_tasks(&mut self, asker: Asker, tasks: &[TaskRef], now: Timestamp) {
        let places = match self.places(tasks) {
            Ok(places) => places,
            Err(failure) => return self.refuse(asker.connection, asker.request, failure),
        };
        for (run, task) in &places {
            let view = self.runs.get(run).and_then(|run| run.schedule.task(*task));
            if view.is_some_and(|view| !view.state.is_terminal()) {
                self.record_durably(Record::TaskCancelled { run: run.clone(), task: *task }, now);
                self.run_step(run, Event::CancelTask { task: *task }, now);
            }
        }
        let tasks = self.lines_of(&places);
        self.tell_tasks(asker, TaskAnswer::Tasks { tasks });
    }

    fn retry_task(&mut self, asker: Asker, task: &TaskRef, now: Timestamp) {
        let refused = match self.may_retry(task) {
            Ok(index) => {
                // A run that has ended is taken up again; nothing else of it goes.
                if self.reopen(&task.run)
                    && let Some(run) = self.runs.get_mut(&task.run)
                {
                    run.detached = true;
                    run.deserted_until = None;
                    self.used_for_run();
                }
                self.record_durably(
                    Record::TaskRetried { run: task.run.clone(), task: index },
                    now,
                );
                self.run_step(&task.run, Event::RetryTask { task: index }, now);
                let tasks = self.lines_of(&[(task.run.clone(), index)]);
                return self.tell_tasks(asker, TaskAnswer::Tasks { tasks });
            }
            Err(failure) => failure,
        };
        self.refuse(asker.connection, asker.request, refused);
    }

    /// The index of a task that can be tried again, in a run that goes on or can be taken up again.
    fn may_retry(&self, task: &TaskRef) -> Result<usize, Failure> {
        if self.is_terminating() {
            return Err(shutting_down());
        }
        let at_rest = self.resumable.get(&task.run);
        let Some(run) = self.runs.get(&task.run).or(at_rest) else {
            if self.past.iter().any(|line| line.run_id == task.run) {
                let why =
                    "its run has succeeded, or ended too long ago, and cannot be taken up again";
                return Err(not_again(task, why));
            }
            return Err(self
                .places(std::slice::from_ref(task))
                .err()
                .unwrap_or_else(|| not_again(task, "its run is not known")));
        };
        let mut members = run.schedule.members().iter().copied();
        let Some(index) = members.find(|index| run.plan.tasks[*index].id == task.task) else {
            return Err(not_again(task, "its run has no such task"));
        };
        let Some(view) = run.schedule.task(index) else {
            return Err(not_again(task, "it takes no part in its run"));
        };
        let doom = run.schedule.doomed_by(index).map(|by| &run.plan.tasks[by].id);
        let why = match (view.state, doom) {
            (state, _) if !is_settled(state) => format!("it is {}", state.as_str()),
            (TaskState::Skipped, Some(by)) => {
                format!("it was skipped because of `{by}`: retry that one")
            }
            _ if !run.schedule.takes_retries() => "its run is being ended".to_owned(),
            _ if at_rest.is_none() && run.is_told() => "its run has just ended".to_owned(),
            _ if at_rest.is_some() && lacks(&run.plan, &run.env).is_some() => {
                "values of its `env_pass` are not known any more".to_owned()
            }
            _ => return Ok(index),
        };
        Err(not_again(task, &why))
    }

    fn wait_for_tasks(&mut self, asker: Asker, tasks: &[TaskRef], mode: WaitMode, due: Timestamp) {
        let refused = match self.places(tasks) {
            Ok(_) if self.task_waits.waits.len() >= WAITS_MAX => Failure {
                kind: FailureKind::Environment,
                message: format!("{WAITS_MAX} calls wait for tasks already"),
                hint: Some("let some of them end first".to_owned()),
            },
            Ok(places) => {
                let open = places.iter().filter(|place| !self.task_is_over(place, mode)).cloned();
                let open = open.collect();
                let wait = TaskWait { asker, tasks: places, mode, due, open };
                return match wait.is_so() {
                    true => self.tell_waited(&wait, true),
                    false => self.task_waits.waits.push(wait),
                };
            }
            Err(failure) => failure,
        };
        self.refuse(asker.connection, asker.request, refused);
    }

    /// A task moved: whoever waits for it may go on.
    pub(super) fn task_moved(&mut self, run: &RunId, task: usize) {
        if self.task_waits.waits.is_empty() {
            return;
        }
        let place = (run.clone(), task);
        self.wake_waits(|open| open.contains(&place));
    }

    /// A run has ended: nothing more comes of its tasks.
    pub(super) fn tasks_are_over(&mut self, run: &RunId) {
        self.wake_waits(|open| open.iter().any(|(of, _)| of == run));
    }

    fn wake_waits(&mut self, concerns: impl Fn(&BTreeSet<Place>) -> bool) {
        let mut waits = std::mem::take(&mut self.task_waits.waits);
        waits.retain_mut(|wait| {
            if concerns(&wait.open) {
                wait.open.retain(|place| !self.task_is_over(place, wait.mode));
                if wait.is_so() {
                    self.tell_waited(wait, true);
                    return false;
                }
            }
            true
        });
        self.task_waits.waits = waits;
    }

    /// Answers those that have waited for long enough.
    pub(super) fn end_overdue_waits(&mut self, now: Timestamp) {
        let waits = std::mem::take(&mut self.task_waits.waits);
        let (late, kept): (Vec<_>, Vec<_>) = waits.into_iter().partition(|wait| wait.due <= now);
        self.task_waits.waits = kept;
        for wait in late {
            self.tell_waited(&wait, false);
        }
    }

    fn tell_waited(&mut self, wait: &TaskWait, done: bool) {
        let tasks = self.lines_of(&wait.tasks);
        self.tell_tasks(wait.asker, TaskAnswer::Waited { tasks, done });
    }

    fn task_is_over(&self, (run, task): &Place, mode: WaitMode) -> bool {
        let Some(run) = self.runs.get(run) else { return true };
        let Some(view) = run.schedule.task(*task) else { return true };
        let begun = matches!(mode, WaitMode::Attempt(seen) if view.attempts > seen);
        begun || run.is_told() || is_settled(view.state)
    }
}

impl TaskWait {
    /// Whether what it waits for is so.
    fn is_so(&self) -> bool {
        match self.mode {
            WaitMode::All => self.open.is_empty(),
            WaitMode::Any | WaitMode::Attempt(_) => {
                self.tasks.is_empty() || self.tasks.iter().any(|task| !self.open.contains(task))
            }
        }
    }
}

impl Run {
    /// The lines of its tasks that are in such a state.
    pub(super) fn lines(&self, wanted: impl Fn(TaskState) -> bool) -> Vec<TaskLine> {
        let lines = self.schedule.members().iter().filter_map(|task| self.line(*task));
        lines.filter(|line| wanted(line.state)).collect()
    }

    /// A task's line.
    pub(super) fn line(&self, task: usize) -> Option<TaskLine> {
        let view = self.schedule.task(task)?;
        Some(TaskLine {
            task_id: self.label(task),
            state: view.state,
            agent: view.agent.map(|agent| self.plan.agents[agent].name.clone()),
            attempt: view.attempts,
            since: view.since,
            session_id: self.tasks[task].session.clone(),
            reason: view.reason.cloned(),
            class: self.class_of(task, view.class),
        })
    }
}

/// Settled, or waiting for a decision, which nothing but an answer changes.
pub(super) fn is_settled(state: TaskState) -> bool {
    state.is_terminal() || state == TaskState::Escalated
}

fn not_again(task: &TaskRef, why: &str) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!("`{task}` cannot be retried: {why}"),
        hint: Some("a task that is settled or waits for a decision can be".to_owned()),
    }
}
