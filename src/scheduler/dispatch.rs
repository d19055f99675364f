//! The ready tasks, and which of them starts next on whom.
//!
//! Each group of tasks (`Pool`) has its own ordered set. The best task of every group that could
//! start right now stands in `open`; so the next task is its first entry, and a group whose agents
//! are all busy never holds up another. A dispatch costs O(log n), plus one update for each group
//! that an agent serves when that agent fills up or gets room.

use std::collections::BTreeSet;

use crate::domain::ids::Tag;

use super::graph::Rank;
use super::pool::Pool;

/// The ready tasks of a run, by their place in the order of choice.
#[derive(Debug)]
pub(super) struct Dispatch {
    pool: Pool,
    /// The ready tasks of each group.
    ready: Vec<BTreeSet<Rank>>,
    /// (rank, group) of the best task of each group that has a ready task and an agent with room.
    open: BTreeSet<(Rank, usize)>,
    /// What of each group is in `open`.
    listed: Vec<Option<Rank>>,
    /// How many more tasks may run at a time; less than none where fewer may than do.
    slots: i64,
}

/// A task taken off the queue, with the agent that has been given it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    /// The task's place in the order of choice.
    pub(super) rank: Rank,
    /// The agent.
    pub(super) agent: usize,
}

impl Dispatch {
    /// Nothing is ready; every agent is free.
    pub(super) fn new(pool: Pool, jobs: u32) -> Self {
        let groups = pool.groups();
        Self {
            pool,
            ready: vec![BTreeSet::new(); groups],
            open: BTreeSet::new(),
            listed: vec![None; groups],
            slots: i64::from(jobs.max(1)),
        }
    }

    /// The agents.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether another task may run beside those that do.
    pub(super) fn has_slot(&self) -> bool {
        self.slots > 0
    }

    /// A task of the group became ready.
    pub(super) fn insert(&mut self, group: usize, rank: Rank) {
        self.ready[group].insert(rank);
        self.relist(group);
    }

    /// A task of the group is ready no more.
    pub(super) fn remove(&mut self, group: usize, rank: Rank) {
        self.ready[group].remove(&rank);
        self.relist(group);
    }

    /// Nothing is ready any more.
    pub(super) fn clear(&mut self) {
        self.ready.iter_mut().for_each(BTreeSet::clear);
        self.listed.fill(None);
        self.open.clear();
    }

    /// Takes the best ready task that can start now and gives it to an agent.
    pub(super) fn take_next(&mut self) -> Option<Pick> {
        if self.slots <= 0 {
            return None;
        }
        let &(rank, group) = self.open.first()?;
        let agent = self.pool.choose(group)?;
        self.slots -= 1;
        let filled = self.pool.take(agent);
        self.remove(group, rank);
        if filled {
            self.relist_served_by(agent);
        }
        Some(Pick { rank, agent })
    }

    /// Gives a task that is ready, or was, to an agent, whether or not there is room: it runs already.
    pub(super) fn take(&mut self, group: usize, rank: Rank, agent: usize) {
        self.slots -= 1;
        let filled = self.pool.take(agent);
        self.remove(group, rank);
        if filled {
            self.relist_served_by(agent);
        }
    }

    /// As many tasks may run at a time from now on as `jobs` says, instead of `before`.
    pub(super) fn resize(&mut self, before: u32, jobs: u32) {
        self.slots += i64::from(jobs.max(1)) - i64::from(before.max(1));
    }

    /// One more task, with these tags. False when no agent carries them all.
    pub(super) fn add(&mut self, needs: &[Tag]) -> bool {
        let served = self.pool.add(needs);
        let groups = self.pool.groups();
        self.ready.resize_with(groups, BTreeSet::new);
        self.listed.resize(groups, None);
        served
    }

    /// The best ready tasks, at most `count` of them, of those whose agent is certain: choosing
    /// between several is left to the moment.
    pub(super) fn foresee(&self, count: usize) -> Vec<Pick> {
        let certain = self.ready.iter().enumerate();
        let certain = certain.filter_map(|(group, ready)| Some((self.pool.only(group)?, ready)));
        let mut picks: Vec<Pick> = certain
            .flat_map(|(agent, ready)| ready.iter().take(count).map(move |&rank| (rank, agent)))
            .map(|(rank, agent)| Pick { rank, agent })
            .collect();
        picks.sort_unstable_by_key(|pick| pick.rank);
        picks.truncate(count);
        picks
    }

    /// A running task needs its slot and its agent no longer.
    pub(super) fn release(&mut self, agent: usize) {
        self.slots += 1;
        if self.pool.give_back(agent) {
            self.relist_served_by(agent);
        }
    }

    fn relist_served_by(&mut self, agent: usize) {
        for at in 0..self.pool.serves(agent).len() {
            let group = self.pool.serves(agent)[at];
            self.relist(group);
        }
    }

    /// Makes `open` say of the group what is true now.
    fn relist(&mut self, group: usize) {
        let best =
            if self.pool.has_room(group) { self.ready[group].first().copied() } else { None };
        if self.listed[group] == best {
            return;
        }
        if let Some(rank) = self.listed[group].take() {
            self.open.remove(&(rank, group));
        }
        if let Some(rank) = best {
            self.open.insert((rank, group));
        }
        self.listed[group] = best;
    }
}
