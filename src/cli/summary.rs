//! A run's report for people.

use std::fmt::Write as _;

use super::table::table;
use super::words::{command_reason, count, span, task_reason};
use crate::domain::outcome::{CommandState, RunOutcome, TaskState};
use crate::report::record::{RunReport, TaskReport};

/// How many tasks are told of one by one; a last line counts the rest.
const TASKS_MAX: usize = 50;

/// How many lines of a failed command's output are shown.
const OUTPUT_LINES: usize = 10;

/// What is left to say once a run is over: how it ended, and every task that did not succeed.
pub(super) fn summary(report: &RunReport) -> String {
    let mut text = headline(report);
    text.push_str(&failures(report));
    if report.tasks.iter().any(is_flaky) {
        let flaky: Vec<_> =
            report.tasks.iter().filter(|task| is_flaky(task)).map(|task| task.id.as_str()).collect();
        push(&mut text, &format!("flaky, succeeded after a failure: {}", flaky.join(", ")));
    }
    text
}

/// Every task that did not succeed, with the end of what it said.
pub(super) fn failures(report: &RunReport) -> String {
    let mut text = String::new();
    let bad: Vec<_> = report.tasks.iter().filter(|task| is_bad(task.state)).collect();
    for task in bad.iter().take(TASKS_MAX) {
        push(&mut text, &format!("  {}", line_of(task)));
        push_output(&mut text, task);
    }
    if bad.len() > TASKS_MAX {
        push(&mut text, &format!("  … and {} more", bad.len() - TASKS_MAX));
    }
    for question in report.escalations.iter().filter(|question| question.answer.is_none()) {
        let story = question.story.trim().replace('\n', "\n      ");
        push(&mut text, &format!("  open question {} ({}): {story}", question.id, question.task));
    }
    text
}

/// Everything of a run: the headline, a table of all tasks, the failures.
pub(super) fn overview(report: &RunReport) -> String {
    let mut text = headline(report);
    let rows: Vec<_> = report.tasks.iter().map(row_of).collect();
    text.push_str(&table(&["TASK", "STATE", "AGENT", "ATTEMPTS", "TIME", "REASON"], &rows));
    text.push_str(&failures(report));
    text
}

/// A task that failed and then succeeded: with more starts than its conflicts account for.
pub(super) fn is_flaky(task: &TaskReport) -> bool {
    let retried = task.attempts.saturating_sub(task.conflicts) > 1;
    task.class.as_deref() == Some("flaky") || (task.state == TaskState::Succeeded && retried)
}

fn headline(report: &RunReport) -> String {
    let outcome = report.outcome.map_or("goes on", outcome_words);
    let counts: Vec<_> = report
        .counts
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(state, number)| format!("{number} {}", state.as_str().replace('_', " ")))
        .collect();
    let counts = if counts.is_empty() { "no tasks".to_owned() } else { counts.join(", ") };
    let time = if report.outcome.is_some() { "after" } else { "since" };
    format!("run {} {outcome} {time} {}: {counts}\n", report.run_id, span(report.duration_ms))
}

pub(super) fn outcome_words(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Succeeded => "succeeded",
        RunOutcome::Failed => "failed",
        RunOutcome::Environment => "failed for reasons of its environment",
        RunOutcome::Escalated => "waits for a decision",
        RunOutcome::Cancelled => "was cancelled",
        RunOutcome::Incomplete => "is incomplete",
    }
}

fn is_bad(state: TaskState) -> bool {
    matches!(
        state,
        TaskState::Failed
            | TaskState::TimedOut
            | TaskState::Cancelled
            | TaskState::Escalated
            | TaskState::Skipped
    )
}

fn line_of(task: &TaskReport) -> String {
    let mut line = format!("{:<9}  {}", task.state.as_str().replace('_', " "), task.id);
    if task.attempts > 0 {
        if let Some(agent) = &task.agent {
            let _infallible = write!(line, " on {agent}");
        }
        if task.attempts > 1 {
            let _infallible = write!(line, ", {}", count(task.attempts as usize, "attempt"));
        }
        let _infallible = write!(line, ", {}", span(task.duration_ms));
    }
    if let Some(reason) = &task.reason {
        let _infallible = write!(line, ": {}", task_reason(reason));
    }
    if let Some(class) = &task.class {
        let _infallible = write!(line, " ({class})");
    }
    line
}

/// The command that went wrong and the end of its output.
fn push_output(text: &mut String, task: &TaskReport) {
    let wrong = |state| !matches!(state, CommandState::Completed | CommandState::Pending);
    let Some(command) = task.commands.iter().rev().find(|command| wrong(command.state)) else {
        return;
    };
    let mut lines = command.command.lines();
    let more = if command.command.lines().count() > 1 { " …" } else { "" };
    push(text, &format!("      $ {}{more}", lines.next().unwrap_or_default()));
    let said: Vec<_> =
        command.output.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in &said[said.len().saturating_sub(OUTPUT_LINES)..] {
        push(text, &format!("      | {line}"));
    }
}

fn row_of(task: &TaskReport) -> Vec<String> {
    let last = task.commands.iter().rev().find_map(|command| command.reason.as_ref());
    let reason = task.reason.as_ref().map(task_reason).or_else(|| last.map(command_reason));
    vec![
        task.id.to_string(),
        task.state.as_str().replace('_', " "),
        task.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        task.attempts.to_string(),
        span(task.duration_ms),
        reason.unwrap_or_default(),
    ]
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
