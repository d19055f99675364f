//! What a workspace keeps longer than it has to, for whoever wants to see it go at once: a
//! coordinator removes most of it by itself, in time.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::clock::Clock;
use super::retention;
use super::workspace::Workspace;
use super::worktrees::{left, repository};
use crate::domain::ids::SessionId;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::Timestamp;
use crate::journal::{JournalError, remove_spare};
use crate::session::door;
use crate::session::sweep;

pub use super::lifecycle::RETENTION_MS;

/// Something that can go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Litter {
    /// `transcript`, `segment`, `board` or `worktree`.
    pub kind: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// The room that it takes.
    pub bytes: u64,
    /// Why it can go.
    pub why: String,
}

/// All of it (`gc --json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Collection {
    /// Version of this document's shape.
    pub schema_version: u32,
    /// True when it has been removed.
    pub applied: bool,
    /// The room that it takes together.
    pub bytes: u64,
    /// Each.
    pub items: Vec<Litter>,
    /// Worktrees of tasks that stay.
    pub kept: Vec<Kept>,
}

/// Something that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Where it is.
    pub path: PathBuf,
    /// Why it stays.
    pub why: String,
}

/// Why it cannot be looked at or removed.
#[derive(Debug, thiserror::Error)]
pub enum LitterError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Anything else.
    #[error("looking after `{}`: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Looks for what can go, and removes it where that is asked for. Sessions that are `open`, or wait for
/// a coordinator, are left alone.
///
/// # Errors
/// When something cannot be read or removed.
pub fn collect(
    workspace: &Workspace,
    mut open: HashSet<SessionId>,
    retention_ms: u64,
    apply: bool,
) -> Result<Collection, LitterError> {
    let sessions = workspace.state().join("sessions");
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| LitterError::Io { path, source }
    };
    let waits = |id: &SessionId| {
        door::file(&workspace.doors(), id).exists()
            || sweep::holder_of(&sessions.join(id.as_str())).is_some()
    };
    let due = retention::due_transcripts(&sessions, &open, retention_ms).map_err(io(&sessions))?;
    open.extend(due.iter().map(|(id, _)| id.clone()).filter(waits));
    let mut items = Vec::new();
    for (id, bytes) in due.into_iter().filter(|(id, _)| !open.contains(id)) {
        let path = sessions.join(id.as_str());
        let why = "its session ended before the retention, or there is no room for it".to_owned();
        items.push(Litter { kind: "transcript", path, bytes, why });
    }
    let segments = retention::due_segments(&workspace.journal(), retention_ms)?;
    for segment in &segments {
        let (path, bytes) = (segment.path.clone(), segment.bytes);
        let why = "snapshots hold what still matters of it".to_owned();
        items.push(Litter { kind: "segment", path, bytes, why });
    }
    let boards = boards(workspace, retention_ms).map_err(io(workspace.state()))?;
    items.extend(boards.iter().cloned());
    // Before they go, to know their size.
    let sizes = worktree_sizes(workspace);
    let mut kept = Vec::new();
    for found in left::look(workspace, &open, apply) {
        let bytes = sizes.get(&found.folder).copied().unwrap_or(0);
        match found.why {
            Some(why) => kept.push(Kept { path: found.folder, why }),
            None => items.push(Litter {
                kind: "worktree",
                path: found.folder,
                bytes,
                why: "all that is in it is merged".to_owned(),
            }),
        }
    }
    if apply {
        let now = Clock::start(Timestamp::default()).now();
        retention::sweep(&sessions, &open, retention_ms, now).map_err(io(&sessions))?;
        remove_spare(&workspace.journal(), &segments)?;
        for board in &boards {
            remove(&board.path).map_err(io(&board.path))?;
        }
    }
    let bytes = items.iter().map(|item| item.bytes).sum();
    Ok(Collection { schema_version: SCHEMA_VERSION, applied: apply, bytes, items, kept })
}

fn worktree_sizes(workspace: &Workspace) -> HashMap<PathBuf, u64> {
    let all = repository::all(&workspace.state().join("worktrees")).into_iter();
    all.map(|tenancy| (tenancy.folder.clone(), size(&tenancy.folder).unwrap_or(0))).collect()
}

/// Boards that were set aside, and that nobody has looked into for the retention.
fn boards(workspace: &Workspace, retention_ms: u64) -> io::Result<Vec<Litter>> {
    let mut boards = Vec::new();
    for entry in std::fs::read_dir(workspace.state())? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b"board.bak-") {
            continue;
        }
        // The name is newer than what is in it.
        let since = entry.metadata()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if since.elapsed().unwrap_or_default() < Duration::from_millis(retention_ms) {
            continue;
        }
        let path = entry.path();
        let bytes = size(&path)?;
        let why = "it could not be opened, and was made anew".to_owned();
        boards.push(Litter { kind: "board", path, bytes, why });
    }
    boards.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(boards)
}

fn size(path: &Path) -> io::Result<u64> {
    let found = path.symlink_metadata()?;
    if !found.is_dir() {
        return Ok(found.len());
    }
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        bytes += size(&entry?.path())?;
    }
    Ok(bytes)
}

fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata()?.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    }
}
