//! What lies on the disk is damaged, in the way or out of room: the real binary goes on, or refuses in
//! words.

mod audit;
mod board;
mod disk;
mod journal;
mod looking;
mod places;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::house::{Called, House, wait_for};

/// A house whose workspace is one already, with nobody in it.
fn settled() -> House {
    let house = House::new();
    let (code, report) = house.run("[[task]]\nid = \"a\"\nrun = \"true\"\n");
    assert_eq!(code, 0, "{report:#}");
    house.assert_empties();
    house
}

/// The folder of the workspace's state.
fn state(house: &House) -> PathBuf {
    let pointer: Value = serde_json::from_str(&house.read(".callboard/pointer")).unwrap();
    PathBuf::from(pointer["state"].as_str().unwrap())
}

/// The journal's segments, in order.
fn segments(house: &House) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(state(house).join("journal"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("0000"))
        .collect();
    files.sort();
    files
}

fn log(house: &House) -> String {
    std::fs::read_to_string(state(house).join("serve.log")).unwrap_or_default()
}

fn coordinator(house: &House) -> Option<i64> {
    house.call(&["status", "--json"]).json()["coordinator"]["pid"].as_i64()
}

/// Kills the coordinator, if there is one, and waits until it is gone.
fn kill_coordinator(house: &House) {
    let Some(pid) = coordinator(house) else { return };
    signal(pid, "KILL");
    wait_for("the coordinator is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if matches!(state, None | Some('Z' | 'X')) { Ok(()) } else { Err(stat) }
    });
}

/// Has the coordinator end in order, if there is one, and waits until nothing is left.
fn end_coordinator(house: &House) {
    if let Some(pid) = coordinator(house) {
        signal(pid, "TERM");
    }
    house.assert_empties();
}

fn signal(pid: i64, name: &str) {
    let args = [format!("-{name}"), pid.to_string()];
    drop(std::process::Command::new("kill").args(args).output());
}

/// Flips a bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// The exit code, and kind and message of the error that was told.
fn refused(called: &Called) -> (i32, String, String) {
    let document = called.json();
    let text = |key: &str| document["error"][key].as_str().unwrap_or_default().to_owned();
    (called.code, text("kind"), text("message"))
}
