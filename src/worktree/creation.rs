//! A worktree is made: its branch first, then the folder. What fails leaves no branch behind.

use super::command::{Git, Machine, Output, Step};
use crate::domain::worktree::{Base, Tenancy, lead_of};

/// No object: a reference must not be there yet.
pub(super) const NOTHING: &str = "0000000000000000000000000000000000000000";

/// Makes an attempt's worktree.
#[derive(Debug)]
pub struct Creation {
    tenancy: Tenancy,
    base: String,
    at: At,
}

/// What a creation comes to: the commit that the branch begins at, or what went wrong.
pub type Created = Result<String, String>;

#[derive(Clone, Debug)]
enum At {
    Lead,
    Target,
    Branch,
    Folder,
    Undo { why: String },
}

impl Creation {
    /// As it is told there.
    #[must_use]
    pub fn new(tenancy: Tenancy) -> Self {
        Self { tenancy, base: String::new(), at: At::Lead }
    }

    fn git(&mut self, at: At, args: &[&str]) -> Step<Created> {
        self.at = at;
        Step::Git(Git::new(&self.tenancy.repository, args))
    }

    fn resolve(&mut self, at: At, branch: &str) -> Step<Created> {
        let name = format!("refs/heads/{branch}^{{commit}}");
        self.git(at, &["rev-parse", "-q", "--verify", &name])
    }

    fn make_branch(&mut self, base: String) -> Step<Created> {
        self.base.clone_from(&base);
        let name = format!("refs/heads/{}", self.tenancy.branch);
        self.git(
            At::Branch,
            &["update-ref", "-m", "callboard: a task begins", &name, &base, NOTHING],
        )
    }

    fn target(&mut self, or: String) -> Step<Created> {
        match self.tenancy.base.clone() {
            Base::Merged { branch: Some(branch), .. } => self.resolve(At::Target, &branch),
            _ => self.make_branch(or),
        }
    }
}

impl Machine for Creation {
    type End = Created;

    fn begin(&mut self) -> Step<Created> {
        match self.tenancy.base.clone() {
            Base::Commit { commit } => self.make_branch(commit),
            Base::Merged { .. } => {
                let lead = lead_of(&self.tenancy.attempt.run);
                self.resolve(At::Lead, &lead)
            }
        }
    }

    fn hears(&mut self, output: &Output) -> Step<Created> {
        let or = match &self.tenancy.base {
            Base::Commit { commit } => commit.clone(),
            Base::Merged { or, .. } => or.clone(),
        };
        match self.at.clone() {
            At::Lead | At::Target if output.is_ok() => self.make_branch(output.line()),
            At::Lead => self.target(or),
            At::Target => self.make_branch(or),
            At::Branch if output.is_ok() => {
                self.at = At::Folder;
                let mut git = Git::new(&self.tenancy.repository, ["worktree", "add", "-q"]).long();
                git.args.push(self.tenancy.folder.clone().into());
                git.args.push(self.tenancy.branch.clone().into());
                Step::Git(git)
            }
            At::Branch => Step::Done(Err(output.trouble())),
            At::Folder if output.is_ok() => Step::Done(Ok(self.base.clone())),
            At::Folder => {
                let name = format!("refs/heads/{}", self.tenancy.branch);
                let (why, base) = (output.trouble(), self.base.clone());
                self.git(At::Undo { why }, &["update-ref", "-d", &name, &base])
            }
            At::Undo { why } => Step::Done(Err(why)),
        }
    }
}
