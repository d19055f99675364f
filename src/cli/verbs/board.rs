//! `callboard board`: what everybody in the workspace needs to know.

mod get;
mod set;
mod watch;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::failure::Failure;
use crate::domain::board::{BoardEntry, Version, Writer};
use crate::domain::result::SCHEMA_VERSION;

/// Read, write and follow the board: dependencies, ports, files, services, contracts, notes.
///
/// The board fills itself with what is observed. Keys are `dep/ECOSYSTEM/NAME`, `port/HOST/N`,
/// `file/PATH`, `service/NAME`, `contract/NAME`, `git/REPO` and `note/…`.
///
/// Exit codes: 0, 1 the key has no entry, 2 usage, 3 the machine cannot, 5 internal.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  callboard board get\n  callboard board get dep/npm --json\n  \
    callboard board set note/plan '{\"step\": 2}'\n  callboard board watch contract --json"
)]
pub(in crate::cli) struct Board {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Get(get::Get),
    Set(set::Set),
    Rm(set::Remove),
    Watch(watch::Watch),
}

impl Board {
    /// Whether documents are wanted.
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.action {
            Action::Get(get) => get.json,
            Action::Set(set) => set.json,
            Action::Rm(remove) => remove.json,
            Action::Watch(watch) => watch.json,
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// When it cannot be done.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        match self.action {
            Action::Get(get) => get.run(),
            Action::Set(set) => set.run(),
            Action::Rm(remove) => remove.run(),
            Action::Watch(watch) => watch.run(),
        }
    }
}

/// An entry as a document of its own.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    key: &'a str,
    value: Option<&'a serde_json::Value>,
    version: &'a Version,
    writer: &'a Writer,
}

impl<'a> Document<'a> {
    fn of(entry: &'a BoardEntry) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            key: &entry.key,
            value: entry.value.as_ref(),
            version: &entry.version,
            writer: &entry.writer,
        }
    }
}

/// An entry as a line for people. Values come from agents: nothing in them moves the cursor.
fn line(entry: &BoardEntry) -> String {
    let value = entry.value.as_ref().map_or_else(|| "removed".to_owned(), ToString::to_string);
    let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let by = entry.writer.task.as_ref().map_or_else(String::new, |task| format!("  ({task})"));
    format!("{}  {value}{by}\n", entry.key)
}
