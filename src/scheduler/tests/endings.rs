//! How runs end: fail-fast, cancellation, and the exit code.

use super::plans::{plan, task};
use super::stage::{
    Stage, broken_environment, fail_fast, failed, jobs, needs_input, not_verified, timed_out,
};
use crate::domain::event::AttemptEnd;
use crate::domain::outcome::{RunOutcome, TaskState};
use crate::domain::plan::When;
use crate::scheduler::event::Event;
use crate::scheduler::exit_code;

#[test]
fn fail_fast_cancels_what_runs_and_skips_the_rest() {
    let tasks = vec![
        task("a"),
        task("runs"),
        task("retries").retries(1),
        task("ready"),
        task("blocked").after("ready"),
        task("rescue").when("a", When::Failure),
    ];
    let mut run = Stage::new(plan(tasks), &fail_fast(3));
    let _started = run.begin();
    assert_eq!(run.fails("retries"), ["retries retrying", "start ready#1 on local"]);
    assert_eq!(
        run.fails("a"),
        [
            "a failed",
            "end runs#1 FailFast",
            "retries skipped: fail fast",
            "end ready#1 FailFast",
            "blocked skipped: fail fast",
            "rescue skipped: fail fast",
        ]
    );
    assert_eq!(run.schedule.next_deadline(), None);
    assert_eq!(run.ends("runs", AttemptEnd::Cancelled), ["runs cancelled: fail fast"]);
    assert_eq!(
        run.ends("ready", AttemptEnd::Cancelled),
        ["ready cancelled: fail fast", "Failed 1"]
    );
}

#[test]
fn fail_fast_waits_for_the_last_retry_and_keeps_what_succeeded_meanwhile() {
    let mut run = Stage::new(plan(vec![task("a").retries(1), task("b")]), &fail_fast(2));
    let _started = run.begin();
    assert_eq!(run.fails("a"), ["a retrying"]);
    let _started = run.wait();
    assert_eq!(run.ends("a", timed_out()), ["a timed_out", "end b#1 FailFast"]);
    assert_eq!(run.ok("b"), ["b succeeded", "Failed 1"]);
}

#[test]
fn no_retry_is_spent_once_the_run_is_to_end() {
    for (retries, words) in [(1, "b cancelled: fail fast"), (0, "b failed")] {
        let tasks = vec![task("a"), task("b").retries(retries)];
        let mut run = Stage::new(plan(tasks), &fail_fast(2));
        let _started = run.begin();
        let _ending = run.fails("a");
        assert_eq!(run.fails("b"), [words, "Failed 1"]);
    }
}

#[test]
fn cancelling_a_run_cancels_every_task() {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let mut run = Stage::new(plan(ids.map(|id| task(id).retries(3)).into()), &jobs(1));
    let _started = run.begin();
    let words = run.hear(Event::CancelRun { why: Default::default() });
    assert_eq!(words.len(), 16);
    assert_eq!(words[0], "end a#1 Cancelled");
    assert!(run.hear(Event::CancelRun { why: Default::default() }).is_empty());
    assert!(run.cancel("a").is_empty());
    assert_eq!(run.ends("a", AttemptEnd::Cancelled), ["a cancelled", "Cancelled 130"]);
    assert_eq!(run.schedule.counts(), [(TaskState::Cancelled, 16)].into());
    assert_eq!(run.schedule.next_deadline(), None);
}

#[test]
fn every_state_that_is_no_end_is_cancelled_with_the_run() {
    let tasks = vec![
        task("escalated"),
        task("retrying").retries(1),
        task("service").service(),
        task("asking"),
        task("ready"),
        task("blocked").after("ready"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(3));
    let _started = run.begin();
    let _next = run.ends("escalated", not_verified());
    let _next = run.ready("service");
    let _asks = run.asks("asking");
    let _waits = run.fails("retrying");
    let _sweep = run.hear(Event::CancelRun { why: Default::default() });
    let _end = run.ends("service", AttemptEnd::Cancelled);
    let _end = run.ends("ready", failed());
    let last = run.ends("asking", needs_input());
    assert_eq!(last, ["asking cancelled", "Cancelled 130"]);
    let cancelled = ["escalated", "retrying", "service", "asking", "blocked"];
    for id in cancelled {
        assert_eq!(run.state(id), TaskState::Cancelled, "{id}");
    }
    // It had failed by itself and for good before the request reached it.
    assert_eq!(run.state("ready"), TaskState::Failed);
}

#[test]
fn a_run_can_be_cancelled_before_it_begins() {
    let mut run = Stage::new(plan(vec![task("a"), task("b").after("a")]), &jobs(1));
    assert_eq!(
        run.hear(Event::CancelRun { why: Default::default() }),
        ["a cancelled", "b cancelled", "Cancelled 130"]
    );
    assert!(run.begin().is_empty());

    let mut run = Stage::new(plan(vec![task("a"), task("b").when("a", When::Done)]), &jobs(1));
    assert_eq!(run.cancel("a"), ["a cancelled"]);
    assert_eq!(run.begin(), ["start b#1 on local"]);
}

#[test]
fn cancelling_a_run_goes_over_fail_fast() {
    let mut run = Stage::new(plan(vec![task("a"), task("b")]), &fail_fast(2));
    let _started = run.begin();
    assert_eq!(run.fails("a"), ["a failed", "end b#1 FailFast"]);
    assert!(run.hear(Event::CancelRun { why: Default::default() }).is_empty());
    assert_eq!(run.ends("b", AttemptEnd::Cancelled), ["b cancelled: fail fast", "Cancelled 130"]);
}

#[test]
fn one_task_can_be_cancelled_in_every_state() {
    let tasks = || {
        vec![
            task("a").retries(1),
            task("ready"),
            task("blocked").after("ready"),
            task("cleanup").when("blocked", When::Failure),
        ]
    };
    let mut run = Stage::new(plan(tasks()), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.cancel("blocked"), ["blocked cancelled"]);
    assert_eq!(run.state("cleanup"), TaskState::Ready);
    assert_eq!(run.cancel("ready"), ["ready cancelled"]);
    assert_eq!(run.fails("a"), ["a retrying", "start cleanup#1 on local"]);
    assert_eq!(run.cancel("a"), ["a cancelled"]);
    assert_eq!(run.cancel("a"), Vec::<String>::new());
    assert_eq!(run.schedule.next_deadline(), None);
    assert_eq!(run.cancel("cleanup"), ["end cleanup#1 Cancelled"]);
    assert!(run.cancel("cleanup").is_empty());
    assert_eq!(run.ends("cleanup", AttemptEnd::Cancelled), ["cleanup cancelled", "Incomplete 3"]);
}

#[test]
fn a_cancelled_escalation_frees_those_behind_it() {
    let tasks = vec![task("a"), task("slow"), task("b").when("a", When::Done)];
    let mut run = Stage::new(plan(tasks), &jobs(2));
    let _started = run.begin();
    assert_eq!(run.ends("a", not_verified()), ["a escalated"]);
    assert_eq!(run.state("b"), TaskState::Blocked);
    assert_eq!(run.cancel("a"), ["a cancelled", "start b#1 on local"]);
}

#[test]
fn a_request_takes_the_place_of_our_own_wish() {
    let mut run = Stage::new(plan(vec![task("a").service(), task("b")]), &jobs(2));
    let _started = run.begin();
    let _ready = run.ready("a");
    assert_eq!(run.ok("b"), ["b succeeded", "end a#1 ServiceDone"]);
    assert_eq!(run.cancel("a"), ["end a#1 Cancelled"]);
    assert_eq!(run.ends("a", AttemptEnd::Cancelled), ["a cancelled", "Incomplete 3"]);
}

#[test]
fn a_skip_that_was_asked_for_is_no_failure() {
    let tasks = vec![task("a"), task("rescue").when("a", When::Failure), task("b").after("rescue")];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    let _started = run.begin();
    assert_eq!(
        run.ok("a"),
        ["a succeeded", "rescue skipped: a succeeded", "b skipped: a succeeded", "Succeeded 0"]
    );
}

/// Every mix of ends: the first of 130, 4, 1, 3, 0 that applies.
#[test]
fn precedence_of_outcomes() {
    use RunOutcome::{Cancelled, Environment, Escalated, Failed, Incomplete, Succeeded};
    let ids = ["escalated", "failed", "environment", "incomplete", "fine"];
    for mix in 0..32_u32 {
        let has = |bit: usize| mix & (1 << bit) != 0;
        let end = |bit: usize| match ids[bit] {
            "escalated" => not_verified(),
            "failed" => failed(),
            "environment" => broken_environment(),
            "incomplete" => AttemptEnd::Cancelled,
            _ => AttemptEnd::Succeeded,
        };
        let present: Vec<usize> = (0..5).filter(|bit| has(*bit)).collect();
        let drafts = present.iter().map(|bit| task(ids[*bit])).collect();
        let mut run = Stage::new(plan(drafts), &jobs(9));
        let _started = run.begin();
        for &bit in &present {
            let _words = run.ends(ids[bit], end(bit));
        }
        let expected = match present.first() {
            Some(0) => Escalated,
            Some(1) => Failed,
            Some(2) => Environment,
            Some(3) => Incomplete,
            _ => Succeeded,
        };
        assert_eq!(run.schedule.outcome(), Some(expected), "{present:?}");

        // The same with the whole run cancelled before the last of them ends.
        let drafts = present.iter().map(|bit| task(ids[*bit])).collect();
        let mut run = Stage::new(plan(drafts), &jobs(9));
        let Some((last, others)) = present.split_last() else { continue };
        let _started = run.begin();
        for &bit in others {
            let _words = run.ends(ids[bit], end(bit));
        }
        let _ending = run.hear(Event::CancelRun { why: Default::default() });
        let _words = run.ends(ids[*last], end(*last));
        assert_eq!(run.schedule.outcome(), Some(Cancelled), "{present:?}");
    }
    let codes = [Cancelled, Escalated, Failed, Environment, Incomplete, Succeeded].map(exit_code);
    assert_eq!(codes, [130, 4, 1, 3, 3, 0]);
}
