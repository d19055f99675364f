//! A worktree is removed, on proof that nothing in it is lost; otherwise it is kept, with the reason.
//!
//! The proof: no change that is not committed, no untracked file but ignored ones, and the commit
//! that is checked out is part of a branch that stays. Git itself looks once more (`worktree remove`
//! without force). A branch goes only with all of its commits in the one they were for.

use super::command::{Git, Machine, Output, Step};
use crate::domain::worktree::{Base, Tenancy, lead_of};

/// Which branches prove that commits are not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The one that the result was for.
    Merged,
    /// That, or the attempt's own, which is kept then.
    OnBranch,
}

/// What it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The folder is gone.
    Gone {
        /// The attempt's branch, where that holds what no other does.
        branch: Option<String>,
    },
    /// Nothing was touched.
    Kept {
        /// Why.
        why: String,
    },
}

/// Removes an attempt's worktree.
#[derive(Debug)]
pub struct Removal {
    tenancy: Tenancy,
    proof: Proof,
    /// The commit that the run began at.
    base: String,
    /// Only look.
    looks: bool,
    /// The folder is not there any more.
    is_missing: bool,
    /// Branches that a commit may be part of, those left to ask.
    left: Vec<String>,
    at: At,
}

#[derive(Clone, Debug)]
enum At {
    Status,
    Head,
    /// Is the commit checked out part of a branch?
    Contained {
        commit: String,
    },
    Remove,
    Tip,
    /// Is the branch part of another?
    Merged {
        tip: String,
    },
    Forget,
}

impl Removal {
    /// Of that worktree.
    #[must_use]
    pub fn new(tenancy: Tenancy, proof: Proof) -> Self {
        let (Base::Commit { commit: base } | Base::Merged { or: base, .. }) = &tenancy.base;
        let base = base.clone();
        let (looks, is_missing) = (false, false);
        Self { tenancy, proof, base, looks, is_missing, left: Vec::new(), at: At::Status }
    }

    /// Only says whether it could be removed.
    #[must_use]
    pub fn looking(self) -> Self {
        Self { looks: true, ..self }
    }

    /// The folder is gone already: what is left of it is git's own note of it.
    #[must_use]
    pub fn of_missing(self) -> Self {
        Self { is_missing: true, ..self }
    }

    fn git(&mut self, at: At, args: &[&str]) -> Step<Removed> {
        self.at = at;
        Step::Git(Git::new(&self.tenancy.repository, args))
    }

    fn inside(&mut self, at: At, args: &[&str]) -> Step<Removed> {
        self.at = at;
        Step::Git(Git::new(&self.tenancy.folder, args))
    }

    /// The branches that hold what is merged.
    fn homes(&self) -> Vec<String> {
        let mut homes = vec![lead_of(&self.tenancy.attempt.run)];
        homes.extend(self.tenancy.target.clone());
        homes
    }

    fn is_part_of(&mut self, commit: &str, next: fn(String) -> At) -> Option<Step<Removed>> {
        let branch = format!("refs/heads/{}", self.left.pop()?);
        let args = ["merge-base", "--is-ancestor", commit, &branch];
        Some(self.git(next(commit.to_owned()), &args))
    }

    fn remove(&mut self) -> Step<Removed> {
        if self.looks {
            return Step::Done(Removed::Gone { branch: None });
        }
        self.at = At::Remove;
        let mut git = Git::new(&self.tenancy.repository, ["worktree", "remove"]).long();
        if self.is_missing {
            git.args.push("--force".into());
        }
        git.args.push(self.tenancy.folder.clone().into());
        Step::Git(git)
    }

    fn kept(&self, why: String) -> Step<Removed> {
        Step::Done(Removed::Kept { why })
    }

    fn head(&mut self, output: &Output) -> Step<Removed> {
        if !output.is_ok() {
            return self.kept(format!("its commit is not known: {}", output.trouble()));
        }
        let commit = output.line();
        if self.base == commit {
            return self.remove();
        }
        self.left = self.homes();
        if self.proof == Proof::OnBranch {
            self.left.push(self.tenancy.branch.clone());
        }
        match self.is_part_of(&commit, |commit| At::Contained { commit }) {
            Some(step) => step,
            None => self.kept("its commits are on no branch that stays".to_owned()),
        }
    }

    fn tip(&mut self, output: &Output) -> Step<Removed> {
        if !output.is_ok() {
            return Step::Done(Removed::Gone { branch: None });
        }
        let tip = output.line();
        if self.base == tip {
            return self.forget(&tip);
        }
        self.left = self.homes();
        self.is_part_of(&tip, |tip| At::Merged { tip }).unwrap_or_else(|| self.gone())
    }

    fn gone(&self) -> Step<Removed> {
        Step::Done(Removed::Gone { branch: Some(self.tenancy.branch.clone()) })
    }

    fn forget(&mut self, tip: &str) -> Step<Removed> {
        let name = format!("refs/heads/{}", self.tenancy.branch);
        self.git(At::Forget, &["update-ref", "-d", &name, tip])
    }
}

impl Machine for Removal {
    type End = Removed;

    fn begin(&mut self) -> Step<Removed> {
        if self.is_missing {
            return self.remove();
        }
        self.inside(
            At::Status,
            &["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none"],
        )
    }

    fn hears(&mut self, output: &Output) -> Step<Removed> {
        match self.at.clone() {
            At::Status if !output.is_ok() => {
                self.kept(format!("git cannot tell what is in it: {}", output.trouble()))
            }
            At::Status => match output.records().count() {
                0 => self.inside(At::Head, &["rev-parse", "-q", "--verify", "HEAD^{commit}"]),
                changes => self.kept(format!("{changes} files in it are not committed")),
            },
            At::Head => self.head(output),
            At::Contained { .. } if output.is_ok() => self.remove(),
            At::Contained { commit } => {
                match self.is_part_of(&commit, |commit| At::Contained { commit }) {
                    Some(step) => step,
                    None => self.kept(format!(
                        "its commits are not merged; they are on `{}`",
                        self.tenancy.branch
                    )),
                }
            }
            At::Remove if output.is_ok() || self.is_missing => {
                let name = format!("refs/heads/{}", self.tenancy.branch);
                self.git(At::Tip, &["rev-parse", "-q", "--verify", &name])
            }
            At::Remove => self.kept(format!("git did not remove it: {}", output.trouble())),
            At::Tip => self.tip(output),
            At::Merged { tip } if output.is_ok() => self.forget(&tip),
            At::Merged { tip } => {
                self.is_part_of(&tip, |tip| At::Merged { tip }).unwrap_or_else(|| self.gone())
            }
            At::Forget if output.is_ok() => Step::Done(Removed::Gone { branch: None }),
            At::Forget => self.gone(),
        }
    }
}
