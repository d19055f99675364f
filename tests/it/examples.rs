//! The shipped examples, run as they are, on copies.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::house::{House, finish_within, skipped};

/// Puts a copy of a shipped example into the house's workspace.
fn copy(house: &House, name: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("workspaces").join(name).join(".");
    let status = Command::new("cp").arg("-r").args([&from, &house.workspace()]).status().unwrap();
    assert!(status.success());
    // What an earlier run by hand left in the checkout is not part of the example.
    drop(std::fs::remove_dir_all(house.path("build")));
    drop(std::fs::remove_dir_all(house.path(".callboard")));
}

fn run(house: &House, flags: &[&str]) -> (i32, Value) {
    let mut args = vec!["run", "callboard.toml", "--json"];
    args.extend(flags);
    let child = house.command(&args).spawn().unwrap();
    let called = finish_within(child, Duration::from_secs(300));
    (called.code, called.json())
}

#[test]
fn fullstack_with_one_job_and_with_four() {
    let house = House::new();
    copy(&house, "fullstack");
    for jobs in ["1", "4"] {
        let (code, report) = run(&house, &["--jobs", jobs]);
        // The example's port is a literal one, and another program may have it.
        if code == 3 && report.to_string().contains("in use") {
            return skipped("fullstack", "its port is taken on this machine");
        }
        assert_eq!(code, 0, "{report:#}");
        let agents: Vec<&Value> =
            report["tasks"].as_array().unwrap().iter().map(|task| &task["agent"]).collect();
        let of = |id: &str| {
            let tasks = report["tasks"].as_array().unwrap();
            tasks.iter().find(|task| task["id"] == id).unwrap().clone()
        };
        assert_ne!(of("backend")["agent"], of("frontend")["agent"], "{agents:?}");
        assert_eq!(of("serve")["state"], "succeeded");
        assert!(!of("frontend")["artifacts"].as_array().unwrap().is_empty());
        house.assert_empties();
    }
}

#[test]
fn migration_answers_its_question() {
    let house = House::new();
    copy(&house, "migration");
    let (code, report) = run(&house, &[]);
    assert_eq!(code, 0, "{report:#}");
    assert!(report.to_string().contains("Continue? [y/N]"), "the question is in the output");
    assert_eq!(report["escalations"], json!([]));
    house.assert_empties();
}

#[test]
fn shards_run_a_packages_own_tests() {
    let house = House::new();
    copy(&house, "shards");
    let (code, report) = run(&house, &[]);
    if code == 3 {
        assert_eq!(report["outcome"], "environment", "{report:#}");
        return skipped("shards", "the package index cannot be reached");
    }
    assert_eq!(code, 0, "{report:#}");
    house.assert_empties();
}
