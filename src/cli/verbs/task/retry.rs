//! `callboard task retry`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::client::WireError;
use crate::cli::failure::Failure;
use crate::cli::tasks::{Tasks, ask, nowhere};
use crate::cli::{exit, output};
use crate::control::{TaskAnswer, TaskCall};
use crate::domain::result::SCHEMA_VERSION;

/// Give a task another attempt
///
/// Takes a task that is settled, however, or waits for a decision. Its attempts are counted on, and
/// what was skipped because of it waits for it again. A run that has ended without success is taken
/// up again for it; one that has succeeded, or ended too long ago, is not.
///
/// Exit codes: 0 it is on its way, 2 usage, no such task, or one that cannot be retried.
#[derive(Debug, Args)]
pub(in crate::cli) struct Retry {
    /// The task: RUN/ID, or an id
    #[arg(value_name = "ID")]
    id: String,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Retry {
    /// Asks for it.
    ///
    /// # Errors
    /// When the task is not known or cannot be retried.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let names = std::slice::from_ref(&self.id);
        let Some(mut tasks) = Tasks::around(self.workspace.as_deref())? else {
            return Err(nowhere(names));
        };
        let found = tasks.find_one(&self.id)?;
        let mut connection = match tasks.connection.take() {
            Some(connection) => connection,
            // Its run has ended, or was lost: another coordinator takes it up again.
            None => tasks.place.connect_or_start()?,
        };
        let TaskAnswer::Tasks { tasks: lines } =
            ask(&mut connection, TaskCall::Retry { task: found.task.clone() })?
        else {
            return Err(WireError::Unexpected { call: "retry" }.into());
        };
        let line = lines.first().ok_or(WireError::Unexpected { call: "retry" })?;
        if self.json {
            let mut document = serde_json::to_value(line).unwrap_or_default();
            document["schema_version"] = SCHEMA_VERSION.into();
            output::print_json(&document)?;
        } else {
            let state = crate::report::words::state_words(line.state);
            output::print(format!("{}: {state} for another attempt\n", line.task_id))?;
        }
        Ok(exit::SUCCEEDED)
    }
}
