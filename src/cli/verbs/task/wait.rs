//! `callboard task wait`, and waiting for tasks as such.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::cli::client::WireError;
use crate::cli::coordinator::Place;
use crate::cli::failure::Failure;
use crate::cli::tasks::{Tasks, ask, code_of_all, is_settled, nowhere, standing};
use crate::cli::{exit, output, records, starter};
use crate::control::{FailureKind, TaskAnswer, TaskCall, TaskLine, TaskRef, WaitMode};
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::parse_duration_ms;

/// A call waits for so long at most, and is then made again: an answer that takes longer than a
/// coordinator may take would look like one that is stuck.
const CALL_MAX: Duration = Duration::from_secs(20);

/// Wait until tasks are over
///
/// A task is over once it is settled, waits for a decision, or its run has ended. One that is over
/// already is told at once, without a coordinator too; ids that are not known are refused at once.
/// Giving up waiting ends nothing.
///
/// Exit codes: 0 all succeeded (with --any: the first), 1 one failed or timed out, 2 usage or no
/// such task, 3 the environment failed one, or one was cancelled or skipped, 4 one waits for a
/// decision, 5 internal, 124 the time is over.
#[derive(Debug, Args)]
pub(in crate::cli) struct Wait {
    /// The tasks: RUN/ID, or an id
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Until one of them is over
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Until all of them are [default]
    #[arg(long)]
    all: bool,
    /// For how long at most, as in `30s`, `5m`
    #[arg(long, value_name = "D", value_parser = parse_duration_ms)]
    timeout: Option<u64>,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// One task is over.
    Any,
    /// All are.
    All,
    /// One is over, or has begun an attempt after this one.
    Attempt(u32),
}

/// What waiting came to.
#[derive(Debug)]
pub(super) struct Waited {
    /// The tasks as they stand, in the order in which they were named.
    pub(super) lines: Vec<TaskLine>,
    /// Whether each is over.
    pub(super) over: Vec<bool>,
    /// False when the time was over first.
    pub(super) done: bool,
}

impl Wait {
    /// Waits.
    ///
    /// # Errors
    /// When a task is not known, or the coordinator cannot be talked to.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            tasks: &'a [TaskLine],
            timed_out: bool,
        }
        let deadline =
            self.timeout.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        let Some(tasks) = Tasks::around(self.workspace.as_deref())? else {
            return Err(nowhere(&self.ids));
        };
        let named: Vec<TaskRef> =
            tasks.find_all(&self.ids)?.into_iter().map(|found| found.task).collect();
        let goal = if self.any { Goal::Any } else { Goal::All };
        let waited = await_tasks(tasks.place, &named, goal, deadline)?;
        if self.json {
            let document = Document {
                schema_version: SCHEMA_VERSION,
                tasks: &waited.lines,
                timed_out: !waited.done,
            };
            output::print_json(&document)?;
        } else {
            for line in &waited.lines {
                output::print(format!("{}: {}\n", line.task_id, standing(line)))?;
            }
            if !waited.done {
                output::note("callboard: the time is over\n");
            }
        }
        if !waited.done {
            return Ok(exit::EXEC_TIMED_OUT);
        }
        let over = waited.lines.iter().zip(&waited.over).filter(|(_, over)| **over);
        Ok(code_of_all(over.map(|(line, _)| line)))
    }
}

/// Waits for tasks that are known. A coordinator that is lost meanwhile is followed by the next,
/// which is started for runs that have no end yet.
///
/// # Errors
/// When the coordinator refuses, or cannot be talked to.
pub(super) fn await_tasks(
    place: Place,
    named: &[TaskRef],
    goal: Goal,
    deadline: Option<Instant>,
) -> Result<Waited, Failure> {
    let names: Vec<String> = named.iter().map(ToString::to_string).collect();
    loop {
        let mut tasks = Tasks::of(place.clone())?;
        let found = tasks.find_all(&names)?;
        let lines: Vec<TaskLine> = found.iter().map(|found| found.line.clone()).collect();
        let mut waits: Vec<TaskRef> = Vec::new();
        let mut over = Vec::with_capacity(found.len());
        for found in &found {
            let goes_on = found.past.is_none()
                || (tasks.connection.is_none()
                    && records::is_open(&tasks.place.state, &found.task.run)?);
            let is_over = !goes_on || is_settled(&found.line);
            over.push(is_over);
            if !is_over {
                waits.push(found.task.clone());
            }
        }
        let begun = matches!(goal, Goal::Attempt(seen) if lines.iter().any(|l| l.attempt > seen));
        let done = waits.is_empty() || begun || (goal != Goal::All && over.contains(&true));
        let left = left_until(deadline);
        if done || left.is_zero() {
            return Ok(Waited { lines, over, done });
        }
        let mode = match goal {
            Goal::Any => WaitMode::Any,
            Goal::All => WaitMode::All,
            Goal::Attempt(seen) => WaitMode::Attempt(seen),
        };
        let wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let mut connection = match tasks.connection.take() {
            Some(connection) => connection,
            None => tasks.place.connect_or_start()?,
        };
        // What has come of it is looked at anew either way: other tasks may have ended as well.
        match ask(&mut connection, TaskCall::Wait { tasks: waits, mode, wait_ms }) {
            Ok(TaskAnswer::Waited { .. }) => {}
            Ok(_) => return Err(WireError::Unexpected { call: "wait" }.into()),
            // Its run has ended since, or its coordinator.
            Err(WireError::Refused(refusal)) if refusal.kind == FailureKind::NotFound => {}
            Err(error) if starter::is_absence(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How long the next call may wait.
fn left_until(deadline: Option<Instant>) -> Duration {
    match deadline {
        Some(deadline) => deadline.saturating_duration_since(Instant::now()).min(CALL_MAX),
        None => CALL_MAX,
    }
}
