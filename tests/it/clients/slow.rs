//! Clients that do not read: they slow nobody, and cost little.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire::{ask, connect, hear, hello, say};
use super::{begin, close, coordinator, end, signal, start};
use crate::house::{House, wait_for};

/// What a process holds in memory, in KiB.
fn resident_kib(pid: i64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How long the slowest of some commands takes.
fn slowest(house: &House) -> Duration {
    let times = (0..5).map(|n| {
        let started = Instant::now();
        assert_eq!(house.exec(&format!("exit {n}")).0, n);
        started.elapsed()
    });
    times.max().unwrap()
}

/// A client that asks as fast as it is let, and reads no answer; how many bytes it got rid of.
fn pour(stream: &mut UnixStream, request: impl Fn(u64) -> Value, most: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut poured = 0;
    for id in 10.. {
        let document = request(id).to_string();
        let mut bytes = u32::try_from(document.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(document.as_bytes());
        if poured >= most || stream.write_all(&bytes).is_err() {
            break;
        }
        poured += bytes.len();
    }
    poured
}

#[test]
fn who_asks_without_reading_is_heard_no_more_and_slows_nobody() {
    let house = House::new();
    begin(&house);
    let (_, report) = house.run(
        &(0..40)
            .map(|n| format!("[[task]]\nid = \"t{n}\"\nrun = \"head -c 30000 /dev/zero | tr '\\\\0' x | fold\"\n"))
            .collect::<String>(),
    );
    let run = report["run_id"].as_str().unwrap().to_owned();
    assert_eq!(report["exit_code"], 0, "{report:#}");
    let usual = slowest(&house);
    let pid = coordinator(&house);
    let before = resident_kib(pid);
    let mut deaf = Vec::new();
    for call in [json!("status"), json!("list_runs"), json!({"report": {"run": run}})] {
        let mut stream = connect(&house);
        assert!(ask(&mut stream, &hello(callboard::control::CONTROL_VERSION))["reply"].is_object());
        let poured = pour(&mut stream, |id| json!({"id": id, "call": call}), 64 << 20);
        assert!(poured < 64 << 20, "{call}: nobody held it up");
        deaf.push((stream, call));
    }
    let after = resident_kib(pid);
    assert!(after < before + 48 * 1024, "{before} KiB, then {after}");
    let meanwhile = slowest(&house);
    assert!(meanwhile < usual * 4 + Duration::from_secs(1), "{usual:?}, then {meanwhile:?}");
    assert_eq!(house.run("[[task]]\nid = \"t\"\nrun = \"true\"\n").0, 0);
    // Once it reads it has every answer to what was taken, in whole frames.
    let (stream, _) = &mut deaf[0];
    for _ in 0..200 {
        let answer = hear(stream);
        assert!(answer["reply"].is_object() || answer["notice"].is_object(), "{answer}");
    }
    drop(deaf);
    wait_for("what waited for them is let go", || {
        let now = resident_kib(pid);
        if now < before + 32 * 1024 { Ok(()) } else { Err(format!("{before} KiB, now {now}")) }
    });
    close(&house);
}

/// Who follows a run and does not read learns of its end all the same; the run goes on at its pace.
#[test]
fn followers_that_do_not_read_hold_no_run_up() {
    let house = House::new();
    let tasks: String = (0..40)
        .map(|n| format!("[[task]]\nid = \"t{n}\"\nafter = [\"a\"]\nrun = \"true\"\n"))
        .collect();
    let first = "[[task]]\nid = \"a\"\nrun = \"until [ -e go ]; do sleep 0.02; done\"\n";
    house.write("m.toml", format!("{first}{tasks}"));
    let client = start(&house, &["run", "m.toml", "--json"]);
    let pid = coordinator(&house);
    let run = wait_for("the run", || {
        let listed = house.call(&["run", "ls", "--json"]).json();
        listed["runs"][0]["run_id"].as_str().map(str::to_owned).ok_or(listed.to_string())
    });
    let before = resident_kib(pid);
    let mut followers = Vec::new();
    for _ in 0..50 {
        let mut stream = connect(&house);
        ask(&mut stream, &hello(callboard::control::CONTROL_VERSION));
        let watch = json!({"id": 2, "call": {"watch_run": {"run": run}}});
        say(&mut stream, watch.to_string().as_bytes());
        followers.push(stream);
    }
    house.write("go", "");
    let called = end(client);
    assert_eq!(called.code, 0, "{called:?}");
    let after = resident_kib(pid);
    assert!(after < before + 32 * 1024, "{before} KiB, then {after}");
    for mut stream in followers {
        let told = (0..1000).any(|_| hear(&mut stream).to_string().contains("run_ended"));
        assert!(told, "the end is always told");
    }
    close(&house);
}

/// A reader that is stopped does not hold up the session that it reads.
#[test]
fn a_reader_that_is_stopped_holds_nothing_up() {
    let house = House::new();
    begin(&house);
    assert_eq!(house.call(&["session", "new", "s"]).code, 0);
    let reader = start(&house, &["session", "read", "s", "--follow"]);
    let (code, _) = house.exec_with(&["--session", "s"], "echo first");
    assert_eq!(code, 0);
    let pid = i64::from(reader.id());
    signal(pid, "STOP");
    let coordinator = coordinator(&house);
    let before = resident_kib(coordinator);
    let (code, result) = house.exec_with(
        &["--session", "s"],
        "head -c 30000000 /dev/zero | tr '\\0' x | fold; echo the end",
    );
    assert_eq!(code, 0, "{result:#}");
    assert!(result["stdout"].as_str().unwrap().ends_with("the end\n"));
    let after = resident_kib(coordinator);
    assert!(after < before + 48 * 1024, "{before} KiB, then {after}");
    assert_eq!(house.exec("exit 3").0, 3);
    signal(pid, "KILL");
    drop(reader.wait_with_output());
    assert_eq!(house.call(&["session", "close", "s"]).code, 0);
    close(&house);
}
