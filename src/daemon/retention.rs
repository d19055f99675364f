//! The end of what is left behind: segments of the journal that only audits need, and transcripts older than their retention are removed, and
//! the oldest ones when all together take too much room. What is gone is remembered by name.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::compaction;
use super::shelf::{self, EXPIRED, Expired, RECORD};
use crate::domain::ids::SessionId;
use crate::domain::time::Timestamp;
use crate::journal::snapshot::Reach;
use crate::journal::{JournalError, Spare, remove_spare, spare_segments};

/// Room for all that is kept of a workspace's past (design, section 5): transcripts, and segments of
/// the journal that only audits need.
const BYTES_MAX: u64 = TRANSCRIPT_BYTES_MAX + SEGMENT_BYTES_MAX;
const TRANSCRIPT_BYTES_MAX: u64 = 1536 * 1024 * 1024;
const SEGMENT_BYTES_MAX: u64 = 512 * 1024 * 1024;
const _: () = assert!(BYTES_MAX == 2 * 1024 * 1024 * 1024);
/// Length of the list of what is gone; past it the older half is forgotten.
const EXPIRED_BYTES_MAX: u64 = 1024 * 1024;

/// A session that has ended, and what it left.
struct Left {
    id: SessionId,
    folder: PathBuf,
    bytes: u64,
    touched: SystemTime,
}

/// What sessions that have ended left behind longer than `retention_ms` ago: how many there are,
/// and the room that they take.
///
/// # Errors
/// When the folder of the sessions cannot be read.
pub(super) fn overdue(sessions: &Path, retention_ms: u64) -> io::Result<(usize, u64)> {
    let retention = Duration::from_millis(retention_ms);
    let left = shelf::ids(sessions)?.into_iter().filter_map(|id| look(sessions, id));
    let old = left.filter(|left| left.touched.elapsed().unwrap_or_default() >= retention);
    Ok(old.fold((0, 0), |(count, bytes), left| (count + 1, bytes + left.bytes)))
}

/// Removes what sessions that are not `open` left behind longer than `retention_ms` ago.
///
/// # Errors
/// When the folder of the sessions cannot be read. What cannot be removed is left for next time.
pub(super) fn sweep(
    sessions: &Path,
    open: &HashSet<SessionId>,
    retention_ms: u64,
    now: Timestamp,
) -> io::Result<()> {
    sweep_to(sessions, open, retention_ms, TRANSCRIPT_BYTES_MAX, now)
}

fn sweep_to(
    sessions: &Path,
    open: &HashSet<SessionId>,
    retention_ms: u64,
    bytes_max: u64,
    now: Timestamp,
) -> io::Result<()> {
    for session in due(sessions, open, retention_ms, bytes_max)? {
        remove(sessions, &session, now)?;
    }
    Ok(())
}

/// Held while a journal is tidied: a long one takes longer than the pause between two tries.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<Mutex<()>>);

/// Removes old transcripts of sessions that are not `open`, and tidies the journal, unless that is being
/// done. What cannot be done now is told in the log, and tried again.
pub(super) fn tidy(
    turn: &Turn,
    sessions: &Path,
    open: &HashSet<SessionId>,
    journal: &Path,
    retention_ms: u64,
    now: Timestamp,
) {
    if let Err(error) = sweep(sessions, open, retention_ms, now) {
        tracing::warn!(%error, "old transcripts cannot be removed");
    }
    if let Ok(_turn) = turn.0.try_lock() {
        tidy_journal(journal, retention_ms);
    }
}

/// Takes a snapshot of what is written no more, and removes what only the past needs.
fn tidy_journal(journal: &Path, retention_ms: u64) {
    match compaction::compact_when_due(journal, Reach::Closed) {
        Ok(true) => tracing::info!("took a snapshot of the journal"),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "no snapshot of the journal can be taken"),
    }
    if let Err(error) = sweep_journal(journal, retention_ms) {
        tracing::warn!(%error, "old segments of the journal cannot be removed");
    }
}

/// What `sweep` would remove: the ids of sessions with the room that they take.
///
/// # Errors
/// When the folder of the sessions cannot be read.
pub(super) fn due_transcripts(
    sessions: &Path,
    open: &HashSet<SessionId>,
    retention_ms: u64,
) -> io::Result<Vec<(SessionId, u64)>> {
    let due = due(sessions, open, retention_ms, TRANSCRIPT_BYTES_MAX)?;
    Ok(due.into_iter().map(|left| (left.id, left.bytes)).collect())
}

/// The segments of the journal that only the past needs, and that are older than `retention_ms`, or
/// more than there is room for: oldest first.
///
/// # Errors
/// When the journal cannot be read.
pub(super) fn due_segments(journal: &Path, retention_ms: u64) -> Result<Vec<Spare>, JournalError> {
    due_segments_beyond(journal, retention_ms, SEGMENT_BYTES_MAX)
}

fn due_segments_beyond(
    journal: &Path,
    retention_ms: u64,
    bytes_max: u64,
) -> Result<Vec<Spare>, JournalError> {
    let mut spare = match spare_segments(journal) {
        Err(JournalError::Missing { .. }) => return Ok(Vec::new()),
        found => found?,
    };
    let retention = Duration::from_millis(retention_ms);
    let mut bytes = spare.iter().map(|spare| spare.bytes).sum::<u64>();
    let mut count = 0;
    for spare in &spare {
        let is_old = spare.written.elapsed().unwrap_or_default() >= retention;
        if !is_old && bytes <= bytes_max {
            break;
        }
        bytes -= spare.bytes;
        count += 1;
    }
    spare.truncate(count);
    Ok(spare)
}

/// Removes those.
///
/// # Errors
/// When the journal cannot be read, or a segment cannot be removed.
fn sweep_journal(journal: &Path, retention_ms: u64) -> Result<(), JournalError> {
    remove_spare(journal, &due_segments(journal, retention_ms)?)
}

fn due(
    sessions: &Path,
    open: &HashSet<SessionId>,
    retention_ms: u64,
    bytes_max: u64,
) -> io::Result<Vec<Left>> {
    let ids = shelf::ids(sessions)?;
    let mut left: Vec<Left> = ids
        .into_iter()
        .filter(|id| !open.contains(id))
        .filter_map(|id| look(sessions, id))
        .collect();
    left.sort_by_key(|left| std::cmp::Reverse(left.touched));
    let retention = Duration::from_millis(retention_ms);
    let mut bytes = 0_u64;
    left.retain(|session| {
        bytes = bytes.saturating_add(session.bytes);
        let age = session.touched.elapsed().unwrap_or_default();
        age >= retention || bytes > bytes_max
    });
    Ok(left)
}

fn look(sessions: &Path, id: SessionId) -> Option<Left> {
    use std::os::unix::fs::MetadataExt;
    let folder = sessions.join(id.as_str());
    let mut bytes = 0;
    let mut touched = fs::metadata(&folder).ok()?.modified().ok()?;
    for entry in fs::read_dir(&folder).ok()?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        // What it takes on the disk: holes take nothing.
        bytes += metadata.blocks() * 512;
        touched = touched.max(metadata.modified().unwrap_or(touched));
    }
    Some(Left { id, folder, bytes, touched })
}

/// It is named among what is gone before it goes.
fn remove(sessions: &Path, left: &Left, now: Timestamp) -> io::Result<()> {
    let name = shelf::read(sessions, &left.id).ok().and_then(|shelved| shelved.session.name);
    remember(sessions, &Expired { session_id: left.id.clone(), name, expired_at: now })?;
    // The record first: from then on nobody finds a half of it.
    match fs::remove_file(left.folder.join(RECORD)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir_all(&left.folder)
}

fn remember(sessions: &Path, expired: &Expired) -> io::Result<()> {
    let path = sessions.join(EXPIRED);
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > EXPIRED_BYTES_MAX) {
        let text = fs::read_to_string(&path)?;
        let lines: Vec<&str> = text.lines().collect();
        let newer = lines[lines.len() / 2..].join("\n") + "\n";
        let fresh = sessions.join("expired.new");
        fs::write(&fresh, newer)?;
        fs::rename(&fresh, &path)?;
    }
    let mut line = serde_json::to_vec(expired)?;
    line.push(b'\n');
    let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave(sessions: &Path, id: &str, bytes: usize, age_s: u64) {
        let folder = sessions.join(id);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("out.raw"), vec![b'x'; bytes]).unwrap();
        let at = SystemTime::now() - Duration::from_secs(age_s);
        for path in [folder.join("out.raw"), folder] {
            fs::File::open(&path).unwrap().set_modified(at).unwrap();
        }
    }

    fn left(sessions: &Path) -> Vec<String> {
        let mut ids: Vec<_> =
            shelf::ids(sessions).unwrap().into_iter().map(|id| id.to_string()).collect();
        ids.sort();
        ids
    }

    #[test]
    fn the_old_goes_and_is_remembered_and_what_is_open_stays() {
        let folder = tempfile::tempdir().unwrap();
        for (id, age_s) in [("s-new", 10), ("s-old", 100), ("s-open", 1000)] {
            leave(folder.path(), id, 1, age_s);
        }
        let open = HashSet::from([SessionId::from("s-open")]);
        sweep(folder.path(), &open, 60_000, Timestamp(5)).unwrap();
        assert_eq!(left(folder.path()), ["s-new", "s-open"]);
        let expired = shelf::expired(folder.path()).unwrap();
        let gone = Expired { session_id: "s-old".into(), name: None, expired_at: Timestamp(5) };
        assert_eq!(expired, [gone]);
    }

    #[test]
    fn the_oldest_go_when_room_is_short() {
        let folder = tempfile::tempdir().unwrap();
        for (id, age_s) in [("s-1", 30), ("s-2", 20), ("s-3", 10)] {
            leave(folder.path(), id, 40_000, age_s);
        }
        sweep_to(folder.path(), &HashSet::new(), 3_600_000, 90_000, Timestamp(5)).unwrap();
        assert_eq!(left(folder.path()), ["s-2", "s-3"]);
    }

    /// A journal of many segments, with two snapshots at its end.
    fn journal(dir: &Path) {
        use crate::domain::event::{Event, Stamped};
        use crate::journal::snapshot::take;
        for round in 0..4 {
            let (journal, _) = crate::journal::Journal::open(dir, |_| {}).unwrap();
            let event = Event::CoordinatorStarted { pid: round, version: String::new() };
            journal.append(vec![Stamped { at: Timestamp(1), event }], true).wait().unwrap();
            drop(journal);
            // Its end is the end of a segment.
            take(dir, Reach::End, &mut |_| false).unwrap();
        }
    }

    #[test]
    fn segments_go_by_age_and_by_room_oldest_first_and_never_those_that_are_needed() {
        let dir = tempfile::tempdir().unwrap();
        journal(dir.path());
        let week = 7 * 24 * 3_600_000;
        let spare = spare_segments(dir.path()).unwrap();
        assert_eq!(spare.len(), 3, "{spare:?}");
        assert!(due_segments(dir.path(), week).unwrap().is_empty());
        let bytes = spare[1].bytes + spare[2].bytes;
        assert_eq!(due_segments_beyond(dir.path(), week, bytes).unwrap(), spare[..1]);
        let old = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
        for spare in &spare[..2] {
            fs::File::options().write(true).open(&spare.path).unwrap().set_modified(old).unwrap();
        }
        sweep_journal(dir.path(), week).unwrap();
        assert_eq!(spare_segments(dir.path()).unwrap(), spare[2..]);
        assert_eq!(crate::journal::verify(dir.path()).unwrap().last_seq, 4);
        assert!(due_segments(&dir.path().join("none"), week).unwrap().is_empty());
    }
}
