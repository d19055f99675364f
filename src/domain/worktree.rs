//! Tasks that have files of their own: where a run began, what their branches are called, and what
//! became of their work.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ids::{AttemptId, RunId, SessionId};
use super::raw_path;

/// Where a task's files are (`isolation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// In the workspace's root, with those of all others.
    #[default]
    Shared,
    /// In a git worktree of each attempt's own.
    Worktree,
}

impl Isolation {
    /// True for what happens anyway.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

/// How a worktree's result comes back (`merge`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeWay {
    /// Merged into the branch that the run began on.
    #[default]
    Auto,
    /// It stays on its own branch.
    Keep,
}

impl MergeWay {
    /// True for what happens anyway.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// The repository that a run began in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The top of its working tree.
    #[serde(with = "raw_path")]
    pub repository: PathBuf,
    /// Where the workspace's root lies below that; empty for the top itself.
    #[serde(with = "raw_path")]
    pub prefix: PathBuf,
    /// The branch that was checked out, without `refs/heads/`; `None` where HEAD was detached.
    pub branch: Option<String>,
    /// The commit that was checked out.
    pub commit: String,
}

/// An attempt's worktree; kept beside it as JSON, so that it is found again whoever dies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenancy {
    /// Whose it is.
    pub attempt: AttemptId,
    /// In which session it works.
    pub session: SessionId,
    /// The top of the repository's main working tree.
    #[serde(with = "raw_path")]
    pub repository: PathBuf,
    /// The worktree's folder.
    #[serde(with = "raw_path")]
    pub folder: PathBuf,
    /// Its own branch.
    pub branch: String,
    /// Where that begins.
    pub base: Base,
    /// The branch that its result goes to; `None` where it stays on its own.
    pub target: Option<String>,
    /// True once all that was to be done with it has been: it was kept since it holds something.
    #[serde(default)]
    pub is_settled: bool,
}

/// Where an attempt's branch begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "base", rename_all = "snake_case")]
pub enum Base {
    /// At this commit.
    Commit {
        /// Its name.
        commit: String,
    },
    /// At what has been merged so far, there where the run's branch is now.
    Merged {
        /// The run's branch.
        branch: Option<String>,
        /// The commit, where neither is there.
        or: String,
    },
}

/// What became of the work of an attempt that had succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Its branch.
    pub branch: String,
    /// The last commit of its work; `None` when there was none.
    pub commit: Option<String>,
    /// The branch that it was merged into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// The commit that merged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<String>,
    /// Why it is not in the run's branch, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

/// The same as reports show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeReport {
    /// What became of its work; `None` for one that has not succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
    /// Worktrees of its attempts that were kept, since something would have been lost with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// The branch of an attempt: `callboard/RUN/TASK`, with `.N` behind it from the second on.
#[must_use]
pub fn branch_of(attempt: &AttemptId) -> String {
    format!("callboard/{}/{}", attempt.run, leaf(attempt))
}

/// The branch that holds what has been merged while the run's own cannot be moved.
#[must_use]
pub fn lead_of(run: &RunId) -> String {
    format!("callboard/{run}.merged")
}

/// The folder of an attempt's worktree, below that of all: `RUN/TASK`, likewise.
#[must_use]
pub fn folder_of(attempt: &AttemptId) -> PathBuf {
    PathBuf::from(attempt.run.as_str()).join(leaf(attempt))
}

fn leaf(attempt: &AttemptId) -> String {
    let task = tame(attempt.task.as_str());
    match attempt.attempt {
        0 | 1 => task,
        number => format!("{task}.{number}"),
    }
}

/// A task's name as part of a branch's and a folder's: git forbids much that a name may hold. What
/// is not a letter, a digit, `-` or `_` becomes `%XX`, so no two names become one.
fn tame(name: &str) -> String {
    const BYTES_MAX: usize = 120;
    let mut tamed = String::new();
    for (at, character) in name.char_indices() {
        let is_plain = character.is_alphanumeric() || character == '_';
        if is_plain || (character == '-' && at > 0) {
            tamed.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                let _never_fails = write!(tamed, "%{byte:02X}");
            }
        }
    }
    if tamed.len() > BYTES_MAX {
        tamed.truncate(tamed.floor_char_boundary(BYTES_MAX));
        // No name becomes one with `%-` in it by itself.
        let _never_fails = write!(tamed, "%-{:016x}", fnv(name));
    }
    tamed
}

/// FNV-1a: tells long names apart whose beginnings are the same.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(task: &str, attempt: u32) -> AttemptId {
        AttemptId { run: "r-1".into(), task: task.into(), attempt }
    }

    #[test]
    fn branches_are_names_that_git_takes() {
        for (task, number, branch) in [
            ("build", 1, "callboard/r-1/build"),
            ("build", 2, "callboard/r-1/build.2"),
            ("build.2", 1, "callboard/r-1/build%2E2"),
            ("-x", 1, "callboard/r-1/%2Dx"),
            ("a b~^:?*[\\", 1, "callboard/r-1/a%20b%7E%5E%3A%3F%2A%5B%5C"),
            ("äö", 3, "callboard/r-1/äö.3"),
            ("x.lock", 1, "callboard/r-1/x%2Elock"),
            ("@{", 1, "callboard/r-1/%40%7B"),
        ] {
            assert_eq!(branch_of(&attempt(task, number)), branch);
        }
        assert_eq!(lead_of(&"r-1".into()), "callboard/r-1.merged");
    }

    #[test]
    fn long_names_stay_apart_and_fit_a_folder() {
        let (one, two) =
            ("ä".repeat(60) + &"!".repeat(60) + "1", "ä".repeat(60) + &"!".repeat(60) + "2");
        let (one, two) = (folder_of(&attempt(&one, 7)), folder_of(&attempt(&two, 7)));
        assert_ne!(one, two);
        assert!(one.file_name().unwrap().len() < 200);
    }
}
