//! What answers to escalations lead to, while the run goes on and after its end.

use super::plans::{plan, task};
use super::stage::{Stage, fail_fast, jobs, needs_input, not_verified};
use crate::domain::conflict::Answer;
use crate::domain::event::RunOptions;
use crate::domain::outcome::{RunOutcome, TaskState};
use crate::domain::plan::When;
use crate::scheduler::event::Event;

fn all() -> [Answer; 6] {
    let input = Answer::Input { text: "y\n".to_owned() };
    [Answer::Retry, Answer::Wait, Answer::Skip, Answer::Fail, Answer::Force, input]
}

fn resume(run: &mut Stage) -> Vec<String> {
    run.hear(Event::Reopen { options: RunOptions::default() })
}

#[test]
fn answers_while_the_run_goes_on() {
    for answer in all() {
        let tasks = vec![task("a").retries(3), task("other"), task("b").after("a")];
        let mut run = Stage::new(plan(tasks), &jobs(2));
        let _started = run.begin();
        assert_eq!(run.ends("a", needs_input()), ["a escalated"]);
        let name = answer.name();
        let words = run.hear(Event::Answered { task: 0, answer: answer.clone() });
        match answer {
            Answer::Skip => assert_eq!(words, ["a skipped", "b skipped: a skipped"]),
            Answer::Fail => assert_eq!(words, ["a failed", "b skipped: a failed"]),
            _ => {
                assert_eq!(words, ["b blocked", "start a#2 on local"], "{name}");
                assert_eq!(run.view("a").retries_spent, 0, "counters stay");
            }
        }
        let again = run.hear(Event::Answered { task: 0, answer: Answer::Fail });
        assert!(again.is_empty(), "{name}: nothing waits any more: {again:?}");
    }
}

#[test]
fn answers_after_the_runs_end_hold_when_it_goes_on() {
    for answer in all() {
        let tasks = vec![task("a"), task("b").after("a"), task("c").when("a", When::Failure)];
        let mut run = Stage::new(plan(tasks), &jobs(3));
        let _started = run.begin();
        assert_eq!(run.ends("a", not_verified()), ["a escalated", "Escalated 4"]);
        let name = answer.name();
        let _moved = run.hear(Event::Answered { task: 0, answer: answer.clone() });
        assert_eq!(run.schedule.outcome(), Some(RunOutcome::Escalated), "{name}: it stays ended");
        let words = resume(&mut run);
        match answer {
            Answer::Skip => {
                assert_eq!(run.state("a"), TaskState::Skipped, "a decision holds");
                assert_eq!(run.state("b"), TaskState::Skipped);
                assert_eq!(words.last().map(String::as_str), Some("Succeeded 0"), "{words:?}");
            }
            Answer::Fail => {
                assert_eq!(run.state("a"), TaskState::Failed);
                assert!(words.contains(&"start c#1 on local".to_owned()), "{words:?}");
                assert_eq!(run.ok("c"), ["c succeeded", "Failed 1"]);
            }
            _ => {
                assert!(words.contains(&"start a#2 on local".to_owned()), "{name}: {words:?}");
                assert_eq!(run.ok("a").first().map(String::as_str), Some("a succeeded"));
                assert_eq!(run.state("b"), TaskState::Running);
            }
        }
    }
}

#[test]
fn a_skipped_task_can_be_retried_with_those_behind_it() {
    let mut run = Stage::new(plan(vec![task("a"), task("b").after("a"), task("c")]), &jobs(2));
    let _started = run.begin();
    let _escalated = run.ends("a", needs_input());
    let _skipped = run.hear(Event::Answered { task: 0, answer: Answer::Skip });
    let words = run.hear(Event::RetryTask { task: 0 });
    assert!(words.contains(&"start a#2 on local".to_owned()), "{words:?}");
    assert_eq!(run.state("b"), TaskState::Blocked);
}

#[test]
fn an_answer_under_fail_fast_starts_nothing_before_the_run_goes_on() {
    let mut run = Stage::new(plan(vec![task("a"), task("b"), task("c")]), &fail_fast(3));
    let _started = run.begin();
    assert_eq!(run.ends("a", needs_input()), ["a escalated"]);
    assert_eq!(run.fails("b"), ["b failed", "end c#1 FailFast"]);
    let words = run.hear(Event::Answered { task: 0, answer: Answer::Retry });
    assert_eq!(words, ["a blocked"]);
    let words = run.ends("c", super::stage::failed());
    assert_eq!(words.last().map(String::as_str), Some("Failed 1"), "{words:?}");
    let words = resume(&mut run);
    assert!(words.contains(&"start a#2 on local".to_owned()), "{words:?}");
}
