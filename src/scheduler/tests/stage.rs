//! A run on a stage: events by task name, effects as words.

use crate::domain::event::{AttemptEnd, RunOptions};
use crate::domain::outcome::{Reason, TaskCause, TaskReason, TaskState};
use crate::domain::plan::Plan;
use crate::domain::time::Timestamp;
use crate::scheduler::event::{Effect, Event};
use crate::scheduler::{Schedule, TaskView};

/// A run together with its plan and a clock that stands until it is moved.
pub(super) struct Stage {
    pub(super) plan: Plan,
    pub(super) schedule: Schedule,
    pub(super) now: Timestamp,
}

pub(super) fn jobs(jobs: u32) -> RunOptions {
    RunOptions { jobs, ..RunOptions::default() }
}

pub(super) fn fail_fast(jobs: u32) -> RunOptions {
    RunOptions { jobs, fail_fast: true, ..RunOptions::default() }
}

pub(super) fn exit(code: i32) -> TaskReason {
    TaskReason::Command(Reason::Exit { code })
}

pub(super) fn failed() -> AttemptEnd {
    AttemptEnd::Failed { reason: exit(1), permanent: false, environment: false }
}

pub(super) fn broken_environment() -> AttemptEnd {
    AttemptEnd::Failed { reason: exit(69), permanent: false, environment: true }
}

pub(super) fn timed_out() -> AttemptEnd {
    AttemptEnd::TimedOut { reason: TaskReason::Command(Reason::Total { limit_ms: 1 }) }
}

pub(super) fn needs_input() -> AttemptEnd {
    let cause = TaskCause::Input { prompt: "Go on?".to_owned(), secret: false };
    AttemptEnd::NeedsInput { reason: TaskReason::Task(cause) }
}

pub(super) fn not_verified() -> AttemptEnd {
    AttemptEnd::VerifyFailed { reason: TaskReason::Task(TaskCause::Verify { code: Some(1) }) }
}

impl Stage {
    pub(super) fn new(plan: Plan, options: &RunOptions) -> Self {
        let schedule = Schedule::new(&plan, None, options);
        Self { plan, schedule, now: Timestamp(1_000) }
    }

    pub(super) fn only(plan: Plan, selected: &[usize], options: &RunOptions) -> Self {
        let schedule = Schedule::new(&plan, Some(selected), options);
        Self { plan, schedule, now: Timestamp(1_000) }
    }

    pub(super) fn place(&self, id: &str) -> usize {
        self.plan.tasks.iter().position(|task| task.id.as_str() == id).unwrap()
    }

    pub(super) fn view(&self, id: &str) -> TaskView<'_> {
        self.schedule.task(self.place(id)).unwrap()
    }

    pub(super) fn state(&self, id: &str) -> TaskState {
        self.view(id).state
    }

    fn attempt(&self, id: &str) -> (usize, u32) {
        (self.place(id), self.view(id).attempts)
    }

    pub(super) fn hear(&mut self, event: Event) -> Vec<String> {
        let effects = self.schedule.step(event, self.now);
        self.words(&effects)
    }

    pub(super) fn begin(&mut self) -> Vec<String> {
        self.hear(Event::Begin)
    }

    pub(super) fn ends(&mut self, id: &str, end: AttemptEnd) -> Vec<String> {
        let (task, attempt) = self.attempt(id);
        self.hear(Event::AttemptEnded { task, attempt, end })
    }

    pub(super) fn ok(&mut self, id: &str) -> Vec<String> {
        self.ends(id, AttemptEnd::Succeeded)
    }

    pub(super) fn fails(&mut self, id: &str) -> Vec<String> {
        self.ends(id, failed())
    }

    pub(super) fn ready(&mut self, id: &str) -> Vec<String> {
        let (task, attempt) = self.attempt(id);
        self.hear(Event::ServiceReady { task, attempt })
    }

    pub(super) fn asks(&mut self, id: &str) -> Vec<String> {
        let (task, attempt) = self.attempt(id);
        self.hear(Event::InputAwaited { task, attempt })
    }

    pub(super) fn answered(&mut self, id: &str) -> Vec<String> {
        let (task, attempt) = self.attempt(id);
        self.hear(Event::InputAnswered { task, attempt })
    }

    pub(super) fn cancel(&mut self, id: &str) -> Vec<String> {
        let task = self.place(id);
        self.hear(Event::CancelTask { task })
    }

    /// Moves the clock to the next deadline.
    pub(super) fn wait(&mut self) -> Vec<String> {
        self.now = self.schedule.next_deadline().unwrap();
        self.hear(Event::Tick)
    }

    /// The effects in words. A move to `ready` or `running` goes without saying.
    fn words(&self, effects: &[Effect]) -> Vec<String> {
        let id = |task: &usize| self.plan.tasks[*task].id.as_str();
        let silent = [TaskState::Ready, TaskState::Running];
        let worth = |effect: &&Effect| !matches!(effect, Effect::Moved { state, .. } if silent.contains(state));
        let word = |effect: &Effect| match effect {
            Effect::Start { task, attempt, agent } => {
                format!("start {}#{attempt} on {}", id(task), self.plan.agents[*agent].name)
            }
            Effect::End { task, attempt, why } => format!("end {}#{attempt} {why:?}", id(task)),
            Effect::Moved { task, state, reason } => {
                format!("{} {}{}", id(task), state.as_str(), why(reason.as_ref()))
            }
            Effect::RunEnded { outcome, exit_code } => format!("{outcome:?} {exit_code}"),
        };
        effects.iter().filter(worth).map(word).collect()
    }
}

/// The reason, where it does not go without saying.
fn why(reason: Option<&TaskReason>) -> String {
    match reason {
        Some(TaskReason::Task(TaskCause::Dependency { task, state })) => {
            format!(": {task} {}", state.as_str())
        }
        Some(TaskReason::Task(TaskCause::FailFast)) => ": fail fast".to_owned(),
        _ => String::new(),
    }
}
