//! `callboard status`.

use std::path::PathBuf;

use clap::Args;

use super::run_lines::outcome_word;
use super::session::reading::now;
use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Around};
use crate::cli::failure::Failure;
use crate::cli::table::fitted;
use crate::cli::{exit, output, records, starter};
use crate::control::{Answer, Call, RunLine, Status as Picture};
use crate::domain::ids::WorkspaceId;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::Timestamp;
use crate::report::words::{span, state_words};

/// How many ended runs are shown to people; `run ls` lists all.
const RUNS_MAX: usize = 10;

/// Show what runs and what waits: on what, since when, and until when at most.
///
/// Works with no coordinator running, too: it then tells what the journal and the state folder do.
///
/// Exit codes: 0 whatever there is, 2 usage, 3 the workspace cannot be read, 5 internal.
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
            output::print(words(&picture, now()))?;
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
    let lost = state.map(records::lost).transpose()?.unwrap_or_default();
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
        tasks: lost.iter().flat_map(|lost| lost.tasks.clone()).collect(),
        sessions: Vec::new(),
        waiting: lost.into_iter().map(|lost| lost.waiting).collect(),
    })
}

fn words(picture: &Picture, now: Timestamp) -> String {
    let since = |at: Timestamp| span(now.ms_since(at));
    let mut text = match &picture.coordinator {
        None => format!("workspace {}: no coordinator runs\n", picture.workspace_id),
        Some(line) => format!(
            "workspace {}: coordinator {} (callboard {}), up for {}\n",
            picture.workspace_id,
            line.pid,
            line.version,
            since(line.since)
        ),
    };
    let runs = picture.runs.iter().take(RUNS_MAX).map(|run| run_row(run, now)).collect();
    push_table(&mut text, fitted(&["RUN", "AGO", "OUTCOME", "TASKS"], runs));
    let tasks = picture.tasks.iter().map(|task| {
        vec![
            task.task_id.clone(),
            state_words(task.state).to_owned(),
            since(task.since),
            task.attempt.to_string(),
            task.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        ]
    });
    let heads = ["TASK", "STATE", "FOR", "ATTEMPT", "AGENT"];
    push_table(&mut text, fitted(&heads, tasks.collect()));
    let sessions = picture.sessions.iter().map(|session| {
        vec![
            session.session_id.to_string(),
            session.name.clone().unwrap_or_default(),
            session.state.clone(),
            session.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            origin(&session.origin),
        ]
    });
    let heads = ["SESSION", "NAME", "STATE", "PID", "WHAT FOR"];
    push_table(&mut text, fitted(&heads, sessions.collect()));
    let waiting = picture.waiting.iter().map(|waiting| {
        let left = waiting.deadline.map(|at| format!("in {}", span(at.ms_since(now))));
        let left = left.unwrap_or_else(|| "-".to_owned());
        vec![waiting.what.clone(), waiting.on.clone(), since(waiting.since), left]
    });
    let heads = ["WAITS", "ON", "FOR", "LIMIT"];
    push_table(&mut text, fitted(&heads, waiting.collect()));
    text
}

fn run_row(run: &RunLine, now: Timestamp) -> Vec<String> {
    let counts = run.counts.iter().filter(|(_, number)| **number > 0);
    let counts: Vec<_> =
        counts.map(|(state, number)| format!("{number} {}", state_words(*state))).collect();
    vec![
        run.run_id.to_string(),
        span(now.ms_since(run.started_at)),
        run.outcome.map_or("runs", outcome_word).to_owned(),
        counts.join(", "),
    ]
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
