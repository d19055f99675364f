//! A disk that is really full: a small tmpfs in a mount namespace of its own, where that may be
//! made. The test runs itself again in there.

use std::path::PathBuf;
use std::process::Command;

use super::{event, read_all};
use crate::journal::append::Journal;

const DIR: &str = "CALLBOARD_TEST_SMALL_DISK";

#[test]
fn a_really_full_disk() {
    on_a_disk_of("256k", "inside");
}

#[test]
fn a_really_full_disk_takes_outcomes_still() {
    on_a_disk_of("12m", "inside_with_a_reserve");
}

/// Runs a test of this file on a disk of that size.
fn on_a_disk_of(size: &str, inner: &str) {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=$1 none \"$2\" || exit 77; shift 2; exec \"$@\"";
    let run = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", size])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("journal::tests::small_disk::{inner}"), "--ignored"])
        .env(DIR, dir.path())
        .output();
    match run {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("1 passed"), "{text}");
        }
        Ok(output) if output.status.code() != Some(101) => eprintln!("skipped: no mount here"),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
#[ignore = "run by `a_really_full_disk` on a disk of its own"]
fn inside() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![1; 100_000]).unwrap();
    let (journal, _) = Journal::open(&dir.join("journal"), |_| {}).unwrap();
    let mut kept = Vec::new();
    let mut refused = 0;
    for n in 1..2000 {
        match journal.append(vec![event(n)], n % 7 == 0).wait() {
            Ok(committed) => {
                kept.push(event(n));
                assert_eq!(committed.last_seq, kept.len() as u64);
            }
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                refused += 1;
                if refused == 5 {
                    assert_eq!(read_all(&dir.join("journal")).unwrap().0, kept);
                    std::fs::remove_file(&ballast).unwrap();
                }
            }
        }
    }
    assert!(refused > 5, "full twice: {refused}");
    drop(journal);
    let (seen, replay) = read_all(&dir.join("journal")).unwrap();
    assert_eq!((seen, replay.torn), (kept, None));
}

#[test]
#[ignore = "run by `a_really_full_disk_takes_outcomes_still` on a disk of its own"]
fn inside_with_a_reserve() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let (journal, _) = Journal::open(&dir.join("journal"), |_| {}).unwrap();
    journal.append(vec![event(1)], true).wait().unwrap();
    assert!(journal.has_room());
    let ballast = dir.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    assert!(std::fs::write(dir.join("other"), [1; 8192]).is_err(), "nobody else can write");
    wait_until(&journal, false);
    for n in 2..1500 {
        let committed = journal.append(vec![event(n)], n % 7 == 0).wait().unwrap();
        assert_eq!(committed.last_seq, n);
    }
    drop(journal);
    // The reserve outlasts the writer: the next one can say that it has begun.
    let (journal, replay) = Journal::open(&dir.join("journal"), |_| {}).unwrap();
    assert_eq!((replay.last_seq, replay.torn), (1499, None));
    journal.append(vec![event(1500)], true).wait().unwrap();
    wait_until(&journal, false);
    // As long as it is open its bytes stay.
    drop(file);
    std::fs::remove_file(&ballast).unwrap();
    wait_until(&journal, true);
    drop(journal);
    let (seen, _) = read_all(&dir.join("journal")).unwrap();
    assert_eq!(seen, super::events(1, 1501));
}

fn wait_until(journal: &Journal, room: bool) {
    let started = std::time::Instant::now();
    while journal.has_room() != room {
        assert!(started.elapsed().as_secs() < 20, "has_room() stays {}", !room);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
