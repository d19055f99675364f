//! Who waits for whom, laid out once: lists of edges in both directions, each in one piece of
//! memory, and the order in which ready tasks are taken.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::domain::plan::{Dependency, Plan, When};

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
    /// Place of each task in the order of choice.
    rank: Vec<Rank>,
    dependencies: Edges,
    dependents: Edges,
    /// The dependents of tasks that were there before them, where tasks have been added.
    late: BTreeMap<usize, Vec<Edge>>,
}

/// Place in the order of choice: priority first, then the order in which tasks came. It is a key and
/// no count, so that a task which is added moves no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i64>,
    task: usize,
}

/// Where an edge is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// Among those that were laid out at the start.
    Laid(usize),
    /// Among those that came later, of this task.
    Late(usize, usize),
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
        let ranks = plan.tasks.iter().enumerate();
        let rank =
            ranks.map(|(task, spec)| Rank { priority: Reverse(spec.priority), task }).collect();
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
        Self { members, member, rank, dependencies, dependents, late: BTreeMap::new() }
    }

    /// Adds a task that takes part and waits for some of those before it.
    pub(super) fn add(&mut self, priority: i64, after: &[Dependency]) {
        let task = self.member.len();
        self.members.push(task);
        self.member.push(true);
        self.rank.push(Rank { priority: Reverse(priority), task });
        let known = after.iter().filter(|on| on.task < task && self.has(on.task));
        let edges: Vec<Edge> = known.map(|on| Edge { task: on.task, when: on.when }).collect();
        for edge in &edges {
            self.late.entry(edge.task).or_default().push(Edge { task, when: edge.when });
        }
        self.dependencies.push_owner(edges);
        self.dependents.push_owner(Vec::new());
    }

    /// Whether the task takes part in the run.
    pub(super) fn has(&self, task: usize) -> bool {
        self.member.get(task) == Some(&true)
    }

    /// The task's place in the order of choice.
    pub(super) fn rank(&self, task: usize) -> Rank {
        self.rank[task]
    }

    /// The task at a place in the order of choice.
    pub(super) fn at_rank(&self, rank: Rank) -> usize {
        rank.task
    }

    /// What the task waits for.
    pub(super) fn dependencies(&self, task: usize) -> &[Edge] {
        &self.dependencies.list[self.dependencies.range(task)]
    }

    /// Places of the edges to those that wait for the task, for `dependent`: walking by place
    /// leaves the run free to change meanwhile.
    pub(super) fn dependents(&self, task: usize) -> impl Iterator<Item = Place> + use<> {
        let late = self.late.get(&task).map_or(0, Vec::len);
        let laid = self.dependents.range(task).map(Place::Laid);
        laid.chain((0..late).map(move |at| Place::Late(task, at)))
    }

    /// The edge at a place.
    pub(super) fn dependent(&self, place: Place) -> Edge {
        match place {
            Place::Laid(at) => self.dependents.list[at],
            Place::Late(task, at) => self.late[&task][at],
        }
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

    /// One more owner, behind all others, with its edges.
    fn push_owner(&mut self, edges: Vec<Edge>) {
        self.list.extend(edges);
        self.starts.push(self.list.len());
    }

    fn range(&self, owner: usize) -> Range<usize> {
        self.starts[owner]..self.starts[owner + 1]
    }
}
