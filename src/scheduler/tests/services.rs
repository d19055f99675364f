//! Services, and tasks that wait for input.

use super::plans::{agent, plan, plan_with, task};
use super::stage::{Stage, failed, jobs, needs_input};
use crate::domain::event::RunOptions;
use crate::domain::outcome::TaskState;
use crate::domain::plan::When;
use crate::scheduler::event::Event;

#[test]
fn a_ready_service_holds_neither_slot_nor_agent_and_is_ended_last() {
    let agents = vec![agent("local", &[], 1)];
    let tasks = vec![task("api").service(), task("test").after("api"), task("more").after("test")];
    let mut run = Stage::new(plan_with(agents, tasks), &jobs(1));
    assert_eq!(run.begin(), ["start api#1 on local"]);
    assert_eq!(run.ready("api"), ["start test#1 on local"]);
    assert!(run.ready("api").is_empty());
    assert_eq!(run.ok("test"), ["test succeeded", "start more#1 on local"]);
    assert_eq!(run.ok("more"), ["more succeeded", "end api#1 ServiceDone"]);
    assert_eq!(run.ok("api"), ["api succeeded", "Succeeded 0"]);
}

#[test]
fn a_service_that_dies_before_it_is_ready_has_failed() {
    let mut run = Stage::new(plan(vec![task("api").service(), task("t").after("api")]), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.fails("api"), ["api failed", "t skipped: api failed", "Failed 1"]);
}

#[test]
fn a_service_that_dies_later_has_failed_and_who_has_started_goes_on() {
    let tasks = vec![
        task("api").service(),
        task("running").after("api"),
        task("waiting").after("api"),
        task("blocked").after("api").after("running"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.ready("api"), ["start running#1 on local"]);
    assert_eq!(
        run.fails("api"),
        ["api failed", "waiting skipped: api failed", "blocked skipped: api failed"]
    );
    assert_eq!(run.ok("running"), ["running succeeded", "Failed 1"]);
}

#[test]
fn a_service_that_is_tried_again_makes_others_wait_again() {
    let tasks = vec![
        task("api").service().retries(1),
        task("running").after("api"),
        task("waiting").after("api"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    let _started = run.begin();
    let _started = run.ready("api");
    assert_eq!(run.fails("api"), ["waiting blocked", "api retrying"]);
    assert_eq!(run.ok("running"), ["running succeeded"]);
    assert_eq!(run.wait(), ["start api#2 on local"]);
    assert_eq!(run.ready("api"), ["start waiting#1 on local"]);
    assert_eq!(run.ok("waiting"), ["waiting succeeded", "end api#2 ServiceDone"]);
    assert_eq!(run.ok("api"), ["api succeeded", "Succeeded 0"]);
}

#[test]
fn a_service_that_waits_for_a_decision_makes_others_wait() {
    let tasks =
        vec![task("api").service(), task("running").after("api"), task("waiting").after("api")];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    let _started = run.begin();
    let _started = run.ready("api");
    assert_eq!(run.ends("api", needs_input()), ["waiting blocked", "api escalated"]);
    assert_eq!(run.ok("running"), ["running succeeded", "Escalated 4"]);
}

#[test]
fn a_service_ends_first_for_whom_its_end_is_awaited() {
    let tasks = vec![
        task("one").service(),
        task("two").service(),
        task("after").when("one", When::Done).after("two"),
    ];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    assert_eq!(run.begin(), ["start one#1 on local"]);
    assert_eq!(run.ready("one"), ["start two#1 on local"]);
    assert_eq!(run.ready("two"), ["end one#1 ServiceDone"]);
    assert_eq!(run.ok("one"), ["one succeeded", "start after#1 on local"]);
    assert_eq!(run.ok("after"), ["after succeeded", "end two#1 ServiceDone"]);
    assert_eq!(run.ok("two"), ["two succeeded", "Succeeded 0"]);
}

#[test]
fn a_ready_service_may_listen_to_its_terminal() {
    let mut run = Stage::new(plan(vec![task("dev").service(), task("t").after("dev")]), &jobs(1));
    let _started = run.begin();
    let _started = run.ready("dev");
    assert!(run.asks("dev").is_empty());
    assert_eq!(run.schedule.waiting().count(), 0);
    assert_eq!(run.ok("t"), ["t succeeded", "end dev#1 ServiceDone"]);
}

#[test]
fn only_services_can_be_ready() {
    let mut run = Stage::new(plan(vec![task("a"), task("b").after("a")]), &jobs(1));
    let _started = run.begin();
    assert!(run.ready("a").is_empty());
    assert_eq!(run.state("b"), TaskState::Blocked);
}

#[test]
fn an_unanswered_question_waits_until_nothing_else_can_proceed() {
    let tasks = vec![task("ask"), task("work").retries(1), task("next").after("work")];
    let mut run = Stage::new(plan(tasks), &jobs(2));
    let _started = run.begin();
    assert!(run.asks("ask").is_empty());
    assert_eq!(run.fails("work"), ["work retrying"]);
    let _started = run.wait();
    assert_eq!(run.ok("work"), ["work succeeded", "start next#1 on local"]);
    assert_eq!(run.ok("next"), ["next succeeded", "end ask#1 Unanswered"]);
    assert_eq!(run.ends("ask", needs_input()), ["ask escalated", "Escalated 4"]);
}

#[test]
fn a_question_that_holds_the_only_slot_is_given_up_for_the_others() {
    let tasks = vec![task("ask"), task("blocked").after("ask"), task("work")];
    let mut run = Stage::new(plan(tasks), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.asks("ask"), ["end ask#1 Unanswered"]);
    assert_eq!(run.ends("ask", needs_input()), ["ask escalated", "start work#1 on local"]);
    assert_eq!(run.ok("work"), ["work succeeded", "Escalated 4"]);
    assert_eq!(run.state("blocked"), TaskState::Blocked);
}

#[test]
fn a_service_that_only_an_asking_task_needs_does_not_count() {
    let mut run = Stage::new(plan(vec![task("api").service(), task("ask").after("api")]), &jobs(2));
    let _started = run.begin();
    let _started = run.ready("api");
    assert_eq!(run.asks("ask"), ["end ask#1 Unanswered"]);
    assert_eq!(run.ends("ask", needs_input()), ["ask escalated", "end api#1 ServiceDone"]);
    assert_eq!(run.ok("api"), ["api succeeded", "Escalated 4"]);
}

#[test]
fn with_somebody_to_ask_a_question_stays() {
    let options = RunOptions { attended: true, ..jobs(1) };
    let mut run = Stage::new(plan(vec![task("ask")]), &options);
    let _started = run.begin();
    assert!(run.asks("ask").is_empty());
    assert!(run.hear(Event::Tick).is_empty());
    assert_eq!(run.state("ask"), TaskState::Running);
    assert!(run.view("ask").awaiting_since.is_some());
    assert!(run.answered("ask").is_empty());
    assert_eq!(run.ok("ask"), ["ask succeeded", "Succeeded 0"]);
}

#[test]
fn an_answer_that_crosses_our_giving_up_lets_it_go_on() {
    let mut run = Stage::new(plan(vec![task("ask")]), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.asks("ask"), ["end ask#1 Unanswered"]);
    assert!(run.answered("ask").is_empty());
    assert_eq!(run.asks("ask"), ["end ask#1 Unanswered"]);
    assert_eq!(run.ends("ask", failed()), ["ask failed", "Failed 1"]);
}
