//! A workspace looked at thing by thing, with or without a coordinator.
//!
//! Looking changes nothing. What is mended needs the workspace's own lock, so nothing is mended
//! while a coordinator lives: what lies about then is that one's. No process is judged by its pid
//! alone.

use std::path::{Path, PathBuf};

use super::clock::Clock;
use super::ownership::{self, Owner};
use super::workspace::{Places, Workspace, WorkspaceError};
use crate::domain::time::Timestamp;
use crate::report::checkup::{Finding, Level};

mod disk;
mod leftovers;

/// What was found of a workspace: its root, and the findings.
pub type Found = (Option<PathBuf>, Vec<Finding>);

/// Who has a workspace.
#[derive(Debug)]
enum Having {
    /// Nobody.
    Nobody,
    /// A coordinator.
    Coordinator,
    /// Somebody who cannot be told.
    Unknown,
    /// We, to mend things, for as long as this is there.
    Ours { _owner: Owner },
}

impl Having {
    /// True when whatever lies about is nobody's.
    fn is_vacant(&self) -> bool {
        matches!(self, Self::Nobody | Self::Ours { .. })
    }

    fn may_mend(&self) -> bool {
        matches!(self, Self::Ours { .. })
    }
}

/// Looks at the workspace in `told`, or around `here`, or else at the user's private one.
///
/// # Errors
/// When `told` is no folder.
pub fn look(told: Option<&Path>, here: &Path, fix: bool) -> Result<Found, WorkspaceError> {
    let means = "state is kept below XDG_STATE_HOME or ~/.local/state";
    let places = match Places::from_env(|name| std::env::var_os(name)) {
        Ok(places) => places,
        Err(error) => {
            let finding = Finding::new("state-home", Level::Problem, error.to_string(), means)
                .todo("set HOME");
            return Ok((None, vec![finding]));
        }
    };
    let root = told.map(Path::to_owned).or_else(|| places.discover(here));
    let root = root.unwrap_or_else(|| places.state_home.join("callboard/private"));
    let workspace = match Workspace::look(&places, &root) {
        Err(WorkspaceError::NoRoot { .. }) if told.is_none() => None,
        looked => looked?,
    };
    let Some(workspace) = workspace else {
        let found = format!("none in `{}`", root.display());
        let means = "it is made by the first run or exec in it";
        return Ok((None, vec![Finding::new("workspace", Level::Note, found, means)]));
    };
    let findings = look_at(&workspace, fix);
    Ok((Some(workspace.root().to_owned()), findings))
}

fn look_at(workspace: &Workspace, fix: bool) -> Vec<Finding> {
    let root = workspace.root().display().to_string();
    let mut findings = vec![Finding::ok("workspace", root, "tasks share it")];
    let (having, said) = having(workspace, fix);
    findings.push(said);
    let last_at = disk::look(workspace, &having, &mut findings);
    findings.push(clock(last_at));
    leftovers::look(workspace, &having, &mut findings);
    findings
}

/// Who has the workspace. To mend things it is taken, if nobody has it.
fn having(workspace: &Workspace, fix: bool) -> (Having, Finding) {
    let means = "one process owns the workspace's journal and board, by a lock that ends with it";
    let id = "coordinator";
    if let Some(holder) = ownership::held(workspace.root()) {
        let found =
            format!("process {} (callboard {}) since {}", holder.pid, holder.version, holder.since);
        let finding = if holder.version == env!("CARGO_PKG_VERSION") {
            Finding::ok(id, found, means)
        } else {
            Finding::new(id, Level::Warning, found, "it is of another version than this program")
                .todo("`callboard serve --replace` goes on with what it has")
        };
        return (Having::Coordinator, finding);
    }
    if fix {
        let now = Clock::start(Timestamp::default()).now();
        return match ownership::take(workspace, env!("CARGO_PKG_VERSION"), now) {
            Ok(owner) => (Having::Ours { _owner: owner }, Finding::ok(id, "none runs", means)),
            Err(error) => {
                let finding = Finding::new(id, Level::Problem, error.to_string(), means)
                    .todo("nothing was mended: try again once the lock is free");
                (Having::Unknown, finding)
            }
        };
    }
    if is_locked(&workspace.lock()) {
        let found = "the lock is held by a process that cannot be told";
        let lock = workspace.lock();
        let finding = Finding::new(id, Level::Problem, found, means)
            .todo(format!("`fuser {}` may show it; it has to end", lock.display()));
        return (Having::Unknown, finding);
    }
    let found = match workspace.lock().metadata() {
        Ok(lock) if lock.len() > 0 => "none runs; the last one ended without a word",
        _ => "none runs",
    };
    (Having::Nobody, Finding::ok(id, found, means))
}

/// Whether anybody has the lock. It is tried for a moment, shared, by which nobody is kept out:
/// whoever takes it tries more than once.
fn is_locked(lock: &Path) -> bool {
    let Ok(file) = std::fs::File::open(lock) else { return false };
    let free = file.try_lock_shared();
    let _closing_would_do = file.unlock();
    matches!(free, Err(std::fs::TryLockError::WouldBlock))
}

fn clock(last_at: Option<Timestamp>) -> Finding {
    /// The beginning of 2024: callboard is younger.
    const YOUNGER: Timestamp = Timestamp(1_704_067_200_000);
    /// Clocks that are set right jump by this much.
    const JUMP_MS: u64 = 60_000;
    let now = Clock::start(Timestamp::default()).now();
    let means = "times of records; one that was set back goes on from the journal's last time";
    if now < YOUNGER {
        return Finding::new("clock", Level::Problem, now.to_string(), means).todo("set the clock");
    }
    match last_at.map(|last| last.ms_since(now)) {
        Some(behind) if behind > JUMP_MS => {
            let found = format!("{now}, {} s behind the journal", behind / 1000);
            Finding::new("clock", Level::Warning, found, means).todo("set the clock")
        }
        _ => Finding::ok("clock", now.to_string(), means),
    }
}
