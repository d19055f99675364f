//! Worktrees that attempts have left: which of them can go, and why the others cannot.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::repository;
use crate::daemon::ownership;
use crate::daemon::workspace::Workspace;
use crate::domain::ids::SessionId;
use crate::domain::worktree::Tenancy;
use crate::session::{door, sweep};
use crate::worktree::{Proof, Removal, Removed, drive};

/// One that is there.
#[derive(Debug)]
pub(in crate::daemon) struct Left {
    /// Where.
    pub folder: PathBuf,
    /// Why it stays; `None` when nothing is lost with it.
    pub why: Option<String>,
}

/// Looks at all of them, and removes those that can go where that is asked for. Those of sessions that
/// are `open`, or wait for a coordinator, are in use.
pub(in crate::daemon) fn look(
    workspace: &Workspace,
    open: &HashSet<SessionId>,
    apply: bool,
) -> Vec<Left> {
    let worktrees = workspace.state().join("worktrees");
    let me = std::process::id();
    let has_coordinator = ownership::held(workspace.root()).is_some_and(|holder| holder.pid != me);
    let mut left = Vec::new();
    for tenancy in repository::all(&worktrees) {
        let folder = tenancy.folder.clone();
        let why = in_use(workspace, &tenancy, open, has_coordinator)
            .or_else(|| kept(&worktrees, tenancy, apply));
        left.push(Left { folder, why });
    }
    left
}

fn in_use(
    workspace: &Workspace,
    tenancy: &Tenancy,
    open: &HashSet<SessionId>,
    has_coordinator: bool,
) -> Option<String> {
    let session = &tenancy.session;
    let sessions = workspace.state().join("sessions");
    let lives = open.contains(session)
        || door::file(&workspace.doors(), session).exists()
        || sweep::holder_of(&sessions.join(session.as_str())).is_some();
    if lives {
        return Some(format!("its session {session} is open"));
    }
    if has_coordinator && !tenancy.is_settled {
        return Some("its attempt goes on".to_owned());
    }
    stands_in(&tenancy.folder).map(|pid| format!("process {pid} stands in it"))
}

fn kept(worktrees: &Path, tenancy: Tenancy, apply: bool) -> Option<String> {
    let removed = if apply {
        repository::remove(worktrees, tenancy, Proof::Merged)
    } else {
        let is_missing = tenancy.folder.symlink_metadata().is_err();
        if is_missing {
            return None;
        }
        drive(&mut Removal::new(tenancy, Proof::Merged).looking())?
    };
    match removed {
        Removed::Gone { .. } => None,
        Removed::Kept { why } => Some(why),
    }
}

/// A process whose working directory is in that folder, as far as we may see.
fn stands_in(folder: &Path) -> Option<u32> {
    let folder = folder.canonicalize().ok()?;
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|pid: &u32| {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
        cwd.is_ok_and(|cwd| is_below(&cwd, &folder))
    })
}

fn is_below(path: &Path, folder: &Path) -> bool {
    // The kernel marks what was removed in its words, which are part of no name of ours.
    let bytes = path.as_os_str().as_bytes();
    let path = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    Path::new(std::ffi::OsStr::from_bytes(path)).starts_with(folder)
}
