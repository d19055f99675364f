//! Attempts in few words: tasks, events, effects, ends.

use super::plans::spec;
use crate::domain::event::AttemptEnd;
use crate::domain::outcome::{CommandState, Reason, TaskCause, TaskReason};
use crate::domain::plan::{Ready, Service, TaskSpec};
use crate::domain::time::Timestamp;
use crate::scheduler::attempt::{Attempt, CommandEnded, Effect, Event, Role};

pub(super) const T0: Timestamp = Timestamp(1_000);

pub(super) fn steps(run: &[&str]) -> TaskSpec {
    TaskSpec { run: run.iter().map(|text| (*text).to_owned()).collect(), ..spec("a") }
}

pub(super) fn service(run: &[&str]) -> TaskSpec {
    TaskSpec { service: Some(Service { ready: Ready::Port(1) }), ..steps(run) }
}

pub(super) fn verified(run: &[&str]) -> TaskSpec {
    TaskSpec { verify: Some("test -e it".to_owned()), ..steps(run) }
}

pub(super) fn ended(index: usize, state: CommandState, reason: Option<Reason>) -> CommandEnded {
    let exit_code = match &reason {
        None => Some(0),
        Some(Reason::Exit { code }) => Some(*code),
        Some(_) => None,
    };
    CommandEnded {
        index,
        state,
        reason,
        exit_code,
        session_ended: false,
        stderr_tail: String::new(),
    }
}

pub(super) fn completed(index: usize) -> Event {
    Event::Ended(ended(index, CommandState::Completed, None))
}

pub(super) fn fails(index: usize, reason: Reason) -> Event {
    Event::Ended(ended(index, CommandState::Failed, Some(reason)))
}

pub(super) fn question() -> Event {
    Event::Awaiting { prompt: "Go on?".to_owned(), secret: false }
}

pub(super) fn closed() -> Event {
    Event::Closed { survivors: vec![] }
}

pub(super) fn run(index: usize, role: Role) -> Effect {
    Effect::RunCommand { index, role }
}

pub(super) fn failed(reason: TaskReason) -> AttemptEnd {
    AttemptEnd::Failed { reason, permanent: false, environment: false }
}

pub(super) fn command(reason: Reason) -> AttemptEnd {
    failed(TaskReason::Command(reason))
}

pub(super) fn needs_input() -> AttemptEnd {
    let cause = TaskCause::Input { prompt: "Go on?".to_owned(), secret: false };
    AttemptEnd::NeedsInput { reason: TaskReason::Task(cause) }
}

/// Plays the events at one moment and gives back all effects.
pub(super) fn play(task: &TaskSpec, events: Vec<Event>) -> Vec<Effect> {
    let mut attempt = Attempt::new(task);
    events.into_iter().flat_map(|event| attempt.step(event, T0)).collect()
}

/// Plays the events and expects these effects before the session closes with this end.
pub(super) fn check(task: &TaskSpec, events: Vec<Event>, expected: Vec<Effect>, end: AttemptEnd) {
    let mut all = vec![Event::Begin, Event::Opened];
    all.extend(events);
    all.push(closed());
    let mut effects = vec![Effect::OpenSession];
    effects.extend(expected);
    effects.push(Effect::CloseSession);
    effects.push(Effect::Done { end, survivors: vec![] });
    assert_eq!(play(task, all), effects);
}
