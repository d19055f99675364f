//! `callboard audit`.

mod show;
mod telling;
mod verify;

use clap::{Args, Subcommand};

use crate::cli::failure::Failure;

/// Read the journal: what happened in a workspace, and whether the record of it is whole.
///
/// Works with and without a coordinator, and changes nothing.
#[derive(Debug, Args)]
pub(in crate::cli) struct Audit {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Show(show::Show),
    Verify(verify::Verify),
}

impl Audit {
    /// Whether a document is asked for.
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.what {
            What::Show(show) => show.json,
            What::Verify(verify) => verify.json,
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// When there is no workspace, or its journal cannot be read.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        match self.what {
            What::Show(show) => show.run(),
            What::Verify(verify) => verify.run(),
        }
    }
}
