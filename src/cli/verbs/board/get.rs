//! `callboard board get`.

use std::path::PathBuf;

use clap::Args;

use super::line;
use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Around};
use crate::cli::failure::Failure;
use crate::cli::{exit, output, records, starter};
use crate::control::{Answer, Call};
use crate::domain::board::BoardView;
use crate::domain::board::key::covers;

/// Show the board, an entry, or all entries below a prefix
///
/// `dep/npm` shows what is below it, `dep/npm/react` that entry. Works with no coordinator running,
/// too: it then shows what the journal says, ports and services of the last coordinator included.
///
/// Exit codes: 0, 1 a key or prefix was told that nothing is below, 2 usage, 3 the workspace cannot be
/// read, 5 internal.
#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// A key, or the beginning of keys up to a `/` [default: everything]
    #[arg(value_name = "KEY|PREFIX")]
    key: Option<String>,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Get {
    /// Shows it.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let told = self.key.unwrap_or_default();
        let around = coordinator::look(self.workspace.as_deref())?;
        let view = match asked(&around, &told)? {
            Some(view) => view,
            None => at_rest(&around, &told)?,
        };
        if self.json {
            output::print_json(&view)?;
        } else {
            output::print(view.entries.iter().map(line).collect::<String>())?;
        }
        let missing = !told.is_empty() && view.entries.is_empty();
        Ok(if missing { exit::FAILED } else { exit::SUCCEEDED })
    }
}

/// The coordinator's view; `None` when none runs.
fn asked(around: &Around, told: &str) -> Result<Option<BoardView>, Failure> {
    let Some(place) = &around.place else { return Ok(None) };
    let Some(mut connection) = place.connect()? else { return Ok(None) };
    match connection.ask(Call::ReadBoard { told: told.to_owned() }) {
        Ok(Answer::Board { view }) => Ok(Some(*view)),
        Ok(_) => Err(WireError::Unexpected { call: "read board" }.into()),
        Err(error) if starter::is_absence(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What the journal says.
fn at_rest(around: &Around, told: &str) -> Result<BoardView, Failure> {
    let Some(place) = &around.place else {
        let folder = around.root.file_name().map(|name| name.to_string_lossy().into_owned());
        return Ok(BoardView::of(folder.unwrap_or_default().as_str().into(), Vec::new()));
    };
    let mut view = records::board(&place.state)?;
    view.entries.retain(|entry| covers(told, &entry.key));
    Ok(BoardView::of(view.workspace_id, view.entries))
}
