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

use std::path::{Path, PathBuf};

use super::command::{Git, Machine, Output, Step};
use super::creation::NOTHING;
use super::scratch::Scratch;
use crate::domain::worktree::{Base, Returned, Tenancy, lead_of};

/// How often a merge is done again when the branch moves meanwhile.
const ROUNDS_MAX: u32 = 6;
/// The line of a merge's message that says whose it is.
const TRAILER: &str = "Callboard-Attempt";

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
    at: At,
    /// The commit that the worktree has checked out.
    head: String,
    /// The last commit of the work.
    result: String,
    /// What the result is merged with, and whether that is the lead.
    tip: String,
    has_lead: bool,
    /// The merge.
    merged: String,
    /// Where the target is checked out.
    home: Option<PathBuf>,
    rounds: u32,
    scratch: Option<Scratch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
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

    fn tenancy(&self) -> &Tenancy {
        &self.work.tenancy
    }

    fn label(&self) -> String {
        let attempt = &self.tenancy().attempt;
        format!("{}/{}", attempt.run, one_line(attempt.task.as_str()))
    }

    fn trailer(&self) -> String {
        format!("{TRAILER}: {}#{}", self.label(), self.tenancy().attempt.attempt)
    }

    fn own(&self) -> String {
        format!("refs/heads/{}", self.tenancy().branch)
    }

    fn lead(&self) -> String {
        format!("refs/heads/{}", lead_of(&self.tenancy().attempt.run))
    }

    fn target(&self) -> String {
        format!("refs/heads/{}", self.tenancy().target.as_deref().unwrap_or_default())
    }

    fn inside(&mut self, at: At, args: &[&str]) -> Step<End> {
        self.at = at;
        Step::Git(Git::new(&self.work.tenancy.folder, args))
    }

    fn git(&mut self, at: At, args: &[&str]) -> Step<End> {
        self.at = at;
        Step::Git(Git::new(&self.work.tenancy.repository, args))
    }

    fn done(&self, merged: Option<String>, held: Option<String>) -> Step<End> {
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

    fn broken(output: &Output) -> Step<End> {
        Step::Done(End::Broken { why: output.trouble() })
    }

    fn has_nothing(&self) -> bool {
        let (Base::Commit { commit } | Base::Merged { or: commit, .. }) = &self.tenancy().base;
        self.result == *commit
    }

    // Capture.

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

    fn own_tip(&mut self, output: &Output) -> Step<End> {
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

    // Merge.

    fn captured(&mut self) -> Step<End> {
        if self.has_nothing() {
            return self.done(None, None);
        }
        if self.tenancy().target.is_none() {
            return self.done(None, Some("it is to stay on its branch".to_owned()));
        }
        self.merge_anew()
    }

    fn merge_anew(&mut self) -> Step<End> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Step::Done(End::Broken { why: "the branch moved again and again".to_owned() });
        }
        let lead = self.lead();
        self.git(At::Lead, &["rev-parse", "-q", "--verify", &lead])
    }

    fn meet(&mut self, tip: String) -> Step<End> {
        self.tip = tip;
        let (result, tip) = (self.result.clone(), self.tip.clone());
        self.git(At::Done, &["merge-base", "--is-ancestor", &result, &tip])
    }

    fn merge(&mut self) -> Step<End> {
        if self.work.is_old_git {
            return self.begin_scratch();
        }
        let (tip, result) = (self.tip.clone(), self.result.clone());
        let args =
            ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", &tip, &result];
        self.git(At::Merge, &args)
    }

    fn merge_tried(&mut self, output: &Output) -> Step<End> {
        let mut records = output.records();
        match (output.code, records.next()) {
            (Some(0), Some(tree)) => {
                let tree = String::from_utf8_lossy(tree).trim_end().to_owned();
                self.commit_merge(&tree)
            }
            (Some(1), Some(_)) => match records.next() {
                Some(path) => self.conflict(path),
                None => Self::broken(output),
            },
            // Before 2.38 there is no such option.
            (Some(129), _) => self.begin_scratch(),
            _ => Self::broken(output),
        }
    }

    fn begin_scratch(&mut self) -> Step<End> {
        let scratch = Scratch::new(self.work.scratch.clone(), self.work.tenancy.repository.clone());
        let step = self.scratch.insert(scratch).begin(&self.tip, &self.result);
        self.at = At::Scratch;
        Step::Git(step)
    }

    fn scratch_went(&mut self, output: &Output) -> Step<End> {
        let Some(scratch) = &mut self.scratch else { return Self::broken(output) };
        match scratch.hears(output) {
            Step::Git(git) => Step::Git(git),
            Step::Done(Ok(tree)) => self.commit_merge(&tree),
            Step::Done(Err(Some(path))) => self.conflict(&path),
            Step::Done(Err(None)) => Step::Done(End::Broken {
                why: "the merge in a worktree of its own failed".to_owned(),
            }),
        }
    }

    fn commit_merge(&mut self, tree: &str) -> Step<End> {
        let message = format!("Merge task {}\n\n{}", self.label(), self.trailer());
        let (tip, result) = (self.tip.clone(), self.result.clone());
        let args = ["commit-tree", tree, "-p", &tip, "-p", &result, "-m", &message];
        self.git(At::MergeCommit, &args)
    }

    fn conflict(&mut self, path: &[u8]) -> Step<End> {
        let path = String::from_utf8_lossy(path).into_owned();
        let (Base::Commit { commit: base } | Base::Merged { or: base, .. }) =
            self.tenancy().base.clone();
        let range = format!("{base}..{}", self.tip);
        let format = format!("--format=%H%n%ct%n%(trailers:key={TRAILER},valueonly)");
        let literal = format!(":(literal,top){path}");
        let args = ["log", "-1", "--first-parent", "-m", &format, "-s", &range, "--", &literal];
        self.git(At::Who { path: path.clone() }, &args)
    }

    fn blamed(&self, path: String, output: &Output) -> Step<End> {
        let text = output.line();
        let mut lines = text.lines();
        let commit = lines.next().unwrap_or(&self.tip).to_owned();
        let since = lines.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
        let holder = lines.next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        Step::Done(End::Conflict { path, holder, commit, since })
    }

    // Publish.

    fn publish(&mut self, output: &Output) -> Step<End> {
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

    fn published(&mut self, output: &Output) -> Step<End> {
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
    fn refused(&mut self, why: String, output: &Output) -> Step<End> {
        if output.is_ok() && !self.has_lead && output.line() != self.tip {
            return self.merge_anew();
        }
        self.hold(why)
    }

    fn hold(&mut self, why: String) -> Step<End> {
        let (lead, merged) = (self.lead(), self.merged.clone());
        let from = if self.has_lead { self.tip.clone() } else { NOTHING.to_owned() };
        let at = At::Hold { why };
        self.git(at, &["update-ref", "-m", "callboard: held a merge", &lead, &merged, &from])
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
            At::Done if output.is_ok() => self
                .done(Some(self.tip.clone()), Some("what was merged before it is held".to_owned())),
            At::Done => self.merge(),
            At::Merge => self.merge_tried(output),
            At::Scratch => self.scratch_went(output),
            At::MergeCommit => {
                self.merged = line;
                self.git(At::Where, &["worktree", "list", "--porcelain", "-z"])
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

/// A name on one line of a message, so that it adds none of its own.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
