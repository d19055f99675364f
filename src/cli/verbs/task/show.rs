//! `callboard task show`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::attempts::{self, AttemptLine};
use crate::cli::client::WireError;
use crate::cli::failure::{Failure, Kind};
use crate::cli::tasks::{Found, Tasks, nowhere, standing};
use crate::cli::{exit, output};
use crate::control::{Answer, Call, TaskCall, Waiting};
use crate::domain::event::AttemptEnd;
use crate::domain::result::{CommandResult, SCHEMA_VERSION};
use crate::report::record::TaskReport;
use crate::report::words::{reason_words, span, words};

/// Show a task: where it stands, what it waits for, its attempts, its session, its commands
///
/// Exit codes: 0 whatever became of it, 2 no such task.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// The task: RUN/ID, or an id
    #[arg(value_name = "ID")]
    id: String,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// All that is known of a task.
struct Shown {
    found: Found,
    report: TaskReport,
    waiting: Option<Waiting>,
    history: Vec<AttemptLine>,
}

impl Show {
    /// Shows it.
    ///
    /// # Errors
    /// When there is no such task.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let shown = self.shown()?;
        if self.json {
            output::print_json(&document(&shown)?)?;
        } else {
            output::print(text(&shown))?;
        }
        Ok(exit::SUCCEEDED)
    }

    fn shown(&self) -> Result<Shown, Failure> {
        // Once more for a run that ends between two questions.
        for _ in 0..2 {
            let Some(mut tasks) = Tasks::around(self.workspace.as_deref())? else { break };
            let found = tasks.find_one(&self.id)?;
            let live = match &found.past {
                Some(report) => Some(((**report).clone(), None)),
                None => ask_live(&mut tasks, &found)?,
            };
            if let Some((report, waiting)) = live {
                let history = attempts::of_task(&tasks.place.state, &found.task)?;
                return Ok(Shown { found, report, waiting, history });
            }
        }
        Err(nowhere(std::slice::from_ref(&self.id)))
    }
}

/// What the coordinator tells of it; `None` when its run has ended since.
fn ask_live(
    tasks: &mut Tasks,
    found: &Found,
) -> Result<Option<(TaskReport, Option<Waiting>)>, Failure> {
    let Some(connection) = &mut tasks.connection else { return Ok(None) };
    let call = TaskCall::Show { task: found.task.clone() };
    let report = match connection.ask(Call::Task { task: Box::new(call) }) {
        Ok(Answer::Report { report }) => report,
        Ok(_) => return Err(WireError::Unexpected { call: "task" }.into()),
        Err(error) => {
            let failure = Failure::from(error);
            return if failure.kind == Kind::NotFound { Ok(None) } else { Err(failure) };
        }
    };
    let waiting = match connection.ask(Call::Status)? {
        Answer::Status { status } => {
            status.waiting.into_iter().find(|waiting| waiting.what == found.line.task_id)
        }
        _ => return Err(WireError::Unexpected { call: "status" }.into()),
    };
    Ok(report.tasks.into_iter().next().map(|task| (task, waiting)))
}

/// The shape that reports have, and what a report does not say.
fn document(shown: &Shown) -> Result<Value, Failure> {
    let Shown { found, report, waiting, history } = shown;
    let mut document = serde_json::to_value(report).map_err(std::io::Error::from)?;
    document["schema_version"] = SCHEMA_VERSION.into();
    document["task_id"] = found.line.task_id.clone().into();
    document["run_id"] = found.task.run.as_str().into();
    document["since"] = json!(found.line.since);
    document["waiting"] = json!(waiting);
    document["history"] = json!(history);
    Ok(document)
}

fn text(shown: &Shown) -> String {
    let Shown { found, report, waiting, history } = shown;
    let mut text = format!("{}: {}\n", found.line.task_id, standing(&found.line));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _infallible = writeln!(text, "  {name:<9} {value}");
        }
    };
    line("since", found.line.since.to_string());
    if let Some(waiting) = waiting {
        let until = waiting.deadline.map(|at| format!(", until {at}")).unwrap_or_default();
        line("waits", format!("for {} since {}{until}", waiting.on, waiting.since));
    }
    line("agent", report.agent.as_ref().map(ToString::to_string).unwrap_or_default());
    line("needs", report.needs.iter().map(|tag| tag.as_str()).collect::<Vec<_>>().join(", "));
    let after: Vec<_> = report.waited_on.iter().map(|id| id.as_str()).collect();
    line("after", after.join(", "));
    line("session", report.session_id.as_ref().map(ToString::to_string).unwrap_or_default());
    if report.started_at.is_some() {
        line("took", span(report.duration_ms));
    }
    for attempt in history {
        line(
            &format!("attempt {}", attempt.attempt),
            format!("{} on {}: {}", attempt.session_id, attempt.agent, end_words(attempt)),
        );
    }
    for command in &report.commands {
        line("command", command_words(command));
    }
    text
}

fn end_words(attempt: &AttemptLine) -> String {
    match &attempt.end {
        None => "runs".to_owned(),
        Some(AttemptEnd::Succeeded) => "succeeded".to_owned(),
        Some(AttemptEnd::Cancelled) => "cancelled".to_owned(),
        Some(AttemptEnd::Conflict { conflict }) => {
            format!("backed off: {} is held by {}", conflict.resource, conflict.holder)
        }
        Some(AttemptEnd::TimedOut { reason }) => format!("timed out ({})", words(reason)),
        Some(
            AttemptEnd::Failed { reason, .. }
            | AttemptEnd::NeedsInput { reason }
            | AttemptEnd::VerifyFailed { reason }
            | AttemptEnd::PolicyAsks { reason },
        ) => words(reason),
    }
}

fn command_words(command: &CommandResult) -> String {
    let first = command.command.lines().next().unwrap_or_default();
    let state = serde_json::to_value(command.state).unwrap_or_default();
    let state = state.as_str().unwrap_or_default().replace('_', " ");
    match &command.reason {
        Some(reason) => format!("{first}: {state} ({})", reason_words(reason)),
        None => format!("{first}: {state}"),
    }
}
