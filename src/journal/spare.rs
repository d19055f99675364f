//! Segments that only the past needs: all their lines lie before the oldest snapshot that a start may
//! have to go back to. They are kept for audits, for as long as retention says.
//!
//! Before any is removed, `begin.jsonl` tells of each segment what its first line hangs on: so the
//! journal can be verified from whichever segment is the first that is left, and one that somebody
//! else has taken away is missed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::disk::sync_folder;
use super::error::JournalError;
use super::line::Chain;
use super::segment::{self, Lines, Next};
use super::snapshot;

const BEGINNINGS: &str = "begin.jsonl";

/// A segment that may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Its file.
    pub path: PathBuf,
    /// The number of its first line.
    pub first_seq: u64,
    /// Its length.
    pub bytes: u64,
    /// When its last line was written.
    pub written: SystemTime,
}

/// What the first line of a segment hangs on.
#[derive(Debug, Serialize, Deserialize)]
struct Beginning {
    next_seq: u64,
    prev: String,
}

/// The segments that may go, oldest first.
///
/// # Errors
/// When the folder cannot be read.
pub fn spare_segments(dir: &Path) -> Result<Vec<Spare>, JournalError> {
    let Some(needed) = snapshot::oldest_needed(dir)? else { return Ok(Vec::new()) };
    let mut spare = Vec::new();
    for segment in segment::list(dir)?.into_iter().filter(|s| s.first_seq < needed) {
        let found = fs::metadata(&segment.path)
            .and_then(|found| Ok((found.len(), found.modified()?)))
            .map_err(JournalError::io("looking at", &segment.path))?;
        let (bytes, written) = found;
        spare.push(Spare { path: segment.path, first_seq: segment.first_seq, bytes, written });
    }
    Ok(spare)
}

/// Removes the oldest segments, as many as are given of `spare_segments`; what is left can be
/// verified as before.
///
/// # Errors
/// When they are not the oldest, or something cannot be written or removed.
pub fn remove_spare(dir: &Path, oldest: &[Spare]) -> Result<(), JournalError> {
    let io = JournalError::io;
    let segments = segment::list(dir)?;
    let are_the_oldest = oldest.len() < segments.len()
        && oldest.iter().zip(&segments).all(|(spare, segment)| spare.path == segment.path);
    if !are_the_oldest {
        return Err(io("removing segments of", dir)(io::ErrorKind::InvalidInput.into()));
    }
    if oldest.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    for segment in &segments[..=oldest.len()] {
        let Some(chain) = beginning(&segment.path)? else { continue };
        let beginning = Beginning { next_seq: segment.first_seq, prev: chain.head() };
        serde_json::to_writer(&mut bytes, &beginning).map_err(|e| io("writing", dir)(e.into()))?;
        bytes.push(b'\n');
    }
    let (fresh, file) = (dir.join("begin.new"), dir.join(BEGINNINGS));
    write(&fresh, &bytes).map_err(io("writing", &fresh))?;
    fs::rename(&fresh, &file).map_err(io("naming", &file))?;
    sync_folder(dir).map_err(io("syncing", dir))?;
    for spare in oldest {
        fs::remove_file(&spare.path).map_err(io("removing", &spare.path))?;
    }
    sync_folder(dir).map_err(io("syncing", dir))
}

/// Where the chain stands before the first segment that is left.
pub(super) fn chain_before(dir: &Path, first_seq: u64) -> Option<Chain> {
    let text = fs::read_to_string(dir.join(BEGINNINGS)).ok()?;
    let beginnings = text.lines().filter_map(|line| serde_json::from_str::<Beginning>(line).ok());
    let found = beginnings.into_iter().find(|beginning| beginning.next_seq == first_seq)?;
    Chain::at(first_seq, &found.prev)
}

/// What a segment's first line says that it hangs on; `None` for an empty one.
fn beginning(path: &Path) -> Result<Option<Chain>, JournalError> {
    let mut lines = Lines::open(path)?;
    let first = lines.next().map_err(JournalError::io("reading", path))?;
    let Next::Line(range) = first else { return Ok(None) };
    Ok(Chain::before(lines.bytes(range)))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
