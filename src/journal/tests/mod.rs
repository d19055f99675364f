//! Tests of the journal: what a crash leaves, what a full disk does, and that the chain holds.

mod damage;
mod faults;
mod ledger;
mod small_disk;
mod snapshots;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::append::Journal;
use super::error::JournalError;
use super::line::Line;
use super::reading::{Replay, read};
use crate::domain::board::{BoardEntry, Version, Writer};
use crate::domain::event::{Event, Stamped};
use crate::domain::ids::RunId;
use crate::domain::outcome::RunOutcome;
use crate::domain::time::Timestamp;

/// The `n`th event: every few of them another kind, with text that needs escaping.
fn event(n: u64) -> Stamped {
    let at = Timestamp(1_764_543_600_000 + i64::try_from(n).unwrap());
    let event = match n % 3 {
        0 => Event::RunEnded {
            run: RunId::new(format!("r{n}")),
            outcome: RunOutcome::Succeeded,
            exit_code: 0,
            counts: Default::default(),
        },
        1 => Event::Board {
            entry: BoardEntry {
                key: format!("note/{n}"),
                value: Some(serde_json::json!({"text": "a \"quoted\"\n{\"seq\":1}\u{1F600}"})),
                version: Version { wall_ms: at.0, logical: 0, node: "n".to_owned() },
                writer: Writer::default(),
            },
        },
        _ => Event::CoordinatorStarted { pid: 7, version: "\u{0}\\".to_owned() },
    };
    Stamped { at, event }
}

fn events(from: u64, to: u64) -> Vec<Stamped> {
    (from..to).map(event).collect()
}

/// Writes events 1 to `count`, one a line, in segments of at least `segment_bytes`.
fn written(dir: &Path, count: u64, segment_bytes: u64) {
    let (journal, _) = Journal::open_with(dir, segment_bytes, &mut |_| {}).unwrap();
    for n in 1..=count {
        journal.append(vec![event(n)], false).wait().unwrap();
    }
}

fn read_all(dir: &Path) -> Result<(Vec<Stamped>, Replay), JournalError> {
    let mut seen = Vec::new();
    let replay = read(dir, &mut |Line { seq, at, event }| {
        assert_eq!(seq, seen.len() as u64 + 1);
        seen.push(Stamped { at, event });
        ControlFlow::Continue(())
    })?;
    Ok((seen, replay))
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}
