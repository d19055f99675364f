//! `callboard gc`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::coordinator::{self, Collection, Kept, Litter};
use crate::cli::failure::Failure;
use crate::cli::{exit, output};

/// Say what the workspace keeps longer than it has to; with --apply, remove it.
///
/// That is what sessions left behind, and segments of the journal that only audits need, older than the
/// retention (7 days, or `retention` in agents.toml) or beyond their room (2 GiB); broken boards that
/// were set aside; and worktrees of tasks, once all that is in them is merged: the others are named. A coordinator does the same by itself. What is in use, or is needed to go on, is
/// never among it.
///
/// Exit codes: 0 whatever there is, 2 usage, 3 something cannot be read or removed.
#[derive(Debug, Args)]
pub(in crate::cli) struct Gc {
    /// Remove it
    #[arg(long)]
    apply: bool,
    /// The workspace's root [default: the workspace around here, or else your private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl Gc {
    /// Looks, and removes where it is told to.
    ///
    /// # Errors
    /// When something cannot be read or removed.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let collection = coordinator::collect(self.workspace.as_deref(), self.apply)?;
        if self.json {
            output::print_json(&collection)?;
        } else {
            output::print(words(&collection))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

fn words(collection: &Collection) -> String {
    let mut text = String::new();
    for Litter { kind, path, bytes, why } in &collection.items {
        let line = format!("{kind} `{}`, {bytes} bytes: {why}\n", path.display());
        text.push_str(&line);
    }
    for Kept { path, why } in &collection.kept {
        let line = format!("worktree `{}` stays: {why}\n", path.display());
        text.push_str(&line);
    }
    let total = format!("{} things, {} bytes", collection.items.len(), collection.bytes);
    let end = match (collection.items.is_empty(), collection.applied) {
        (true, _) => "nothing is kept longer than it has to be\n".to_owned(),
        (false, true) => format!("removed {total}\n"),
        (false, false) => format!("{total}: `callboard gc --apply` removes them\n"),
    };
    text + &end
}
