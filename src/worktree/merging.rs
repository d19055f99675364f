//! Returning, its second part: the result is merged with what its branch holds by now. Nothing is
//! written but objects; who changed a file in conflict is read off the merges before.

use super::command::{Output, Step};
use super::returning::{At, End, ROUNDS_MAX, Returning, TRAILER};
use super::scratch::Scratch;
use crate::domain::worktree::Base;

impl Returning {
    pub(super) fn captured(&mut self) -> Step<End> {
        if self.has_nothing() {
            return self.done(None, None);
        }
        if self.tenancy().target.is_none() {
            return self.done(None, Some("it is to stay on its branch".to_owned()));
        }
        self.merge_anew()
    }

    pub(super) fn merge_anew(&mut self) -> Step<End> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Step::Done(End::Broken { why: "the branch moved again and again".to_owned() });
        }
        let lead = self.lead();
        self.git(At::Lead, &["rev-parse", "-q", "--verify", &lead])
    }

    pub(super) fn meet(&mut self, tip: String) -> Step<End> {
        self.tip = tip;
        let (result, tip) = (self.result.clone(), self.tip.clone());
        self.git(At::Done, &["merge-base", "--is-ancestor", &result, &tip])
    }

    pub(super) fn merge(&mut self) -> Step<End> {
        if self.work.is_old_git {
            return self.begin_scratch();
        }
        let (tip, result) = (self.tip.clone(), self.result.clone());
        let args =
            ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", &tip, &result];
        self.git(At::Merge, &args)
    }

    pub(super) fn merge_tried(&mut self, output: &Output) -> Step<End> {
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

    pub(super) fn begin_scratch(&mut self) -> Step<End> {
        let scratch = Scratch::new(self.work.scratch.clone(), self.work.tenancy.repository.clone());
        let step = self.scratch.insert(scratch).begin(&self.tip, &self.result);
        self.at = At::Scratch;
        Step::Git(step)
    }

    pub(super) fn scratch_went(&mut self, output: &Output) -> Step<End> {
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

    pub(super) fn commit_merge(&mut self, tree: &str) -> Step<End> {
        let message = format!("Merge task {}\n\n{}", self.label(), self.trailer());
        let (tip, result) = (self.tip.clone(), self.result.clone());
        let args = ["commit-tree", tree, "-p", &tip, "-p", &result, "-m", &message];
        self.git(At::MergeCommit, &args)
    }

    pub(super) fn conflict(&mut self, path: &[u8]) -> Step<End> {
        let path = String::from_utf8_lossy(path).into_owned();
        let (Base::Commit { commit: base } | Base::Merged { or: base, .. }) =
            self.tenancy().base.clone();
        let range = format!("{base}..{}", self.tip);
        let format = format!("--format=%H%n%ct%n%(trailers:key={TRAILER},valueonly)");
        let literal = format!(":(literal,top){path}");
        let args = ["log", "-1", "--first-parent", "-m", &format, "-s", &range, "--", &literal];
        self.git(At::Who { path: path.clone() }, &args)
    }

    pub(super) fn blamed(&self, path: String, output: &Output) -> Step<End> {
        let text = output.line();
        let mut lines = text.lines();
        let commit = lines.next().unwrap_or(&self.tip).to_owned();
        let since = lines.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
        let holder = lines.next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        Step::Done(End::Conflict { path, holder, commit, since })
    }
}
