//! What reports and `status` see.

use super::plans::{agent, plan_with, task};
use super::stage::{Stage, broken_environment, jobs, not_verified};
use crate::domain::event::RunOptions;
use crate::domain::outcome::TaskState;
use crate::domain::time::Timestamp;
use crate::scheduler::{EscalationCause, WaitsOn};

#[test]
fn whatever_waits_says_on_what() {
    let agents = vec![agent("db", &["db"], 1), agent("any", &[], 9)];
    let tasks = vec![
        task("asks"),
        task("busy").needs(&["db"]),
        task("agentless").needs(&["db"]),
        task("blocked").after("asks").after("busy").after("asks"),
        task("retries").retries(1),
        task("unsure"),
        task("more"),
    ];
    let options = RunOptions { attended: true, ..jobs(4) };
    let mut run = Stage::new(plan_with(agents, tasks), &options);
    let _started = run.begin();
    run.now = Timestamp(2_000);
    let _asks = run.asks("asks");
    let _waits = run.fails("retries");
    let _escalates = run.ends("unsure", not_verified());
    let until = run.schedule.next_deadline();
    let waits: Vec<_> = run
        .schedule
        .waiting()
        .map(|wait| (wait.task, wait.on, wait.since.0, wait.deadline))
        .collect();
    assert_eq!(
        waits,
        [
            (0, WaitsOn::Input, 2_000, None),
            (2, WaitsOn::Agent, 1_000, None),
            (3, WaitsOn::Tasks(vec![0, 1]), 1_000, None),
            (4, WaitsOn::NextTry, 2_000, until),
            (5, WaitsOn::Decision(EscalationCause::Verify), 2_000, None),
        ]
    );
}

#[test]
fn a_task_can_wait_for_its_turn_alone() {
    let agents = vec![agent("any", &[], 9)];
    let mut run = Stage::new(plan_with(agents, vec![task("a"), task("b")]), &jobs(1));
    let _started = run.begin();
    let waits: Vec<_> = run.schedule.waiting().map(|wait| (wait.task, wait.on)).collect();
    assert_eq!(waits, [(1, WaitsOn::Slot)]);
}

#[test]
fn a_service_waits_to_be_ready() {
    let agents = vec![agent("any", &[], 9)];
    let mut run = Stage::new(plan_with(agents, vec![task("web").service(), task("a")]), &jobs(2));
    let _started = run.begin();
    let waits = |run: &Stage| -> Vec<_> {
        run.schedule.waiting().map(|wait| (wait.task, wait.on)).collect()
    };
    assert_eq!(waits(&run), [(0, WaitsOn::Readiness)]);
    let _ready = run.ready("web");
    assert_eq!(waits(&run), []);
}

#[test]
fn a_view_keeps_the_times_and_the_agent() {
    let agents = vec![agent("x", &["x"], 1), agent("y", &["y"], 1)];
    let tasks = vec![task("a").needs(&["y"]).retries(1)];
    let mut run = Stage::new(plan_with(agents, tasks), &jobs(1));
    let _started = run.begin();
    assert_eq!(run.view("a").ended_at, None);
    run.now = Timestamp(1_500);
    let _waits = run.fails("a");
    let _started = run.wait();
    run.now = Timestamp(9_000);
    let _ended = run.ends("a", broken_environment());
    let view = run.view("a");
    assert_eq!((view.state, view.agent, view.attempts), (TaskState::Failed, Some(1), 2));
    assert_eq!((view.started_at, view.ended_at), (Some(Timestamp(1_000)), Some(Timestamp(9_000))));
    assert_eq!((view.since, view.class), (Timestamp(9_000), Some("environment")));
    assert_eq!(run.schedule.counts(), [(TaskState::Failed, 1)].into());
}
