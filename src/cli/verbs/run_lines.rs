//! `callboard run ls` and `callboard run cancel`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Place};
use crate::cli::failure::{Failure, Kind};
use crate::cli::table::table;
use crate::cli::{exit, output, records, starter};
use crate::control::{Answer, Call, RunLine};
use crate::domain::event::CancelWhy;
use crate::domain::ids::RunId;
use crate::domain::result::SCHEMA_VERSION;
use crate::report::words::{cause_words, state_words};

/// List the workspace's runs, newest first
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// End a run that goes on
///
/// Returns once its end has begun: `report` says when it is over.
#[derive(Debug, Args)]
pub(in crate::cli) struct Cancel {
    /// The run
    #[arg(value_name = "RUN")]
    id: String,
    /// Straight to KILL, without a grace
    #[arg(long)]
    now: bool,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl List {
    /// Lists them.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            runs: &'a [RunLine],
        }
        let runs = match coordinator::look(self.workspace.as_deref())?.place {
            Some(place) => known_runs(&place)?,
            None => Vec::new(),
        };
        if self.json {
            output::print_json(&Document { schema_version: SCHEMA_VERSION, runs: &runs })?;
        } else if runs.is_empty() {
            output::note("no runs in this workspace\n");
        } else {
            output::print(run_table(&runs))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

impl Cancel {
    /// Begins its end.
    ///
    /// # Errors
    /// When there is no such run, or it has ended.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            run_id: &'a RunId,
            cancelling: bool,
        }
        let run = RunId::new(self.id);
        cancel(&run, self.now, self.workspace.as_deref())?;
        if self.json {
            let schema_version = SCHEMA_VERSION;
            output::print_json(&Document { schema_version, run_id: &run, cancelling: true })?;
        } else {
            output::print(format!("ending run {run}\n"))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

fn cancel(run: &RunId, now: bool, workspace: Option<&Path>) -> Result<(), Failure> {
    let Some(place) = coordinator::look(workspace)?.place else {
        return Err(records::unknown_run(run));
    };
    // One that was cut off goes on with the next coordinator: it is that one's to end.
    let connection = match place.connect()? {
        None if records::is_open(&place.state, run)? => Some(place.connect_or_start()?),
        connection => connection,
    };
    if let Some(mut connection) = connection {
        return match connection.ask(Call::CancelRun { run: run.clone(), now }) {
            Ok(Answer::Cancelling) => Ok(()),
            Ok(_) => Err(WireError::Unexpected { call: "cancel_run" }.into()),
            Err(error) => Err(error.into()),
        };
    }
    if records::report(&place.state, run)?.is_some() {
        let message = format!("run {run} has ended already");
        return Err(
            Failure::new(Kind::Usage, message).hint(format!("how it went: callboard report {run}"))
        );
    }
    Err(records::unknown_run(run))
}

/// The runs as the coordinator knows them, or else as the state folder does.
fn known_runs(place: &Place) -> Result<Vec<RunLine>, Failure> {
    if let Some(mut connection) = place.connect()? {
        match connection.ask(Call::ListRuns) {
            Ok(Answer::Runs { runs }) => return Ok(runs),
            Ok(_) => return Err(WireError::Unexpected { call: "list_runs" }.into()),
            // On its way out: what it knew is in the folder.
            Err(error) if starter::is_absence(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    records::runs(&place.state)
}

/// The runs for people.
fn run_table(runs: &[RunLine]) -> String {
    let rows: Vec<_> = runs.iter().map(row).collect();
    table(&["RUN", "STARTED", "OUTCOME", "EXIT", "TASKS"], &rows)
}

fn row(line: &RunLine) -> Vec<String> {
    let counts = line.counts.iter().filter(|(_, number)| **number > 0);
    let counts: Vec<_> =
        counts.map(|(state, number)| format!("{number} {}", state_words(*state))).collect();
    vec![
        line.run_id.to_string(),
        line.started_at.to_string(),
        outcome(line),
        line.exit_code.map(|code| code.to_string()).unwrap_or_default(),
        counts.join(", "),
    ]
}

fn outcome(line: &RunLine) -> String {
    let word = line.outcome.map_or("running", outcome_word);
    match line.cancelled {
        None | Some(CancelWhy::Requested) => word.to_owned(),
        Some(why) => format!("{word}: {}", cause_words(&why.cause())),
    }
}

pub(super) fn outcome_word(outcome: crate::domain::outcome::RunOutcome) -> &'static str {
    use crate::domain::outcome::RunOutcome;
    match outcome {
        RunOutcome::Succeeded => "succeeded",
        RunOutcome::Failed => "failed",
        RunOutcome::Environment => "environment",
        RunOutcome::Escalated => "escalated",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Incomplete => "incomplete",
    }
}
