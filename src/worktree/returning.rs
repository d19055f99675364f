//! What an attempt leaves in its worktree comes back: first all of it becomes a commit on the attempt's
//! own branch, then that is merged into the run's branch, as one commit, without touching any file
//! of the main worktree that has changes of its own.
//!
//! ```text
//!   status ─ head ─ add ─ write-tree ─ commit-tree ─ update-ref (the attempt's branch)      capture
//!   lead/target ─ is-ancestor ─ merge-tree ─ commit-tree                                   merge
//!   worktree list ─ update-ref, or merge --ff-only where the branch is checked out          publish
//! ```
//!
//! Each reference moves from the value that was looked at, or not at all; and whatever is cut off in
//! between is done again from the start, to the same end.

use std::path::PathBuf;

use super::command::{Git, Machine, Output, Step};
use super::creation::NOTHING;
use super::scratch::Scratch;
use crate::domain::worktree::{Base, Returned, Tenancy, lead_of};

/// How often a merge is done again when the branch moves meanwhile.
pub(super) const ROUNDS_MAX: u32 = 6;
/// The line of a merge's message that says whose it is.
pub(super) const TRAILER: &str = "Callboard-Attempt";

/// What is to come back.
#[derive(Clone, Debug)]
pub struct Work {
    /// The worktree.
    pub tenancy: Tenancy,
    /// For a git that cannot merge without a worktree (before 2.38): one of ours, not there yet.
    pub scratch: PathBuf,
    /// True to use that in any case.
    pub is_old_git: bool,
}

/// How it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done; where the result could not be merged it says why.
    Returned(Returned),
    /// Others have changed the same lines.
    Conflict {
        /// The first file, relative to the repository's top.
        path: String,
        /// The attempt whose merge brought the change, as `RUN/TASK#N`; none where it was no task's.
        holder: Option<String>,
        /// The commit that did.
        commit: String,
        /// When, in seconds since 1970.
        since: u64,
    },
    /// The worktree is not there.
    Missing,
    /// It cannot be merged as it is. Everything stays where it is.
    Unfit {
        /// Why.
        why: String,
    },
    /// Git failed. Everything stays where it is.
    Broken {
        /// What it said.
        why: String,
    },
}

/// Brings a worktree's work back.
#[derive(Debug)]
pub struct Returning {
    pub(super) work: Work,
    pub(super) at: At,
    /// The commit that the worktree has checked out.
    pub(super) head: String,
    /// The last commit of the work.
    pub(super) result: String,
    /// What the result is merged with, and whether that is the lead.
    pub(super) tip: String,
    pub(super) has_lead: bool,
    /// The merge.
    pub(super) merged: String,
    /// Where the target is checked out.
    pub(super) home: Option<PathBuf>,
    pub(super) rounds: u32,
    pub(super) scratch: Option<Scratch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum At {
    Status,
    Head,
    Add,
    Tree,
    Commit,
    Links,
    OwnTip,
    OwnContained { tip: String },
    OwnMoved,
    Lead,
    Target,
    Done,
    Merge,
    Scratch,
    MergeCommit,
    Who { path: String },
    Where,
    Publish,
    Moved { why: String },
    Hold { why: String },
    DropLead,
}

impl Returning {
    /// Of that work.
    #[must_use]
    pub fn new(work: Work) -> Self {
        Self {
            work,
            at: At::Status,
            head: String::new(),
            result: String::new(),
            tip: String::new(),
            has_lead: false,
            merged: String::new(),
            home: None,
            rounds: 0,
            scratch: None,
        }
    }

    pub(super) fn tenancy(&self) -> &Tenancy {
        &self.work.tenancy
    }

    pub(super) fn label(&self) -> String {
        let attempt = &self.tenancy().attempt;
        format!("{}/{}", attempt.run, one_line(attempt.task.as_str()))
    }

    pub(super) fn trailer(&self) -> String {
        format!("{TRAILER}: {}#{}", self.label(), self.tenancy().attempt.attempt)
    }

    pub(super) fn own(&self) -> String {
        format!("refs/heads/{}", self.tenancy().branch)
    }

    pub(super) fn lead(&self) -> String {
        format!("refs/heads/{}", lead_of(&self.tenancy().attempt.run))
    }

    pub(super) fn target(&self) -> String {
        format!("refs/heads/{}", self.tenancy().target.as_deref().unwrap_or_default())
    }

    pub(super) fn inside(&mut self, at: At, args: &[&str]) -> Step<End> {
        self.at = at;
        Step::Git(Git::new(&self.work.tenancy.folder, args))
    }

    pub(super) fn git(&mut self, at: At, args: &[&str]) -> Step<End> {
        self.at = at;
        Step::Git(Git::new(&self.work.tenancy.repository, args))
    }

    pub(super) fn done(&self, merged: Option<String>, held: Option<String>) -> Step<End> {
        let tenancy = self.tenancy();
        let into = tenancy.target.clone().filter(|_| merged.is_some() && held.is_none());
        let commit = (!self.has_nothing()).then(|| self.result.clone());
        Step::Done(End::Returned(Returned {
            branch: tenancy.branch.clone(),
            commit,
            into,
            merged,
            held,
        }))
    }

    pub(super) fn broken(output: &Output) -> Step<End> {
        Step::Done(End::Broken { why: output.trouble() })
    }

    pub(super) fn has_nothing(&self) -> bool {
        let (Base::Commit { commit } | Base::Merged { or: commit, .. }) = &self.tenancy().base;
        self.result == *commit
    }

    fn status(&mut self, output: &Output) -> Step<End> {
        if !output.is_ok() {
            let is_there = !["cannot change to", "not a git repository"]
                .iter()
                .any(|words| output.stderr.contains(words));
            return if is_there { Self::broken(output) } else { Step::Done(End::Missing) };
        }
        if let Some(unmerged) = output.records().find(|record| record.starts_with(b"u ")) {
            let path = unmerged.splitn(11, |byte| *byte == b' ').nth(10).unwrap_or(unmerged);
            let path = String::from_utf8_lossy(path).into_owned();
            return Step::Done(End::Unfit {
                why: format!("it was left in a merge of its own: `{path}` is unmerged"),
            });
        }
        let is_clean = output.records().next().is_none();
        self.result.clear();
        if !is_clean {
            // A sign for `head`: there is something to commit.
            self.result.push('?');
        }
        self.inside(At::Head, &["rev-parse", "-q", "--verify", "HEAD^{commit}"])
    }

    fn head(&mut self, output: &Output) -> Step<End> {
        if !output.is_ok() {
            return Step::Done(End::Unfit { why: "its HEAD is no commit".to_owned() });
        }
        self.head = output.line();
        if self.result.is_empty() {
            self.result.clone_from(&self.head);
            return self.links();
        }
        self.at = At::Add;
        Step::Git(Git::new(&self.work.tenancy.folder, ["add", "--all"]).long())
    }

    fn commit(&mut self, tree: &str) -> Step<End> {
        let message = format!("{}: what the task left\n\n{}", self.label(), self.trailer());
        let head = self.head.clone();
        self.inside(At::Commit, &["commit-tree", tree, "-p", &head, "-m", &message])
    }

    /// Other repositories among its files: of those a commit holds a name alone.
    fn links(&mut self) -> Step<End> {
        let (Base::Commit { commit: base } | Base::Merged { or: base, .. }) =
            self.tenancy().base.clone();
        let result = self.result.clone();
        self.inside(At::Links, &["diff-tree", "-r", "-z", "--no-renames", &base, &result])
    }

    fn no_links(&mut self, output: &Output) -> Step<End> {
        if !output.is_ok() {
            return Self::broken(output);
        }
        let records: Vec<&[u8]> = output.records().collect();
        let is_link =
            |record: &[u8]| record.splitn(3, |byte| *byte == b' ').nth(1) == Some(b"160000");
        if let Some([_, path]) = records.chunks(2).find(|pair| is_link(pair[0])) {
            let path = String::from_utf8_lossy(path);
            let why =
                format!("`{path}` is a repository of its own: a merge would bring its name alone");
            return Step::Done(End::Unfit { why });
        }
        let own = self.own();
        self.git(At::OwnTip, &["rev-parse", "-q", "--verify", &own])
    }

    pub(super) fn own_tip(&mut self, output: &Output) -> Step<End> {
        let tip = output.line();
        if !output.is_ok() {
            return self.move_own(NOTHING);
        }
        if tip == self.result {
            return self.captured();
        }
        let result = self.result.clone();
        self.git(
            At::OwnContained { tip: tip.clone() },
            &["merge-base", "--is-ancestor", &tip, &result],
        )
    }

    fn move_own(&mut self, from: &str) -> Step<End> {
        let (own, result) = (self.own(), self.result.clone());
        self.git(
            At::OwnMoved,
            &["update-ref", "-m", "callboard: what a task left", &own, &result, from],
        )
    }
}

impl Machine for Returning {
    type End = End;

    fn begin(&mut self) -> Step<End> {
        let args =
            ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=none"];
        self.inside(At::Status, &args)
    }

    fn hears(&mut self, output: &Output) -> Step<End> {
        let line = output.line();
        match self.at.clone() {
            At::Status => self.status(output),
            At::Head => self.head(output),
            At::Add | At::Tree | At::Commit | At::OwnMoved | At::MergeCommit if !output.is_ok() => {
                Self::broken(output)
            }
            At::Add => self.inside(At::Tree, &["write-tree"]),
            At::Tree => self.commit(&line),
            At::Commit => {
                self.result = line;
                self.links()
            }
            At::Links => self.no_links(output),
            At::OwnTip => self.own_tip(output),
            At::OwnContained { tip } if output.is_ok() => self.move_own(&tip),
            At::OwnContained { .. } => Step::Done(End::Unfit {
                why: format!(
                    "its branch `{}` has commits that its HEAD lacks",
                    self.tenancy().branch
                ),
            }),
            At::OwnMoved => self.captured(),
            At::Lead if output.is_ok() => {
                self.has_lead = true;
                self.meet(line)
            }
            At::Lead => {
                self.has_lead = false;
                let target = self.target();
                self.git(At::Target, &["rev-parse", "-q", "--verify", &target])
            }
            At::Target if output.is_ok() => self.meet(line),
            At::Target => Step::Done(End::Broken {
                why: format!(
                    "the branch `{}` is gone",
                    self.tenancy().target.as_deref().unwrap_or_default()
                ),
            }),
            // An earlier coordinator had merged it, or the task itself.
            At::Done if output.is_ok() && !self.has_lead => self.done(Some(self.tip.clone()), None),
            // It is among what is held: that may go on by now.
            At::Done if output.is_ok() => {
                self.merged.clone_from(&self.tip);
                self.find_home()
            }
            At::Done => self.merge(),
            At::Merge => self.merge_tried(output),
            At::Scratch => self.scratch_went(output),
            At::MergeCommit => {
                self.merged = line;
                self.find_home()
            }
            At::Who { path } => self.blamed(path, output),
            At::Where => self.publish(output),
            At::Publish => self.published(output),
            At::Moved { why } => self.refused(why, output),
            At::Hold { why } if output.is_ok() => self.done(Some(self.merged.clone()), Some(why)),
            At::Hold { .. } => self.merge_anew(),
            At::DropLead => self.done(Some(self.merged.clone()), None),
        }
    }
}

/// A name on one line of a message, so that it adds none of its own.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
