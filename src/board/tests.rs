//! Tests of the board: merging, damage, limits, the clock.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::broadcast::error::TryRecvError;

use super::{Board, BoardError, Changed, KEY_BYTES_MAX, VALUE_BYTES_MAX, check, snapshot};
use crate::domain::board::{BoardEntry, BoardView, Version, Writer, merge};
use crate::domain::time::Timestamp;

fn entry(key: &str, value: Option<serde_json::Value>, wall_ms: i64) -> BoardEntry {
    let version = Version { wall_ms, logical: 0, node: "a".to_owned() };
    BoardEntry { key: key.to_owned(), value, version, writer: Writer::default() }
}

fn open(dir: &Path) -> Board {
    let (board, recovered) = Board::open(dir, "a").unwrap();
    assert_eq!(recovered, None);
    board
}

fn flush(board: &Board) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(board.flush()).unwrap();
}

#[test]
fn writes_merge_and_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("board");
    let mut board = open(&dir);
    let apply = |board: &mut Board, seq, value: Option<i64>, at| {
        board.apply(seq, entry("port/localhost/80", value.map(|n| json!(n)), at)).unwrap().changed
    };
    assert!(apply(&mut board, 1, Some(1), 10));
    assert!(!apply(&mut board, 2, Some(0), 9), "older");
    assert!(!apply(&mut board, 3, Some(1), 10), "the same");
    assert!(apply(&mut board, 4, Some(2), 11));
    assert!(apply(&mut board, 5, None, 20), "removed");
    assert!(!apply(&mut board, 6, Some(3), 15), "a tombstone is later");
    board.apply(7, entry("service/web", Some(json!({})), 5)).unwrap();
    drop(board);

    let board = open(&dir);
    assert_eq!(board.folded_to(), 7);
    assert_eq!(board.get("port/localhost/80").unwrap(), None);
    assert_eq!(board.replica("port/").unwrap(), vec![entry("port/localhost/80", None, 20)]);
    let view = board.view(&"w".into()).unwrap();
    assert_eq!(view, BoardView::of("w".into(), vec![entry("service/web", Some(json!({})), 5)]));
    assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn entries_go_by_prefix_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut board = open(dir.path());
    for (seq, key) in (1..).zip(["note/b", "note/a", "notes", "dep/npm/x", "e/", "record"]) {
        board.apply(seq, entry(key, Some(json!(key)), 1)).unwrap();
    }
    let keys = |prefix| -> Vec<String> {
        board.entries(prefix).unwrap().into_iter().map(|entry| entry.key).collect()
    };
    assert_eq!(keys("note/"), ["note/a", "note/b"]);
    assert_eq!(keys("note"), ["note/a", "note/b", "notes"]);
    assert_eq!(keys("").len(), 6);
    assert_eq!(keys("x"), [""; 0]);
}

#[test]
fn limits_are_told_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut board = open(dir.path());
    let long = |n: usize| "x".repeat(n);
    for (key, value, taken) in [
        (String::new(), json!(1), false),
        (long(KEY_BYTES_MAX), json!(1), true),
        (long(KEY_BYTES_MAX + 1), json!(1), false),
        ("a\nb".to_owned(), json!(1), false),
        ("ключ/\"é\" ".to_owned(), json!(1), true),
        ("v".to_owned(), json!(long(VALUE_BYTES_MAX - 2)), true),
        ("w".to_owned(), json!(long(VALUE_BYTES_MAX - 1)), false),
    ] {
        let entry = entry(&key, Some(value), 1);
        assert_eq!(check(&entry).is_ok(), taken, "{} bytes", key.len());
        match board.apply(1, entry) {
            Ok(applied) => assert!(taken && applied.changed),
            Err(error) => assert!(!taken && error.is_refusal(), "{error}"),
        }
    }
    assert_eq!(board.entries("").unwrap().len(), 3);
}

#[test]
fn the_clock_only_goes_forward() {
    let dir = tempfile::tempdir().unwrap();
    let mut board = open(dir.path());
    let mut last = board.tick(Timestamp(100));
    for now in [100, 50, 101, 0] {
        let next = board.tick(Timestamp(now));
        assert!(next > last, "{next:?} {last:?}");
        last = next;
    }
    board.apply(1, entry("note/far", Some(json!(0)), 9000)).unwrap();
    drop(board);
    let mut board = open(dir.path());
    assert!(board.tick(Timestamp(200)).wall_ms == 9000, "greater than all it has seen");
    board.clear().unwrap();
    assert_eq!((board.folded_to(), board.entries("").unwrap().len()), (0, 0));
    assert!(board.tick(Timestamp(200)).wall_ms == 9000);
    drop(board);
    assert_eq!(open(dir.path()).folded_to(), 0);
}

#[test]
fn watchers_hear_of_changes_and_of_what_they_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut board = open(dir.path());
    let mut watch = board.watch();
    board.apply(3, entry("note/a", Some(json!(1)), 2)).unwrap();
    board.apply(4, entry("note/a", Some(json!(0)), 1)).unwrap();
    assert_eq!(watch.try_recv().unwrap(), Changed { key: "note/a".into(), seq: 3 });
    assert_eq!(watch.try_recv(), Err(TryRecvError::Empty), "an older write changes nothing");
    for n in 0..2000 {
        board.apply(5, entry("note/a", Some(json!(n)), 10 + n)).unwrap();
    }
    assert!(matches!(watch.try_recv(), Err(TryRecvError::Lagged(missed)) if missed > 900));
}

#[test]
fn a_board_in_use_is_locked_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("board");
    let mut board = open(&dir);
    assert!(matches!(Board::open(&dir, "b"), Err(BoardError::Locked { .. })));
    board.apply(1, entry("note/a", Some(json!(1)), 1)).unwrap();
    drop(board);
    assert_eq!(open(&dir).folded_to(), 1);
    assert_eq!(std::fs::read_dir(dir.parent().unwrap()).unwrap().count(), 1);
}

const WRITES: u64 = 300;

/// The `seq`th write of a board of some size.
fn write(seq: u64) -> BoardEntry {
    let value = json!({"seq": seq, "text": "x".repeat(usize::try_from(seq).unwrap() % 700)});
    entry(&format!("note/{}", seq % 50), Some(value), i64::try_from(seq).unwrap())
}

/// Such a board, closed; sled has written a snapshot of it.
fn filled(dir: &Path) {
    let mut board = open(dir);
    for seq in 1..=WRITES {
        board.apply(seq, write(seq)).unwrap();
    }
    flush(&board);
    drop(board);
    drop(open(dir));
}

fn sled_file(dir: &Path, prefix: &str) -> Option<PathBuf> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).max()
}

/// Opens after `damage`: either the folder was set aside and a new one works, or the board is what
/// it was after the write that it says it is folded to.
fn opens_after(what: &str, must_break: bool, damage: impl FnOnce(&Path)) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("board");
    filled(&dir);
    damage(&dir);
    let (mut board, recovered) = Board::open(&dir, "a").unwrap();
    assert!(recovered.is_some() || !must_break, "{what}");
    if let Some(recovered) = recovered {
        assert_eq!(recovered.aside, parent.path().join("board.bak-1"), "{what}");
        assert!(recovered.aside.exists() && !recovered.cause.is_empty(), "{what}");
        assert_eq!(board.folded_to(), 0, "{what}");
    }
    let mut due = std::collections::BTreeMap::new();
    for seq in 1..=board.folded_to() {
        due.insert(write(seq).key, write(seq));
    }
    assert_eq!(board.entries("").unwrap(), due.into_values().collect::<Vec<_>>(), "{what}");
    board.apply(WRITES + 1, entry("note/after", Some(json!(1)), 9999)).unwrap();
    drop(board);
    assert_eq!(open(&dir).folded_to(), WRITES + 1, "{what}");
}

#[test]
fn a_damaged_folder_is_set_aside() {
    let snap = |dir: &Path| sled_file(dir, "snap.").expect("sled writes a snapshot at its start");
    opens_after("nothing", false, |_| {});
    opens_after("left-over of a snapshot, empty", true, |dir| {
        std::fs::write(dir.join("snap.FFFFFFFFFFFFFFFF.generating"), b"").unwrap();
    });
    opens_after("snapshot cut", true, |dir| {
        let bytes = std::fs::read(snap(dir)).unwrap();
        std::fs::write(snap(dir), &bytes[..bytes.len() / 2]).unwrap();
    });
    opens_after("snapshot of noise", true, |dir| {
        std::fs::write(snap(dir), [0xa5; 500]).unwrap();
    });
    opens_after("configuration emptied", false, |dir| {
        std::fs::write(dir.join("conf"), b"").unwrap();
    });
    opens_after("a file instead of the folder", true, |dir| {
        std::fs::remove_dir_all(dir).unwrap();
        std::fs::write(dir, b"x").unwrap();
    });
    opens_after("log emptied", true, |dir| std::fs::write(dir.join("db"), b"").unwrap());
    opens_after("left-over of a snapshot, half", false, |dir| {
        let bytes = std::fs::read(snap(dir)).unwrap();
        std::fs::write(dir.join("snap.0000000000000001.generating"), &bytes[..bytes.len() / 2])
            .unwrap();
    });
    opens_after("snapshot emptied", false, |dir| std::fs::write(snap(dir), b"").unwrap());
    opens_after("snapshot gone", false, |dir| std::fs::remove_file(snap(dir)).unwrap());
    opens_after("configuration gone", false, |dir| {
        std::fs::remove_file(dir.join("conf")).unwrap();
    });
    opens_after("configuration of noise", false, |dir| {
        std::fs::write(dir.join("conf"), [0xa5; 64]).unwrap();
    });
    opens_after("log gone", false, |dir| std::fs::remove_file(dir.join("db")).unwrap());
    opens_after("blobs gone", false, |dir| std::fs::remove_dir_all(dir.join("blobs")).unwrap());
    opens_after("a file instead of the blobs", false, |dir| {
        std::fs::remove_dir_all(dir.join("blobs")).unwrap();
        std::fs::write(dir.join("blobs"), b"x").unwrap();
    });
    opens_after("everything gone", false, |dir| {
        std::fs::remove_dir_all(dir).unwrap();
        std::fs::create_dir(dir).unwrap();
    });
    for name in ["db", "conf"] {
        opens_after(&format!("a folder instead of {name}"), true, |dir| {
            std::fs::remove_file(dir.join(name)).unwrap();
            std::fs::create_dir(dir.join(name)).unwrap();
        });
    }
    opens_after("a folder instead of the snapshot", true, |dir| {
        let snap = snap(dir);
        std::fs::remove_file(&snap).unwrap();
        std::fs::create_dir(snap).unwrap();
    });
}

#[test]
fn a_log_cut_or_full_of_noise_is_set_aside_or_as_good_as_before() {
    for part in 1..10_usize {
        opens_after(&format!("log cut to {part}/10"), false, |dir| {
            let log = std::fs::OpenOptions::new().write(true).open(dir.join("db")).unwrap();
            let length = log.metadata().unwrap().len();
            log.set_len(length * part as u64 / 10).unwrap();
        });
        opens_after(&format!("noise in the log at {part}/10"), false, |dir| {
            let mut bytes = std::fs::read(dir.join("db")).unwrap();
            let at = bytes.len() * part / 10;
            let end = (at + 2000).min(bytes.len());
            bytes[at..end].fill(0x5a);
            std::fs::write(dir.join("db"), bytes).unwrap();
        });
    }
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }
}

#[test]
fn bytes_flipped_anywhere_end_in_a_board_that_works() {
    let mut dice = Dice(4);
    let source = tempfile::tempdir().unwrap();
    let whole = source.path().join("board");
    filled(&whole);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&whole).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            files.push(entry.file_name());
        }
    }
    files.sort();
    for round in 0..50 {
        let name = &files[dice.below(files.len())];
        let mut bytes = std::fs::read(whole.join(name)).unwrap();
        // Where something is written; the rest of the log is zeros.
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |at| at + 1);
        let at = dice.below(written);
        bytes[at] ^= 1 << dice.below(8);
        opens_after(&format!("round {round}: byte {at} of {}", name.display()), false, |dir| {
            std::fs::write(dir.join(name), &bytes).unwrap();
        });
    }
}

#[test]
fn what_kills_whoever_opens_it_is_set_aside_the_third_time() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("board");
    filled(&dir);
    let tries = parent.path().join("board.opening");
    assert!(!tries.exists(), "whoever comes through leaves nothing");
    std::fs::write(&tries, "1").unwrap();
    assert_eq!(open(&dir).folded_to(), WRITES, "once may have been a coincidence");
    std::fs::write(&tries, "2").unwrap();
    let (board, recovered) = Board::open(&dir, "a").unwrap();
    assert_eq!(board.folded_to(), 0);
    assert!(recovered.unwrap().cause.contains("died"));
    assert!(!tries.exists());
}

/// Where the inner test finds its folder.
const KILLED: &str = "CALLBOARD_TEST_KILLED_BOARD";

#[test]
fn a_kill_at_any_moment_leaves_a_board_that_opens() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("board");
    for round in 0..25_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "board::tests::writing_until_killed", "--ignored", "--nocapture"])
            .env(KILLED, &dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed after some of its lines: while it opens, writes or flushes.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.take(2 + usize::try_from(round * 7 % 60).unwrap()).all(|l| l.is_ok()));
        child.kill().unwrap();
        child.wait().unwrap();
        let (board, _) = Board::open(&dir, "a").unwrap();
        let mut due = std::collections::BTreeMap::new();
        for seq in 1..=board.folded_to() {
            due.insert(write(seq).key, write(seq));
        }
        assert_eq!(board.entries("").unwrap(), due.into_values().collect::<Vec<_>>(), "{round}");
    }
}

#[test]
#[ignore = "run by `a_kill_at_any_moment_leaves_a_board_that_opens` in a process of its own"]
fn writing_until_killed() {
    let Some(dir) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
    // Ends with the test that started it, too.
    std::thread::spawn(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        std::process::abort();
    });
    let (mut board, _) = Board::open(&dir, "a").unwrap();
    for seq in board.folded_to() + 1.. {
        board.apply(seq, write(seq)).unwrap();
        if seq % 20 == 0 {
            flush(&board);
            println!("{seq}");
        }
    }
}

#[test]
fn at_most_three_folders_set_aside_are_kept() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("board");
    for n in 1..=5 {
        std::fs::remove_dir_all(&dir).ok();
        std::fs::write(&dir, b"x").unwrap();
        let (board, recovered) = Board::open(&dir, "a").unwrap();
        assert_eq!(recovered.unwrap().aside, parent.path().join(format!("board.bak-{n}")));
        drop(board);
    }
    let kept = |n: u32| parent.path().join(format!("board.bak-{n}")).exists();
    assert_eq!([1, 2, 3, 4, 5].map(kept), [false, false, true, true, true]);
}

#[test]
fn entries_that_sled_lost_are_missed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("board");
    filled(&dir);
    let db = sled::open(&dir).unwrap();
    db.remove("e/note/7").unwrap();
    db.flush().unwrap();
    drop(db);
    let (_, recovered) = Board::open(&dir, "a").unwrap();
    let cause = recovered.unwrap().cause;
    assert!(cause.contains("(49)") && cause.contains("(50)"), "{cause}");
}

#[test]
fn the_snapshot_is_whole_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("board.json");
    let view = |n| BoardView::of("w".into(), vec![entry("note/a", Some(json!(n)), n)]);
    std::thread::scope(|scope| {
        let (path, view) = (&path, &view);
        for thread in 0..4 {
            scope.spawn(move || {
                for n in 0..50 {
                    snapshot::write(path, &view(thread * 100 + n)).unwrap();
                    let text = std::fs::read_to_string(path).unwrap();
                    let read: BoardView = serde_json::from_str(&text).unwrap();
                    assert_eq!(read, view(read.entries[0].version.wall_ms));
                }
            });
        }
    });
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left over");
    assert!(snapshot::write(&dir.path().join("no/board.json"), &view(1)).is_err());
}

/// Entries for one of three keys, with versions that collide often.
fn any_entry() -> impl Strategy<Value = BoardEntry> {
    let parts = (0..3_u8, proptest::option::of(0..3_i64), 0..3_i64, 0..2_u32, 0..2_u8, 0..2_u32);
    parts.prop_map(|(key, value, wall_ms, logical, node, attempt)| BoardEntry {
        key: format!("note/{key}"),
        value: value.map(|n| json!({"n": n})),
        version: Version { wall_ms, logical, node: format!("node{node}") },
        writer: Writer { task: Some("r/t".to_owned()), attempt: Some(attempt) },
    })
}

proptest! {
    #[test]
    fn merge_is_a_join(a in any_entry(), b in any_entry(), c in any_entry()) {
        let (b, c) = (BoardEntry { key: a.key.clone(), ..b }, BoardEntry { key: a.key.clone(), ..c });
        prop_assert_eq!(merge(a.clone(), a.clone()), a.clone());
        prop_assert_eq!(merge(a.clone(), b.clone()), merge(b.clone(), a.clone()));
        let left = merge(merge(a.clone(), b.clone()), c.clone());
        prop_assert_eq!(left, merge(a, merge(b, c)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn replicas_agree_whatever_the_order(
        (writes, other) in proptest::collection::vec(any_entry(), 1..30)
            .prop_flat_map(|writes| (Just(writes.clone()), Just(writes).prop_shuffle())),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut left, mut right) = (open(&dir.path().join("l")), open(&dir.path().join("r")));
        for (seq, write) in (1..).zip(&writes) {
            left.apply(seq, write.clone()).unwrap();
        }
        for (seq, write) in (1..).zip(other.iter().chain(&other)) {
            right.apply(seq, write.clone()).unwrap();
        }
        prop_assert_eq!(left.replica("").unwrap(), right.replica("").unwrap());
        prop_assert_eq!(left.record_digest(), right.record_digest());
    }
}
