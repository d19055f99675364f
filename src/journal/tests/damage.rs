//! What a crash leaves is cut; what anybody else does is refused.

use std::path::Path;

use super::{event, events, read_all, segments, written};
use crate::journal::append::Journal;
use crate::journal::error::JournalError;
use crate::journal::line::LineFault;
use crate::journal::reading::{Torn, verify};

/// Where each line of a segment begins, and its end.
fn bounds(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 4, u64::MAX);
    let segment = segments(dir.path()).remove(0);
    let whole = std::fs::read(&segment).unwrap();
    let last = bounds(&whole)[3];
    for length in last..whole.len() {
        for tail in [&b""[..], &[0; 700], b"\n"] {
            let mut bytes = whole[..length].to_vec();
            bytes.extend_from_slice(tail);
            if bytes.len() == last || bytes == whole {
                continue;
            }
            std::fs::write(&segment, &bytes).unwrap();
            let torn = Torn {
                segment: segment.clone(),
                offset: last as u64,
                bytes: (bytes.len() - last) as u64,
            };
            let seen = verify(dir.path()).unwrap();
            assert_eq!((seen.last_seq, seen.torn), (3, Some(torn.clone())), "at {length}");
            assert_eq!(std::fs::read(&segment).unwrap(), bytes, "reading changes nothing");

            let (journal, replay) = Journal::open(dir.path(), |_| {}).unwrap();
            assert_eq!(replay.torn, Some(torn));
            journal.append(vec![event(4)], true).wait().unwrap();
            drop(journal);
            assert_eq!(std::fs::read(&segment).unwrap(), whole, "the same line follows");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 6, 900);
    let paths = segments(dir.path());
    assert!(paths.len() > 1);
    for path in &paths {
        let whole = std::fs::read(path).unwrap();
        let bounds = bounds(&whole);
        let last_line = bounds[bounds.len() - 2];
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(path, &bytes).unwrap();
            let in_tail = path == paths.last().unwrap() && at >= last_line;
            match verify(dir.path()) {
                Ok(replay) if in_tail => {
                    assert_eq!(replay.last_seq, 5, "byte {at}");
                    assert_eq!(replay.torn.unwrap().offset, last_line as u64);
                }
                Err(JournalError::Damaged { segment, offset, .. }) if !in_tail => {
                    let line = bounds.iter().rev().find(|start| **start <= at).unwrap();
                    assert_eq!((&segment, offset), (path, *line as u64), "byte {at}");
                }
                // A newline more cuts one line in two, and the first half is no torn tail.
                Err(JournalError::Damaged { offset, .. }) if bytes[at] == b'\n' => {
                    assert_eq!(offset, last_line as u64);
                }
                other => panic!("byte {at} of {}: {other:?}", path.display()),
            }
        }
        std::fs::write(path, whole).unwrap();
    }
    assert_eq!(read_all(dir.path()).unwrap().0, events(1, 7));
}

/// Replaces the lines of the only segment by what `change` makes of them.
fn changed(dir: &Path, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> JournalError {
    let segment = segments(dir).remove(0);
    let whole = std::fs::read(&segment).unwrap();
    let mut lines: Vec<_> =
        whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    change(&mut lines);
    std::fs::write(&segment, lines.concat()).unwrap();
    let error = verify(dir).unwrap_err();
    assert!(Journal::open(dir, |_| {}).is_err());
    assert_eq!(std::fs::read(&segment).unwrap(), lines.concat(), "a refusal changes nothing");
    std::fs::write(&segment, whole).unwrap();
    error
}

#[test]
fn lines_cannot_be_dropped_doubled_swapped_or_forged() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    written(dir, 5, u64::MAX);
    let fault = |change: fn(&mut Vec<Vec<u8>>)| match changed(dir, change) {
        JournalError::Damaged { fault, .. } => fault,
        other => panic!("{other}"),
    };
    let sequence = |fault| match fault {
        LineFault::Sequence { expected, found } => (expected, found),
        other => panic!("{other}"),
    };
    assert_eq!(sequence(fault(|lines| drop(lines.remove(0)))), (1, 2));
    assert_eq!(sequence(fault(|lines| drop(lines.remove(2)))), (3, 4));
    assert_eq!(sequence(fault(|lines| lines.insert(2, lines[1].clone()))), (3, 2));
    assert_eq!(sequence(fault(|lines| lines.swap(3, 4))), (4, 5));
    // The last line doubled is whole: no crash leaves that.
    assert_eq!(sequence(fault(|lines| lines.push(lines[4].clone()))), (6, 5));
    assert!(matches!(fault(|lines| lines[2].insert(0, b'\n')), LineFault::Damaged(_)));
    // A whole line of another history.
    let elsewhere = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(elsewhere.path(), |_| {}).unwrap();
    journal.append(events(11, 16), false).wait().unwrap();
    let forged = std::fs::read(&segments(elsewhere.path())[0]).unwrap();
    let forged: Vec<_> = forged.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 1..5 {
        let error = changed(dir, |lines| lines[at] = forged[at].to_vec());
        assert!(matches!(error, JournalError::Damaged { fault: LineFault::Chain, .. }), "{error}");
    }
}

#[test]
fn a_whole_line_of_a_newer_version_is_never_cut() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 1, u64::MAX);
    let error = changed(dir.path(), |lines| {
        use sha2::{Digest, Sha256};
        let text = String::from_utf8(lines[0].clone()).unwrap();
        let body = text.rsplit_once(",\"sum\"").unwrap().0.replace("\"board\"", "\"bord\"");
        let sum: String =
            Sha256::digest(&body)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        lines[0] = format!("{body},\"sum\":\"{sum}\"}}\n").into_bytes();
    });
    let text = error.to_string();
    assert!(matches!(error, JournalError::Newer { .. }) && !text.contains("damaged"), "{text}");
    assert!(
        text.contains("00000000000000000001.jsonl at byte 0 ") && text.contains("bord"),
        "{text}"
    );
}

#[test]
fn segments_that_are_missing_empty_or_strange() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    written(dir, 12, 600);
    let paths = segments(dir);
    let count = paths.len();
    assert!(count >= 4);
    for (index, path) in paths.iter().enumerate() {
        let whole = std::fs::read(path).unwrap();
        let next = paths.get(index + 1);
        // Gone.
        std::fs::remove_file(path).unwrap();
        match (verify(dir), next) {
            (Err(JournalError::SegmentMissing { segment, expected, found }), Some(next)) => {
                assert_eq!(&segment, next);
                assert!(expected < found);
            }
            (Ok(replay), None) => assert_eq!(replay.segments, count - 1),
            (other, _) => panic!("{index}: {other:?}"),
        }
        // Empty.
        std::fs::write(path, b"").unwrap();
        match (verify(dir), next) {
            (Err(JournalError::SegmentMissing { .. }), Some(_)) => {}
            // A crash right after a segment was begun.
            (Ok(replay), None) => assert_eq!((replay.segments, replay.torn), (count, None)),
            (other, _) => panic!("{index}: {other:?}"),
        }
        // Torn, but not the last.
        std::fs::write(path, &whole[..whole.len() - 5]).unwrap();
        assert_eq!(verify(dir).is_ok(), next.is_none(), "{index}");
        std::fs::write(path, whole).unwrap();
    }
    std::fs::write(dir.join("notes.txt"), "not ours").unwrap();
    std::fs::write(dir.join("1.jsonl"), "not ours").unwrap();
    assert_eq!(read_all(dir).unwrap().0, events(1, 13));
}

#[test]
fn writing_goes_on_in_an_empty_last_segment() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 3, u64::MAX);
    std::fs::write(dir.path().join("00000000000000000004.jsonl"), b"").unwrap();
    let (journal, replay) = Journal::open(dir.path(), |_| {}).unwrap();
    assert_eq!((replay.last_seq, replay.segments), (3, 2));
    journal.append(events(4, 6), true).wait().unwrap();
    assert_eq!(read_all(dir.path()).unwrap().0, events(1, 6));
}

#[test]
fn times_may_go_back_from_line_to_line() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), |_| {}).unwrap();
    for n in [3, 1, 2] {
        journal.append(vec![event(n)], true).wait().unwrap();
    }
    drop(journal);
    let (seen, replay) = read_all(dir.path()).unwrap();
    assert_eq!((seen, replay.torn), (vec![event(3), event(1), event(2)], None));
}

#[test]
fn a_segment_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 12, 600);
    let path = segments(dir.path()).remove(1);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = Journal::open(dir.path(), |_| {}).unwrap_err().to_string();
    assert!(error.starts_with(&format!("reading `{}`", path.display())), "{error}");
}
