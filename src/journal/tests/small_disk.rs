//! A disk that is really full: a small tmpfs in a mount namespace of its own, where that may be
//! made. The test runs itself again in there.

use std::path::PathBuf;
use std::process::Command;

use super::{event, read_all};
use crate::journal::append::Journal;

const DIR: &str = "CALLBOARD_TEST_SMALL_DISK";

#[test]
fn a_really_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=256k none \"$1\" || exit 77; shift; exec \"$@\"";
    let inner = "journal::tests::small_disk::inside";
    let run = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", inner, "--ignored"])
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
