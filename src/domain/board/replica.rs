//! A replica of the board in memory: the coordinator's desk has one, and so does every mirror that
//! follows it, in a client or behind a door.
//!
//! Writes reach a replica as single entries (`merge`), in whatever order and however often, or as a
//! `Catchup`, which has everything after a version. Both are joins, so replicas that have heard the
//! same agree.
//!
//! **Tombstones.** A removal outlives what it removed, so that an older write which comes late does
//! not bring it back. It is dropped (`collect`) once it is older than the replica's *horizon*. Whoever
//! follows from a version before the horizon is given everything anew (`Catchup::whole`), and an
//! entry that is not newer than the horizon and not known is one that was removed: it is not taken.
//! So no replica can need a tombstone that is gone. A mirror that has caught up has its horizon there:
//! it needs tombstones only for what it hears ahead of that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BoardEntry, Version, merge};

/// How many removed keys are remembered at most.
pub const TOMBSTONES_MAX: usize = 4096;
/// How long they are remembered at least, as long as there are not too many, in ms.
pub const TOMBSTONE_KEPT_MS: i64 = 10 * 60_000;

/// Entries by key, with tombstones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replica {
    entries: BTreeMap<String, BoardEntry>,
    horizon: Option<Version>,
    live: usize,
    bytes: usize,
}

/// What somebody lacks who has everything up to a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Catchup {
    /// True when these are all entries that there are: what is not among them is gone.
    pub whole: bool,
    /// In the order of their versions, tombstones among them.
    pub entries: Vec<BoardEntry>,
    /// Everything up to this version is known with it.
    pub through: Option<Version>,
}

impl Replica {
    /// Takes a write in; false when nothing changes.
    pub fn merge(&mut self, entry: BoardEntry) -> bool {
        match self.entries.remove(&entry.key) {
            None => {
                if self.horizon.as_ref().is_some_and(|horizon| entry.version <= *horizon) {
                    return false;
                }
                self.keep(entry);
                true
            }
            Some(standing) => {
                self.forget(&standing);
                let winner = merge(standing.clone(), entry);
                let changed = winner != standing;
                self.keep(winner);
                changed
            }
        }
    }

    fn keep(&mut self, entry: BoardEntry) {
        if entry.value.is_some() {
            self.live += 1;
            self.bytes += size(&entry);
        }
        self.entries.insert(entry.key.clone(), entry);
    }

    fn forget(&mut self, entry: &BoardEntry) {
        if entry.value.is_some() {
            self.live -= 1;
            self.bytes -= size(entry);
        }
    }

    /// The entry of a key; `None` when there is none or it was removed.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&BoardEntry> {
        self.entries.get(key).filter(|entry| entry.value.is_some())
    }

    /// The entries whose keys begin with this text, in order; removed ones are left out.
    pub fn beginning<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a BoardEntry> {
        self.entries
            .range(text.to_owned()..)
            .take_while(move |(key, _)| key.starts_with(text))
            .map(|(_, entry)| entry)
            .filter(|entry| entry.value.is_some())
    }

    /// How many entries there are, removed ones left out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// What keys and values of these come to, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many removed keys are remembered.
    #[must_use]
    pub fn tombstones(&self) -> usize {
        self.entries.len() - self.live
    }

    /// The greatest version in it.
    #[must_use]
    pub fn newest(&self) -> Option<&Version> {
        self.entries.values().map(|entry| &entry.version).max()
    }

    /// What somebody lacks who has everything up to `since`; all of it when that is before the
    /// horizon, later than anything here (it is of another board then), or nothing.
    #[must_use]
    pub fn after(&self, since: Option<&Version>) -> Catchup {
        let through = self.newest().max(self.horizon.as_ref()).cloned();
        let is_known = |since: &&Version| {
            self.horizon.as_ref().is_none_or(|horizon| **since >= *horizon)
                && through.as_ref().is_some_and(|through| **since <= *through)
        };
        let since = since.filter(is_known);
        let mut entries: Vec<BoardEntry> = self
            .entries
            .values()
            .filter(|entry| match since {
                Some(since) => entry.version > *since,
                None => entry.value.is_some(),
            })
            .cloned()
            .collect();
        entries.sort_by(|a, b| a.version.cmp(&b.version));
        Catchup { whole: since.is_none(), entries, through }
    }

    /// Takes in what another replica has after the version that this one asked for.
    pub fn adopt(&mut self, from: Catchup) {
        let Catchup { whole, entries, through } = from;
        if whole {
            let stays: std::collections::BTreeSet<&str> =
                entries.iter().map(|entry| entry.key.as_str()).collect();
            // Heard later than this was made.
            let is_later = |entry: &BoardEntry| through.as_ref().is_none_or(|t| entry.version > *t);
            let gone =
                |entry: &&BoardEntry| !is_later(entry) && !stays.contains(entry.key.as_str());
            let gone: Vec<String> =
                self.entries.values().filter(gone).map(|entry| entry.key.clone()).collect();
            gone.iter().for_each(|key| self.remove(key));
        }
        // Before the horizon moves, which would keep them out.
        for entry in entries {
            self.merge(entry);
        }
        // All up to there is known now: an older write of a key that is not there was removed.
        if through > self.horizon {
            self.horizon = through;
            self.drop_tombstones();
        }
    }

    /// Drops tombstones that are older than `TOMBSTONE_KEPT_MS`, and the oldest of more than
    /// `TOMBSTONES_MAX`. The keys that are forgotten.
    pub fn collect(&mut self, now_ms: i64) -> Vec<String> {
        let removed = self.entries.values().filter(|entry| entry.value.is_none());
        let mut versions: Vec<&Version> = removed.map(|entry| &entry.version).collect();
        versions.sort();
        let Some(horizon) = horizon_of(&versions, now_ms).cloned() else { return Vec::new() };
        self.horizon = self.horizon.take().max(Some(horizon));
        self.drop_tombstones()
    }

    fn drop_tombstones(&mut self) -> Vec<String> {
        let Some(horizon) = self.horizon.clone() else { return Vec::new() };
        let due = |entry: &&BoardEntry| entry.value.is_none() && entry.version <= horizon;
        let due: Vec<String> =
            self.entries.values().filter(due).map(|entry| entry.key.clone()).collect();
        due.iter().for_each(|key| self.remove(key));
        due
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.forget(&entry);
        }
    }
}

/// The version up to which tombstones are dropped, of these in their order.
#[must_use]
pub fn horizon_of<'a>(removed: &[&'a Version], now_ms: i64) -> Option<&'a Version> {
    let old = removed.partition_point(|v| v.wall_ms < now_ms.saturating_sub(TOMBSTONE_KEPT_MS));
    // Half as many are left, so that the next removal does not collect again.
    let over = if removed.len() > TOMBSTONES_MAX { removed.len() - TOMBSTONES_MAX / 2 } else { 0 };
    old.max(over).checked_sub(1).map(|at| removed[at])
}

fn size(entry: &BoardEntry) -> usize {
    entry.key.len() + entry.value.as_ref().map_or(0, text_size)
}

/// About as many bytes as the value has as JSON, without writing it down.
fn text_size(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| text_size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, item)| name.len() + 4 + text_size(item)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests;
