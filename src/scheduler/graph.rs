//! Who waits for whom, laid out once: lists of edges in both directions, each in one piece of
//! memory, and the order in which ready tasks are taken.

use std::cmp::Reverse;
use std::ops::Range;

use crate::domain::plan::{Plan, When};

/// One entry of some task's `after`, seen from either end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// The task at the other end.
    pub(super) task: usize,
    /// The condition.
    pub(super) when: When,
}

/// The shape of a run. Dependencies on tasks that do not take part are left out: they count as
/// satisfied.
#[derive(Debug)]
pub(super) struct Graph {
    /// The tasks that take part, in the manifest's order.
    pub(super) members: Vec<usize>,
    /// Whether a task takes part.
    member: Vec<bool>,
    /// Place of a task in the order of choice: priority first, then the manifest's order.
    rank: Vec<usize>,
    /// The task at a place.
    by_rank: Vec<usize>,
    dependencies: Edges,
    dependents: Edges,
}

impl Graph {
    /// Lays out the tasks of `plan`, or those of them that are `selected`.
    pub(super) fn new(plan: &Plan, selected: Option<&[usize]>) -> Self {
        let count = plan.tasks.len();
        let mut member = vec![selected.is_none(); count];
        for &task in selected.unwrap_or_default() {
            if let Some(entry) = member.get_mut(task) {
                *entry = true;
            }
        }
        let members: Vec<usize> = (0..count).filter(|task| member[*task]).collect();
        let mut by_rank: Vec<usize> = (0..count).collect();
        by_rank.sort_by_key(|task| (Reverse(plan.tasks[*task].priority), *task));
        let mut rank = vec![0; count];
        for (place, &task) in by_rank.iter().enumerate() {
            rank[task] = place;
        }
        let pairs = || {
            members.iter().flat_map(|&task| {
                let after = plan.tasks[task].after.iter();
                after
                    .filter(|dependency| member.get(dependency.task) == Some(&true))
                    .map(move |dependency| (task, dependency.task, dependency.when))
            })
        };
        let dependencies =
            Edges::new(count, || pairs().map(|(task, on, when)| (task, Edge { task: on, when })));
        let dependents =
            Edges::new(count, || pairs().map(|(task, on, when)| (on, Edge { task, when })));
        Self { members, member, rank, by_rank, dependencies, dependents }
    }

    /// Whether the task takes part in the run.
    pub(super) fn has(&self, task: usize) -> bool {
        self.member.get(task) == Some(&true)
    }

    /// The task's place in the order of choice.
    pub(super) fn rank(&self, task: usize) -> usize {
        self.rank[task]
    }

    /// The task at a place in the order of choice.
    pub(super) fn at_rank(&self, rank: usize) -> usize {
        self.by_rank[rank]
    }

    /// What the task waits for.
    pub(super) fn dependencies(&self, task: usize) -> &[Edge] {
        &self.dependencies.list[self.dependencies.range(task)]
    }

    /// Places of the edges to those that wait for the task, for `dependent`: walking by place
    /// leaves the run free to change meanwhile.
    pub(super) fn dependents(&self, task: usize) -> Range<usize> {
        self.dependents.range(task)
    }

    /// The edge at a place.
    pub(super) fn dependent(&self, place: usize) -> Edge {
        self.dependents.list[place]
    }
}

/// For each task a list of edges, all lists in one vector.
#[derive(Debug)]
struct Edges {
    starts: Vec<usize>,
    list: Vec<Edge>,
}

impl Edges {
    /// Sorts the edges by owner, by counting; their order within an owner stays.
    fn new<I: Iterator<Item = (usize, Edge)>>(count: usize, edges: impl Fn() -> I) -> Self {
        let mut starts = vec![0; count + 1];
        for (owner, _) in edges() {
            starts[owner + 1] += 1;
        }
        for owner in 0..count {
            starts[owner + 1] += starts[owner];
        }
        let blank = Edge { task: 0, when: When::Success };
        let mut list = vec![blank; starts[count]];
        let mut next = starts.clone();
        for (owner, edge) in edges() {
            list[next[owner]] = edge;
            next[owner] += 1;
        }
        Self { starts, list }
    }

    fn range(&self, owner: usize) -> Range<usize> {
        self.starts[owner]..self.starts[owner + 1]
    }
}
