//! `callboard task`: single tasks of runs.

mod cancel;
mod dispatch;
mod list;
mod logs;
mod retry;
mod show;
mod wait;

use clap::{Args, Subcommand};

use crate::cli::failure::Failure;

/// List, show, end, retry, await and dispatch single tasks.
///
/// A task is named RUN/ID, or by its id alone: that of the newest run that has it. Tasks of runs
/// that have ended can be listed, shown and read as well, without a coordinator.
///
/// Exit codes: 0, 1 what was asked for cannot be, 2 usage or no such task, 3 the machine cannot,
/// 5 internal; `wait` says of its own.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  callboard task dispatch --needs rust --run 'cargo build'\n  \
    callboard task wait t1 t2 --timeout 10m\n  callboard task logs t1 --follow\n  \
    callboard task cancel r-k3v9x2ab/build")]
pub(in crate::cli) struct Task {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Ls(list::List),
    Show(show::Show),
    Logs(logs::Logs),
    Cancel(cancel::Cancel),
    Retry(retry::Retry),
    Wait(wait::Wait),
    Dispatch(Box<dispatch::Dispatch>),
}

impl Task {
    /// Whether documents are wanted.
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.action {
            Action::Ls(list) => list.json,
            Action::Show(show) => show.json,
            Action::Logs(_) => false,
            Action::Cancel(cancel) => cancel.json,
            Action::Retry(retry) => retry.json,
            Action::Wait(wait) => wait.json,
            Action::Dispatch(dispatch) => dispatch.json,
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// When it cannot be done.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        match self.action {
            Action::Ls(list) => list.run(),
            Action::Show(show) => show.run(),
            Action::Logs(logs) => logs.run(),
            Action::Cancel(cancel) => cancel.run(),
            Action::Retry(retry) => retry.run(),
            Action::Wait(wait) => wait.run(),
            Action::Dispatch(dispatch) => dispatch.run(),
        }
    }
}
