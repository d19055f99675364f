//! What is tried again, and what is not.

use super::plans::{plan, task};
use super::stage::{Stage, broken_environment, exit, failed, jobs, timed_out};
use crate::domain::event::AttemptEnd;
use crate::domain::outcome::{Reason, TaskCause, TaskReason, TaskState};
use crate::domain::time::Timestamp;
use crate::scheduler::event::Event;

fn one(retries: u32) -> Stage {
    let mut run = Stage::new(plan(vec![task("a").retries(retries)]), &jobs(1));
    assert_eq!(run.begin(), ["start a#1 on local"]);
    run
}

#[test]
fn a_retry_waits_and_then_starts() {
    let mut run = one(1);
    assert_eq!(run.fails("a"), ["a retrying"]);
    let until = run.schedule.next_deadline().unwrap();
    assert!(until >= run.now && until <= run.now.plus_ms(500));
    if until > run.now {
        run.now = Timestamp(until.0 - 1);
        assert!(run.hear(Event::Tick).is_empty());
    }
    assert_eq!(run.wait(), ["start a#2 on local"]);
    assert_eq!(run.fails("a"), ["a failed", "Failed 1"]);
    assert_eq!((run.view("a").attempts, run.view("a").retries_spent), (2, 1));
    assert_eq!(run.schedule.next_deadline(), None);
}

#[test]
fn what_spends_a_retry() {
    let command = |reason| AttemptEnd::Failed {
        reason: TaskReason::Command(reason),
        permanent: false,
        environment: false,
    };
    let lost = AttemptEnd::Failed {
        reason: TaskReason::Task(TaskCause::CoordinatorLost),
        permanent: false,
        environment: false,
    };
    let ends = [failed(), timed_out(), broken_environment(), command(Reason::INTERRUPT), lost];
    for end in ends {
        let mut run = one(5);
        for spent in 1..=5 {
            assert_eq!(run.ends("a", end.clone()), ["a retrying"], "{end:?}");
            assert_eq!(run.view("a").retries_spent, spent);
            let _started = run.wait();
        }
        let last = run.ends("a", end.clone());
        assert_eq!(last.len(), 2, "{end:?}: {last:?}");
        assert_eq!(run.view("a").attempts, 6);
        assert!(run.schedule.outcome().is_some());
    }
}

#[test]
fn what_is_permanent_is_never_tried_again() {
    let mut run = one(5);
    let message = "no such program".to_owned();
    let end = AttemptEnd::Failed {
        reason: TaskReason::Command(Reason::StartFailed { message }),
        permanent: true,
        environment: true,
    };
    assert_eq!(run.ends("a", end), ["a failed", "Environment 3"]);
    assert_eq!(run.view("a").attempts, 1);
    assert_eq!(run.view("a").class, Some("environment"));
}

#[test]
fn success_on_a_retry_is_flaky_unless_the_first_try_was_only_cut_off() {
    let mut run = one(1);
    let _waits = run.fails("a");
    let _started = run.wait();
    assert_eq!(run.ok("a"), ["a succeeded", "Succeeded 0"]);
    assert_eq!(run.view("a").class, Some("flaky"));

    let mut run = one(1);
    let reason = TaskReason::Task(TaskCause::CoordinatorLost);
    let cut_off = AttemptEnd::Failed { reason, permanent: false, environment: false };
    let _waits = run.ends("a", cut_off);
    let _started = run.wait();
    let _ended = run.ok("a");
    assert_eq!(run.view("a").class, None);
}

#[test]
fn stragglers_change_nothing() {
    let mut run = one(1);
    let _waits = run.fails("a");
    let straggler = |attempt| Event::AttemptEnded { task: 0, attempt, end: AttemptEnd::Succeeded };
    assert!(run.hear(straggler(1)).is_empty());
    let _started = run.wait();
    for event in [
        straggler(1),
        straggler(3),
        Event::InputAwaited { task: 0, attempt: 1 },
        Event::ServiceReady { task: 0, attempt: 1 },
        Event::AttemptEnded { task: 7, attempt: 1, end: AttemptEnd::Succeeded },
        Event::CancelTask { task: 7 },
    ] {
        assert!(run.hear(event.clone()).is_empty(), "{event:?}");
    }
    assert_eq!(run.state("a"), TaskState::Running);
    assert_eq!(run.ok("a"), ["a succeeded", "Succeeded 0"]);
    assert!(run.hear(straggler(2)).is_empty());
    assert!(run.hear(Event::CancelRun { why: Default::default() }).is_empty());
    assert!(run.hear(Event::Begin).is_empty());
}

#[test]
fn a_retry_lets_others_use_its_place() {
    let mut run = Stage::new(plan(vec![task("a").retries(1), task("b")]), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.fails("a"), ["a retrying", "start b#1 on local"]);
    assert!(run.wait().is_empty());
    assert_eq!(run.state("a"), TaskState::Ready);
    assert_eq!(run.ok("b"), ["b succeeded", "start a#2 on local"]);
}

#[test]
fn dependents_wait_for_the_last_try() {
    let mut run = Stage::new(plan(vec![task("a").retries(1), task("b").after("a")]), &jobs(2));
    let _started = run.begin();
    assert_eq!(run.fails("a"), ["a retrying"]);
    assert_eq!(run.state("b"), TaskState::Blocked);
    let _started = run.wait();
    assert_eq!(run.ok("a"), ["a succeeded", "start b#1 on local"]);
    assert_eq!(run.view("a").reason, None);
    let killed = TaskReason::Command(Reason::Signal { signal: "SEGV".to_owned(), inferred: false });
    let end = AttemptEnd::Failed { reason: killed.clone(), permanent: false, environment: false };
    assert_eq!(run.ends("b", end), ["b failed", "Failed 1"]);
    assert_eq!(run.view("b").reason, Some(&killed));
    assert_ne!(killed, exit(139));
}
