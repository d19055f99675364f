//! Starting a coordinator as a process of its own, and waiting until it can be talked to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Connection, WireError};
use super::coordinator::Place;
use super::exit;
use super::failure::{Failure, Kind, reason};
use super::log::{self, LOG_BYTES_MAX};
use crate::control::FailureKind;

/// How long a coordinator may take from its start until it can be talked to. Replaying a journal
/// is part of it.
const START_MAX: Duration = Duration::from_secs(10);

/// How long to go on knocking once a coordinator that we started has died: another client's may
/// have won the race for the workspace and be about to listen.
const RIVAL_MAX: Duration = Duration::from_millis(500);

/// The shortest and the longest pause between two knocks.
const KNOCK_MIN: Duration = Duration::from_millis(1);
const KNOCK_MAX: Duration = Duration::from_millis(25);

/// How much of a dead coordinator's log is shown.
const LAST_WORDS_BYTES: u64 = 2048;
const LAST_WORDS_LINES: usize = 8;

/// All that a coordinator gets of the caller's environment; `LC_*` besides. What sessions get is
/// captured by each client and sent with its request.
const ENV_KEPT: [&str; 12] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "LANG",
    "TZ",
    "TMPDIR",
    "RUST_LOG",
    "CALLBOARD_LOG_FORMAT",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
];

/// Connects to the workspace's coordinator, and starts one where none runs.
///
/// # Errors
/// When none can be started in time, or one runs that cannot be talked to.
pub(super) fn connect_or_start(place: &Place) -> Result<Connection, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Kind::Machine, format!("cannot find this program's own file: {error}"))
    })?;
    let starter = Starter { place, program, patience: START_MAX };
    if is_inside(place) { starter.other_ones() } else { starter.connection() }
}

/// True inside a session of the place: a coordinator that is started there would end with it.
fn is_inside(place: &Place) -> bool {
    std::env::var_os("CALLBOARD_SOCKET").is_some_and(|socket| place.socket.as_os_str() == socket)
}

/// True when an error means that no coordinator runs, or that it is on its way out.
pub(super) fn is_absence(error: &WireError) -> bool {
    match error {
        WireError::Unreachable { source, .. } => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
        WireError::Refused(refusal) => refusal.kind == FailureKind::ShuttingDown,
        WireError::Lost => true,
        _ => false,
    }
}

/// Whether a coordinator may have this variable of the caller's environment.
pub(super) fn is_kept(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| ENV_KEPT.contains(&name) || name.starts_with("LC_"))
}

/// What a coordinator gets of the caller's environment.
pub(super) fn kept_environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_kept(name))
}

struct Starter<'a> {
    place: &'a Place,
    program: PathBuf,
    patience: Duration,
}

impl Starter<'_> {
    fn connection(&self) -> Result<Connection, Failure> {
        if let Some(connection) = self.knock()? {
            return Ok(connection);
        }
        let deadline = Instant::now() + self.patience;
        let (mut log, said_before) = self.open_log()?;
        let mut child = self.spawn(&log)?;
        let mut death: Option<(Instant, ExitStatus)> = None;
        let mut pause = KNOCK_MIN;
        loop {
            if let Some(connection) = self.knock()? {
                return Ok(connection);
            }
            let now = Instant::now();
            if death.is_none() {
                death = child.try_wait().ok().flatten().map(|status| (now, status));
            }
            match death {
                Some((at, status)) if now - at > RIVAL_MAX => {
                    if !status.success() || now > deadline {
                        return Err(self.last_words(&mut log, said_before, status));
                    }
                    // It left the workspace to another one, which has gone in the meantime.
                    child = self.spawn(&log)?;
                    death = None;
                }
                None if now > deadline => return Err(self.lateness(&child)),
                _ => {}
            }
            thread::sleep(pause);
            pause = (pause * 2).min(KNOCK_MAX);
        }
    }

    /// A coordinator that somebody else starts, as whoever waits for the session's end does.
    fn other_ones(&self) -> Result<Connection, Failure> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(connection) = self.knock()? {
                return Ok(connection);
            }
            if Instant::now() > deadline {
                let message = "no coordinator runs, and inside a session none is started";
                return Err(Failure::new(Kind::Coordinator, message)
                    .hint("any verb that needs one starts it from outside"));
            }
            thread::sleep(KNOCK_MAX);
        }
    }

    fn knock(&self) -> Result<Option<Connection>, Failure> {
        match Connection::open(&self.place.socket) {
            Ok(connection) => Ok(Some(connection)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn spawn(&self, log: &File) -> Result<Child, Failure> {
        let stderr = log.try_clone().map_err(|error| no_start(&error))?;
        Command::new(&self.program)
            .args(["serve", "--for-client", "--workspace"])
            .arg(&self.place.root)
            .current_dir(&self.place.state)
            .env_clear()
            .envs(kept_environment())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|error| no_start(&error))
    }

    /// The log, and how long it was before.
    fn open_log(&self) -> Result<(File, u64), Failure> {
        let path = self.place.log();
        let fail = |error: io::Error| Failure::file(&path, "write", &error);
        let mut log = log::open(&path).map_err(fail)?;
        let mut length = log.metadata().map_err(fail)?.len();
        if length > LOG_BYTES_MAX {
            log::put_aside(&path).map_err(fail)?;
            log = log::open(&path).map_err(fail)?;
            length = 0;
        }
        Ok((log, length))
    }

    fn last_words(&self, log: &mut File, from: u64, status: ExitStatus) -> Failure {
        let words = tail(log, from);
        let message = if words.is_empty() {
            format!("the coordinator ended at once, without a word ({status})")
        } else {
            format!("the coordinator ended at once ({status}):\n{words}")
        };
        let kind = match status.code() {
            Some(code) if code == i32::from(exit::ENVIRONMENT) => Kind::Machine,
            _ => Kind::Coordinator,
        };
        Failure { kind, ..self.failure(message) }
    }

    fn lateness(&self, child: &Child) -> Failure {
        self.failure(format!(
            "the coordinator (pid {}) was started and did not listen within {} s",
            child.id(),
            self.patience.as_secs()
        ))
    }

    fn failure(&self, message: String) -> Failure {
        Failure::new(Kind::Coordinator, message)
            .hint(format!("its log is `{}`", self.place.log().display()))
    }
}

fn no_start(error: &io::Error) -> Failure {
    Failure::new(Kind::Machine, format!("cannot start a coordinator: {}", reason(error)))
}

/// The last lines that were logged after `from`, indented.
fn tail(log: &mut File, from: u64) -> String {
    let length = log.metadata().map_or(from, |metadata| metadata.len());
    let from = from.max(length.saturating_sub(LAST_WORDS_BYTES));
    let mut bytes = Vec::new();
    if log.seek(SeekFrom::Start(from)).and_then(|_| log.read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(LAST_WORDS_LINES);
    lines[first..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn place(folder: &Path) -> Place {
        Place {
            doors: "/nonexistent".into(),
            root: folder.to_owned(),
            state: folder.to_owned(),
            socket: folder.join("control.sock"),
        }
    }

    fn start(folder: &Path, script: &str) -> Result<Connection, Failure> {
        let program = folder.join("serve.sh");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).unwrap();
        let place = place(folder);
        Starter { place: &place, program, patience: Duration::from_secs(2) }.connection()
    }

    #[test]
    fn a_coordinator_that_dies_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("serve.log"), "of an earlier start\n").unwrap();
        let failure = start(folder.path(), "echo 'journal: broken' >&2; exit 3").unwrap_err();
        assert_eq!(failure.kind, Kind::Machine);
        assert!(failure.message.contains("  journal: broken"), "{}", failure.message);
        assert!(!failure.message.contains("earlier"), "{}", failure.message);
    }

    #[test]
    fn a_coordinator_that_never_listens_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let failure = start(folder.path(), "echo $$ >pid; exec sleep 600").unwrap_err();
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        assert!(failure.message.contains(&format!("pid {pid}")), "{}", failure.message);
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    #[test]
    fn only_listed_variables_are_kept() {
        for (name, kept) in [
            ("HOME", true),
            ("LC_ALL", true),
            ("XDG_STATE_HOME", true),
            ("ANTHROPIC_BASE_URL", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("PORT", false),
            ("LD_PRELOAD", false),
            ("HOMEBREW", false),
        ] {
            assert_eq!(is_kept(OsStr::new(name)), kept, "{name}");
        }
    }
}
