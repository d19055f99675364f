//! What conflicts make of tasks.

use super::plans::{plan, task};
use super::stage::{Stage, jobs};
use crate::domain::conflict::{Conflict, Party};
use crate::domain::event::{AttemptEnd, CancelWhy};
use crate::domain::ids::AttemptId;
use crate::domain::outcome::{Reason, RunOutcome, TaskReason, TaskState};
use crate::domain::result::How;
use crate::domain::time::Timestamp;
use crate::scheduler::event::Event;
use crate::scheduler::{EscalationCause, WaitsOn};

const FILE: &str = "file/x";

pub(super) fn conflict(resource: &str, at: Timestamp) -> AttemptEnd {
    let attempt = AttemptId { run: "r".into(), task: "other".into(), attempt: 1 };
    AttemptEnd::Conflict {
        conflict: Box::new(Conflict {
            resource: resource.to_owned(),
            mode: "write".to_owned(),
            how: How::Traced,
            at,
            holder: Party::Attempt { attempt },
            since: Timestamp(0),
            prevented: true,
            hashes: None,
        }),
    }
}

fn one(retries: u32) -> Stage {
    let mut run =
        Stage::new(plan(vec![task("a").retries(retries), task("b").after("a")]), &jobs(2));
    assert_eq!(run.begin(), ["start a#1 on local"]);
    run
}

fn free(free: bool) -> Event {
    Event::Resource { resource: FILE.to_owned(), free }
}

fn conflicts(run: &mut Stage) -> Vec<String> {
    let end = conflict(FILE, run.now);
    run.ends("a", end)
}

#[test]
fn it_starts_when_its_time_is_over_and_the_resource_is_free() {
    // Freed before its time is over, and after.
    for early in [true, false] {
        let mut run = one(0);
        assert_eq!(conflicts(&mut run), ["a backing_off"]);
        let until = run.schedule.next_deadline().unwrap();
        assert!(until >= run.now && until <= run.now.plus_ms(500));
        let wait = run.schedule.wait(run.place("a")).unwrap();
        let on = WaitsOn::Resource { resource: FILE.to_owned(), free: false };
        assert_eq!(wait.on, on);
        if early {
            assert!(run.hear(free(true)).is_empty());
            run.now = until;
            assert_eq!(run.hear(Event::Tick), ["start a#2 on local"]);
        } else {
            run.now = until;
            assert!(run.hear(Event::Tick).is_empty(), "it is held");
            run.now = run.now.plus_ms(10_000);
            assert!(
                run.hear(Event::Resource { resource: "file/y".to_owned(), free: true }).is_empty()
            );
            assert_eq!(run.hear(free(true)), ["start a#2 on local"]);
        }
        let waited = u64::try_from(run.now.0 - wait.since.0).unwrap();
        let backoffs = run.schedule.backoffs(run.place("a"));
        assert_eq!((backoffs.len(), backoffs[0].n, backoffs[0].wait_ms), (1, 1, waited));
        assert_eq!((&*backoffs[0].resource, &*backoffs[0].holder), (FILE, "r/other"));
        assert_eq!(run.view("a").retries_spent, 0);
    }
}

#[test]
fn one_that_is_taken_again_is_waited_for_again() {
    let mut run = one(0);
    conflicts(&mut run);
    run.hear(free(true));
    run.hear(free(false));
    run.now = run.schedule.next_deadline().unwrap();
    assert!(run.hear(Event::Tick).is_empty());
    assert_eq!(run.hear(free(true)), ["start a#2 on local"]);
}

#[test]
fn nobody_waits_longer_than_five_minutes() {
    let mut run = one(0);
    conflicts(&mut run);
    let began = run.now;
    run.now = run.schedule.next_deadline().unwrap();
    assert!(run.hear(Event::Tick).is_empty());
    run.now = run.schedule.next_deadline().unwrap();
    assert_eq!(run.now, began.plus_ms(300_000));
    assert_eq!(run.hear(Event::Tick), ["start a#2 on local"]);
    assert_eq!(conflicts(&mut run), ["a backing_off"]);
    assert_eq!(run.view("a").conflicts, 2);
}

#[test]
fn the_sixth_conflict_is_a_question() {
    let mut run = one(3);
    for n in 1..=5 {
        assert_eq!(conflicts(&mut run), ["a backing_off"], "{n}");
        let until = run.schedule.next_deadline().unwrap();
        let ceiling = 500 << (n - 1);
        assert!(until <= run.now.plus_ms(ceiling), "{n}");
        run.hear(free(true));
        run.now = until;
        assert_eq!(run.hear(Event::Tick).len(), 1, "{n}");
    }
    assert_eq!(conflicts(&mut run), ["a escalated", "Escalated 4"]);
    let (place, view) = (run.place("a"), run.view("a"));
    assert_eq!((view.conflicts, view.attempts, view.retries_spent), (6, 6, 0));
    let reason = Reason::Conflict { resource: FILE.to_owned(), holder: "r/other".to_owned() };
    assert_eq!(view.reason, Some(&TaskReason::Command(reason)));
    assert_eq!(run.schedule.backoffs(place).len(), 5);
    assert_eq!(run.schedule.last_conflict(place).unwrap().resource, FILE);
    let wait = run.schedule.wait(place).unwrap();
    assert_eq!(wait.on, WaitsOn::Decision(EscalationCause::Conflict));
    assert_eq!(run.schedule.outcome(), Some(RunOutcome::Escalated));
    assert_eq!(run.state("b"), TaskState::Blocked);
}

#[test]
fn who_backs_off_can_be_cancelled_and_is_no_failure() {
    let mut run = one(0);
    conflicts(&mut run);
    assert_eq!(run.cancel("a")[0], "a cancelled");
    assert_eq!(run.schedule.next_deadline(), None);
    let mut run = one(0);
    conflicts(&mut run);
    run.hear(Event::CancelRun { why: CancelWhy::Requested });
    assert_eq!(run.schedule.outcome(), Some(RunOutcome::Cancelled));
    // Not even under fail-fast.
    let options = super::stage::fail_fast(2);
    let mut run = Stage::new(plan(vec![task("a"), task("c")]), &options);
    run.begin();
    conflicts(&mut run);
    assert_eq!(run.state("c"), TaskState::Running);
}
