//! `callboard session`: terminal sessions that are kept.

mod attach;
mod close;
mod detach;
mod growth;
mod interrupt;
mod list;
mod new;
mod picture;
mod read;
pub(in crate::cli) mod reading;
mod replay;
mod screen;
mod send;
mod show;
pub(in crate::cli) mod source;
mod telling;
mod until;

use clap::{Args, Subcommand};

use crate::cli::failure::Failure;

/// Open, list, read, answer and close terminal sessions.
///
/// ID is a session's id, the unique beginning of one, or its name. Sessions belong to the workspace
/// around here, or else to your private one. One that nobody uses closes by itself after 30 minutes,
/// or after --ttl or `session_ttl` of agents.toml; commands, input and reading use it, `ls`, `show`
/// and `status` do not.
///
/// Exit codes: 0, 1 what was asked for cannot be, 2 usage, no such session, or one that has ended,
/// 3 the machine cannot, or as many sessions are open as may be, 5 internal; `read` says of its own.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  callboard session new build\n  callboard exec --session build \
    -- cargo build\n  callboard session send build yes --enter\n  callboard session read build \
    --until exit --timeout 5m\n  callboard session close build"
)]
pub(in crate::cli) struct Session {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    New(new::New),
    Ls(list::List),
    Show(show::Show),
    Close(close::Close),
    Send(send::Send),
    Interrupt(interrupt::Interrupt),
    Screen(screen::Screen),
    Read(read::Read),
    Attach(attach::Attach),
    Replay(replay::Replay),
}

impl Session {
    /// Whether documents are wanted.
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.action {
            Action::New(new) => new.json,
            Action::Ls(list) => list.json,
            Action::Show(show) => show.json,
            Action::Close(close) => close.json,
            Action::Send(send) => send.json,
            Action::Interrupt(interrupt) => interrupt.json,
            Action::Screen(screen) => screen.json,
            Action::Read(read) => read.json,
            Action::Attach(_) | Action::Replay(_) => false,
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// When it cannot be done.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        match self.action {
            Action::New(new) => new.run(),
            Action::Ls(list) => list.run(),
            Action::Show(show) => show.run(),
            Action::Close(close) => close.run(),
            Action::Send(send) => send.run(),
            Action::Interrupt(interrupt) => interrupt.run(),
            Action::Screen(screen) => screen.run(),
            Action::Read(read) => read.run(),
            Action::Attach(attach) => attach.run(),
            Action::Replay(replay) => replay.run(),
        }
    }
}
