//! A disk that is full, or may not be written: real ones, in a mount namespace of the test's own where
//! that may be made. The tests run themselves again in there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{end_coordinator, kill_coordinator, refused};
use crate::house::{House, skipped, wait_for};

pub(super) const DISK: &str = "CALLBOARD_TEST_DISK";

/// Runs a test of this file with a small disk of its own.
fn on_a_small_disk(test: &str) {
    on_a_small_disk_as("storage::disk", test);
}

/// The same of the file `module`.
pub(super) fn on_a_small_disk_as(module: &str, test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=24m none \"$1\" || exit 77; shift; exec \"$@\"";
    let run = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{test}"), "--ignored", "--nocapture"])
        .env(DISK, folder.path())
        .output();
    match run {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("1 passed"), "{text}");
        }
        Ok(output) if output.status.code() != Some(101) => skipped(test, "no mount here"),
        Ok(output) => panic!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => skipped(test, &error.to_string()),
    }
}

/// Mounts the disk anew, once a process that is just ending has let go of it.
pub(super) fn remount(disk: &Path, how: &str) {
    wait_for(&format!("a remount: {how}"), || {
        let options = format!("remount,{how}");
        let done = Command::new("mount").args(["-o", &options]).arg(disk).output().unwrap();
        if done.status.success() { Ok(()) } else { Err(format!("{done:?}")) }
    });
}

/// A house whose state lies on that disk.
fn house() -> Option<(House, PathBuf)> {
    let disk = std::env::var_os(DISK).map(PathBuf::from)?;
    let house = House::new().with_env("XDG_STATE_HOME", &disk.join("state").to_string_lossy());
    Some((house, disk))
}

/// Fills it to the last byte.
fn fill(disk: &Path) -> PathBuf {
    let ballast = disk.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    ballast
}

fn remarks(house: &House) -> String {
    house.call(&["status", "--json"]).json()["remarks"].to_string()
}

#[test]
fn on_a_full_disk_tasks_are_refused_and_commands_run() {
    on_a_small_disk("inside_full");
}

#[test]
#[ignore = "run by `on_a_full_disk_tasks_are_refused_and_commands_run` on a disk of its own"]
fn inside_full() {
    let Some((house, disk)) = house() else { return };
    // A run that is under way when the disk fills up.
    house.write(
        "m.toml",
        "[[task]]\nid = \"a\"\nrun = \"until [ -e go ]; do sleep 0.02; done\"\n\
         [[task]]\nid = \"b\"\nafter = [\"a\"]\nrun = \"true\"\n",
    );
    let run = house.call(&["run", "m.toml", "--detach", "--json"]).json();
    let run = run["run_id"].as_str().unwrap().to_owned();
    wait_for("its task runs", || {
        let status = house.call(&["status", "--json"]).json();
        if status["tasks"][0]["state"] == "running" && status["sessions"][0]["pid"].is_i64() {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    let ballast = fill(&disk);
    wait_for("the full disk is noticed", || {
        let told = remarks(&house);
        if told.contains("no space left") { Ok(()) } else { Err(told) }
    });

    house.write("n.toml", "[[task]]\nid = \"n\"\nrun = \"true\"\n");
    let called = house.call(&["run", "n.toml", "--json"]);
    let (code, kind, message) = refused(&called);
    assert_eq!((code, kind.as_str()), (3, "machine"), "{called:?}");
    assert!(message.contains("no space left"), "{message}");

    let (code, result) = house.exec("echo runs; exit 7");
    assert_eq!(code, 7, "{result:#}");
    let notes = result["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note["kind"] == "capture_degraded"), "{result:#}");

    // Another coordinator can begin, and goes on with what is under way.
    kill_coordinator(&house);
    let (code, result) = house.exec("exit 8");
    assert_eq!(code, 8, "{result:#}");
    let pid = super::coordinator(&house);
    assert!(pid.is_some());

    // That is told to its end, and what would begin is refused.
    house.write("go", "");
    wait_for("the run's end", || {
        let listed = house.call(&["run", "ls", "--json"]).json();
        if listed["runs"][0]["outcome"].is_string() { Ok(()) } else { Err(listed.to_string()) }
    });
    assert_eq!(super::coordinator(&house), pid, "the coordinator goes on");
    let listed = house.call(&["run", "ls", "--json"]).json();
    let line = &listed["runs"][0];
    assert_eq!(
        (&line["outcome"], &line["exit_code"]),
        (&"environment".into(), &3.into()),
        "{line:#}"
    );
    assert_eq!(line["counts"], serde_json::json!({"succeeded": 1, "failed": 1}), "{line:#}");

    std::fs::remove_file(ballast).unwrap();
    wait_for("there is room again", || {
        let told = remarks(&house);
        if told == "[]" { Ok(()) } else { Err(told) }
    });
    let called = house.call(&["run", "n.toml", "--json"]);
    assert_eq!(called.code, 0, "{called:?}");
    assert_eq!(house.call(&["audit", "verify"]).code, 0);
    let resumed = house.call(&["audit", "show", "--run", &run]);
    assert!(resumed.stdout.contains("no space left") || resumed.stdout.contains("attempt 1 ended"));
    end_coordinator(&house);
}

#[test]
fn a_state_folder_that_may_not_be_written_is_refused_in_words() {
    on_a_small_disk("inside_read_only");
}

#[test]
#[ignore = "run by `a_state_folder_that_may_not_be_written_is_refused_in_words` on a disk of its own"]
fn inside_read_only() {
    let Some((house, disk)) = house() else { return };
    let (code, report) = house.run("[[task]]\nid = \"a\"\nrun = \"true\"\n");
    assert_eq!(code, 0, "{report:#}");
    house.assert_empties();
    remount(&disk, "ro");
    for args in [&["run", "m.toml", "--json"][..], &["exec", "--json", "-c", "true"]] {
        let called = house.call(args);
        let (code, kind, message) = refused(&called);
        assert_eq!((code, kind.as_str()), (3, "machine"), "{called:?}");
        assert!(message.to_lowercase().contains("read-only"), "{message}");
    }
    let run = report["run_id"].as_str().unwrap();
    for args in [&["status"][..], &["report", run], &["run", "ls"], &["audit", "verify"], &["gc"]] {
        let called = house.call(args);
        assert_eq!(called.code, 0, "{args:?}: {called:?}");
    }
    house.assert_empties();
}
