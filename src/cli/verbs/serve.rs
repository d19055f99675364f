//! `callboard serve`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::coordinator::{self, Start};
use crate::cli::failure::Failure;
use crate::cli::{exit, sources};

/// Be the coordinator of a workspace.
///
/// Verbs that need a coordinator start one by themselves, which ends once nobody needs it. One that
/// is started by hand stays until it is told to end (Ctrl-C, or SIGTERM).
///
/// With --replace it takes a running coordinator's place, of this or another version: runs and
/// sessions go on, and clients follow.
#[derive(Debug, Args)]
pub(in crate::cli) struct Serve {
    /// The workspace's root [default: the workspace around here, or else this folder]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Take the place of the coordinator that runs, if one does
    #[arg(long, conflicts_with = "for_client")]
    replace: bool,
    /// Started by a client: detach from its terminal, and end once nobody needs us
    #[arg(long, hide = true)]
    for_client: bool,
}

impl Serve {
    /// Serves until told to end.
    ///
    /// # Errors
    /// When it cannot.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let root = match self.workspace {
            Some(root) => sources::real_folder(&root)?,
            None => {
                let here = sources::current_folder()?;
                coordinator::root_around(&here)?.unwrap_or(here)
            }
        };
        let how = match (self.for_client, self.replace) {
            (true, _) => Start::ForClient,
            (false, true) => Start::InPlace,
            (false, false) => Start::First,
        };
        coordinator::become_coordinator(root, how)?;
        Ok(exit::SUCCEEDED)
    }
}
