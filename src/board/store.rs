//! Entries in sled, and what is remembered beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::digest::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::error::BoardError;
use super::recovery::{self, Recovered};
use crate::domain::board::key::covers;
pub use crate::domain::board::key::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::domain::board::replica::{TOMBSTONES_MAX, horizon_of};
use crate::domain::board::{BoardEntry, BoardView, Version, merge};
use crate::domain::ids::WorkspaceId;
use crate::domain::time::Timestamp;

/// How many changes a watcher may lag behind before it is told that it missed some.
const WATCH_CAPACITY: usize = 1024;
/// Layout of what is stored. Another number in a folder means: fold again.
const FORMAT: u32 = 1;
/// Entries lie under `e/` and their key; the rest under this name.
const RECORD: &[u8] = b"record";
const ENTRY: &[u8] = b"e/";

/// An open board.
#[derive(Debug)]
pub struct Board {
    db: sled::Db,
    node: String,
    record: Record,
    /// Keys in the order of their entries' versions, removed ones among them.
    order: BTreeMap<Version, Arc<str>>,
    /// The versions of the removed ones.
    removed: BTreeSet<Version>,
    changes: broadcast::Sender<Changed>,
}

/// What a watcher is to be given next.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// In the order of their versions.
    pub entries: Vec<BoardEntry>,
    /// Up to where the board has been looked through.
    pub through: Option<Version>,
    /// True when there is nothing more.
    pub is_all: bool,
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// False when a later write already stands, or this very one.
    pub changed: bool,
}

/// News for watchers: read the key for what it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Which key.
    pub key: Arc<str>,
    /// The journal's line that changed it.
    pub seq: u64,
}

/// Stored in one batch with every entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    format: u32,
    folded_to: u64,
    clock: Version,
    digest: Digest,
    /// Removed keys of this version and older ones are forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    horizon: Option<Version>,
}

/// Whether the board would take the entry. For the coordinator, to refuse it before the journal
/// has it.
///
/// # Errors
/// The limit that it breaks.
pub fn check(entry: &BoardEntry) -> Result<(), BoardError> {
    let length = entry.key.len();
    if length == 0 || length > KEY_BYTES_MAX {
        return Err(BoardError::KeyLength(length));
    }
    if entry.key.chars().any(char::is_control) {
        return Err(BoardError::KeyCharacter(entry.key.clone()));
    }
    let bytes = entry.value.as_ref().map_or(0, |value| value.to_string().len());
    if bytes > VALUE_BYTES_MAX {
        return Err(BoardError::ValueLength { key: entry.key.clone(), bytes });
    }
    Ok(())
}

impl Board {
    /// Opens the board in `dir`, made if need be, for the node of that name. A folder that cannot
    /// be opened or has lost something is set aside, and a new board begun: the caller then folds
    /// the whole journal into it. Blocks, on disk alone, and not for long.
    ///
    /// # Errors
    /// When another process has it open, or the disk refuses.
    pub fn open(dir: &Path, node: &str) -> Result<(Self, Option<Recovered>), BoardError> {
        recovery::open(dir, &Self::loader(node))
    }

    /// Whether the board in `dir` could be opened. What is opened is a copy, made in the folder
    /// `scratch`: opening a sled folder writes to it. Nobody may have the board open meanwhile.
    ///
    /// # Errors
    /// When it cannot be copied, or a coordinator would set it aside.
    pub fn examine(dir: &Path, scratch: &Path) -> Result<(), BoardError> {
        recovery::examine(dir, scratch, &Self::loader("doctor"))
    }

    fn loader(node: &str) -> recovery::Load {
        let node = node.to_owned();
        Arc::new(move |db| Self::load(db, &node))
    }

    /// The board of an open database, checked entry by entry.
    fn load(db: sled::Db, node: &str) -> Result<Self, BoardError> {
        let record = match db.get(RECORD).map_err(BoardError::store("reading"))? {
            Some(bytes) => decode::<Record>(&bytes)?,
            None => Record {
                format: FORMAT,
                folded_to: 0,
                clock: Version { wall_ms: 0, logical: 0, node: node.to_owned() },
                digest: Digest::default(),
                horizon: None,
            },
        };
        if record.format != FORMAT {
            return Err(BoardError::Damaged(format!("it has format {}", record.format)));
        }
        let mut digest = Digest::default();
        let (mut order, mut removed) = (BTreeMap::new(), BTreeSet::new());
        for item in db.scan_prefix(ENTRY) {
            let (key, value) = item.map_err(BoardError::store("reading"))?;
            let entry: BoardEntry = decode(&value)?;
            if key[ENTRY.len()..] != *entry.key.as_bytes() {
                return Err(BoardError::Damaged(format!("`{}` lies elsewhere", entry.key)));
            }
            digest.add(&value);
            if entry.value.is_none() {
                removed.insert(entry.version.clone());
            }
            order.insert(entry.version, entry.key.into());
        }
        if digest != record.digest {
            let (found, due) = (digest.members, record.digest.members);
            return Err(BoardError::Damaged(format!(
                "its entries ({found}) are not those that were written ({due})"
            )));
        }
        let (changes, _) = broadcast::channel(WATCH_CAPACITY);
        Ok(Self { db, node: node.to_owned(), record, order, removed, changes })
    }

    /// The journal's last line that is folded in. A start applies those after it; when the journal
    /// does not reach it, lines have been lost there, and the board is to be `clear`ed and folded
    /// again.
    pub fn folded_to(&self) -> u64 {
        self.record.folded_to
    }

    /// Merges a write which the journal has as line `seq`.
    ///
    /// # Errors
    /// When the entry breaks a limit (see `check`) or sled refuses; nothing has changed then.
    pub fn apply(&mut self, seq: u64, entry: BoardEntry) -> Result<Applied, BoardError> {
        check(&entry)?;
        let mut record = self.record.clone();
        record.folded_to = record.folded_to.max(seq);
        if entry.version > record.clock {
            record.clock = entry.version.clone();
        }
        let place = place_of(&entry.key);
        let before = self.db.get(&place).map_err(BoardError::store("reading"))?;
        let mut superseded = None;
        let winner = match &before {
            Some(bytes) => {
                let standing: BoardEntry = decode(bytes)?;
                superseded = Some(standing.version.clone());
                let winner = merge(standing.clone(), entry);
                (winner != standing).then_some(winner)
            }
            // What it was is removed, and forgotten.
            None if self.record.horizon.as_ref().is_some_and(|h| entry.version <= *h) => None,
            None => Some(entry),
        };
        let mut batch = sled::Batch::default();
        if let Some(winner) = &winner {
            let bytes = encode(winner)?;
            if let Some(before) = &before {
                record.digest.remove(before);
            }
            record.digest.add(&bytes);
            batch.insert(place, bytes);
        }
        if record == self.record {
            return Ok(Applied { changed: false });
        }
        batch.insert(RECORD, encode(&record)?);
        self.db.apply_batch(batch).map_err(BoardError::store("writing"))?;
        self.record = record;
        let changed = winner.is_some();
        if let Some(winner) = winner {
            self.place_in_order(superseded.as_ref(), &winner);
            if self.removed.len() > TOMBSTONES_MAX {
                self.collect(Timestamp(i64::MIN))?;
            }
            // Nobody needs to watch.
            drop(self.changes.send(Changed { key: winner.key.into(), seq }));
        }
        Ok(Applied { changed })
    }

    fn place_in_order(&mut self, before: Option<&Version>, entry: &BoardEntry) {
        if let Some(before) = before {
            self.order.remove(before);
            self.removed.remove(before);
        }
        if entry.value.is_none() {
            self.removed.insert(entry.version.clone());
        }
        self.order.insert(entry.version.clone(), entry.key.as_str().into());
    }

    /// Forgets removed keys that no replica can need any more (`domain::board::replica` has the
    /// rule). How many.
    ///
    /// # Errors
    /// When sled refuses; nothing has changed then.
    pub fn collect(&mut self, now: Timestamp) -> Result<usize, BoardError> {
        let removed: Vec<&Version> = self.removed.iter().collect();
        let Some(horizon) = horizon_of(&removed, now.0).cloned() else { return Ok(0) };
        let due: Vec<Version> = self.removed.range(..=&horizon).cloned().collect();
        let mut record = self.record.clone();
        record.horizon = record.horizon.max(Some(horizon));
        let mut batch = sled::Batch::default();
        for key in due.iter().filter_map(|version| self.order.get(version)) {
            let place = place_of(key);
            if let Some(bytes) = self.db.get(&place).map_err(BoardError::store("reading"))? {
                record.digest.remove(&bytes);
            }
            batch.remove(place);
        }
        batch.insert(RECORD, encode(&record)?);
        self.db.apply_batch(batch).map_err(BoardError::store("writing"))?;
        self.record = record;
        for version in &due {
            self.order.remove(version);
            self.removed.remove(version);
        }
        Ok(due.len())
    }

    /// Drops entries that the journal does not know: their removal has been forgotten there.
    ///
    /// # Errors
    /// When sled refuses.
    pub fn retain(&mut self, is_known: impl Fn(&str) -> bool) -> Result<(), BoardError> {
        let unknown: Vec<(Version, Arc<str>)> = self
            .order
            .iter()
            .filter(|(_, key)| !is_known(key))
            .map(|(v, k)| (v.clone(), Arc::clone(k)))
            .collect();
        for (version, key) in unknown {
            let place = place_of(&key);
            let mut record = self.record.clone();
            if let Some(bytes) = self.db.get(&place).map_err(BoardError::store("reading"))? {
                record.digest.remove(&bytes);
            }
            let mut batch = sled::Batch::default();
            batch.remove(place);
            batch.insert(RECORD, encode(&record)?);
            self.db.apply_batch(batch).map_err(BoardError::store("writing"))?;
            self.record = record;
            self.order.remove(&version);
            self.removed.remove(&version);
        }
        Ok(())
    }

    /// The greatest version that the board has seen or given.
    pub fn clock(&self) -> &Version {
        &self.record.clock
    }

    /// Whether whoever has everything up to `since` can go on from there: nothing that it lacks has
    /// been forgotten. A version that this board never saw is of another one.
    pub fn reaches(&self, since: &Version) -> bool {
        self.record.horizon.as_ref().is_none_or(|horizon| since >= horizon)
            && *since <= self.record.clock
    }

    /// Up to `most` entries after a version that `told` speaks of (`domain::board::key::covers`), in
    /// the order of their versions; with `tombstones` removed ones, too.
    ///
    /// # Errors
    /// When sled refuses.
    pub fn after(
        &self,
        since: Option<&Version>,
        told: &str,
        tombstones: bool,
        most: usize,
    ) -> Result<Next, BoardError> {
        use std::ops::Bound;
        let from = since.map_or(Bound::Unbounded, Bound::Excluded);
        let mut next = Next { entries: Vec::new(), through: since.cloned(), is_all: true };
        for (version, key) in self.order.range::<Version, _>((from, Bound::Unbounded)) {
            if next.entries.len() == most {
                next.is_all = false;
                return Ok(next);
            }
            next.through = Some(version.clone());
            if !covers(told, key) || (!tombstones && self.removed.contains(version)) {
                continue;
            }
            if let Some(bytes) = self.db.get(place_of(key)).map_err(BoardError::store("reading"))? {
                next.entries.push(decode(&bytes)?);
            }
        }
        Ok(next)
    }

    /// A version for a new write: greater than any that this board has seen or given.
    pub fn tick(&mut self, now: Timestamp) -> Version {
        self.record.clock = self.record.clock.next(now.0, &self.node);
        self.record.clock.clone()
    }

    /// The entry of a key as it stands; `None` when there is none or it was removed.
    ///
    /// # Errors
    /// When sled refuses.
    pub fn get(&self, key: &str) -> Result<Option<BoardEntry>, BoardError> {
        let stored = self.db.get(place_of(key)).map_err(BoardError::store("reading"))?;
        let entry: Option<BoardEntry> = stored.map(|bytes| decode(&bytes)).transpose()?;
        Ok(entry.filter(|entry| entry.value.is_some()))
    }

    /// The entries whose key begins with `prefix`, in the order of their keys; removed ones are
    /// left out.
    ///
    /// # Errors
    /// When sled refuses.
    pub fn entries(&self, prefix: &str) -> Result<Vec<BoardEntry>, BoardError> {
        let mut entries = self.replica(prefix)?;
        entries.retain(|entry| entry.value.is_some());
        Ok(entries)
    }

    /// As `entries`, tombstones included: what another replica needs to agree.
    ///
    /// # Errors
    /// When sled refuses.
    pub fn replica(&self, prefix: &str) -> Result<Vec<BoardEntry>, BoardError> {
        self.db
            .scan_prefix(place_of(prefix))
            .map(|item| decode(&item.map_err(BoardError::store("reading"))?.1))
            .collect()
    }

    /// The whole board as agents read it.
    ///
    /// # Errors
    /// When sled refuses.
    pub fn view(&self, workspace_id: &WorkspaceId) -> Result<BoardView, BoardError> {
        Ok(BoardView::of(workspace_id.clone(), self.entries("")?))
    }

    /// How many keys there are, removed ones included. Known without reading any.
    pub fn key_count(&self) -> u64 {
        self.record.digest.members
    }

    /// Changes from now on. A watcher that lags is told how many it missed
    /// (`RecvError::Lagged`) and reads the board again.
    pub fn watch(&self) -> broadcast::Receiver<Changed> {
        self.changes.subscribe()
    }

    /// Forgets everything, for folding the journal again from its first line. The clock is kept.
    ///
    /// # Errors
    /// When sled refuses.
    pub fn clear(&mut self) -> Result<(), BoardError> {
        self.db.clear().map_err(BoardError::store("clearing"))?;
        self.record.folded_to = 0;
        self.record.digest = Digest::default();
        self.record.horizon = None;
        self.order.clear();
        self.removed.clear();
        let record = encode(&self.record)?;
        self.db.insert(RECORD, record).map_err(BoardError::store("writing"))?;
        Ok(())
    }

    /// Brings what has been applied to the disk. The future borrows nothing: it can be awaited
    /// beside the loop. Without it a crash costs no more than folding some lines again.
    pub fn flush(&self) -> impl Future<Output = Result<(), BoardError>> + Send + 'static {
        let db = self.db.clone();
        async move { db.flush_async().await.map(drop).map_err(BoardError::store("flushing")) }
    }
}

#[cfg(test)]
impl Board {
    pub(super) fn record_digest(&self) -> String {
        format!("{:?}", self.record.digest)
    }
}

fn place_of(key: &str) -> Vec<u8> {
    [ENTRY, key.as_bytes()].concat()
}

fn encode<T: Serialize>(what: &T) -> Result<Vec<u8>, BoardError> {
    serde_json::to_vec(what).map_err(|error| BoardError::Damaged(error.to_string()))
}

fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, BoardError> {
    serde_json::from_slice(bytes)
        .map_err(|error| BoardError::Damaged(format!("an entry cannot be read: {error}")))
}
