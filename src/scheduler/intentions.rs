//! Intentions: of two tasks that mean to write the same files or to bind the same port, one runs at
//! a time.
//!
//! A ready task that has told what it means to do is parked first, and admitted to the queue when
//! nobody who is admitted or runs wants the same. Parked tasks go by the time since which they are
//! ready, then by priority; a later one never passes an earlier one that it overlaps with, so that
//! many small ones do not starve one that wants much. Two exceptions keep services from standing in
//! the way of those they are for: a task does not wait for a service that it comes after, and one
//! that waits for a ready service's end holds up nobody.

use std::collections::BTreeSet;

use crate::domain::plan::{Plan, TaskSpec};
use crate::domain::time::Timestamp;
use crate::policy::intentions::Intention;

use super::graph::Rank;
use super::run::Schedule;
use super::task::{Standing, State};

/// The intentions of a run's tasks.
#[derive(Debug)]
pub(super) struct Intentions {
    of: Vec<Intention>,
    /// Ready, and not in the queue.
    parked: BTreeSet<(Timestamp, Rank)>,
    /// In the queue, or running: of those that have told any.
    admitted: BTreeSet<usize>,
}

impl Intentions {
    /// Those of a plan.
    pub(super) fn new(plan: &Plan) -> Self {
        let of = plan.tasks.iter().map(Intention::of).collect();
        Self { of, parked: BTreeSet::new(), admitted: BTreeSet::new() }
    }

    /// Those of one more task.
    pub(super) fn add(&mut self, task: &TaskSpec) {
        self.of.push(Intention::of(task));
    }

    /// Nothing is ready any more.
    pub(super) fn clear(&mut self) {
        self.parked.clear();
    }

    /// A task is neither ready nor running.
    pub(super) fn gone(&mut self, task: usize) {
        self.admitted.remove(&task);
    }

    /// A task runs already, whatever else does.
    pub(super) fn runs(&mut self, task: usize) {
        if !self.of[task].is_empty() {
            self.admitted.insert(task);
        }
    }
}

impl Schedule {
    /// A task that is ready waits for its turn.
    pub(super) fn queue(&mut self, task: usize) {
        let rank = self.graph.rank(task);
        if self.intentions.of[task].is_empty() {
            self.dispatch.insert(self.dispatch.pool().group(task), rank);
        } else {
            self.intentions.admitted.remove(&task);
            self.intentions.parked.insert((self.tasks[task].since, rank));
        }
    }

    /// A task that was ready does not wait any more.
    pub(super) fn unqueue(&mut self, task: usize) {
        let rank = self.graph.rank(task);
        self.dispatch.remove(self.dispatch.pool().group(task), rank);
        self.intentions.parked.remove(&(self.tasks[task].since, rank));
        self.intentions.admitted.remove(&task);
    }

    /// Lets into the queue what would collide with nobody.
    pub(super) fn admit(&mut self) {
        let mut before: Vec<usize> = Vec::new();
        let mut admitted = Vec::new();
        for &(since, rank) in &self.intentions.parked {
            match self.hindrance(rank.task, &before) {
                None => {
                    admitted.push((since, rank));
                    before.push(rank.task);
                }
                // It goes when the run has nothing else to do.
                Some(by) if self.is_serving(by) => {}
                Some(_) => before.push(rank.task),
            }
        }
        for entry in admitted {
            let task = entry.1.task;
            self.intentions.parked.remove(&entry);
            self.intentions.admitted.insert(task);
            self.dispatch.insert(self.dispatch.pool().group(task), entry.1);
        }
    }

    /// The task for whose end a parked one waits, and what both want.
    pub(super) fn waits_for_overlap(&self, task: usize) -> Option<(usize, String)> {
        let key = (self.tasks[task].since, self.graph.rank(task));
        if !self.intentions.parked.contains(&key) {
            return None;
        }
        let earlier: Vec<usize> =
            self.intentions.parked.range(..key).map(|(_, rank)| rank.task).collect();
        let by = self.hindrance(task, &earlier)?;
        let shared = self.intentions.of[task].shared_with(&self.intentions.of[by])?;
        Some((by, shared))
    }

    /// Who keeps a parked task from the queue: of those admitted, then of those parked `before`.
    fn hindrance(&self, task: usize, before: &[usize]) -> Option<usize> {
        let mine = &self.intentions.of[task];
        let collides = |other: &usize| {
            *other != task && mine.shared_with(&self.intentions.of[*other]).is_some()
        };
        let mut admitted = self.intentions.admitted.iter().copied().filter(collides);
        // Whoever is no service hinders first: a service's end may be far.
        let (serving, others): (Vec<usize>, Vec<usize>) =
            admitted.by_ref().partition(|other| self.is_serving(*other));
        others
            .first()
            .or_else(|| serving.iter().find(|service| !self.comes_after(task, **service)))
            .copied()
            .or_else(|| before.iter().copied().find(collides))
    }

    fn is_serving(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Running(it) if it.standing() == Standing::Serving)
    }

    /// Whether a task waits for another, directly or behind others.
    fn comes_after(&self, task: usize, other: usize) -> bool {
        let mut seen = BTreeSet::from([task]);
        let mut open = vec![task];
        while let Some(at) = open.pop() {
            for edge in self.graph.dependencies(at) {
                if edge.task == other {
                    return true;
                }
                if seen.insert(edge.task) {
                    open.push(edge.task);
                }
            }
        }
        false
    }
}
