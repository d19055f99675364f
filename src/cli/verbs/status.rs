//! `callboard status`.

use std::path::PathBuf;

use clap::Args;

use super::run_lines::run_table;
use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Around};
use crate::cli::failure::Failure;
use crate::cli::table::table;
use crate::cli::{exit, output, records, starter};
use crate::control::{Answer, Call, Status as Picture};
use crate::domain::ids::WorkspaceId;
use crate::domain::result::SCHEMA_VERSION;
use crate::report::words::state_words;

/// How many ended runs are shown to people; `run ls` lists all.
const RUNS_MAX: usize = 10;

/// Show what runs and what waits.
///
/// Works with no coordinator running, too: the runs then come from the workspace's state folder.
#[derive(Debug, Args)]
pub(in crate::cli) struct Status {
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl Status {
    /// Shows it.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let around = coordinator::look(self.workspace.as_deref())?;
        let picture = match asked(&around)? {
            Some(picture) => picture,
            None => at_rest(&around)?,
        };
        if self.json {
            output::print_json(&picture)?;
        } else {
            output::print(words(&picture))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

/// The coordinator's picture; `None` when none runs.
fn asked(around: &Around) -> Result<Option<Picture>, Failure> {
    let Some(place) = &around.place else { return Ok(None) };
    let Some(mut connection) = place.connect()? else { return Ok(None) };
    match connection.ask(Call::Status) {
        Ok(Answer::Status { status }) => Ok(Some(*status)),
        Ok(_) => Err(WireError::Unexpected { call: "status" }.into()),
        Err(error) if starter::is_absence(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What the state folder shows while no coordinator runs.
fn at_rest(around: &Around) -> Result<Picture, Failure> {
    let state = around.place.as_ref().map(|place| place.state.as_path());
    let runs = state.map(records::runs).transpose()?.unwrap_or_default();
    let newest = runs.first().map(|line| &line.run_id);
    let report = match (state, newest) {
        (Some(state), Some(run)) => records::report(state, run).ok().flatten(),
        _ => None,
    };
    let folder = around.root.file_name().map(|name| name.to_string_lossy().into_owned());
    let workspace_id = report
        .map(|report| report.workspace_id)
        .unwrap_or_else(|| WorkspaceId::new(folder.unwrap_or_else(|| "/".to_owned())));
    Ok(Picture {
        schema_version: SCHEMA_VERSION,
        workspace_id,
        coordinator: None,
        runs,
        tasks: Vec::new(),
        sessions: Vec::new(),
        waiting: Vec::new(),
    })
}

fn words(picture: &Picture) -> String {
    let mut text = match &picture.coordinator {
        None => format!("workspace {}: no coordinator runs\n", picture.workspace_id),
        Some(line) => format!(
            "workspace {}: coordinator {} (callboard {}) since {}\n",
            picture.workspace_id, line.pid, line.version, line.since
        ),
    };
    let shown = &picture.runs[..picture.runs.len().min(RUNS_MAX)];
    push_table(&mut text, run_table(shown));
    let tasks: Vec<_> = picture
        .tasks
        .iter()
        .map(|task| {
            vec![
                task.task_id.clone(),
                state_words(task.state).to_owned(),
                task.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
                task.attempt.to_string(),
                task.since.to_string(),
            ]
        })
        .collect();
    push_table(&mut text, table(&["TASK", "STATE", "AGENT", "ATTEMPT", "SINCE"], &tasks));
    let sessions: Vec<_> = picture
        .sessions
        .iter()
        .map(|session| {
            vec![
                session.session_id.to_string(),
                session.name.clone().unwrap_or_default(),
                session.state.clone(),
                session.pid.map(|pid| pid.to_string()).unwrap_or_default(),
                origin(&session.origin),
            ]
        })
        .collect();
    push_table(&mut text, table(&["SESSION", "NAME", "STATE", "PID", "FOR"], &sessions));
    let waiting: Vec<_> = picture
        .waiting
        .iter()
        .map(|waiting| {
            let until = waiting.deadline.map(|at| at.to_string()).unwrap_or_default();
            vec![waiting.what.clone(), waiting.on.clone(), waiting.since.to_string(), until]
        })
        .collect();
    push_table(&mut text, table(&["WAITS", "ON", "SINCE", "UNTIL"], &waiting));
    text
}

fn origin(origin: &crate::control::Origin) -> String {
    let what = origin.task.clone().or_else(|| origin.command.clone()).unwrap_or_default();
    let kind = if origin.service { "service" } else { origin.purpose.as_str() };
    let what = what.lines().next().unwrap_or_default();
    format!("{kind} {what}").trim_end().to_owned()
}

fn push_table(text: &mut String, table: String) {
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table);
    }
}
