//! Runs that change while they go on: tasks that are added, tasks that are tried again.

use super::plans::{plan, spec, task};
use super::stage::{Stage, jobs, needs_input};
use crate::domain::event::CancelWhy;
use crate::domain::outcome::TaskState;
use crate::domain::plan::{Dependency, TaskSpec, When};
use crate::scheduler::Schedule;
use crate::scheduler::event::Event;

fn open(count: u32) -> Stage {
    let plan = plan(Vec::new());
    let mut run = Stage::new(plan, &jobs(count));
    run.schedule = Schedule::new(&run.plan, None, &jobs(count)).open_ended();
    assert!(run.begin().is_empty());
    run
}

fn after(id: &str, on: &[usize]) -> TaskSpec {
    let edge = |task: &usize| Dependency { task: *task, when: When::Success };
    TaskSpec { after: on.iter().map(edge).collect(), ..spec(id) }
}

impl Stage {
    fn add(&mut self, spec: TaskSpec, outside: usize) -> Vec<String> {
        self.plan.tasks.push(spec.clone());
        let mut words = self.hear(Event::Add { task: Box::new(spec), outside });
        words.retain(|word| !word.ends_with(" blocked"));
        words
    }

    fn retry(&mut self, id: &str) -> Vec<String> {
        let task = self.place(id);
        self.hear(Event::RetryTask { task })
    }
}

#[test]
fn an_open_run_goes_on_until_it_is_sealed() {
    let mut run = open(1);
    assert_eq!(run.add(spec("a"), 0), ["start a#1 on local"]);
    assert!(run.add(after("b", &[0]), 0).is_empty());
    assert_eq!(run.ok("a"), ["a succeeded", "start b#1 on local"]);
    assert_eq!(run.fails("b"), ["b failed"]);
    assert_eq!(run.schedule.outcome(), None);
    assert_eq!(run.add(after("c", &[1]), 0), ["c skipped: b failed"]);
    assert_eq!(run.hear(Event::Seal), ["Failed 1"]);
    run.plan.tasks.push(spec("d"));
    assert!(run.hear(Event::Add { task: Box::new(spec("d")), outside: 0 }).is_empty());
    assert_eq!(run.schedule.members().len(), 3);
}

#[test]
fn a_sealed_run_ends_with_its_tasks() {
    let mut run = open(1);
    let _started = run.add(spec("a"), 0);
    assert!(run.hear(Event::Seal).is_empty());
    assert_eq!(run.ok("a"), ["a succeeded", "Succeeded 0"]);
    let mut run = open(1);
    assert_eq!(
        run.hear(Event::CancelRun { why: CancelWhy::Requested }),
        ["Cancelled 130"],
        "without a task, and not sealed"
    );
}

#[test]
fn what_is_added_later_may_come_first() {
    let mut run = open(1);
    let _started = run.add(spec("a"), 0);
    for (id, priority) in [("b", 0), ("c", 5), ("d", -1), ("e", 5)] {
        assert!(run.add(TaskSpec { priority, ..spec(id) }, 0).is_empty());
    }
    for (done, next) in [("a", "c"), ("c", "e"), ("e", "b"), ("b", "d")] {
        let started = format!("start {next}#1 on local");
        assert_eq!(run.ok(done), [format!("{done} succeeded"), started]);
    }
}

#[test]
fn conditions_of_other_runs_are_counted() {
    let mut run = open(2);
    assert!(run.add(spec("a"), 2).is_empty());
    assert!(run.hear(Event::OutsideMet { task: 0 }).is_empty());
    assert_eq!(run.state("a"), TaskState::Blocked);
    assert_eq!(run.hear(Event::OutsideMet { task: 0 }), ["start a#1 on local"]);
    assert!(run.hear(Event::OutsideMet { task: 0 }).is_empty(), "there were two");
    let _blocked = run.add(after("b", &[0]), 1);
    let _blocked = run.add(after("c", &[1]), 0);
    let gone = Event::OutsideFailed { task: 1, on: "r/x".into(), state: TaskState::TimedOut };
    let skipped = ["b skipped: r/x timed_out", "c skipped: r/x timed_out"];
    assert_eq!(run.hear(gone.clone()), skipped);
    assert!(run.hear(gone).is_empty());
    assert_eq!(run.ok("a"), ["a succeeded"]);
}

#[test]
fn agents_that_nobody_needed_before_are_found() {
    let agents =
        vec![super::plans::agent("plain", &[], 1), super::plans::agent("rusty", &["rust"], 1)];
    let mut run = Stage::new(super::plans::plan_with(agents, Vec::new()), &jobs(4));
    run.schedule = Schedule::new(&run.plan, None, &jobs(4)).open_ended();
    let _begun = run.begin();
    let rust = |id: &str| TaskSpec { needs: vec!["rust".into()], ..spec(id) };
    assert_eq!(run.add(rust("a"), 0), ["start a#1 on rusty"]);
    assert!(run.add(rust("b"), 0).is_empty(), "its only agent is busy");
    assert_eq!(run.add(spec("c"), 0), ["start c#1 on plain"]);
    assert_eq!(run.ok("a"), ["a succeeded", "start b#1 on rusty"]);
    let cobol = TaskSpec { needs: vec!["cobol".into()], ..spec("d") };
    assert_eq!(run.add(cobol, 0), ["d failed"], "nobody ever could");
}

#[test]
fn what_can_be_tried_again_and_what_not() {
    let tasks = vec![task("a"), task("b").after("a"), task("q"), task("x")];
    let mut run = Stage::new(plan(tasks), &jobs(4));
    let _begun = run.begin();
    assert!(run.retry("a").is_empty(), "it runs");
    assert!(run.retry("b").is_empty(), "it waits");
    assert_eq!(run.cancel("b"), ["b cancelled"]);
    assert_eq!(run.retry("b"), ["b blocked"]);
    assert_eq!(run.ends("q", needs_input()), ["q escalated"]);
    assert_eq!(run.retry("q"), ["start q#2 on local"]);
    assert!(run.schedule.takes_retries());
    assert_eq!(run.fails("a"), ["a failed", "b skipped: a failed"]);
    assert_eq!(run.schedule.doomed_by(run.place("b")), Some(run.place("a")));
    let _ending = run.hear(Event::CancelRun { why: CancelWhy::Requested });
    assert!(!run.schedule.takes_retries(), "the run is being ended");
}
