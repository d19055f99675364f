//! Coordinators are killed under clients that wait for something.

use std::io::Read as _;

use serde_json::json;

use super::{begin, close, coordinator, end, kill_coordinator, lines, lives, signal, start};
use crate::house::{House, wait_for};

const TWO: &str = "[[task]]\nid = \"first\"\nrun = \"echo first >> first\"\n\
    [[task]]\nid = \"a\"\nafter = [\"first\"]\n\
    run = [\"echo a >> began\", \"until [ -e go ]; do sleep 0.02; done\", \"echo a >> done; exit 3\"]\n";

#[test]
fn a_run_outlives_three_coordinators_and_ends_with_its_own_code() {
    let house = House::new();
    house.write("m.toml", TWO);
    let client = start(&house, &["run", "m.toml"]);
    lines(&house, "began", 1);
    let mut before = 0;
    for _ in 0..3 {
        wait_for("another coordinator", || {
            let now = coordinator(&house);
            if now == before { Err(now.to_string()) } else { Ok(()) }
        });
        // Its client is there: otherwise nobody would tell that it is lost.
        wait_for("the run is followed", || {
            let listed = house.call(&["status", "--json"]).json();
            let there = listed["coordinator"]["pid"].is_i64();
            if there { Ok(()) } else { Err(listed.to_string()) }
        });
        before = kill_coordinator(&house);
    }
    house.write("go", "");
    let called = end(client);
    assert_eq!(called.code, 1, "{called:?}");
    assert_eq!(house.read("began"), "a\n");
    assert_eq!(house.read("done"), "a\n");
    let count = |text: &str| called.stderr.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("first: succeeded"), 1, "{called:?}");
    assert_eq!(count("a: running"), 1, "{called:?}");
    assert_eq!(count("a: failed"), 1, "{called:?}");
    let told = count("the coordinator is gone; run");
    assert!((1..=3).contains(&told), "{called:?}");
    close(&house);
}

#[test]
fn ctrl_c_in_the_gap_ends_the_run() {
    let house = House::new();
    house.write("m.toml", TWO);
    let client = start(&house, &["run", "m.toml", "--json"]);
    lines(&house, "began", 1);
    let pid = coordinator(&house);
    signal(pid, "KILL");
    signal(i64::from(client.id()), "INT");
    let called = end(client);
    assert_eq!(called.code, 130, "{called:?}");
    assert_eq!(called.json()["outcome"], "cancelled");
    close(&house);
}

#[test]
fn a_command_outlives_its_coordinator() {
    for session in [None, Some("k")] {
        let house = House::new();
        begin(&house);
        if let Some(name) = session {
            assert_eq!(house.call(&["session", "new", name]).code, 0);
        }
        let script = "echo b >> began; echo out; until [ -e go ]; do sleep 0.02; done; (exit 7)";
        let mut args = vec!["exec"];
        args.extend(session.map(|_| "--session"));
        args.extend(session);
        args.extend(["-c", script]);
        let client = start(&house, &args);
        lines(&house, "began", 1);
        kill_coordinator(&house);
        house.write("go", "");
        let called = end(client);
        assert_eq!((called.code, called.stdout.as_str()), (7, "out\n"), "{called:?}");
        assert!(called.stderr.contains("the coordinator is gone"), "{called:?}");
        assert_eq!(house.read("began"), "b\n");
        if let Some(name) = session {
            assert_eq!(house.call(&["session", "close", name]).code, 0);
        }
        close(&house);
    }
}

/// Its session is killed as well: whether it did all it was to do cannot be told.
#[test]
fn a_command_that_is_lost_is_not_run_again() {
    let house = House::new();
    begin(&house);
    let client = start(&house, &["exec", "--json", "-c", "echo b >> began; echo out; sleep 600"]);
    lines(&house, "began", 1);
    let pid = coordinator(&house);
    let holders = house.processes().into_iter().filter_map(|line| {
        let line = line.trim().to_owned();
        line.contains("holder").then(|| line.split_whitespace().next()?.parse::<i64>().ok())?
    });
    let holders: Vec<i64> = holders.collect();
    signal(pid, "KILL");
    holders.iter().for_each(|pid| signal(*pid, "KILL"));
    let called = end(client);
    assert_ne!(called.code, 0, "{called:?}");
    assert_eq!(house.read("began"), "b\n", "run a second time");
    wait_for("nothing of it lives", || {
        let left: Vec<String> =
            house.processes().into_iter().filter(|line| line.contains("sleep 600")).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
    close(&house);
}

#[test]
fn a_reader_reads_on() {
    let house = House::new();
    begin(&house);
    assert_eq!(house.call(&["session", "new", "k"]).code, 0);
    let command = start(
        &house,
        &[
            "exec",
            "--session",
            "k",
            "-c",
            "echo one; until [ -e go ]; do sleep 0.02; done; echo two",
        ],
    );
    wait_for("it prints", || {
        let read = house.call(&["session", "read", "k"]);
        if read.stdout.contains("one") { Ok(()) } else { Err(format!("{read:?}")) }
    });
    let mut reader = start(&house, &["session", "read", "k", "--until", "exit", "--follow"]);
    // Once it has printed something it reads.
    let mut first = [0; 3];
    let mut stdout = reader.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"one");
    kill_coordinator(&house);
    house.write("go", "");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let called = end(reader);
    assert_eq!((called.code, rest.as_str()), (0, "\ntwo\n"), "{called:?}");
    assert_eq!(end(command).code, 0);
    assert_eq!(house.call(&["session", "close", "k"]).code, 0);
    close(&house);
}

#[test]
fn a_cancelled_run_is_resumed_and_a_succeeded_one_is_not() {
    let house = House::new();
    house.write("m.toml", TWO.replace("; exit 3", ""));
    let client = start(&house, &["run", "m.toml"]);
    lines(&house, "began", 1);
    signal(i64::from(client.id()), "INT");
    let called = end(client);
    assert_eq!(called.code, 130, "{called:?}");
    let run = house.call(&["run", "ls", "--json"]).json()["runs"][0]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(called.stdout.contains(&format!("callboard run --resume {run}")), "{called:?}");
    house.write("go", "");
    let resumed = house.call(&["run", "--resume", &run, "--jobs", "2", "--json"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let report = resumed.json();
    assert_eq!(report["run_id"], run.as_str());
    assert_eq!(report["tasks"][0]["attempts"], json!(1), "what has succeeded stays so");
    assert_eq!(house.read("first"), "first\n");
    let again = house.call(&["run", "--resume", &run]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("has succeeded"), "{again:?}");
    let unknown = house.call(&["run", "--resume", "r-unknown"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("no run `r-unknown`"), "{unknown:?}");
    close(&house);
}

#[test]
fn a_run_that_goes_on_is_joined() {
    let house = House::new();
    house.write("m.toml", TWO);
    let called = house.call(&["run", "m.toml", "--detach", "--json"]);
    let run = called.json()["run_id"].as_str().unwrap().to_owned();
    lines(&house, "began", 1);
    let mut joined = start(&house, &["run", "--resume", &run]);
    // It says so once it follows.
    let mut told = [0; 4];
    joined.stderr.as_mut().unwrap().read_exact(&mut told).unwrap();
    assert_eq!(&told, b"run ");
    house.write("go", "");
    let joined = end(joined);
    assert_eq!(joined.code, 1, "{joined:?}");
    assert_eq!(house.read("began"), "a\n");
    close(&house);
}

/// Many clients at once start one coordinator, and each has its answer.
#[test]
fn clients_that_come_at_once_share_one_coordinator() {
    for count in [10, 50] {
        let house = House::new();
        begin(&house);
        let clients: Vec<_> =
            (0..count).map(|n| start(&house, &["exec", "-c", &format!("echo {n}")])).collect();
        for (n, client) in clients.into_iter().enumerate() {
            let called = end(client);
            assert_eq!((called.code, called.stdout), (0, format!("{n}\n")), "{}", called.stderr);
        }
        let pid = coordinator(&house);
        let serving: Vec<String> = house
            .processes()
            .into_iter()
            .filter(|line| line.contains("serve --for-client"))
            .collect();
        assert!(lives(pid) && serving.len() <= 1, "{serving:?}");
        close(&house);
    }
}
