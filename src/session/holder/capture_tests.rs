//! Tests of the transcript's writer against real files.

use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::transcript::gaps::{Gaps, Stretch};
use crate::transcript::index::{resizes, segments};

const MIB: u64 = 1024 * 1024;

fn opened(folder: &Path, limits: SessionLimits) -> Capture {
    Capture::open(folder, Size::default(), &limits).unwrap()
}

fn on_disk(folder: &Path) -> u64 {
    ["out.raw", "out.idx", "out.gap"]
        .map(|name| std::fs::metadata(folder.join(name)).map_or(0, |file| file.blocks() * 512))
        .iter()
        .sum()
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap_or_default()
}

#[test]
fn a_full_disk_is_remarked_on_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("out.raw")).unwrap();
    let mut capture = opened(folder.path(), SessionLimits::default());
    capture.begin();
    capture.append(Stream::Main, 1, 5, b"hello ");
    capture.append(Stream::Main, 1, 6, b"world");
    capture.append(Stream::Stderr, 1, 7, b"oh");
    let (message, unstored) = capture.take_faults().unwrap();
    assert!(message.contains("out.raw: No space left"), "{message}");
    assert!(message.ends_with("13 bytes of output are not stored"), "{message}");
    let piece = |offset, stderr, bytes: &[u8]| Unstored { offset, stderr, bytes: bytes.to_vec() };
    assert_eq!(unstored, [piece(0, false, b"hello world"), piece(11, true, b"oh")]);
    // Offsets are given to what is not stored, too.
    assert_eq!((capture.raw_end(), capture.idx_end(), capture.said()), (13, 0, 13));
    assert_eq!(capture.tail(), b"hello worldoh");
    assert_eq!(
        Gaps::read(&read(folder.path(), "out.gap")).all(),
        [Gap { start: 0, end: 13, stderr: 2 }]
    );
    assert!(capture.take_faults().is_none());
}

#[test]
fn of_what_is_not_stored_the_ends_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("out.raw")).unwrap();
    let mut capture = opened(folder.path(), SessionLimits::default());
    for n in 0..5_000 {
        let stream = if n % 100 < 50 { Stream::Main } else { Stream::Stderr };
        capture.append(stream, 1, n, format!("{n:09}\n").as_bytes());
    }
    capture.append(Stream::Main, 1, 6_000, &b"x".repeat(100_000));
    let (_, unstored) = capture.take_faults().unwrap();
    let kept =
        |unstored: &[Unstored]| -> usize { unstored.iter().map(|piece| piece.bytes.len()).sum() };
    assert_eq!(kept(&unstored), 2 * UNSTORED_BYTES);
    assert!(unstored.windows(2).all(|two| two[0].offset < two[1].offset));
    assert_eq!(unstored[0].offset, 0);
    assert!(unstored[0].bytes.starts_with(b"000000000\n"));
    let last = unstored.last().unwrap();
    assert_eq!(last.offset + last.bytes.len() as u64, capture.raw_end());
    for n in 0..5_000 {
        let stream = if n % 2 == 0 { Stream::Main } else { Stream::Stderr };
        capture.append(stream, 1, 7_000 + n, b"x");
    }
    let (_, unstored) = capture.take_faults().unwrap();
    assert_eq!((unstored.len(), kept(&unstored)), (2 * UNSTORED_PIECES, 2 * UNSTORED_PIECES));
}

#[test]
fn the_tail_is_the_end_of_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut capture = opened(folder.path(), SessionLimits::default());
    for part in [&b"x".repeat(3000)[..], b"abc", b"? "] {
        capture.append(Stream::Main, 1, 0, part);
    }
    assert_eq!(capture.tail().len(), TAIL_BYTES);
    assert!(capture.tail().ends_with(b"xabc? "));
    // The window's size, and one record.
    assert_eq!((capture.raw_end(), capture.idx_end()), (3005, 48));
    assert!(!folder.path().join("out.gap").exists());
}

#[test]
fn sizes_are_said_with_each_command_and_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut capture = opened(folder.path(), SessionLimits::default());
    capture.append(Stream::Main, 0, 1, b"a");
    capture.begin();
    capture.append(Stream::Main, 1, 2, b"bc");
    capture.resized(Size { cols: 60, rows: 20 }, 3);
    capture.append(Stream::Main, 1, 4, b"d");
    let idx = read(folder.path(), "out.idx");
    let sizes: Vec<_> = resizes(&idx).map(|r| (r.offset, r.micros, r.size.cols)).collect();
    assert_eq!(sizes, [(0, 1, 120), (1, 2, 120), (3, 3, 60)]);
    let all: Vec<_> = segments(&idx, 4).map(|s| (s.start, s.end, s.command)).collect();
    assert_eq!(all, [(0, 1, 0), (1, 4, 1)]);
}

/// Numbered lines, so that each says where it belongs.
fn line(at: u64) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < 16_000 {
        text.extend(format!("{:015}\n", at + text.len() as u64).bytes());
    }
    text
}

#[test]
fn the_middle_is_given_up_and_readers_know() {
    let folder = tempfile::tempdir().unwrap();
    let quota = 4 * MIB;
    let limits =
        SessionLimits { command_disk: quota, session_disk: 2 * quota, ..SessionLimits::default() };
    let mut capture = opened(folder.path(), limits);
    let mut most = 0;
    for command in 1..4 {
        capture.begin();
        let start = capture.raw_end();
        let mut micros = 0;
        while capture.raw_end() - start < 40_000_000 {
            micros += 100;
            capture.append(Stream::Main, command, micros, &line(capture.raw_end()));
            capture.append(Stream::Stderr, command, micros, b"0123456789abcde\n");
            if micros % 10_000 == 0 {
                most = most.max(on_disk(folder.path()));
            }
        }
        assert_eq!(capture.take_faults(), None);
        let (raw, gaps) = (read(folder.path(), "out.raw"), read(folder.path(), "out.gap"));
        assert_eq!(raw.len() as u64, capture.raw_end());
        let (mut kept, mut missing) = (0, 0);
        for part in Gaps::read(&gaps).cut(start..capture.raw_end()) {
            match part {
                Stretch::Stored(range) => {
                    kept += range.end - range.start;
                    let bytes = &raw[at(range.start)..at(range.end)];
                    assert!(!bytes.contains(&0), "no zero is ever read for output");
                }
                Stretch::Missing { range, gap } => {
                    missing += range.end - range.start;
                    // Of 16,016 bytes 16 went to the second terminal.
                    let share = (range.end - range.start) / 1001;
                    assert!(gap.stderr.abs_diff(share) < 100, "{gap:?} {share}");
                }
            }
        }
        assert!(kept > quota * 9 / 10 && kept <= quota, "{kept}");
        assert_eq!(kept + missing, capture.raw_end() - start);
        // What the index says of what is kept is right: the streams are told apart after the gap.
        let idx = read(folder.path(), "out.idx");
        let gaps = Gaps::read(&gaps);
        for segment in segments(&idx, capture.raw_end()).filter(|s| s.command == command) {
            for part in gaps.cut(segment.start..segment.end) {
                let Stretch::Stored(range) = part else { continue };
                let first = &raw[at(range.start)..at(range.start + 16)];
                let is_stderr = first == b"0123456789abcde\n";
                assert_eq!(segment.stream == Stream::Stderr, is_stderr, "{segment:?}");
            }
        }
    }
    assert!(most <= 2 * quota + 64 * 1024, "{most}");
}

#[test]
fn floods_of_tiny_writes_fill_no_index() {
    let folder = tempfile::tempdir().unwrap();
    let limits = SessionLimits { command_disk: MIB, session_disk: MIB, ..SessionLimits::default() };
    let mut capture = opened(folder.path(), limits);
    capture.begin();
    for n in 0..400_000u64 {
        let stream = if n % 2 == 0 { Stream::Main } else { Stream::Stderr };
        capture.append(stream, 1, n, b"x");
    }
    assert_eq!(capture.take_faults(), None);
    assert!(capture.idx_end() > 9 * MIB);
    assert!(on_disk(folder.path()) <= MIB + 64 * 1024, "{}", on_disk(folder.path()));
    let gaps = Gaps::read(&read(folder.path(), "out.gap"));
    let [gap] = gaps.all() else { panic!("{gaps:?}") };
    assert_eq!(gap.stderr, (gap.end - gap.start) / 2);
    assert!(400_000 - gap.end > 20_000 && gap.start > 5_000, "{gap:?}");
}

#[test]
fn where_no_holes_can_be_punched_the_middle_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let limits =
        SessionLimits { command_disk: MIB, session_disk: 4 * MIB, ..SessionLimits::default() };
    let mut capture = opened(folder.path(), limits);
    capture.files.forbid_punching();
    capture.begin();
    for n in 0..200 {
        capture.append(Stream::Main, 1, n * 100_000, &line(capture.raw_end()));
    }
    assert_eq!(capture.raw_end(), 200 * 16_000);
    let (message, unstored) = capture.take_faults().unwrap();
    assert!(message.contains("cannot punch holes"), "{message}");
    let last = unstored.last().unwrap();
    assert!(last.bytes.ends_with(format!("{:015}\n", 200 * 16_000 - 16).as_bytes()));
    assert!(on_disk(folder.path()) <= MIB + 64 * 1024);
    // The next command has its own share.
    capture.begin();
    let at = capture.raw_end();
    capture.append(Stream::Main, 2, 20_000_000, b"hello");
    assert_eq!(capture.take_faults(), None);
    assert_eq!((capture.recent(at + 5, 100), capture.recent(at + 5, 2)), (at, at + 3));
    assert_eq!(capture.read(at..at + 5), b"hello");
    let gaps = Gaps::read(&read(folder.path(), "out.gap"));
    assert!(gaps.all().len() == 1 && gaps.all()[0].end == at, "{gaps:?}");
}
