//! Returning, its third part: the branch moves on to the merge, from what was looked at, and with it
//! the worktree that has it checked out, if that has no changes of its own in the way. Otherwise the
//! merge is held on a branch beside it, and goes with the next that can.

use std::path::{Path, PathBuf};

use super::command::{Git, Output, Step};
use super::creation::NOTHING;
use super::returning::{At, End, Returning};

impl Returning {
    pub(super) fn find_home(&mut self) -> Step<End> {
        self.git(At::Where, &["worktree", "list", "--porcelain", "-z"])
    }

    pub(super) fn publish(&mut self, output: &Output) -> Step<End> {
        if !output.is_ok() {
            return Self::broken(output);
        }
        self.home = checked_out(&output.stdout, &self.target());
        match self.home.clone() {
            Some(home) => {
                self.at = At::Publish;
                let args = ["merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-stat"];
                let mut git = Git::new(&home, args).long();
                git.args.push(self.merged.clone().into());
                Step::Git(git)
            }
            None if self.has_lead => {
                // Only forward: what others have put there stays.
                let refs = format!("{}:{}", self.merged, self.target());
                let args = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", ".", &refs];
                self.git(At::Publish, &args)
            }
            None => {
                let (target, merged, tip) = (self.target(), self.merged.clone(), self.tip.clone());
                self.git(
                    At::Publish,
                    &["update-ref", "-m", "callboard: merged a task", &target, &merged, &tip],
                )
            }
        }
    }

    pub(super) fn published(&mut self, output: &Output) -> Step<End> {
        if output.is_ok() {
            if !self.has_lead {
                return self.done(Some(self.merged.clone()), None);
            }
            let (lead, tip) = (self.lead(), self.tip.clone());
            return self.git(At::DropLead, &["update-ref", "-d", &lead, &tip]);
        }
        let why = match &self.home {
            Some(home) => format!("`{}` cannot take it: {}", home.display(), output.trouble()),
            None => output.trouble(),
        };
        let target = self.target();
        self.git(At::Moved { why }, &["rev-parse", "-q", "--verify", &target])
    }

    /// Whether the branch had only moved meanwhile.
    pub(super) fn refused(&mut self, why: String, output: &Output) -> Step<End> {
        if output.is_ok() && !self.has_lead && output.line() != self.tip {
            return self.merge_anew();
        }
        self.hold(why)
    }

    pub(super) fn hold(&mut self, why: String) -> Step<End> {
        let (lead, merged) = (self.lead(), self.merged.clone());
        let from = if self.has_lead { self.tip.clone() } else { NOTHING.to_owned() };
        let at = At::Hold { why };
        self.git(at, &["update-ref", "-m", "callboard: held a merge", &lead, &merged, &from])
    }
}

/// Where a branch is checked out, of what `worktree list --porcelain -z` says.
fn checked_out(list: &[u8], branch: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut folder = None;
    for field in list.split(|byte| *byte == 0) {
        if let Some(path) = field.strip_prefix(b"worktree ") {
            folder = Some(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned());
        } else if field.strip_prefix(b"branch ") == Some(branch.as_bytes()) {
            return folder;
        }
    }
    None
}
