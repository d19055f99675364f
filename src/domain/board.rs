//! Entries of the shared board and the view that agents read.

pub mod key;
pub mod replica;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ids::WorkspaceId;
use super::result::SCHEMA_VERSION;

/// One key of the board with its latest value. `value: None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardEntry {
    /// `dep/<ecosystem>/<name>`, `port/<host>/<n>`, `file/<path>`, `service/<name>`,
    /// `contract/<name>`, `git/<repo>`, `note/<…>`.
    pub key: String,
    /// What is known.
    pub value: Option<serde_json::Value>,
    /// Decides which of two writes stands.
    pub version: Version,
    /// Who wrote it.
    pub writer: Writer,
}

/// A hybrid logical clock with its node: a total order that respects causality (Kulkarni et al.,
/// "Logical Physical Clocks", 2014).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Physical part, ms since the Unix epoch.
    pub wall_ms: i64,
    /// Logical part: orders events within one millisecond.
    pub logical: u32,
    /// The writer's node, which breaks ties.
    pub node: String,
}

/// Who wrote an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// `RUN/TASK`, or nothing for a writer outside any run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The attempt's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

impl Version {
    /// The clock's next reading at `wall_ms` on `node`: greater than `self`, whatever the wall
    /// clock says.
    #[must_use]
    pub fn next(&self, wall_ms: i64, node: &str) -> Self {
        if wall_ms > self.wall_ms {
            return Self { wall_ms, logical: 0, node: node.to_owned() };
        }
        // A clock that stands still for four thousand million writes goes on by itself.
        let (wall_ms, logical) = match self.logical.checked_add(1) {
            Some(logical) => (self.wall_ms, logical),
            None => (self.wall_ms.saturating_add(1), 0),
        };
        Self { wall_ms, logical, node: node.to_owned() }
    }
}

impl fmt::Display for Version {
    /// `WALL.LOGICAL.NODE`, as `--since` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.wall_ms, self.logical, self.node)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('{') {
            return serde_json::from_str(text).map_err(|error| format!("no version: {error}"));
        }
        let mut parts = text.splitn(3, '.');
        let version =
            parts.next().zip(parts.next()).zip(parts.next()).and_then(|((w, l), node)| {
                let (wall_ms, logical) = (w.parse().ok()?, l.parse().ok()?);
                (!node.is_empty()).then(|| Self { wall_ms, logical, node: node.to_owned() })
            });
        version.ok_or_else(|| "a version is WALL.LOGICAL.NODE, as `watch` prints it".to_owned())
    }
}

/// Of two entries for one key, the one that stands: the greater version. Commutative, associative
/// and idempotent, so replicas agree whatever order the writes reach them in. One clock never gives
/// a version twice; should two writes carry the same all the same, their text decides, so that the
/// replicas agree even then.
#[must_use]
pub fn merge(left: BoardEntry, right: BoardEntry) -> BoardEntry {
    let order = left.version.cmp(&right.version).then_with(|| tie(&left).cmp(&tie(&right)));
    match order {
        Ordering::Less => right,
        Ordering::Equal | Ordering::Greater => left,
    }
}

fn tie(entry: &BoardEntry) -> (Option<String>, &Option<String>, Option<u32>) {
    let value = entry.value.as_ref().map(ToString::to_string);
    (value, &entry.writer.task, entry.writer.attempt)
}

/// The board as agents read it, in the founding text's shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardView {
    /// Version of this document's shape.
    pub schema_version: u32,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What everybody needs to know.
    pub shared_state: SharedState,
    /// The entries behind it.
    pub entries: Vec<BoardEntry>,
}

/// The four keys are always there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedState {
    /// Names of dependencies.
    pub dependencies_installed: Vec<String>,
    /// Port numbers.
    pub ports_in_use: Vec<u16>,
    /// Paths relative to the root.
    pub files_modified: Vec<String>,
    /// Names of services.
    pub services_running: Vec<String>,
    /// Contracts, notes and what else agents have put up, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub published: BTreeMap<String, serde_json::Value>,
}

impl BoardView {
    /// Folds live entries into the view; tombstones are left out.
    pub fn of(workspace_id: WorkspaceId, entries: Vec<BoardEntry>) -> Self {
        let mut shared_state = SharedState::default();
        for entry in &entries {
            if let Some(value) = &entry.value {
                shared_state.add(&entry.key, value);
            }
        }
        shared_state.ports_in_use.sort_unstable();
        shared_state.ports_in_use.dedup();
        let entries = entries.into_iter().filter(|entry| entry.value.is_some()).collect();
        Self { schema_version: SCHEMA_VERSION, workspace_id, shared_state, entries }
    }
}

impl SharedState {
    fn add(&mut self, key: &str, value: &serde_json::Value) {
        let (kind, rest) = key.split_once('/').unwrap_or((key, ""));
        match kind {
            "dep" => {
                let name = rest.split_once('/').map_or(rest, |(_, name)| name);
                self.dependencies_installed.push(name.to_owned());
            }
            "port" => self
                .ports_in_use
                .extend(rest.rsplit('/').next().and_then(|n| n.parse::<u16>().ok())),
            "file" => self.files_modified.push(rest.to_owned()),
            "service" => self.services_running.push(rest.to_owned()),
            _ => {
                self.published.insert(key.to_owned(), value.clone());
            }
        }
    }
}
