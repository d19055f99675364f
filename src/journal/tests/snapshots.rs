//! A start from a snapshot is a start from the whole journal, and a bad snapshot is no snapshot.

use std::ops::ControlFlow;
use std::path::Path;

use super::{event, segments, written};
use crate::journal::append::Journal;
use crate::journal::line::Line;
use crate::journal::reading::{read, verify};
use crate::journal::snapshot::{Reach, is_due_from, take};
use crate::journal::spare::{remove_spare, spare_segments};

fn is_even(line: &Line) -> bool {
    line.seq.is_multiple_of(2)
}

/// The numbers of the lines that a start reads.
fn read_at_start(dir: &Path) -> Vec<u64> {
    let mut seen = Vec::new();
    read(dir, &mut |line| {
        let Line { seq, at, event: happened } = line;
        let written = event(seq);
        assert_eq!((at, happened), (written.at, written.event));
        seen.push(seq);
        ControlFlow::Continue(())
    })
    .unwrap();
    seen
}

fn append(dir: &Path, numbers: std::ops::RangeInclusive<u64>) {
    let (journal, _) = Journal::open(dir, |_| {}).unwrap();
    for n in numbers {
        let committed = journal.append(vec![event(n)], true).wait().unwrap();
        assert_eq!(committed.first_seq, n);
    }
}

fn snapshots(dir: &Path) -> Vec<std::path::PathBuf> {
    let is_one = |path: &std::path::PathBuf| path.to_string_lossy().contains("snapshot-");
    segments(dir).into_iter().filter(is_one).collect()
}

#[test]
fn what_is_kept_and_what_follows_is_read_and_the_chain_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 7, 900);
    take(dir.path(), Reach::End, &mut is_even).unwrap();
    assert_eq!(read_at_start(dir.path()), [2, 4, 6]);
    append(dir.path(), 8..=10);
    assert_eq!(read_at_start(dir.path()), [2, 4, 6, 8, 9, 10]);
    let whole = verify(dir.path()).unwrap();
    assert_eq!((whole.last_seq, whole.torn), (10, None));
    // The next one is taken of what this one kept and what followed.
    take(dir.path(), Reach::End, &mut |line| line.seq > 4).unwrap();
    append(dir.path(), 11..=11);
    assert_eq!(read_at_start(dir.path()), [6, 8, 9, 10, 11]);
}

#[test]
fn a_snapshot_that_is_not_whole_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 5, u64::MAX);
    take(dir.path(), Reach::End, &mut is_even).unwrap();
    append(dir.path(), 6..=7);
    let snapshot = snapshots(dir.path()).remove(0);
    let whole = std::fs::read(&snapshot).unwrap();
    for length in 0..whole.len() - 1 {
        std::fs::write(&snapshot, &whole[..length]).unwrap();
        assert_eq!(read_at_start(dir.path()), [1, 2, 3, 4, 5, 6, 7], "cut at {length}");
    }
    for at in 0..whole.len() - 1 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&snapshot, &bytes).unwrap();
        assert_eq!(read_at_start(dir.path()), [1, 2, 3, 4, 5, 6, 7], "flipped at {at}");
    }
    std::fs::write(&snapshot, &whole).unwrap();
    assert_eq!(read_at_start(dir.path()), [2, 4, 6, 7]);
}

#[test]
fn old_segments_can_go_once_two_snapshots_are_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 4, u64::MAX);
    take(dir.path(), Reach::End, &mut is_even).unwrap();
    append(dir.path(), 5..=6);
    assert!(spare_segments(dir.path()).unwrap().is_empty(), "the only snapshot may be damaged");
    take(dir.path(), Reach::End, &mut is_even).unwrap();
    append(dir.path(), 7..=8);
    let spare = spare_segments(dir.path()).unwrap();
    assert_eq!(spare.len(), 1);
    assert!(remove_spare(dir.path(), &spare[1..]).is_ok(), "none");
    remove_spare(dir.path(), &spare).unwrap();
    assert_eq!(read_at_start(dir.path()), [2, 4, 6, 7, 8]);
    assert_eq!(verify(dir.path()).unwrap().last_seq, 8, "from the first kept segment on");
    // And the older of the two is as good.
    std::fs::write(snapshots(dir.path()).remove(1), "").unwrap();
    assert_eq!(read_at_start(dir.path()), [2, 4, 5, 6, 7, 8]);
}

/// The files of the segments.
fn lines_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let is_one =
        |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("0000");
    segments(dir).into_iter().filter(is_one).collect()
}

#[test]
fn one_can_be_taken_beside_a_writer_of_what_it_writes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open_with(dir.path(), 900, &mut |_| {}).unwrap();
    for n in 1..=20 {
        journal.append(vec![event(n)], true).wait().unwrap();
    }
    let last = lines_files(dir.path()).pop().unwrap();
    let first_of_last: u64 =
        last.file_stem().unwrap().to_string_lossy().trim_start_matches('0').parse().unwrap();
    assert!(is_due_from(dir.path(), Reach::Closed, 1000).unwrap());
    take(dir.path(), Reach::Closed, &mut is_even).unwrap();
    assert!(!is_due_from(dir.path(), Reach::Closed, 1000).unwrap());
    for n in 21..=22 {
        journal.append(vec![event(n)], true).wait().unwrap();
    }
    drop(journal);
    let due: Vec<u64> = (1..=22).filter(|n| n % 2 == 0 || *n >= first_of_last).collect();
    assert_eq!(read_at_start(dir.path()), due);
    append(dir.path(), 23..=23);
    assert_eq!(verify(dir.path()).unwrap().last_seq, 23);
}

#[test]
fn whichever_segments_have_gone_the_rest_is_verified_and_one_more_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 20, 900);
    take(dir.path(), Reach::End, &mut is_even).unwrap();
    append(dir.path(), 21..=22);
    take(dir.path(), Reach::End, &mut is_even).unwrap();
    append(dir.path(), 23..=24);
    let spare = spare_segments(dir.path()).unwrap();
    assert!(spare.len() >= 3, "{spare:?}");
    let not_the_oldest = remove_spare(dir.path(), &spare[1..2]).unwrap_err();
    assert!(not_the_oldest.to_string().contains("removing"), "{not_the_oldest}");
    for _ in 0..spare.len() {
        let left = spare_segments(dir.path()).unwrap();
        remove_spare(dir.path(), &left[..1]).unwrap();
        let whole = verify(dir.path()).unwrap();
        assert_eq!((whole.last_seq, whole.torn), (24, None));
        assert_eq!(*read_at_start(dir.path()).last().unwrap(), 24);
        if left.len() > 2 {
            // Removed by somebody else: not at the beginning, and so it is missed.
            let path = &left[2].path;
            let bytes = std::fs::read(path).unwrap();
            std::fs::remove_file(path).unwrap();
            assert!(verify(dir.path()).is_err());
            std::fs::write(path, bytes).unwrap();
        }
    }
}
