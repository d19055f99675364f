//! Reports of runs: built from drafts and transcripts, kept as `runs/<run>/report.json`.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::story::ReportDraft;
use super::worktrees::repository;
use super::{reading, shelf};
use crate::domain::board::BoardView;
use crate::domain::ids::RunId;
use crate::domain::shown_path;
use crate::report::record::RunReport;

/// How many folder entries are looked at for `artifacts`, over the whole workspace.
const ENTRIES_MAX: usize = 200_000;
/// How many artifacts a task can list.
const ARTIFACTS_MAX: usize = 1_000;

/// Where a run's report lies.
pub(super) fn file(runs: &Path, run: &RunId) -> PathBuf {
    runs.join(run.as_str()).join("report.json")
}

/// Reads a report back.
///
/// # Errors
/// When there is none, or it is not one of this version.
pub(super) fn read(file: &Path) -> io::Result<RunReport> {
    Ok(serde_json::from_slice(&std::fs::read(file)?)?)
}

/// Writes a report whole or not at all.
///
/// # Errors
/// When the folder or the file cannot be written.
pub(super) fn write(file: &Path, report: &RunReport) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let fresh = folder.join("report.json.new");
    let written = std::fs::write(&fresh, serde_json::to_vec(report)?);
    if let Err(error) = written.and_then(|()| std::fs::rename(&fresh, file)) {
        // Half of one on a full disk is in the way of what has to be written.
        drop(std::fs::remove_file(&fresh));
        return Err(error);
    }
    Ok(())
}

/// Puts the report of a run that goes on out of the way.
pub(super) fn set_aside(file: &Path) {
    if let Err(error) = std::fs::rename(file, file.with_file_name("report.before.json"))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %file.display(), %error, "an earlier report cannot be set aside");
    }
}

/// Fills a draft in: the texts of its commands from their transcripts, the files that its
/// `artifacts` globs match, the board.
pub(super) fn build(draft: ReportDraft, board: BoardView) -> RunReport {
    let ReportDraft { mut report, commands, on_shelf, sessions, artifacts, root } = draft;
    let ended = report.started_at.plus_ms(report.duration_ms);
    for (task, stories) in report.tasks.iter_mut().zip(&commands) {
        task.commands = stories.iter().map(reading::result).collect();
    }
    for (place, session) in on_shelf {
        if let Some(task) = report.tasks.get_mut(place) {
            task.commands = shelf::results(&sessions, &session, ended);
        }
    }
    let worktrees = sessions.with_file_name("worktrees");
    for task in &mut report.tasks {
        if let Some(worktree) = &mut task.worktree {
            worktree.kept = repository::kept(&worktrees, &report.run_id, &task.id);
        }
    }
    if artifacts.iter().any(|globs| !globs.is_empty()) {
        let files = files_below(&root);
        for (task, globs) in report.tasks.iter_mut().zip(&artifacts) {
            task.artifacts = matching(&files, globs);
        }
    }
    report.board = board;
    report
}

fn matching(files: &[PathBuf], globs: &[String]) -> Vec<String> {
    if globs.is_empty() {
        return Vec::new();
    }
    let set = glob_set(globs);
    let found = files.iter().filter(|file| set.is_match(file)).take(ARTIFACTS_MAX);
    found.map(|file| shown_path::show(file)).collect()
}

/// The manifest's check has refused globs that do not parse, so none is lost here.
fn glob_set(globs: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for glob in globs.iter().filter_map(|glob| Glob::new(glob).ok()) {
        builder.add(glob);
    }
    builder.build().unwrap_or_else(|_| GlobSet::empty())
}

/// Files below `root`, relative to it, in breadth-first order; `.git`, `.callboard` and links to
/// folders are not entered.
fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = VecDeque::from([root.to_owned()]);
    let mut seen = 0;
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > ENTRIES_MAX {
                tracing::warn!(root = %root.display(), "too many files: artifacts may be missing");
                return files;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                if entry.file_name() != ".git" && entry.file_name() != ".callboard" {
                    folders.push_back(path);
                }
            } else if let Ok(relative) = path.strip_prefix(root) {
                files.push(relative.to_owned());
            }
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_found_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        for file in ["a.txt", "out/b.txt", "out/deep/c.bin", ".git/d.txt"] {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        let files = files_below(root.path());
        assert_eq!(files, ["a.txt", "out/b.txt", "out/deep/c.bin"].map(PathBuf::from));
        assert_eq!(matching(&files, &["**/*.txt".to_owned()]), ["a.txt", "out/b.txt"]);
        assert_eq!(matching(&files, &["out/**".to_owned()]), ["out/b.txt", "out/deep/c.bin"]);
        assert_eq!(matching(&files, &[]), Vec::<String>::new());
    }
}
