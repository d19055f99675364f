//! What a conflict makes of a task: it waits, longer each time, until what it wanted is free; after
//! five waits somebody has to decide (design, section 6).
//!
//! ```text
//!   attempt ends by conflict n ─┬─ n ≤ 5 ─► backing off ─► its time is over, and the resource is free
//!                               │                     └──► or it has waited for 5 minutes
//!                               └─ n = 6 ─► escalated
//! ```
//!
//! The road not taken is to queue for a resource: whoever waits in a queue for one and holds another
//! can wait for ever. Here nobody holds anything while they wait, and every wait ends.

use crate::domain::conflict::{Backoff, Conflict};
use crate::domain::outcome::TaskReason;
use crate::domain::time::Timestamp;

use super::retry;
use super::run::Schedule;
use super::task::{EscalationCause, State};

/// The sixth conflict is a question for somebody.
pub const BACKOFFS_MAX: u32 = 5;
/// How long a task waits at most for a resource that is not let go of. It tries again then, and
/// counts another conflict if it has to.
pub const FREE_WITHIN_MS: u64 = 300_000;
/// Waits after conflicts have other jitter than those of retries.
const SALT: u64 = 0x636f_6e66_6c69_6374;

/// One wait after a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedOff {
    /// Which conflict of the task, from 1.
    pub n: u32,
    /// What it was.
    pub conflict: Conflict,
    /// How long it waited, in ms; while it waits: how long it does at least.
    pub wait_ms: u64,
}

/// The facts of a task that backs off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackingOff {
    /// What it wanted.
    pub(super) resource: String,
    /// Why it waits, for reports.
    pub(super) reason: TaskReason,
    /// It waits at least so long,
    pub(super) until: Timestamp,
    /// and no longer than this.
    pub(super) latest: Timestamp,
    /// When it is looked at next: its place among those that wait.
    pub(super) due: Timestamp,
    /// Nobody holds the resource.
    pub(super) free: bool,
}

impl Schedule {
    /// An attempt ended by conflict.
    pub(super) fn back_off(&mut self, task: usize, conflict: Conflict, now: Timestamp) {
        let reason = TaskReason::Command(conflict.reason());
        let record = &mut self.tasks[task];
        record.conflicts = record.conflicts.saturating_add(1);
        let n = record.conflicts;
        if n > BACKOFFS_MAX {
            record.last_conflict = Some(Box::new(conflict));
            return self.escalate(task, EscalationCause::Conflict, reason, now);
        }
        let wait_ms = retry::wait_ms(self.options.seed ^ SALT, task, n);
        let until = now.plus_ms(wait_ms);
        let resource = conflict.resource.clone();
        record.backoffs.push(BackedOff { n, conflict, wait_ms });
        self.retract(task, now);
        self.retrying.insert((until, task));
        let latest = until.max(now.plus_ms(FREE_WITHIN_MS));
        let waits = BackingOff { resource, reason, until, latest, due: until, free: false };
        self.move_to(task, State::BackingOff(Box::new(waits)), now);
    }

    /// Somebody has decided that an escalated task waits until what it wants is free.
    pub(super) fn wait_for_free(&mut self, task: usize, now: Timestamp) {
        let record = &self.tasks[task];
        let (Some(conflict), Some(reason)) = (&record.last_conflict, record.state.reason()) else {
            self.retry_task(task, now);
            return;
        };
        let latest = now.plus_ms(FREE_WITHIN_MS);
        let (resource, reason) = (conflict.resource.clone(), reason.clone());
        let waits = BackingOff { resource, reason, until: now, latest, due: latest, free: false };
        self.retrying.insert((latest, task));
        self.move_to(task, State::BackingOff(Box::new(waits)), now);
    }

    /// The resources that are nobody's to a task, by somebody's decision.
    pub fn exempt(&self, task: usize) -> impl Iterator<Item = &str> {
        let exempt = self.tasks.get(task).into_iter().flat_map(|record| &record.exempt);
        exempt.map(String::as_str)
    }

    /// Whether anybody holds a resource has changed.
    pub(super) fn resource(&mut self, resource: &str, free: bool, now: Timestamp) {
        let waiting: Vec<usize> = self.retrying.iter().map(|&(_, task)| task).collect();
        for task in waiting {
            let State::BackingOff(waits) = &mut self.tasks[task].state else { continue };
            if waits.resource != resource {
                continue;
            }
            waits.free = free;
            if free && waits.until <= now && !self.recalling {
                let due = waits.due;
                self.retrying.remove(&(due, task));
                self.try_again(task, now);
            }
        }
    }

    /// A task's time has come: true when it waits on, for a resource that somebody holds.
    pub(super) fn waits_on(&mut self, task: usize, now: Timestamp) -> bool {
        let State::BackingOff(waits) = &mut self.tasks[task].state else { return false };
        if waits.free || now >= waits.latest {
            return false;
        }
        waits.due = waits.latest;
        self.retrying.insert((waits.due, task));
        true
    }

    /// A wait is over.
    pub(super) fn try_again(&mut self, task: usize, now: Timestamp) {
        let record = &mut self.tasks[task];
        if let (State::BackingOff(_), Some(last)) = (&record.state, record.backoffs.last_mut()) {
            last.wait_ms = now.ms_since(record.since);
        }
        self.make_ready(task, now);
    }

    /// The waits of a task after its conflicts, oldest first.
    pub fn backoffs(&self, task: usize) -> Vec<Backoff> {
        let told = |backed_off: &BackedOff| Backoff {
            n: backed_off.n,
            resource: backed_off.conflict.resource.clone(),
            holder: backed_off.conflict.holder.to_string(),
            wait_ms: backed_off.wait_ms,
        };
        self.tasks
            .get(task)
            .map_or_else(Vec::new, |record| record.backoffs.iter().map(told).collect())
    }

    /// The same with all that is known of each conflict.
    pub fn conflicts(&self, task: usize) -> &[BackedOff] {
        self.tasks.get(task).map_or(&[], |record| &record.backoffs)
    }

    /// The conflict that a task was escalated for.
    pub fn last_conflict(&self, task: usize) -> Option<&Conflict> {
        self.tasks.get(task)?.last_conflict.as_deref()
    }

    /// The resources that tasks wait for.
    pub fn wanted(&self) -> impl Iterator<Item = &str> {
        self.retrying.iter().filter_map(|&(_, task)| match &self.tasks[task].state {
            State::BackingOff(waits) => Some(waits.resource.as_str()),
            _ => None,
        })
    }
}
