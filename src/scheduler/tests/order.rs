//! Who starts when and on whom.

use super::plans::{agent, plan, plan_with, task};
use super::stage::{Stage, jobs};
use crate::domain::plan::When;

#[test]
fn an_empty_run_ends_at_once() {
    assert_eq!(Stage::new(plan(vec![]), &jobs(1)).begin(), ["Succeeded 0"]);
    let nothing = Stage::only(plan(vec![task("a")]), &[], &jobs(1)).begin();
    assert_eq!(nothing, ["Succeeded 0"]);
}

#[test]
fn nothing_starts_before_begin_and_begin_counts_once() {
    let mut run = Stage::new(plan(vec![task("a"), task("b")]), &jobs(1));
    assert!(run.hear(crate::scheduler::event::Event::Tick).is_empty());
    assert_eq!(run.begin(), ["start a#1 on local"]);
    assert!(run.begin().is_empty());
}

#[test]
fn priority_goes_first_then_the_manifests_order() {
    let tasks = vec![task("a"), task("b").priority(2), task("c"), task("d").priority(2)];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    assert_eq!(run.begin(), ["start b#1 on local"]);
    assert_eq!(run.ok("b"), ["b succeeded", "start d#1 on local"]);
    assert_eq!(run.ok("d"), ["d succeeded", "start a#1 on local"]);
    assert_eq!(run.ok("a"), ["a succeeded", "start c#1 on local"]);
    assert_eq!(run.ok("c"), ["c succeeded", "Succeeded 0"]);
}

#[test]
fn jobs_and_capacity_both_bound() {
    let tasks = || vec![task("a"), task("b"), task("c"), task("d")];
    let mut run = Stage::new(plan(tasks()), &jobs(2));
    assert_eq!(run.begin(), ["start a#1 on local", "start b#1 on local"]);
    let agents = vec![agent("x", &[], 1), agent("y", &[], 2)];
    let mut run = Stage::new(plan_with(agents, tasks()), &jobs(9));
    assert_eq!(run.begin(), ["start a#1 on x", "start b#1 on y", "start c#1 on y"]);
    assert_eq!(run.ok("a"), ["a succeeded", "start d#1 on x"]);
}

#[test]
fn what_comes_next_is_foreseen_where_it_is_certain() {
    let foreseen = |run: &Stage| {
        let upcoming = run.schedule.upcoming().into_iter();
        let told = upcoming.map(|next| {
            let task = &run.plan.tasks[next.task].id;
            format!("{task}#{} on {}", next.attempt, run.plan.agents[next.agent].name)
        });
        told.collect::<Vec<_>>()
    };
    let tasks = vec![task("a"), task("b"), task("c").priority(2), task("d").after("a")];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    assert!(foreseen(&run).is_empty(), "it has not begun");
    run.begin();
    assert_eq!(foreseen(&run), ["a#1 on local"]);
    run.ok("c");
    assert_eq!(foreseen(&run), ["b#1 on local"], "what waits for a running task is not");
    let agents = vec![agent("x", &[], 1), agent("y", &["db"], 1)];
    let tasks = ["a", "b", "c", "d", "e"].map(task).into_iter();
    let tasks: Vec<_> = tasks.chain([task("f").needs(&["db"])]).collect();
    let mut run = Stage::new(plan_with(agents, tasks), &jobs(2));
    run.begin();
    assert_eq!(foreseen(&run), ["f#1 on y"], "two agents can take the others");
    run.hear(crate::scheduler::event::Event::CancelRun { why: Default::default() });
    assert!(foreseen(&run).is_empty(), "nothing starts any more");
}

#[test]
fn an_agent_carries_all_the_tags() {
    let agents = vec![agent("rust", &["rust"], 9), agent("both", &["rust", "db"], 1)];
    let tasks = vec![task("a").needs(&["db", "rust"]), task("b").needs(&["rust", "db"])];
    let mut run = Stage::new(plan_with(agents, tasks), &jobs(9));
    assert_eq!(run.begin(), ["start a#1 on both"]);
    assert_eq!(run.ok("a"), ["a succeeded", "start b#1 on both"]);
}

#[test]
fn a_waiting_task_does_not_hold_up_those_behind_it() {
    let agents = vec![agent("db", &["db"], 1), agent("web", &["web"], 1)];
    let tasks = vec![
        task("a").needs(&["db"]).priority(9),
        task("b").needs(&["db"]).priority(8),
        task("c").needs(&["web"]),
    ];
    let mut run = Stage::new(plan_with(agents, tasks), &jobs(9));
    assert_eq!(run.begin(), ["start a#1 on db", "start c#1 on web"]);
}

#[test]
fn the_versatile_stay_free_for_what_only_they_can_do() {
    let agents = vec![agent("both", &["web", "db"], 1), agent("web", &["web"], 1)];
    let tasks = vec![task("page").needs(&["web"]), task("schema").needs(&["db"])];
    let mut run = Stage::new(plan_with(agents, tasks), &jobs(9));
    assert_eq!(run.begin(), ["start page#1 on web", "start schema#1 on both"]);
}

#[test]
fn the_load_is_shared_by_capacity() {
    let agents = vec![agent("small", &[], 1), agent("large", &[], 3)];
    let tasks = vec![task("a"), task("b"), task("c"), task("d")];
    let mut run = Stage::new(plan_with(agents, tasks), &jobs(9));
    let starts = run.begin();
    assert_eq!(starts[0], "start a#1 on small");
    assert!(starts[1..].iter().all(|start| start.ends_with("on large")), "{starts:?}");
}

#[test]
fn each_condition_on_each_end() {
    use When::{Done, Failure, Success};
    type End = fn(&mut Stage) -> Vec<String>;
    let succeeds: End = |run| run.ok("a");
    let fails: End = |run| run.fails("a");
    let times_out: End = |run| run.ends("a", super::stage::timed_out());
    let is_cancelled: End = |run| {
        let _ended = run.cancel("a");
        run.ends("a", crate::domain::event::AttemptEnd::Cancelled)
    };
    let table = [
        (succeeds, Success, true),
        (succeeds, Failure, false),
        (succeeds, Done, true),
        (fails, Success, false),
        (fails, Failure, true),
        (fails, Done, true),
        (times_out, Success, false),
        (times_out, Failure, true),
        (times_out, Done, true),
        (is_cancelled, Success, false),
        (is_cancelled, Failure, true),
        (is_cancelled, Done, true),
    ];
    for (row, (end, when, starts)) in table.into_iter().enumerate() {
        let mut run = Stage::new(plan(vec![task("a"), task("b").when("a", when)]), &jobs(1));
        assert_eq!(run.begin(), ["start a#1 on local"]);
        let words = end(&mut run);
        assert_eq!(
            words.contains(&"start b#1 on local".to_owned()),
            starts,
            "row {row}: {words:?}"
        );
        assert_eq!(
            run.state("b").as_str(),
            if starts { "running" } else { "skipped" },
            "row {row}"
        );
    }
}

#[test]
fn a_skip_is_an_end_for_done_alone() {
    let tasks = vec![
        task("a"),
        task("b").after("a"),
        task("c").when("b", When::Done),
        task("d").when("b", When::Failure),
        task("e").after("b"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    let _started = run.begin();
    assert_eq!(
        run.fails("a"),
        [
            "a failed",
            "b skipped: a failed",
            "d skipped: b skipped",
            "e skipped: a failed",
            "start c#1 on local",
        ]
    );
    assert_eq!(run.ok("c"), ["c succeeded", "Failed 1"]);
}

#[test]
fn a_diamond_behind_a_failure_names_the_failure() {
    let tasks = vec![
        task("install"),
        task("lint").after("install"),
        task("test").after("install"),
        task("build").after("install"),
        task("check").after("lint").after("test").after("build"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(4));
    let _started = run.begin();
    assert_eq!(
        run.fails("install"),
        [
            "install failed",
            "lint skipped: install failed",
            "test skipped: install failed",
            "build skipped: install failed",
            "check skipped: install failed",
            "Failed 1",
        ]
    );
}

#[test]
fn a_task_is_skipped_as_soon_as_one_condition_cannot_hold() {
    let tasks = vec![task("a"), task("slow"), task("b").after("slow").after("a")];
    let mut run = Stage::new(plan(tasks), &jobs(2));
    let _started = run.begin();
    assert_eq!(run.fails("a"), ["a failed", "b skipped: a failed"]);
    assert_eq!(run.ok("slow"), ["slow succeeded", "Failed 1"]);
}

#[test]
fn conditions_that_exclude_each_other_skip() {
    let tasks = vec![task("a"), task("b").after("a").when("a", When::Failure)];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.ok("a"), ["a succeeded", "b skipped: a succeeded", "Succeeded 0"]);
}

#[test]
fn what_is_outside_the_selection_counts_as_satisfied() {
    let tasks = vec![task("a"), task("b").after("a"), task("c").after("b"), task("d").after("a")];
    let mut run = Stage::only(plan(tasks), &[2, 1, 1, 99], &jobs(9));
    assert_eq!(run.begin(), ["start b#1 on local"]);
    assert!(run.cancel("a").is_empty());
    assert_eq!(run.schedule.task(0), None);
    assert_eq!(run.ok("b"), ["b succeeded", "start c#1 on local"]);
    assert_eq!(run.ok("c"), ["c succeeded", "Succeeded 0"]);
    assert_eq!(run.schedule.members(), [1, 2]);
    assert_eq!(run.schedule.counts().into_values().sum::<usize>(), 2);
}

#[test]
fn a_tag_that_nobody_carries_fails_instead_of_waiting() {
    let tasks = vec![task("a").needs(&["gpu"]), task("b").when("a", When::Failure)];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    assert_eq!(run.begin(), ["a failed", "start b#1 on local"]);
    assert_eq!(run.ok("b"), ["b succeeded", "Environment 3"]);
}
