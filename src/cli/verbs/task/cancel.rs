//! `callboard task cancel`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::wait::{Goal, await_tasks};
use crate::cli::failure::{Failure, Kind};
use crate::cli::tasks::{Found, Tasks, ask, nowhere, standing};
use crate::cli::{exit, output};
use crate::control::{TaskAnswer, TaskCall, TaskLine, TaskRef};
use crate::domain::outcome::TaskState;
use crate::domain::result::SCHEMA_VERSION;

/// End tasks: running ones, and those that wait for anything
///
/// Returns once they have ended and nothing of them is left. They are cancelled, never failed, and
/// not retried. The rest of their runs goes on.
///
/// Exit codes: 0 all were cancelled, 1 one had ended otherwise before, 2 usage or no such task
/// (nothing is cancelled then).
#[derive(Debug, Args)]
pub(in crate::cli) struct Cancel {
    /// The tasks: RUN/ID, or an id
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Cancel {
    /// Ends them.
    ///
    /// # Errors
    /// When one is not known, or the coordinator cannot be talked to.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            tasks: &'a [TaskLine],
        }
        let Some(tasks) = Tasks::around(self.workspace.as_deref())? else {
            return Err(nowhere(&self.ids));
        };
        let (mut tasks, found) = tasks.find_to_change(&self.ids)?;
        end_live(&mut tasks, &found)?;
        let named: Vec<TaskRef> = found.into_iter().map(|found| found.task).collect();
        let lines = await_tasks(tasks.place, &named, Goal::All, None)?.lines;
        if self.json {
            output::print_json(&Document { schema_version: SCHEMA_VERSION, tasks: &lines })?;
        } else {
            for line in &lines {
                output::print(format!("{}: {}\n", line.task_id, standing(line)))?;
            }
        }
        let all = lines.iter().all(|line| line.state == TaskState::Cancelled);
        Ok(if all { exit::SUCCEEDED } else { exit::FAILED })
    }
}

/// Asks for the end of those whose runs go on.
fn end_live(tasks: &mut Tasks, found: &[Found]) -> Result<(), Failure> {
    let waits = |found: &&Found| found.past.is_some() && found.line.state == TaskState::Escalated;
    if let Some(waits) = found.iter().find(waits) {
        let message = format!(
            "`{}` waits for a decision in a run that has ended: it cannot be cancelled by itself",
            waits.task
        );
        let hint = format!("`callboard run --resume {}` goes on with the run", waits.task.run);
        return Err(Failure::new(Kind::Usage, message).hint(hint));
    }
    let live: Vec<TaskRef> =
        found.iter().filter(|found| found.past.is_none()).map(|found| found.task.clone()).collect();
    let Some(connection) = tasks.connection.as_mut().filter(|_| !live.is_empty()) else {
        return Ok(());
    };
    match ask(connection, TaskCall::Cancel { tasks: live })? {
        TaskAnswer::Tasks { .. } => Ok(()),
        _ => Err(crate::cli::client::WireError::Unexpected { call: "cancel" }.into()),
    }
}
