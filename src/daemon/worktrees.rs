//! Attempts that have files of their own: a worktree is made before their session opens, and what
//! they leave comes back before they are over.
//!
//! ```text
//!   start ─► Make ─► session … done ─┬─ succeeded ─► AttemptReturning ─► Return ─► AttemptEnded ─► Remove
//!                                    └─ otherwise ─────────────────────────────► AttemptEnded ─► Remove
//! ```

use std::path::{Path, PathBuf};

pub(super) mod left;
pub(super) mod repository;
pub(super) mod watch;

use self::repository::Job;
use super::action::Action;
use super::desk::Desk;
use super::runs::Run;
use super::sessions::Asker;
use super::warming::BRISK_MS;
use crate::control::{Failure, FailureKind, Submit};
use crate::domain::conflict::{Conflict, Party};
use crate::domain::event::{AttemptEnd, Event as Record};
use crate::domain::ids::{AttemptId, RunId, SessionId};
use crate::domain::outcome::{Reason, TaskCause, TaskReason};
use crate::domain::result::{Child, How};
use crate::domain::time::Timestamp;
use crate::domain::worktree::{Base, MergeWay, Origin, Tenancy, branch_of, folder_of};
use crate::scheduler::attempt;
use crate::scheduler::event::Event;
use crate::worktree::{End, Proof};

/// An attempt that has done its work, which is being merged.
#[derive(Debug)]
pub(super) struct Returning {
    pub(super) number: u32,
    pub(super) session: SessionId,
}

impl Desk {
    /// A client submits a run. Where tasks are to have worktrees it is found out first whether they
    /// can.
    pub(super) fn submit(&mut self, asker: Asker, submit: Submit, now: Timestamp) {
        if !submit.plan.has_worktrees() {
            return self.accept(asker, submit, None, now);
        }
        let wants = |task: &crate::domain::plan::TaskSpec| {
            !task.isolation.is_shared() && task.merge == MergeWay::Auto
        };
        let merges = submit.plan.tasks.iter().any(wants);
        self.act(Action::Git(Job::Survey { asker, submit: Box::new(submit), merges }));
    }

    /// It is known where the run begins.
    pub(super) fn surveyed(
        &mut self,
        asker: Asker,
        submit: Submit,
        found: Result<Box<Origin>, String>,
        now: Timestamp,
    ) {
        if !self.clients.contains(&asker.connection) {
            // It has not heard that there is a run, and may ask again.
            return;
        }
        match found {
            Ok(origin) => self.accept(asker, submit, Some(origin), now),
            Err(why) => self.refuse_asker(asker, no_worktrees(&submit, &why)),
        }
    }

    /// Asks for the worktree of an attempt that has been started. True when it has one.
    pub(super) fn make_worktree(&mut self, id: &RunId, task: usize, now: Timestamp) -> bool {
        let Some(run) = self.runs.get(id) else { return false };
        if run.plan.tasks[task].isolation.is_shared() {
            return false;
        }
        match self.tenancy_now(run, task) {
            Some(tenancy) => self.act(Action::Git(Job::Make { tenancy: Box::new(tenancy) })),
            None => {
                let message = "its run began outside of any git repository".to_owned();
                self.attempt_step(id, task, attempt::Event::OpenFailed { message }, now);
            }
        }
        true
    }

    pub(super) fn worktree_made(
        &mut self,
        attempt: &AttemptId,
        made: Result<(), String>,
        now: Timestamp,
    ) {
        let Some((id, task)) = self.live_attempt(attempt) else {
            // It was cancelled meanwhile.
            return;
        };
        match made {
            Ok(()) => {
                self.attempt_step(&id, task, attempt::Event::Begin, now);
                self.watch_worktree(&id, task);
            }
            Err(message) => {
                self.attempt_step(&id, task, attempt::Event::OpenFailed { message }, now);
            }
        }
    }

    /// Has the folder of an attempt that runs looked after.
    pub(super) fn watch_worktree(&mut self, id: &RunId, task: usize) {
        let Some(run) = self.runs.get(id) else { return };
        if let Some(tenancy) = self.tenancy_now(run, task) {
            let Tenancy { attempt, session, folder, .. } = tenancy;
            self.act(Action::Watch { session, attempt, folder });
        }
    }

    pub(super) fn worktree_gone(&mut self, attempt: &AttemptId, now: Timestamp) {
        if let Some((id, task)) = self.live_attempt(attempt) {
            self.attempt_step(&id, task, attempt::Event::WorkspaceMissing, now);
        }
    }

    /// An attempt's machine is at its end, and its tree gone.
    pub(super) fn attempt_done(
        &mut self,
        id: &RunId,
        task: usize,
        mut end: AttemptEnd,
        survivors: &[Child],
        now: Timestamp,
    ) {
        if !survivors.is_empty() {
            tracing::warn!(run = %id, task, ?survivors, "processes that cannot be ended");
        }
        if end == AttemptEnd::Succeeded
            && let Err(instead) = self.publish(id, task, now)
        {
            end = instead;
        }
        let tenancy = self.runs.get(id).and_then(|run| self.tenancy_now(run, task));
        let Some(run) = self.runs.get_mut(id) else { return };
        let Some(live) = run.attempts.remove(&task) else { return };
        run.brisk = now.ms_since(live.began) < BRISK_MS;
        let number = live.number;
        match tenancy {
            Some(tenancy) if end == AttemptEnd::Succeeded => {
                let attempt = tenancy.attempt.clone();
                run.returning.insert(task, Returning { number, session: live.session });
                self.record_durably(Record::AttemptReturning { attempt }, now);
                self.act(Action::Git(Job::Return { tenancy: Box::new(tenancy) }));
            }
            Some(tenancy) => {
                // Before what may be the run's end: its report names what was kept.
                let tenancy = Box::new(tenancy);
                self.act(Action::Git(Job::Remove { tenancy, proof: Proof::Merged }));
                self.attempt_over(id, task, number, end, now);
            }
            None => self.attempt_over(id, task, number, end, now),
        }
    }

    /// What the root is to an attempt that runs or is about to: a worktree has one of its own.
    pub(super) fn root_of(&self, run: &Run, task: usize) -> PathBuf {
        match (self.tenancy_now(run, task), &run.origin) {
            (Some(tenancy), Some(origin)) => tenancy.folder.join(&origin.prefix),
            _ => run.plan.root.clone(),
        }
    }

    fn attempt_over(
        &mut self,
        id: &RunId,
        task: usize,
        number: u32,
        end: AttemptEnd,
        now: Timestamp,
    ) {
        let Some(run) = self.runs.get(id) else { return };
        let attempt = run.attempt_id(task, number);
        let ended = Record::AttemptEnded { attempt: attempt.clone(), end: end.clone() };
        self.record_durably(ended, now);
        let backs_off = matches!(end, AttemptEnd::Conflict { .. });
        self.run_step(id, Event::AttemptEnded { task, attempt: number, end }, now);
        self.party_ends(&Party::Attempt { attempt }, now);
        if backs_off {
            self.tell_wanted(now);
        }
    }

    /// Merges again what an earlier coordinator was about to.
    pub(super) fn return_again(&mut self, id: &RunId) {
        let Some(run) = self.runs.get(id) else { return };
        let tenancies = run.returning.iter().filter_map(|(task, returning)| {
            self.tenancy(run, *task, returning.number, &returning.session)
        });
        let jobs: Vec<Job> =
            tenancies.map(|tenancy| Job::Return { tenancy: Box::new(tenancy) }).collect();
        for job in jobs {
            self.act(Action::Git(job));
        }
    }

    /// What an attempt has left has come back, or could not.
    pub(super) fn worktree_returned(&mut self, attempt: &AttemptId, end: End, now: Timestamp) {
        let Some(run) = self.runs.get_mut(&attempt.run) else { return };
        let Some(task) = run.plan.tasks.iter().position(|task| task.id == attempt.task) else {
            return;
        };
        let is_it = run.returning.get(&task).is_some_and(|it| it.number == attempt.attempt);
        let Some(returning) = run.returning.remove(&task).filter(|_| is_it) else { return };
        let end = match end {
            End::Returned(returned) => {
                run.tasks[task].returned = Some(returned.clone());
                self.record(Record::AttemptReturned { attempt: attempt.clone(), returned }, now);
                AttemptEnd::Succeeded
            }
            other => {
                let prefix = run.origin.as_ref().map(|origin| origin.prefix.clone());
                failed(other, &prefix.unwrap_or_default(), now)
            }
        };
        let proof = match end {
            AttemptEnd::Succeeded | AttemptEnd::Conflict { .. } => Proof::OnBranch,
            _ => Proof::Merged,
        };
        let Some(run) = self.runs.get(&attempt.run) else { return };
        let tenancy = self.tenancy(run, task, returning.number, &returning.session);
        if let Some(tenancy) = tenancy.map(Box::new) {
            self.act(Action::Git(Job::Remove { tenancy, proof }));
        }
        self.attempt_over(&attempt.run, task, returning.number, end, now);
    }

    fn live_attempt(&self, attempt: &AttemptId) -> Option<(RunId, usize)> {
        let run = self.runs.get(&attempt.run)?;
        let is_it = |(task, live): &(&usize, &super::runs::Live)| {
            run.plan.tasks[**task].id == attempt.task && live.number == attempt.attempt
        };
        run.attempts.iter().find(is_it).map(|(task, _)| (attempt.run.clone(), *task))
    }

    /// The worktree of the attempt that runs.
    pub(super) fn tenancy_now(&self, run: &Run, task: usize) -> Option<Tenancy> {
        let live = run.attempts.get(&task)?;
        self.tenancy(run, task, live.number, &live.session)
    }

    fn tenancy(&self, run: &Run, task: usize, number: u32, session: &SessionId) -> Option<Tenancy> {
        let spec = &run.plan.tasks[task];
        let origin = run.origin.as_ref().filter(|_| !spec.isolation.is_shared())?;
        let attempt = run.attempt_id(task, number);
        let branch = origin.branch.clone();
        // Whoever comes after others sees what they did; and whoever had a conflict, with what.
        let is_first = spec.after.is_empty() && number <= 1;
        let base = match is_first {
            true => Base::Commit { commit: origin.commit.clone() },
            false => Base::Merged { branch: branch.clone(), or: origin.commit.clone() },
        };
        Some(Tenancy {
            session: session.clone(),
            repository: origin.repository.clone(),
            folder: self.folders.worktrees().join(folder_of(&attempt)),
            branch: branch_of(&attempt),
            base,
            target: branch.filter(|_| spec.merge == MergeWay::Auto),
            attempt,
            is_settled: false,
        })
    }
}

/// What an attempt comes to whose work could not be merged.
fn failed(end: End, prefix: &Path, now: Timestamp) -> AttemptEnd {
    let (reason, environment) = match end {
        End::Conflict { path, holder, commit, since } => {
            // As all resources, relative to the workspace's root where it is below that.
            let path = Path::new(&path).strip_prefix(prefix).unwrap_or(Path::new(&path)).display();
            let conflict = Conflict {
                resource: format!("file/{path}"),
                mode: "merge".to_owned(),
                how: How::Inferred,
                at: now,
                holder: holder
                    .and_then(|holder| party(&holder))
                    .unwrap_or(Party::Commit { commit }),
                since: Timestamp(since.saturating_mul(1000).cast_signed()),
                prevented: true,
                hashes: None,
            };
            return AttemptEnd::Conflict { conflict: Box::new(conflict) };
        }
        End::Missing => (TaskReason::Command(Reason::WorkspaceMissing), true),
        End::Unfit { why } => (TaskReason::Task(TaskCause::Merge { message: why }), false),
        End::Broken { why } => (TaskReason::Task(TaskCause::Merge { message: why }), true),
        End::Returned(_) => return AttemptEnd::Succeeded,
    };
    AttemptEnd::Failed { reason, permanent: false, environment }
}

/// `RUN/TASK#N`, as merges have it in their messages.
fn party(text: &str) -> Option<Party> {
    let (run, rest) = text.split_once('/')?;
    let (task, attempt) = rest.rsplit_once('#')?;
    let attempt = AttemptId { run: run.into(), task: task.into(), attempt: attempt.parse().ok()? };
    Some(Party::Attempt { attempt })
}

fn no_worktrees(submit: &Submit, why: &str) -> Failure {
    let root = submit.plan.root.display();
    Failure {
        kind: FailureKind::Usage,
        message: format!("`isolation = \"worktree\"` cannot be had in `{root}`: {why}"),
        hint: Some(
            "it needs a git repository with a commit, and a branch checked out unless merge = \"keep\""
                .to_owned(),
        ),
    }
}
