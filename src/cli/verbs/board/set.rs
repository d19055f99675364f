//! `callboard board set` and `board rm`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Document;
use crate::cli::client::WireError;
use crate::cli::coordinator;
use crate::cli::failure::Failure;
use crate::cli::sources::current_folder;
use crate::cli::{exit, output};
use crate::control::{Answer, Call};
use crate::domain::board::{BoardEntry, key};

/// Put an entry on the board
///
/// Returns once the journal has it. A coordinator is started where none runs. Inside a session notes,
/// contracts and services can be set, and changed where the same task has set them.
#[derive(Debug, Args)]
pub(in crate::cli) struct Set {
    /// The key, as `note/plan` or `contract/api`
    #[arg(value_name = "KEY")]
    key: String,
    /// The value, as JSON; a text in its quotes: '"done"'
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    value: String,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document: the entry
    #[arg(long)]
    pub(super) json: bool,
}

/// Take an entry off the board
///
/// Returns once the journal has it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Remove {
    /// The key
    #[arg(value_name = "KEY")]
    key: String,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document: the entry, without a value
    #[arg(long)]
    pub(super) json: bool,
}

impl Set {
    /// Sets it.
    ///
    /// # Errors
    /// When the key or the value is not taken, or no coordinator can be had.
    pub(super) fn run(self) -> Result<u8, Failure> {
        check(&self.key)?;
        let value = serde_json::from_str(&self.value).map_err(|error| {
            Failure::usage(format!("the value is not JSON: {error}"))
                .hint("a text is written with its quotes, as in '\"done\"'")
        })?;
        let entry = write(self.workspace.as_deref(), Call::SetEntry { key: self.key, value })?;
        tell(&entry, self.json)
    }
}

impl Remove {
    /// Removes it.
    ///
    /// # Errors
    /// When there is none, or no coordinator can be had.
    pub(super) fn run(self) -> Result<u8, Failure> {
        check(&self.key)?;
        let entry = write(self.workspace.as_deref(), Call::RemoveEntry { key: self.key })?;
        tell(&entry, self.json)
    }
}

/// A key that no board takes starts no coordinator.
fn check(told: &str) -> Result<(), Failure> {
    let fault = |fault| {
        let shown: String = told.chars().take(80).collect();
        Failure::usage(format!("board key `{}`: {fault}", shown.escape_debug()))
            .hint("keys look like `note/plan`, `contract/api`, `dep/npm/react`")
    };
    key::check(told).map(drop).map_err(fault)
}

fn write(told: Option<&Path>, call: Call) -> Result<BoardEntry, Failure> {
    let place = match told {
        Some(root) => coordinator::open(&crate::cli::sources::real_folder(root)?, None)?,
        None => coordinator::for_command(&current_folder()?)?,
    };
    match place.connect_or_start()?.ask(call)? {
        Answer::EntryWritten { entry } => Ok(*entry),
        _ => Err(WireError::Unexpected { call: "write entry" }.into()),
    }
}

fn tell(entry: &BoardEntry, json: bool) -> Result<u8, Failure> {
    if json {
        output::print_json(&Document::of(entry))?;
    }
    Ok(exit::SUCCEEDED)
}
