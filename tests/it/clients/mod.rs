//! Clients and their coordinators: lost, replaced, of other versions; and clients from inside of
//! sessions. Real processes throughout.

mod crowd;
mod lost;
mod replace;
mod roles;
mod slow;
mod wire;

use std::process::Child;

use serde_json::Value;

use crate::house::{Called, House, finish, wait_for};

/// The coordinator's pid, as its lock has it: needs nobody to answer.
fn coordinator(house: &House) -> i64 {
    wait_for("a coordinator", || {
        let lock = house.read(".callboard/lock");
        let lock: Value = serde_json::from_str(&lock).map_err(|error| error.to_string())?;
        let pid = lock["pid"].as_i64().ok_or("no pid")?;
        if lives(pid) { Ok(pid) } else { Err(format!("{pid} is dead")) }
    })
}

/// Kills the coordinator; its pid.
fn kill_coordinator(house: &House) -> i64 {
    let pid = coordinator(house);
    signal(pid, "KILL");
    wait_for("the coordinator is gone", || if lives(pid) { Err(pid.to_string()) } else { Ok(()) });
    pid
}

fn lives(pid: i64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rfind(')').and_then(|at| stat[at + 1..].trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

fn signal(pid: i64, name: &str) {
    drop(std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).output());
}

/// Waits until a file of the workspace has so many lines.
fn lines(house: &House, file: &str, count: usize) {
    wait_for(&format!("{count} lines in {file}"), || {
        let text = house.read(file);
        if text.lines().count() >= count { Ok(()) } else { Err(text) }
    });
}

fn start(house: &House, args: &[&str]) -> Child {
    house.command(args).spawn().unwrap()
}

fn end(child: Child) -> Called {
    finish(child)
}

/// Tells the coordinator to end, sooner than by itself, and looks that nothing is left.
fn close(house: &House) {
    let lock: Value = serde_json::from_str(&house.read(".callboard/lock")).unwrap_or_default();
    if let Some(pid) = lock["pid"].as_i64().filter(|pid| lives(*pid)) {
        signal(pid, "TERM");
    }
    house.assert_empties();
}

/// Makes the folder a workspace, so that every verb means this one.
fn begin(house: &House) {
    let (code, report) = house.run("[[task]]\nid = \"t\"\nrun = \"true\"\n");
    assert_eq!(code, 0, "{report:#}");
}
