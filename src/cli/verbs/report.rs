//! `callboard report`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::client::WireError;
use crate::cli::failure::{Failure, Kind};
use crate::cli::{coordinator, exit, output, records, summary};
use crate::control::{Answer, Call};
use crate::domain::ids::RunId;
use crate::report::record::RunReport;

/// Show how a run went.
///
/// Needs no coordinator for a run that has ended. Exits with 0 whatever the run came to.
#[derive(Debug, Args)]
pub(in crate::cli) struct Report {
    /// The run
    #[arg(value_name = "RUN")]
    id: String,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print the run's whole record as one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl Report {
    /// Shows it.
    ///
    /// # Errors
    /// When there is no such run.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let report = find(&RunId::new(self.id), self.workspace.as_deref())?;
        if self.json {
            output::print_json(&report)?;
        } else {
            output::print(summary::overview(&report))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

/// From the coordinator where one runs, from the state folder otherwise.
fn find(run: &RunId, workspace: Option<&std::path::Path>) -> Result<RunReport, Failure> {
    let place = coordinator::look(workspace)?.place;
    let Some(place) = place else { return Err(records::unknown_run(run)) };
    if let Some(mut connection) = place.connect()? {
        match connection.ask(Call::Report { run: run.clone() }) {
            Ok(Answer::Report { report }) => return Ok(*report),
            Ok(_) => return Err(WireError::Unexpected { call: "report" }.into()),
            // On its way out: what it knew is in the folder.
            Err(error) if crate::cli::starter::is_absence(&error) => {}
            Err(error) => {
                let failure = Failure::from(error);
                let known = failure.kind != Kind::NotFound;
                return Err(if known { failure } else { records::unknown_run(run) });
            }
        }
    }
    records::report(&place.state, run)?.ok_or_else(|| records::unknown_run(run))
}
