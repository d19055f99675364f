//! Where a run begins: the repository, its branch, its commit.

use std::path::{Path, PathBuf};

use super::command::{Git, Machine, Output, Step};
use crate::domain::worktree::Origin;

/// Finds out about a folder.
#[derive(Debug)]
pub struct Survey {
    root: PathBuf,
    /// Whether results are to be merged, so that there has to be a branch.
    merges: bool,
    at: At,
    origin: Origin,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Top,
    Prefix,
    Branch,
    Commit,
}

impl Survey {
    /// Of the workspace's root.
    #[must_use]
    pub fn new(root: &Path, merges: bool) -> Self {
        let origin = Origin {
            repository: PathBuf::new(),
            prefix: PathBuf::new(),
            branch: None,
            commit: String::new(),
        };
        Self { root: root.to_owned(), merges, at: At::Top, origin }
    }

    fn ask(&mut self, at: At, args: &[&str]) -> Step<Result<Origin, String>> {
        self.at = at;
        Step::Git(Git { searches: true, ..Git::new(&self.root, args) })
    }
}

impl Machine for Survey {
    type End = Result<Origin, String>;

    fn begin(&mut self) -> Step<Self::End> {
        self.ask(At::Top, &["rev-parse", "--show-toplevel"])
    }

    fn hears(&mut self, output: &Output) -> Step<Self::End> {
        match self.at {
            At::Top if output.is_ok() => {
                self.origin.repository = output.path();
                self.ask(At::Prefix, &["rev-parse", "--show-prefix"])
            }
            At::Prefix if output.is_ok() => {
                self.origin.prefix = output.path();
                self.ask(At::Branch, &["symbolic-ref", "-q", "HEAD"])
            }
            At::Branch => {
                let branch = output.line();
                let branch = branch.strip_prefix("refs/heads/").filter(|_| output.is_ok());
                self.origin.branch = branch.map(str::to_owned);
                self.ask(At::Commit, &["rev-parse", "-q", "--verify", "HEAD^{commit}"])
            }
            At::Commit if output.is_ok() => {
                self.origin.commit = output.line();
                Step::Done(match (&self.origin.branch, self.merges) {
                    (None, true) => {
                        Err("HEAD is detached: there is no branch to merge into".to_owned())
                    }
                    _ => Ok(self.origin.clone()),
                })
            }
            At::Commit => Step::Done(Err("the repository has no commit yet".to_owned())),
            At::Top | At::Prefix => Step::Done(Err(output.trouble())),
        }
    }
}
