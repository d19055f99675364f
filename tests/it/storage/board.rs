//! A board that sled cannot open, in each of the ways that its public reports tell of.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{end_coordinator, kill_coordinator, log, settled, state};
use crate::house::{House, finish, wait_for};

/// A run whose services keep the board busy.
const BUSY: &str = "[[task]]\nid = \"a\"\nrun = \"echo up; sleep 600\"\nservice = { ready = \"log:up\" }\n\
                    [[task]]\nid = \"b\"\nrun = \"echo up; sleep 600\"\nservice = { ready = \"log:up\" }\n\
                    [[task]]\nid = \"c\"\nafter = [\"a\", \"b\"]\nrun = \"until [ -e go ]; do sleep 0.02; done\"\n";

fn newest_snapshot(board: &Path) -> PathBuf {
    let names = std::fs::read_dir(board).unwrap().map(|entry| entry.unwrap().path());
    let snap = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("snap.");
    names.filter(snap).max().unwrap()
}

fn services(report: &Value) -> usize {
    let entries = report["board"]["entries"].as_array().unwrap();
    entries.iter().filter(|entry| entry["key"].as_str().unwrap().starts_with("service/")).count()
}

fn remarks(house: &House) -> String {
    house.call(&["status", "--json"]).json()["remarks"].to_string()
}

#[test]
fn orc_17_killed_at_any_moment_the_board_opens_or_is_made_anew() {
    let house = House::new();
    house.write("m.toml", BUSY);
    let run = house.call(&["run", "m.toml", "--detach", "--json", "--jobs", "3"]).json();
    let run = run["run_id"].as_str().unwrap().to_owned();
    let report = || house.call(&["report", &run, "--json"]).json();
    wait_for("both services are on the board", || {
        let report = report();
        if services(&report) == 2 { Ok(()) } else { Err(report.to_string()) }
    });
    for round in 0..8_u64 {
        let client = house.command(&["exec", "-c", "true"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round * 137 % 300));
        kill_coordinator(&house);
        let called = finish(client);
        assert!([0, 3, 5].contains(&called.code), "{round}: {called:?}");
        assert_eq!(house.call(&["status"]).code, 0, "{round}");
    }
    kill_coordinator(&house);
    let board = state(&house).join("board");
    let snapshot = newest_snapshot(&board);
    let bytes = std::fs::read(&snapshot).unwrap();
    std::fs::write(&snapshot, &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(board.join("snap.FFFFFFFFFFFFFFFF.generating"), b"").unwrap();
    assert_eq!(house.exec("true").0, 0);
    let told = remarks(&house);
    assert!(told.contains("made anew from the journal") && told.contains("board.bak-"), "{told}");
    assert_eq!(services(&report()), 2, "nothing that was acknowledged is lost");
    assert!(!log(&house).contains("panicked"), "{}", log(&house));
    house.write("go", "");
    wait_for("the run's end", || {
        let report = report();
        if report["outcome"] == "succeeded" { Ok(()) } else { Err(report.to_string()) }
    });
    end_coordinator(&house);
}

#[test]
fn orc_18_a_half_written_snapshot_is_no_obstacle() {
    let house = settled();
    let board = state(&house).join("board");
    std::fs::write(board.join("snap.0000000000000000.generating"), b"").unwrap();
    assert_eq!(house.exec("true").0, 0);
    let words = house.call(&["status"]).stdout;
    assert_eq!(words.lines().filter(|line| line.starts_with("note: ")).count(), 1, "{words}");
    assert!(state(&house).join("board.bak-1").join("db").exists(), "the original is kept");
    assert!(log(&house).contains("made anew from the journal"), "{}", log(&house));
    end_coordinator(&house);
    assert_eq!(house.exec("true").0, 0);
    assert_eq!(remarks(&house), json!([]).to_string(), "it is told once");
    end_coordinator(&house);
}

#[test]
fn orc_23_nobody_removes_a_live_lock() {
    use std::os::unix::fs::MetadataExt;
    let house = House::new();
    house.write("m.toml", "[[task]]\nid = \"a\"\nrun = \"until [ -e go ]; do sleep 0.02; done\"\n");
    let first = house.call(&["run", "m.toml", "--detach", "--json"]).json();
    let inode = || house.path(".callboard/lock").metadata().unwrap().ino();
    let (lock, coordinator) = (inode(), super::coordinator(&house));
    house.call(&["doctor", "--fix"]);
    assert_eq!(house.call(&["gc", "--apply"]).code, 0);
    assert_eq!((inode(), super::coordinator(&house)), (lock, coordinator));
    house.write("n.toml", "[[task]]\nid = \"b\"\nrun = \"true\"\n");
    let second = house.call(&["run", "n.toml", "--json"]);
    assert_eq!(second.code, 0, "{second:?}");
    assert_eq!(super::coordinator(&house), coordinator, "it was a client of the same one");
    house.write("go", "");
    let run = first["run_id"].as_str().unwrap();
    wait_for("the run's end", || {
        let report = house.call(&["report", run, "--json"]).json();
        if report["outcome"] == "succeeded" { Ok(()) } else { Err(report.to_string()) }
    });
    end_coordinator(&house);
    assert_eq!(inode(), lock);
}

#[test]
fn whatever_is_wrong_with_the_board_a_command_runs() {
    let house = settled();
    type Spoil = fn(&Path);
    let spoil: [(&str, Spoil); 6] = [
        ("gone", |board| std::fs::remove_dir_all(board).unwrap()),
        ("a file", |board| {
            std::fs::remove_dir_all(board).unwrap();
            std::fs::write(board, "x").unwrap();
        }),
        ("its log emptied", |board| std::fs::write(board.join("db"), "").unwrap()),
        ("its log cut", |board| {
            let bytes = std::fs::read(board.join("db")).unwrap();
            std::fs::write(board.join("db"), &bytes[..bytes.len() / 3]).unwrap();
        }),
        ("its log a folder", |board| {
            std::fs::remove_file(board.join("db")).unwrap();
            std::fs::create_dir(board.join("db")).unwrap();
        }),
        ("opened by two that died of it", |board| {
            std::fs::write(board.with_file_name("board.opening"), "2").unwrap();
        }),
    ];
    for (what, spoil) in spoil {
        assert_eq!(house.exec("true").0, 0, "before: {what}");
        end_coordinator(&house);
        spoil(&state(&house).join("board"));
        assert_eq!(house.exec("true").0, 0, "{what}");
        assert!(!log(&house).contains("panicked"), "{what}: {}", log(&house));
    }
    end_coordinator(&house);
    let kept = std::fs::read_dir(state(&house)).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("board.bak-")
    });
    assert!(kept.count() <= 3, "only some are kept");
}
