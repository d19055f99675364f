//! Snapshots: the lines of a journal that still matter, in a file of their own, so that a start need
//! not read the whole journal and old segments can go.
//!
//! A snapshot is taken where a segment ends: at the journal's end while nobody writes, or, beside a
//! writer, where its last segment begins. Its file is named by the number of the line that comes
//! next (`snapshot-00000000000000004711.jsonl`) and holds a head, the kept lines with their own
//! numbers, and a foot that vouches for all of it. One that is not whole is passed over.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::disk::sync_folder;
use super::error::JournalError;
use super::line::{Chain, Line};
use super::reading::{walk, walk_closed};
use super::segment;

const PREFIX: &str = "snapshot-";
const SUFFIX: &str = ".jsonl";
const DIGITS: usize = 20;
/// How many snapshots are kept: the latest, and the one before should that be damaged.
const KEPT: usize = 2;
/// From so many bytes behind the latest snapshot on the next one is due.
const DUE_BYTES: u64 = 24 * 1024 * 1024;

/// The first line of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    snapshot: u32,
    next_seq: u64,
    /// The hash of the line before that.
    prev: String,
}

/// The last one.
#[derive(Debug, Serialize, Deserialize)]
struct Foot {
    lines: u64,
    /// SHA-256 of all before it, in hex.
    sum: String,
}

/// The version of this form.
const VERSION: u32 = 1;

/// A whole snapshot.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Where the chain goes on behind it.
    pub(super) chain: Chain,
    /// Its lines.
    pub(super) lines: Vec<Line>,
}

/// Up to where a snapshot reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The journal's end: nobody may be writing.
    End,
    /// The beginning of its last segment: what lies before that is written no more.
    Closed,
}

/// Whether so much has been written since the latest snapshot that another one is worth it.
///
/// # Errors
/// When the folder cannot be read.
pub fn is_due(dir: &Path, reach: Reach) -> Result<bool, JournalError> {
    is_due_from(dir, reach, DUE_BYTES)
}

pub(super) fn is_due_from(dir: &Path, reach: Reach, due: u64) -> Result<bool, JournalError> {
    let from = list(dir)?.last().map_or(1, |(next_seq, _)| *next_seq);
    let mut segments = match segment::list(dir) {
        Err(JournalError::Missing { .. }) => return Ok(false),
        listed => listed?,
    };
    if reach == Reach::Closed {
        segments.pop();
    }
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let behind: u64 = segments.iter().filter(|s| s.first_seq >= from).map(|s| bytes(&s.path)).sum();
    Ok(behind >= due)
}

/// Hands every line to `on_line` that a snapshot of that reach would be made of.
///
/// # Errors
/// When the journal cannot be read.
pub fn read_to(
    dir: &Path,
    reach: Reach,
    on_line: &mut dyn FnMut(Line),
) -> Result<(), JournalError> {
    walk_to(dir, reach, on_line).map(drop)
}

fn walk_to(dir: &Path, reach: Reach, on_line: &mut dyn FnMut(Line)) -> Result<Chain, JournalError> {
    let on_line = &mut |line| {
        on_line(line);
        ControlFlow::Continue(())
    };
    let reached = match reach {
        Reach::End => walk(dir, on_line)?,
        Reach::Closed => walk_closed(dir, on_line)?,
    };
    Ok(reached.chain)
}

/// Takes a snapshot of the lines that are to be kept. The line that comes next begins a segment,
/// or does already.
///
/// # Errors
/// When the journal cannot be read, or the file cannot be written.
pub fn take(
    dir: &Path,
    reach: Reach,
    keep: &mut dyn FnMut(&Line) -> bool,
) -> Result<(), JournalError> {
    let io = JournalError::io;
    let mut kept = Vec::new();
    let chain = walk_to(dir, reach, &mut |line| {
        if keep(&line) {
            kept.push(line);
        }
    })?;
    let path = path_of(dir, chain.next_seq);
    let fresh = dir.join("snapshot.new");
    let written = write(&fresh, chain, &kept).map_err(io("writing", &fresh));
    if let Err(error) = written {
        // Half of one on a full disk is in the way of what has to be written.
        drop(fs::remove_file(&fresh));
        return Err(error);
    }
    fs::rename(&fresh, &path).map_err(io("naming", &path))?;
    sync_folder(dir).map_err(io("syncing", dir))?;
    let all = list(dir)?;
    for (_, old) in &all[..all.len().saturating_sub(KEPT)] {
        // One that stays takes a little room and no more.
        drop(fs::remove_file(old));
    }
    Ok(())
}

fn write(path: &Path, chain: Chain, lines: &[Line]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut file = BufWriter::new(file);
    let mut hash = Sha256::new();
    let mut put = |bytes: &mut Vec<u8>| {
        bytes.push(b'\n');
        hash.update(&*bytes);
        let written = file.write_all(bytes);
        bytes.clear();
        written
    };
    let mut bytes = serde_json::to_vec(&Head {
        snapshot: VERSION,
        next_seq: chain.next_seq,
        prev: chain.head(),
    })?;
    put(&mut bytes)?;
    for line in lines {
        serde_json::to_writer(&mut bytes, line)?;
        put(&mut bytes)?;
    }
    let foot = Foot { lines: lines.len() as u64, sum: hex(hash) };
    let mut bytes = serde_json::to_vec(&foot)?;
    bytes.push(b'\n');
    file.write_all(&bytes)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// The latest whole snapshot. One that is damaged is passed over, for the one before it or the
/// journal's beginning.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn latest(dir: &Path) -> Result<Option<Snapshot>, JournalError> {
    for (next_seq, path) in list(dir)?.into_iter().rev() {
        match read(&path, next_seq) {
            Ok(snapshot) => return Ok(Some(snapshot)),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "a snapshot is damaged, and passed over");
            }
        }
    }
    Ok(None)
}

/// Where the chain stands before a segment, as a snapshot taken there tells it.
pub(super) fn chain_before(dir: &Path, first_seq: u64) -> Option<Chain> {
    read(&path_of(dir, first_seq), first_seq).ok().map(|snapshot| snapshot.chain)
}

/// The oldest snapshot that a start may have to go back to: the line that comes next there.
/// `None` while there are not two: with one alone, a damaged one would leave nothing to begin with.
pub(super) fn oldest_needed(dir: &Path) -> Result<Option<u64>, JournalError> {
    let snapshots = list(dir)?;
    Ok(match &snapshots[..] {
        [(oldest, _), _, ..] => Some(*oldest),
        _ => None,
    })
}

/// Looks at every snapshot: its file, and what is wrong with it.
///
/// # Errors
/// When the folder cannot be read.
pub fn check(dir: &Path) -> Result<Vec<(PathBuf, Option<io::Error>)>, JournalError> {
    let look = |(next_seq, path): (u64, PathBuf)| {
        let fault = read(&path, next_seq).err();
        (path, fault)
    };
    Ok(list(dir)?.into_iter().map(look).collect())
}

fn read(path: &Path, next_seq: u64) -> io::Result<Snapshot> {
    let bad = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_owned());
    let mut file = BufReader::new(File::open(path)?);
    let mut hash = Sha256::new();
    let mut line = String::new();
    file.read_line(&mut line)?;
    let head: Head = serde_json::from_str(&line)?;
    if head.snapshot != VERSION || head.next_seq != next_seq {
        return Err(bad("its head is of another version, or not its own"));
    }
    hash.update(&line);
    let mut lines = Vec::new();
    loop {
        line.clear();
        if file.read_line(&mut line)? == 0 {
            return Err(bad("it has no foot"));
        }
        if let Ok(Foot { lines: count, sum }) = serde_json::from_str(&line) {
            if count != lines.len() as u64 || sum != hex(hash) {
                return Err(bad("its foot does not fit its lines"));
            }
            let chain = Chain::at(next_seq, &head.prev).ok_or_else(|| bad("its hash is none"))?;
            return Ok(Snapshot { chain, lines });
        }
        hash.update(&line);
        lines.push(serde_json::from_str(&line)?);
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn path_of(dir: &Path, next_seq: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{next_seq:0DIGITS$}{SUFFIX}"))
}

/// All snapshots by the line that comes next, oldest first.
fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>, JournalError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(JournalError::io("listing", dir)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(JournalError::io("listing", dir))?;
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| {
            name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX).filter(|digits| digits.len() == DIGITS)
        });
        if let Some(next_seq) = digits.and_then(|digits| digits.parse().ok()) {
            found.push((next_seq, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}
