//! A run to test the readings with.

use std::collections::BTreeMap;

use super::record::{RunReport, TaskReport};
use crate::domain::board::BoardView;
use crate::domain::outcome::{CommandState, Reason, RunOutcome, TaskCause, TaskReason, TaskState};
use crate::domain::result::{CommandResult, Order, SCHEMA_VERSION};
use crate::domain::time::Timestamp;

/// A command that has ended.
pub(super) fn command(text: &str, state: CommandState, reason: Option<Reason>) -> CommandResult {
    let exit_code = match reason {
        None => Some(0),
        Some(Reason::Exit { code }) => Some(code),
        Some(_) => None,
    };
    CommandResult {
        command_id: "c1".into(),
        session_id: "s1".into(),
        command: text.to_owned(),
        state,
        reason,
        exit_code,
        pipe_status: None,
        stdout: String::new(),
        stderr: String::new(),
        output: String::new(),
        order: Order::Approximate,
        truncated: None,
        encoding: "utf-8".to_owned(),
        cwd: "/w".to_owned(),
        started_at: None,
        duration_ms: 1200,
        children: Vec::new(),
        notes: Vec::new(),
        awaiting: None,
        touched: Vec::new(),
        parsed: None,
    }
}

/// A task without commands.
pub(super) fn task(id: &str, state: TaskState, reason: Option<TaskReason>) -> TaskReport {
    TaskReport {
        id: id.into(),
        state,
        agent: Some("local".into()),
        needs: Vec::new(),
        attempts: 1,
        conflicts: 0,
        session_id: Some("s1".into()),
        started_at: Some(Timestamp(1_764_543_600_000)),
        duration_ms: 1250,
        reason,
        class: None,
        waited_on: Vec::new(),
        commands: Vec::new(),
        backoffs: Vec::new(),
        published: Vec::new(),
        artifacts: Vec::new(),
        remarks: Vec::new(),
        worktree: None,
    }
}

/// A run of these tasks.
pub(super) fn run_of(tasks: Vec<TaskReport>, outcome: RunOutcome, exit_code: u8) -> RunReport {
    let mut counts = BTreeMap::new();
    for task in &tasks {
        *counts.entry(task.state).or_insert(0) += 1;
    }
    RunReport {
        schema_version: SCHEMA_VERSION,
        run_id: "r-1".into(),
        workspace_id: "shop".into(),
        outcome: Some(outcome),
        exit_code: Some(exit_code),
        started_at: Timestamp(1_764_543_600_000),
        duration_ms: 4150,
        counts,
        cancelled: None,
        tasks,
        board: BoardView::of("shop".into(), Vec::new()),
        escalations: Vec::new(),
    }
}

/// One success, one failure with output that wants escaping, one task skipped for it.
pub(super) fn run() -> RunReport {
    let failed = Reason::Exit { code: 2 };
    let mut build = task("build", TaskState::Failed, Some(TaskReason::Command(failed.clone())));
    let mut make = command("make <all> && echo \"x\"", CommandState::Failed, Some(failed));
    make.stdout = "compiling\n".to_owned();
    make.stderr = "\terror: `a` < b\u{7}\u{fffe} & | c\n".to_owned();
    make.output = format!("{}{}", make.stdout, make.stderr);
    build.commands.push(make);
    let mut deploy = task(
        "deploy",
        TaskState::Skipped,
        Some(TaskReason::Task(TaskCause::Dependency {
            task: "build".into(),
            state: TaskState::Failed,
        })),
    );
    deploy.agent = None;
    deploy.attempts = 0;
    deploy.started_at = None;
    deploy.duration_ms = 0;
    run_of(vec![task("lint", TaskState::Succeeded, None), build, deploy], RunOutcome::Failed, 1)
}
