//! Sessions that are kept outlast coordinators.

use serde_json::json;

use super::{Ward, signal};
use crate::house::wait_for;

fn ward() -> Ward {
    let ward = Ward::new();
    ward.house.call(&["init"]);
    ward
}

#[test]
fn a_kept_session_goes_on_with_all_that_it_has() {
    let ward = ward();
    let run = |script: &str| {
        let called = ward.house.call(&["exec", "--session", "k", "-c", script]);
        assert_eq!(called.code, 0, "{called:?}");
        called.stdout
    };
    run("export V=7; W=8; f() { echo f$W; }; cd /; sleep 600 &");
    let show = || ward.house.call(&["session", "show", "k", "--json"]).json();
    let before = show();
    ward.succeed();
    let after = show();
    for fact in ["session_id", "name", "state", "pid", "ttl_ms", "opened_at", "command_count"] {
        assert_eq!(after[fact], before[fact], "{fact}: {after:#}");
    }
    assert_eq!(after["commands"], before["commands"]);
    assert_eq!(run("echo $V; f; pwd; jobs %1 | grep -c sleep"), "7\nf8\n/\n1\n");
    ward.succeed();
    assert_eq!(run("echo $V"), "7\n");
    let commands = show()["commands"].as_array().unwrap().clone();
    let mut ids: Vec<&str> =
        commands.iter().map(|command| command["command_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3, "{commands:?}");
    ids.dedup();
    assert_eq!(ids.len(), 3, "no name is given twice: {commands:?}");
    assert_eq!(ward.house.call(&["session", "close", "k"]).code, 0);
    let left: Vec<String> =
        ward.house.processes().into_iter().filter(|line| line.contains("sleep 600")).collect();
    assert!(left.is_empty(), "{left:?}");
    ward.end();
}

/// A shell that reads its driver from a folder still has it.
#[test]
fn a_session_in_another_shell_goes_on_too() {
    let ward = ward();
    let opened = ward.house.call(&["session", "new", "k", "--shell", "sh", "--json"]);
    assert_eq!(opened.code, 0, "{opened:?}");
    for n in 0..3 {
        let script = format!("V=${{V}}{n}; echo $V; nosuchprogram; cat <<E\n$V\nE");
        let called = ward.house.call(&["exec", "--session", "k", "-c", &script]);
        let told = ["0", "01", "012"][n];
        assert_eq!((called.code, called.stdout), (0, format!("{told}\n{told}\n")), "{n}");
        ward.succeed();
    }
    assert_eq!(ward.house.call(&["session", "close", "k"]).code, 0);
    ward.end();
}

#[test]
fn a_session_that_ends_meanwhile_has_ended() {
    let ward = ward();
    let opened = ward.house.call(&["session", "new", "k", "--json"]).json();
    let id = opened["session_id"].as_str().unwrap().to_owned();
    ward.kill_coordinator();
    signal(opened["pid"].as_i64().unwrap_or_else(|| panic!("{opened:#}")), "KILL");
    ward.revive();
    let show = wait_for("it has ended", || {
        let show = ward.house.call(&["session", "show", &id, "--json"]).json();
        if show["state"] == "closed" { Ok(show) } else { Err(show.to_string()) }
    });
    assert_eq!(show["closed"]["why"], "shell_ended", "{show:#}");
    let ls = ward.house.call(&["session", "ls", "--json"]).json();
    assert!(ls["sessions"].as_array().unwrap().iter().all(|s| s["state"] != "idle"), "{ls:#}");
    // Its name is free again.
    assert_eq!(ward.house.call(&["exec", "--session", "k", "-c", "true"]).code, 0);
    assert_eq!(ward.house.call(&["session", "close", "k"]).code, 0);
    ward.end();
}

/// One whose holder is killed as well is lost, and what it had running is ended.
#[test]
fn a_session_whose_holder_is_killed_too_is_lost() {
    let ward = ward();
    let opened = ward.house.call(&["session", "new", "k", "--json"]).json();
    let id = opened["session_id"].as_str().unwrap().to_owned();
    let begun = ward.house.call(&["exec", "--session", "k", "-c", "setsid sleep 600 &"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    let holders = ward.holders();
    ward.kill_coordinator();
    holders.iter().for_each(|holder| signal(*holder, "KILL"));
    ward.revive();
    let show = wait_for("it has ended", || {
        let show = ward.house.call(&["session", "show", &id, "--json"]).json();
        if show["state"] == "closed" { Ok(show) } else { Err(show.to_string()) }
    });
    assert_eq!(show["closed"]["why"], json!("lost"), "{show:#}");
    ward.end();
}
