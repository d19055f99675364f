//! The doors between the command line and the daemon: where a workspace's coordinator is, and
//! becoming one. This is the one file of the command line that knows the daemon.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::Connection;
use super::failure::{Failure, Kind, reason};
use super::starter::{connect_or_start, is_absence, is_kept, kept_environment};
use crate::daemon::serve::{ServeOptions, serve};

/// A workspace as the command line sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its root, absolute.
    pub root: PathBuf,
    /// Where its coordinator keeps the journal and the reports.
    pub state: PathBuf,
    /// Where its coordinator listens.
    pub socket: PathBuf,
}

impl Place {
    /// What its coordinators say.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state.join("serve.log")
    }

    /// Connects to its coordinator; `None` when none runs.
    ///
    /// # Errors
    /// When one runs that cannot be talked to.
    pub fn connect(&self) -> Result<Option<Connection>, Failure> {
        match Connection::open(&self.socket) {
            Ok(connection) => Ok(Some(connection)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to its coordinator, and starts one where none runs.
    ///
    /// # Errors
    /// When none can be started in time, or one runs that cannot be talked to.
    pub fn connect_or_start(&self) -> Result<Connection, Failure> {
        connect_or_start(self)
    }
}

/// Becomes the workspace's coordinator until its work is done. One that a client started leaves
/// the client's terminal first, and either way the caller's environment.
///
/// # Errors
/// When it cannot serve.
pub fn become_coordinator(root: PathBuf, for_client: bool) -> Result<(), Failure> {
    if for_client {
        // Refused only to the leader of a process group, as when a person tries this by hand.
        let _still_attached = rustix::process::setsid();
    }
    shed_environment()?;
    serve(ServeOptions { root, for_client })
        .map_err(|error| Failure::new(Kind::Coordinator, error.to_string()))
}

/// Executes this program anew when its environment holds more than it may: what `/proc` shows of
/// a process is what it was started with, whatever it removes later.
fn shed_environment() -> Result<(), Failure> {
    if std::env::vars_os().all(|(name, _)| is_kept(&name)) {
        return Ok(());
    }
    let error = Command::new("/proc/self/exe")
        .arg0("callboard")
        .args(std::env::args_os().skip(1))
        .env_clear()
        .envs(kept_environment())
        .exec();
    Err(Failure::new(
        Kind::Machine,
        format!("cannot execute this program anew: {}", reason(&error)),
    ))
}
