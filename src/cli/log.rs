//! Traces: where they go, in which form, and that they do not grow without end.
//!
//! They go to stderr, a coordinator's always, a client's where `RUST_LOG` asks for them. That of a
//! coordinator which a client started is `serve.log` in the state folder: once it is long it is
//! renamed to `serve.log.1`, in place of the one before, and begun anew, so that the two together
//! stay below twice `LOG_BYTES_MAX` and a line.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use super::arguments::Verb;
use super::output;

/// The name of a coordinator's log in the state folder.
pub(super) const LOG: &str = "serve.log";
/// A log longer than this gives way to a new one.
pub(super) const LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// `json` or `text`.
const FORMAT: &str = "CALLBOARD_LOG_FORMAT";

/// Sets up what is logged, for the rest of the process.
pub(super) fn begin(verb: &Verb) {
    let serving = matches!(verb, Verb::Serve(_));
    if !serving && std::env::var_os("RUST_LOG").is_none() {
        return;
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|error| {
        if std::env::var_os("RUST_LOG").is_some_and(|filter| !filter.is_empty()) {
            output::note(format!(
                "warning: RUST_LOG is not understood ({error}): `info` is used\n"
            ));
        }
        EnvFilter::new("info")
    });
    let log = Mutex::new(Log::of_stderr());
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log);
    if wants_json() {
        subscriber.json().flatten_event(true).init();
    } else {
        subscriber.with_ansi(io::stderr().is_terminal()).init();
    }
}

fn wants_json() -> bool {
    match std::env::var(FORMAT).as_deref() {
        Ok("json") => true,
        Ok("text" | "") | Err(std::env::VarError::NotPresent) => false,
        _ => {
            output::note(format!(
                "warning: {FORMAT} is neither `json` nor `text`: `text` is used\n"
            ));
            false
        }
    }
}

/// Puts a long log aside. Whoever still writes to it writes to the one aside.
///
/// # Errors
/// When it cannot be renamed.
pub(super) fn put_aside(log: &Path) -> io::Result<()> {
    std::fs::rename(log, log.with_extension("log.1"))
}

/// Opens a log for writing at its end, for our user alone.
///
/// # Errors
/// When it cannot be.
pub(super) fn open(log: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(log)
}

/// stderr, kept short where it is a log of ours.
struct Log {
    is_own: bool,
    /// In it so far.
    bytes: u64,
}

impl Log {
    fn of_stderr() -> Self {
        let own = own_file();
        Self { is_own: own.is_some(), bytes: own.map_or(0, |(_, length)| length) }
    }
}

/// stderr becomes a new file. Where that fails the old one goes on, and is tried again when as much
/// again is in it.
fn turn(file: &Path) -> io::Result<()> {
    put_aside(file)?;
    let fresh = open(file)?;
    rustix::stdio::dup2_stderr(&fresh)?;
    Ok(())
}

/// The file behind stderr and its length, if it is a coordinator's log.
fn own_file() -> Option<(PathBuf, u64)> {
    let file = std::fs::read_link("/proc/self/fd/2").ok()?;
    if file.file_name()? != LOG {
        return None;
    }
    let open = rustix::fs::fstat(rustix::stdio::stderr()).ok()?;
    let named = file.symlink_metadata().ok()?;
    let is_it = named.is_file() && named.ino() == open.st_ino && named.dev() == open.st_dev;
    is_it.then_some((file, named.len()))
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_own && self.bytes > LOG_BYTES_MAX {
            self.bytes = 0;
            // Somebody else may have put it aside by now: then there is nothing to do.
            if let Some((file, length)) = own_file()
                && length > LOG_BYTES_MAX
            {
                // The old one is as good a place to write to.
                drop(turn(&file));
            }
        }
        self.bytes += bytes.len() as u64;
        io::stderr().write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
