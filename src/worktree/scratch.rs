//! A merge in a worktree of its own, for a git that cannot do without (before 2.38). It is made for the
//! one merge, and removed whatever comes of it.

use std::path::PathBuf;

use super::command::{Git, Output, Step};

/// One such merge: the tree that it comes to, or the first file in conflict, or nothing of either.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
    repository: PathBuf,
    result: String,
    tip: String,
    at: At,
    end: Merged,
}

pub(super) type Merged = Result<String, Option<Vec<u8>>>;

#[derive(Clone, Copy, Debug)]
enum At {
    /// What a crash may have left.
    Clear,
    Make,
    Merge,
    Tree,
    Names,
    Remove,
}

impl Scratch {
    pub(super) fn new(folder: PathBuf, repository: PathBuf) -> Self {
        Self {
            folder,
            repository,
            result: String::new(),
            tip: String::new(),
            at: At::Clear,
            end: Err(None),
        }
    }

    pub(super) fn begin(&mut self, tip: &str, result: &str) -> Git {
        result.clone_into(&mut self.result);
        tip.clone_into(&mut self.tip);
        self.removal()
    }

    pub(super) fn hears(&mut self, output: &Output) -> Step<Merged> {
        match self.at {
            At::Clear => {
                self.at = At::Make;
                let args = ["worktree", "add", "-q", "--force", "--detach"];
                let mut git = Git::new(&self.repository, args).long();
                git.args.push(self.folder.clone().into());
                git.args.push(self.tip.clone().into());
                Step::Git(git)
            }
            At::Make if output.is_ok() => {
                let args = ["merge", "-q", "--no-commit", "--no-ff", "--no-edit", &self.result];
                self.at = At::Merge;
                Step::Git(Git::new(&self.folder, args).long())
            }
            At::Merge if output.is_ok() => self.inside(At::Tree, &["write-tree"]),
            At::Merge if output.code == Some(1) => {
                self.inside(At::Names, &["diff", "--name-only", "-z", "--diff-filter=U"])
            }
            At::Tree if output.is_ok() => {
                self.end = Ok(output.line());
                self.remove()
            }
            At::Names => {
                self.end = Err(output.records().next().map(<[u8]>::to_vec));
                self.remove()
            }
            At::Make | At::Merge | At::Tree => self.remove(),
            At::Remove => Step::Done(self.end.clone()),
        }
    }

    fn inside(&mut self, at: At, args: &[&str]) -> Step<Merged> {
        self.at = at;
        Step::Git(Git::new(&self.folder, args))
    }

    fn remove(&mut self) -> Step<Merged> {
        self.at = At::Remove;
        Step::Git(self.removal())
    }

    fn removal(&self) -> Git {
        let mut git = Git::new(&self.repository, ["worktree", "remove", "--force"]).long();
        git.args.push(self.folder.clone().into());
        git
    }
}
