//! The agents: who can take which tasks, and who has room.

use std::collections::{BTreeSet, HashMap};

use crate::domain::ids::Tag;
use crate::domain::plan::{Agent, Plan};

/// The agents of a run, and its tasks grouped by the agents that carry all their tags. Tasks of
/// one group are alike to every choice of an agent, so each question is asked once a group and
/// never once a task.
#[derive(Debug)]
pub(super) struct Pool {
    /// The tags of each agent.
    carried: Vec<BTreeSet<Tag>>,
    workers: Vec<Worker>,
    groups: Vec<Group>,
    by_needs: HashMap<Vec<Tag>, usize>,
    by_capable: HashMap<Vec<usize>, usize>,
    /// The group of each task.
    group_of: Vec<usize>,
}

#[derive(Debug)]
struct Worker {
    capacity: u32,
    used: u32,
    /// How many different tags it carries.
    tags: usize,
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
        let workers: Vec<Worker> = plan
            .agents
            .iter()
            .map(|agent| Worker {
                capacity: agent.capacity.max(1),
                used: 0,
                tags: tags(agent).len(),
                serves: Vec::new(),
            })
            .collect();
        let mut pool = Self {
            carried: plan.agents.iter().map(tags).collect(),
            workers,
            groups: Vec::new(),
            by_needs: HashMap::new(),
            by_capable: HashMap::new(),
            group_of: Vec::with_capacity(plan.tasks.len()),
        };
        for task in &plan.tasks {
            pool.add(&task.needs);
        }
        pool
    }

    /// Groups one more task. False when no agent carries all its tags.
    pub(super) fn add(&mut self, needs: &[Tag]) -> bool {
        let mut needs = needs.to_vec();
        needs.sort_unstable();
        needs.dedup();
        let group = match self.by_needs.get(&needs) {
            Some(&group) => group,
            None => self.group_for(needs),
        };
        self.group_of.push(group);
        self.is_served(group)
    }

    fn group_for(&mut self, needs: Vec<Tag>) -> usize {
        let capable: Vec<usize> = (0..self.carried.len())
            .filter(|agent| needs.iter().all(|tag| self.carried[*agent].contains(tag)))
            .collect();
        let group = match self.by_capable.get(&capable) {
            Some(&group) => group,
            None => {
                let group = self.groups.len();
                for &agent in &capable {
                    self.workers[agent].serves.push(group);
                }
                let free = capable.iter().filter(|agent| self.workers[**agent].has_room()).count();
                self.groups.push(Group { free, capable: capable.clone() });
                self.by_capable.insert(capable, group);
                group
            }
        };
        self.by_needs.insert(needs, group);
        group
    }

    /// Whether some agent carries all these tags.
    pub(super) fn can_serve(&self, needs: &[Tag]) -> bool {
        self.carried.iter().any(|tags| needs.iter().all(|tag| tags.contains(tag)))
    }

    /// The group of a task.
    pub(super) fn group(&self, task: usize) -> usize {
        self.group_of[task]
    }

    /// How many agents there are.
    pub(super) fn agents(&self) -> usize {
        self.workers.len()
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
            (a.tags, load_a).cmp(&(b.tags, load_b)).then(left.cmp(right))
        })
    }

    /// Gives the agent one task more. True when it has no more room now.
    pub(super) fn take(&mut self, agent: usize) -> bool {
        let worker = &mut self.workers[agent];
        let had_room = worker.has_room();
        worker.used += 1;
        let filled = had_room && !worker.has_room();
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
        let has_room = was_full && worker.has_room();
        if has_room {
            for &group in &worker.serves {
                self.groups[group].free += 1;
            }
        }
        has_room
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
