//! The agents: who can take which tasks, and who has room.

use std::collections::{BTreeSet, HashMap};

use crate::domain::ids::Tag;
use crate::domain::plan::{Agent, Plan};

/// The agents of a run, and its tasks grouped by the agents that carry all their tags. Tasks of
/// one group are alike to every choice of an agent, so each question is asked once a group and
/// never once a task.
#[derive(Debug)]
pub(super) struct Pool {
    workers: Vec<Worker>,
    groups: Vec<Group>,
    /// The group of each task.
    group_of: Vec<usize>,
}

#[derive(Debug)]
struct Worker {
    capacity: u32,
    used: u32,
    /// What it carries.
    tags: BTreeSet<Tag>,
    /// The groups it can take tasks of.
    serves: Vec<usize>,
}

#[derive(Debug)]
struct Group {
    /// Who carries all the tags.
    capable: Vec<usize>,
    /// How many of them have room.
    free: usize,
}

impl Pool {
    /// Groups the plan's tasks by the agents that can take them.
    pub(super) fn new(plan: &Plan) -> Self {
        let mut workers: Vec<Worker> = plan
            .agents
            .iter()
            .map(|agent| Worker {
                capacity: agent.capacity.max(1),
                used: 0,
                tags: tags(agent),
                serves: Vec::new(),
            })
            .collect();
        let mut groups: Vec<Group> = Vec::new();
        let mut by_needs: HashMap<Vec<&str>, usize> = HashMap::new();
        let mut by_capable: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut group_of = Vec::with_capacity(plan.tasks.len());
        for task in &plan.tasks {
            let mut needs: Vec<&str> = task.needs.iter().map(|tag| tag.as_str()).collect();
            needs.sort_unstable();
            needs.dedup();
            if let Some(&group) = by_needs.get(&needs) {
                group_of.push(group);
                continue;
            }
            let capable = capable(&workers, &task.needs);
            let group = *by_capable.entry(capable.clone()).or_insert_with(|| {
                let group = groups.len();
                for &agent in &capable {
                    workers[agent].serves.push(group);
                }
                groups.push(Group { free: capable.len(), capable });
                group
            });
            by_needs.insert(needs, group);
            group_of.push(group);
        }
        Self { workers, groups, group_of }
    }

    /// One more task, that needs these tags.
    pub(super) fn add_task(&mut self, needs: &[Tag]) {
        let capable = capable(&self.workers, needs);
        let known = self.groups.iter().position(|group| group.capable == capable);
        let group = known.unwrap_or(self.groups.len());
        self.group_of.push(group);
        if known.is_none() {
            for &agent in &capable {
                self.workers[agent].serves.push(group);
            }
            let with_room = capable.iter().filter(|agent| self.workers[**agent].has_room());
            self.groups.push(Group { free: with_room.count(), capable });
        }
    }

    /// The group of a task.
    pub(super) fn group(&self, task: usize) -> usize {
        self.group_of[task]
    }

    /// How many groups there are.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Whether any agent at all, busy or not, can take the group's tasks.
    pub(super) fn is_served(&self, group: usize) -> bool {
        !self.groups[group].capable.is_empty()
    }

    /// The agent that takes the group's tasks, where only one can.
    pub(super) fn only(&self, group: usize) -> Option<usize> {
        match self.groups[group].capable[..] {
            [agent] => Some(agent),
            _ => None,
        }
    }

    /// Whether a capable agent has room.
    pub(super) fn has_room(&self, group: usize) -> bool {
        self.groups[group].free > 0
    }

    /// The groups an agent can take tasks of.
    pub(super) fn serves(&self, agent: usize) -> &[usize] {
        &self.workers[agent].serves
    }

    /// The agent for the group's next task: of those with room the one that can do least, so that
    /// the versatile stay free for what nobody else can do; then the least loaded.
    pub(super) fn choose(&self, group: usize) -> Option<usize> {
        let with_room = self.groups[group].capable.iter().copied();
        with_room.filter(|agent| self.workers[*agent].has_room()).min_by(|left, right| {
            let (a, b) = (&self.workers[*left], &self.workers[*right]);
            // used / capacity of each, compared without division.
            let load_a = u64::from(a.used) * u64::from(b.capacity);
            let load_b = u64::from(b.used) * u64::from(a.capacity);
            (a.tags.len(), load_a).cmp(&(b.tags.len(), load_b)).then(left.cmp(right))
        })
    }

    /// Gives the agent one task more. True when it has no more room now.
    pub(super) fn take(&mut self, agent: usize) -> bool {
        let worker = &mut self.workers[agent];
        worker.used += 1;
        let filled = !worker.has_room();
        if filled {
            for &group in &worker.serves {
                self.groups[group].free -= 1;
            }
        }
        filled
    }

    /// Takes a task off the agent. True when it had no room before.
    pub(super) fn give_back(&mut self, agent: usize) -> bool {
        let worker = &mut self.workers[agent];
        let was_full = !worker.has_room();
        worker.used = worker.used.saturating_sub(1);
        if was_full {
            for &group in &worker.serves {
                self.groups[group].free += 1;
            }
        }
        was_full
    }
}

impl Worker {
    fn has_room(&self) -> bool {
        self.used < self.capacity
    }
}

fn tags(agent: &Agent) -> BTreeSet<Tag> {
    agent.tags.iter().cloned().collect()
}

/// The agents that carry all of these.
fn capable(workers: &[Worker], needs: &[Tag]) -> Vec<usize> {
    let carries = |worker: &Worker| needs.iter().all(|tag| worker.tags.contains(tag));
    workers.iter().enumerate().filter(|(_, worker)| carries(worker)).map(|(at, _)| at).collect()
}
