//! What lies about: sockets, sessions without a coordinator, processes without a session, folders
//! and control groups without either.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Having;
use crate::daemon::lifecycle::RETENTION_MS;
use crate::daemon::retention;
use crate::daemon::workspace::Workspace;
use crate::daemon::worktrees::left;
use crate::domain::ids::SessionId;
use crate::report::checkup::{Finding, Level};
use crate::session::shells::driver_folder;
use crate::session::sweep::{self, Orphan};
use crate::session::{cgroup, door};

/// How many things of a kind are named.
const NAMED_MAX: usize = 8;

/// Looks for what lies about, and mends what is nobody's where we have the workspace.
pub(super) fn look(workspace: &Workspace, having: &Having, findings: &mut Vec<Finding>) {
    let sessions = workspace.state().join("sessions");
    findings.push(old_transcripts(&sessions));
    findings.push(groups(having));
    findings.push(worktrees(workspace));
    if !having.is_vacant() {
        // What lies about is its own to see to, and much of it is in use.
        return;
    }
    // Processes first: folders are nobody's only without them.
    findings.push(orphans(workspace, having));
    findings.push(sockets(workspace, having));
    let (waiting, stale) = doors(workspace, &sessions);
    findings.push(waiting_sessions(&waiting));
    let (id, means) = ("doors", "where sessions wait that have no coordinator");
    let stale = stale.iter().map(|session| door::file(&workspace.doors(), session)).collect();
    findings.push(files(id, means, stale, having));
    findings.push(private_folders(workspace, &sessions, &waiting, having));
}

fn old_transcripts(sessions: &Path) -> Finding {
    let (id, means) = ("retention", "transcripts stay for their retention, seven days unless set");
    match retention::overdue(sessions, RETENTION_MS) {
        Ok((0, _)) => Finding::ok(id, "no transcript is older", means),
        Ok((count, bytes)) => {
            let found = format!("{count} older transcripts, {} MiB", bytes / (1024 * 1024));
            Finding::new(id, Level::Note, found, means)
                .todo("nothing has to be done: the next coordinator removes them")
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Finding::ok(id, "none yet", means),
        Err(error) => Finding::new(id, Level::Warning, error.to_string(), means)
            .todo("make the state folder readable again"),
    }
}

fn worktrees(workspace: &Workspace) -> Finding {
    let (id, means) = ("worktrees", "worktrees that tasks have left, with what is not merged");
    let found = left::look(workspace, &HashSet::new(), false);
    if found.is_empty() {
        return Finding::ok(id, "nothing is left over", means);
    }
    let words = |it: &left::Left| {
        let why = it.why.as_deref().unwrap_or("all that is in it is merged");
        format!("`{}`: {why}", it.folder.display())
    };
    let mut names: Vec<String> = found.iter().take(NAMED_MAX).map(words).collect();
    if found.len() > NAMED_MAX {
        names.push(format!("and {} more", found.len() - NAMED_MAX));
    }
    Finding::new(id, Level::Note, names.join("; "), means)
        .todo("take what you need from them; `callboard gc --apply` removes what is merged")
}

fn groups(having: &Having) -> Finding {
    let (id, means) = ("cgroups-left", "control groups of sessions that were killed; empty");
    let left = cgroup::abandoned();
    let mut finding = listed(id, means, &left, |group| group.display().to_string());
    if having.may_mend() && !left.is_empty() {
        cgroup::tidy();
        finding.fixed = left
            .iter()
            .filter(|group| !group.exists())
            .map(|group| format!("removed `{}`", group.display()))
            .collect();
    }
    finding
}

fn orphans(workspace: &Workspace, having: &Having) -> Finding {
    let (id, means) = ("orphans", "processes that carry our mark and have no session any more");
    let orphans = sweep::list_orphans(&workspace.socket());
    let words = |orphan: &Orphan| format!("{} {}", orphan.identity.pid, orphan.command);
    let mut finding = listed(id, means, &orphans, words);
    if having.may_mend() {
        for orphan in &orphans {
            finding.fixed.push(match sweep::end_orphan(orphan) {
                Ok(true) => format!("ended process {}", words(orphan)),
                Ok(false) => format!("process {} has ended by itself", orphan.identity.pid),
                Err(error) => format!("process {} cannot be ended: {error}", words(orphan)),
            });
        }
    }
    finding
}

/// The coordinator's own: without one they are nobody's.
fn sockets(workspace: &Workspace, having: &Having) -> Finding {
    let places = [workspace.socket(), workspace.state().join(crate::daemon::http::PLACE)];
    let left = places.into_iter().filter(|file| file.symlink_metadata().is_ok()).collect();
    files("sockets", "of a coordinator that was killed; the next one replaces them", left, having)
}

/// Sessions at their doors: those that wait there, and those that are gone.
fn doors(workspace: &Workspace, sessions: &Path) -> (Vec<SessionId>, Vec<SessionId>) {
    let doors = workspace.doors();
    let waits = |session: &SessionId| {
        // One of another pid namespace is not seen, and answers all the same.
        sweep::holder_of(&sessions.join(session.as_str())).is_some()
            || !door::connect(&doors, session)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    door::waiting(&doors).unwrap_or_default().into_iter().partition(waits)
}

fn waiting_sessions(waiting: &[SessionId]) -> Finding {
    let (id, means) = ("sessions-waiting", "they go on, and end after five minutes without one");
    if waiting.is_empty() {
        return Finding::ok(id, "no session waits for a coordinator", means);
    }
    let names: Vec<String> = waiting.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let found = format!("{} wait for a coordinator: {}", waiting.len(), names.join(", "));
    Finding::new(id, Level::Note, found, means)
        .todo("`callboard serve`, or any verb that starts one")
}

fn private_folders(
    workspace: &Workspace,
    sessions: &Path,
    waiting: &[SessionId],
    having: &Having,
) -> Finding {
    let (id, means) = ("private-folders", "temporary folders of sessions that were killed");
    let entries = std::fs::read_dir(workspace.runtime().join("t")).into_iter().flatten().flatten();
    let is_left = |folder: &PathBuf| {
        let session = SessionId::new(folder.file_name().unwrap_or_default().to_string_lossy());
        !waiting.contains(&session) && sweep::holder_of(&sessions.join(session.as_str())).is_none()
    };
    let left: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_left).collect();
    if having.may_mend() {
        // It is only there beside its folder.
        left.iter().for_each(|folder| drop(std::fs::remove_dir_all(driver_folder(folder))));
    }
    files(id, means, left, having)
}

/// Files and folders that are nobody's: told, and removed where we may.
fn files(id: &'static str, means: &str, left: Vec<PathBuf>, having: &Having) -> Finding {
    let mut finding = listed(id, means, &left, |file| file.display().to_string());
    if having.may_mend() {
        for file in &left {
            let is_folder = file.symlink_metadata().is_ok_and(|found| found.is_dir());
            let removed =
                if is_folder { std::fs::remove_dir_all(file) } else { std::fs::remove_file(file) };
            finding.fixed.push(match removed {
                Ok(()) => format!("removed `{}`", file.display()),
                Err(error) => format!("`{}` cannot be removed: {error}", file.display()),
            });
        }
    }
    finding
}

/// A finding of things that should not be there.
fn listed<T>(id: &'static str, means: &str, left: &[T], words: impl Fn(&T) -> String) -> Finding {
    if left.is_empty() {
        return Finding::ok(id, "nothing is left over", means);
    }
    let mut names: Vec<String> = left.iter().take(NAMED_MAX).map(words).collect();
    if left.len() > NAMED_MAX {
        names.push(format!("and {} more", left.len() - NAMED_MAX));
    }
    Finding::new(id, Level::Warning, names.join(", "), means).fixable()
}
