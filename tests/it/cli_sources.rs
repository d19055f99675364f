//! What the command line reads: manifests, agents, folders, and what it refuses to.

use std::time::Duration;

use crate::house::{House, finish_within};

#[test]
fn what_has_no_end_is_refused_at_once() {
    let house = House::new();
    house.write("m.toml", "[[task]]\nid = \"a\"\nrun = \"true\"\n");
    let fifo = house.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for args in [
        ["run", "/dev/zero", "--json"].as_slice(),
        &["plan", "/dev/zero", "--json"],
        &["run", "fifo", "--json"],
        &["run", "m.toml", "--agents", "/dev/zero", "--json"],
        &["explain-env", "--agents", "fifo", "--json"],
    ] {
        let called = finish_within(house.command(args).spawn().unwrap(), Duration::from_secs(20));
        assert_eq!(called.code, 2, "{called:?}");
        let message = called.json()["error"]["message"].to_string();
        assert!(message.contains("it is not a regular file"), "{args:?}: {message}");
    }
    for args in [["run", "-", "--json"].as_slice(), &["exec", "--json", "-c", "-"]] {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let child = house.command(args).stdin(zero).spawn().unwrap();
        let called = finish_within(child, Duration::from_secs(20));
        assert_eq!(called.code, 2, "{called:?}");
        assert!(called.json()["error"]["message"].to_string().contains("longer than 32 MiB"));
    }
}

#[test]
fn a_root_that_is_not_there_is_one_problem_among_the_others() {
    let house = House::new();
    let workspace = "[workspace]\nroot = \"gone\"\n";
    let task = "[[task]]\nid = \"a\"\nrun = \"true\"\n";
    house.write("good.toml", format!("{workspace}{task}"));
    house.write("bad.toml", format!("idd = 1\n{workspace}{task}afer = []\n"));
    for (manifest, lines) in [("good.toml", vec![2]), ("bad.toml", vec![1, 3, 7])] {
        let called = house.call(&["plan", manifest, "--json"]);
        assert_eq!(called.code, 2, "{called:?}");
        let error = &called.json()["error"];
        assert_eq!(error["kind"], "manifest");
        let problems = error["problems"].as_array().unwrap();
        let found: Vec<_> =
            problems.iter().map(|problem| problem["line"].as_u64().unwrap()).collect();
        assert_eq!(found, lines, "{error:#}");
        let root = problems.iter().find(|problem| problem["text"] == "\"gone\"").unwrap();
        assert!(root["message"].as_str().unwrap().ends_with("/gone` does not exist"), "{root}");
        assert_eq!(root["column"], 8);
    }
    let called = house.call(&["plan", "bad.toml", "--workspace", "away", "--json"]);
    let error = &called.json()["error"];
    assert_eq!(error["problems"].as_array().unwrap().len(), 2, "{error:#}");
    assert!(error["hint"].as_str().unwrap().contains("away` either"), "{error:#}");
    let called = house.call(&["plan", "good.toml", "--workspace", ".", "--json"]);
    assert_eq!(called.code, 0, "{called:?}");
}
