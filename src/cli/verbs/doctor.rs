//! `callboard doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::failure::Failure;
use crate::cli::{coordinator, exit, output};
use crate::report::checkup::Level;

/// Look at the machine and the workspace for what is missing, broken or left over.
///
/// Works with and without a coordinator, and outside of any workspace. Each finding is `ok`, a
/// `note`, a `warning` or a `problem`, with what it means and what to do. Looking changes nothing.
///
/// Exit codes: 0 nothing is a problem · 1 something is · 2 usage.
#[derive(Debug, Args)]
pub(in crate::cli) struct Doctor {
    /// The workspace's root [default: the workspace around here, or else your private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Mend what is certain: remove files and folders that are nobody's, end processes that carry
    /// the workspace's mark and have no session any more. Does nothing while a coordinator lives:
    /// what lies about is that one's
    #[arg(long)]
    fix: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl Doctor {
    /// Looks, and tells.
    ///
    /// # Errors
    /// When the workspace that was named is no folder.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let checkup = coordinator::check_up(self.workspace.as_deref(), self.fix)?;
        if self.json {
            output::print_json(&checkup)?;
        } else {
            output::print(checkup.words())?;
        }
        Ok(if checkup.level == Level::Problem { exit::FAILED } else { exit::SUCCEEDED })
    }
}
