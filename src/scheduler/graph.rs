//! Who waits for whom, and the order in which ready tasks are taken. A run that is open for more
//! grows at its end: a task can only wait for those that are there before it.

use std::cmp::Reverse;
use std::ops::Range;

use crate::domain::plan::{Dependency, Plan, TaskSpec, When};

/// One entry of some task's `after`, seen from either end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// The task at the other end.
    pub(super) task: usize,
    /// The condition.
    pub(super) when: When,
}

/// A task's place in the order of choice: priority first, then the manifest's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i64>,
    /// The task.
    pub(super) task: usize,
}

/// The shape of a run. Dependencies on tasks that do not take part are left out: they count as
/// satisfied.
#[derive(Debug)]
pub(super) struct Graph {
    /// The tasks that take part, in the manifest's order.
    pub(super) members: Vec<usize>,
    /// Whether a task takes part.
    member: Vec<bool>,
    priority: Vec<i64>,
    dependencies: Vec<Vec<Edge>>,
    dependents: Vec<Vec<Edge>>,
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
        let mut graph = Self {
            members: (0..count).filter(|task| member[*task]).collect(),
            member,
            priority: plan.tasks.iter().map(|task| task.priority).collect(),
            dependencies: vec![Vec::new(); count],
            dependents: vec![Vec::new(); count],
        };
        for at in 0..graph.members.len() {
            let task = graph.members[at];
            graph.connect(task, &plan.tasks[task].after);
        }
        graph
    }

    /// Puts one more task at the end. Its number is the answer.
    pub(super) fn add(&mut self, spec: &TaskSpec) -> usize {
        let task = self.member.len();
        self.member.push(true);
        self.members.push(task);
        self.priority.push(spec.priority);
        self.dependencies.push(Vec::new());
        self.dependents.push(Vec::new());
        self.connect(task, &spec.after);
        task
    }

    fn connect(&mut self, task: usize, after: &[Dependency]) {
        for &Dependency { task: on, when } in after {
            if self.has(on) {
                self.dependencies[task].push(Edge { task: on, when });
                self.dependents[on].push(Edge { task, when });
            }
        }
    }

    /// Whether the task takes part in the run.
    pub(super) fn has(&self, task: usize) -> bool {
        self.member.get(task) == Some(&true)
    }

    /// The task's place in the order of choice.
    pub(super) fn rank(&self, task: usize) -> Rank {
        Rank { priority: Reverse(self.priority[task]), task }
    }

    /// What the task waits for.
    pub(super) fn dependencies(&self, task: usize) -> &[Edge] {
        &self.dependencies[task]
    }

    /// Places of the edges to those that wait for the task, for `dependent`: walking by place
    /// leaves the run free to change meanwhile.
    pub(super) fn dependents(&self, task: usize) -> Range<usize> {
        0..self.dependents[task].len()
    }

    /// The edge at a place among those of the task.
    pub(super) fn dependent(&self, task: usize, place: usize) -> Edge {
        self.dependents[task][place]
    }
}
