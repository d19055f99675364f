//! Failures seen in other orchestrators that concern single tasks, each by its id, against the real
//! binary.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{Called, House, finish, wait_for};

/// Starts a manifest that goes on without its client: the run's id.
fn detached(house: &House, manifest: &str, flags: &[&str]) -> String {
    house.write("m.toml", manifest);
    let mut args = vec!["run", "m.toml", "--detach", "--json"];
    args.extend(flags);
    let called = house.call(&args);
    assert_eq!(called.code, 0, "{called:?}");
    called.json()["run_id"].as_str().unwrap().to_owned()
}

fn tasks(house: &House, flags: &[&str]) -> Vec<Value> {
    let mut args = vec!["task", "ls", "--json"];
    args.extend(flags);
    house.call(&args).json()["tasks"].as_array().unwrap().clone()
}

fn show(house: &House, id: &str) -> Value {
    house.call(&["task", "show", id, "--json"]).json()
}

fn exists(house: &House, name: &str) {
    wait_for(name, || house.path(name).exists().then_some(()).ok_or(String::new()));
}

fn spawn(house: &House, args: &[&str]) -> Child {
    house.command(args).spawn().unwrap()
}

fn kill(pid: i64) {
    let pid = pid.to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
}

fn parent(pid: i64) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("PPid:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn status(house: &House) -> Value {
    house.call(&["status", "--json"]).json()
}

/// The nearest equivalent of a worker that is removed: the process that is the session.
#[test]
fn orc_03_nothing_is_owned_by_the_dead() {
    let house = House::new();
    let work = "[ $CALLBOARD_ATTEMPT = 2 ] || { touch up-$CALLBOARD_SESSION; sleep 600; }";
    let run = detached(
        &house,
        &format!(
            "[[task]]\nid = \"again\"\nretries = 1\nrun = \"{work}\"\n\
             [[task]]\nid = \"once\"\nrun = \"touch once; sleep 600\"\n"
        ),
        &["--jobs", "2"],
    );
    let sessions = wait_for("both sessions are busy", || {
        let status = status(&house);
        let sessions = status["sessions"].as_array().unwrap().clone();
        let up = sessions.iter().filter(|s| s["state"] == "busy" && !s["pid"].is_null()).count();
        if up == 2 && house.path("once").exists() { Ok(sessions) } else { Err(status.to_string()) }
    });
    for session in &sessions {
        kill(parent(session["pid"].as_i64().unwrap()));
    }
    let waited = house.call(&["task", "wait", "again", "once", "--json"]);
    assert_eq!(waited.code, 1, "{waited:?}");
    let again = show(&house, &format!("{run}/again"));
    assert_eq!(
        (&again["state"], &again["attempts"]),
        (&json!("succeeded"), &json!(2)),
        "{again:#}"
    );
    assert_eq!(again["history"][0]["end"]["reason"]["kind"], "lost", "{again:#}");
    let once = show(&house, &format!("{run}/once"));
    assert_eq!((&once["state"], &once["reason"]["kind"]), (&json!("failed"), &json!("lost")));
    let left = house.processes();
    assert!(!left.iter().any(|line| line.contains("sleep 600")), "{left:?}");
    house.assert_empties();
}

#[test]
fn orc_05_a_task_that_nobody_can_take_is_refused() {
    let house = House::new();
    house.write("agents.toml", "[[agent]]\nname = \"w\"\ntags = [\"gpus\"]\n");
    house.write(
        "m.toml",
        "[[task]]\nid = \"a\"\nneeds = [\"gpu\"]\nrun = \"touch ran\"\n\
         [[task]]\nid = \"b\"\nrun = \"touch ran\"\n",
    );
    for args in
        [&["run", "m.toml"][..], &["task", "dispatch", "--needs", "gpu", "--run", "touch ran"]]
    {
        let called = house.call(args);
        assert_eq!(called.code, 2, "{called:?}");
        assert!(called.stderr.contains("no agent carries the tag `gpu`"), "{called:?}");
        assert!(called.stderr.contains("gpus"), "names what is near: {called:?}");
    }
    assert!(!house.path("ran").exists());
    assert_eq!(tasks(&house, &["--all"]), Vec::<Value>::new());
    house.assert_empties();
}

#[test]
fn orc_07_who_waits_wakes_when_the_limit_ends_it() {
    let house = House::new();
    detached(
        &house,
        "[[task]]\nid = \"t1\"\nlimits = { output = \"64KiB\" }\n\
         run = \"touch up; while :; do echo same; done\"\n\
         [[task]]\nid = \"other\"\nrun = \"while [ ! -e over ]; do sleep 0.05; done\"\n",
        &["--jobs", "2"],
    );
    let waited = house.call(&["task", "wait", "t1", "--timeout", "30s", "--json"]);
    assert_eq!(waited.code, 1, "{waited:?}");
    let t1 = waited.json()["tasks"][0].clone();
    assert_eq!((&t1["state"], &t1["reason"]["kind"]), (&json!("failed"), &json!("quota")), "{t1}");
    // Its end and the change of its state are one step: nothing of it is there any more.
    let session = t1["session_id"].as_str().unwrap().to_owned();
    assert!(!status(&house).to_string().contains(&session));
    house.write("over", "");
    assert_eq!(house.call(&["task", "wait", "other"]).code, 0);
    house.assert_empties();
}

#[test]
fn orc_08_a_whole_run_is_cancelled_at_once() {
    let house = House::new();
    let sixteen: String = (0..16)
        .map(|n| format!("[[task]]\nid = \"t{n}\"\nretries = 3\nrun = \"touch up; sleep 30\"\n"))
        .collect();
    let run = detached(&house, &sixteen, &["--jobs", "1"]);
    exists(&house, "up");
    let names: Vec<String> = (0..16).map(|n| format!("{run}/t{n}")).collect();
    let mut args = vec!["task", "wait", "--json"];
    args.extend(names.iter().map(String::as_str));
    let waiter = spawn(&house, &args);
    assert_eq!(house.call(&["run", "cancel", &run]).code, 0);
    let waited = finish(waiter);
    assert_eq!(waited.code, 3, "{waited:?}");
    for task in waited.json()["tasks"].as_array().unwrap() {
        assert_eq!(task["state"], "cancelled", "{task}");
        assert!(task["attempt"].as_u64().unwrap() <= 1, "no retry: {task}");
    }
    house.assert_empties();
}

#[test]
fn orc_08_every_state_that_is_not_final_can_be_cancelled() {
    let house = House::new();
    house.write(
        "agents.toml",
        "[[agent]]\nname = \"many\"\ncapacity = 9\n\
         [[agent]]\nname = \"single\"\ntags = [\"one\"]\ncapacity = 1\n",
    );
    let run = detached(
        &house,
        "[[task]]\nid = \"running\"\nretries = 5\nrun = \"touch up; sleep 60\"\n\
         [[task]]\nid = \"blocked\"\nafter = [\"running\"]\nrun = \"touch never\"\n\
         [[task]]\nid = \"retrying\"\nretries = 1000\nrun = \"exit 1\"\n\
         [[task]]\nid = \"escalated\"\nrun = \"true\"\nverify = \"false\"\n\
         [[task]]\nid = \"keep\"\nneeds = [\"one\"]\nrun = \"while [ ! -e over ]; do sleep 0.05; done\"\n\
         [[task]]\nid = \"ready\"\npriority = -2\nneeds = [\"one\"]\nrun = \"touch never\"\n",
        &["--jobs", "4"],
    );
    exists(&house, "up");
    let state = |id: &str| show(&house, id)["state"].as_str().unwrap().to_owned();
    for (id, wanted) in [
        ("escalated", "escalated"),
        ("keep", "running"),
        ("blocked", "blocked"),
        ("ready", "ready"),
    ] {
        wait_for(wanted, || if state(id) == wanted { Ok(()) } else { Err(state(id)) });
    }
    assert_eq!(house.call(&["task", "wait", "escalated"]).code, 4);
    wait_for("it is tried again and again", || {
        let attempts = show(&house, "retrying")["attempts"].as_u64().unwrap();
        if attempts > 2 { Ok(()) } else { Err(attempts.to_string()) }
    });
    let ids = ["ready", "blocked", "retrying", "escalated", "running"];
    for id in ids {
        let called = house.call(&["task", "cancel", id, "--json"]);
        assert_eq!(called.code, 0, "{id}: {called:?}");
        let task = called.json()["tasks"][0].clone();
        assert_eq!(
            (&task["state"], &task["task_id"]),
            (&json!("cancelled"), &json!(format!("{run}/{id}")))
        );
    }
    // One that has ended otherwise is told as that, and unknown ones are all named.
    house.write("over", "");
    assert_eq!(house.call(&["task", "wait", "keep"]).code, 0);
    let called = house.call(&["task", "cancel", "keep"]);
    assert_eq!(called.code, 1, "{called:?}");
    let called = house.call(&["task", "cancel", "nobody", "keep", "none"]);
    assert_eq!(called.code, 2, "{called:?}");
    assert!(called.stderr.contains("`nobody`, `none`"), "{called:?}");
    let report = wait_for("the run has ended", || {
        let report = house.call(&["report", &run, "--json"]).json();
        if report["outcome"].is_null() { Err(report.to_string()) } else { Ok(report) }
    });
    assert_eq!((&report["outcome"], &report["exit_code"]), (&json!("incomplete"), &json!(3)));
    assert!(!house.path("never").exists());
    house.assert_empties();
}

#[test]
fn orc_13_timed_out_means_that_it_is_gone() {
    let house = House::new();
    let manifest = "[[task]]\nid = \"a\"\ntimeout = \"1s\"\nrun = \"trap '' TERM INT; touch up; sleep 7373 & wait; sleep 7373\"\n\
         [[task]]\nid = \"keep\"\nrun = \"while [ ! -e over ]; do sleep 0.05; done\"\n";
    detached(&house, manifest, &["--jobs", "2"]);
    let waited = house.call(&["task", "wait", "a", "--json"]);
    let left: Vec<String> =
        house.processes().into_iter().filter(|line| line.contains("sleep 7373")).collect();
    assert_eq!(waited.code, 1, "{waited:?}");
    let task = waited.json()["tasks"][0].clone();
    assert_eq!((&task["state"], &task["reason"]["kind"]), (&json!("timed_out"), &json!("total")));
    assert!(left.is_empty(), "said to be over while these live: {left:?}");
    house.write("over", "");
    house.assert_empties();
}

#[test]
fn orc_20_any_verb_while_a_run_goes_on() {
    let house = House::new();
    let child = {
        house.write("m.toml", "[[task]]\nid = \"t1\"\nrun = \"touch up; sleep 60\"\n");
        spawn(&house, &["run", "m.toml", "--json"])
    };
    exists(&house, "up");
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["task", "ls"],
        &["task", "show", "t1"],
        &["task", "logs", "t1"],
        &["agent", "ls"],
        &["run", "ls"],
        &["session", "ls"],
        &["exec", "-c", "true"],
        &["task", "cancel", "t1"],
    ] {
        let called = house.call(args);
        assert_eq!(called.code, 0, "{args:?}: {called:?}");
    }
    let called = finish(child);
    assert_eq!(
        called.code, 3,
        "one task cancelled by itself leaves the run incomplete: {called:?}"
    );
    house.assert_empties();
}

#[test]
fn orc_21_as_many_are_stored_as_were_accepted() {
    let house = House::new();
    let calls: Vec<Child> = (0..50)
        .map(|_| spawn(&house, &["task", "dispatch", "--run", "echo x >> log", "--json"]))
        .collect();
    let called: Vec<Called> = calls.into_iter().map(finish).collect();
    let mut accepted = BTreeSet::new();
    for called in &called {
        match called.code {
            0 => {
                let id = called.json()["task_id"].as_str().unwrap().to_owned();
                assert!(accepted.insert(id.clone()), "{id} was given twice");
            }
            _ => assert!(!called.json()["error"]["message"].is_null(), "{called:?}"),
        }
    }
    assert_eq!(accepted.len(), 50, "{called:?}");
    let stored: BTreeSet<String> = tasks(&house, &["--all"])
        .iter()
        .map(|task| task["task_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(accepted, stored);
    let runs: BTreeSet<&str> = stored.iter().map(|id| id.split('/').next().unwrap()).collect();
    assert_eq!(runs.len(), 1, "they share one standing run: {runs:?}");
    let mut args = vec!["task", "wait"];
    args.extend(stored.iter().map(String::as_str));
    assert_eq!(house.call(&args).code, 0);
    assert_eq!(house.read("log").lines().count(), 50);
    house.assert_empties();
}

/// Agents do not claim tasks here: the coordinator gives them out. What could go wrong is the same:
/// a task that two of them have.
#[test]
fn orc_29_every_task_has_one_taker() {
    let house = House::new();
    let agents: String = (0..8)
        .map(|n| format!("[[agent]]\nname = \"w{n}\"\ntags = [\"x\"]\ncapacity = 2\n"))
        .collect();
    house.write("agents.toml", agents);
    let script = "echo $CALLBOARD_TASK#$CALLBOARD_ATTEMPT >> log";
    for _ in 0..3 {
        let calls: Vec<Child> = (0..16)
            .map(|_| spawn(&house, &["task", "dispatch", "--needs", "x", "--run", script]))
            .collect();
        for call in calls {
            let called = finish(call);
            assert_eq!(called.code, 0, "{called:?}");
        }
    }
    let stored = tasks(&house, &["--all"]);
    let ids: Vec<&str> = stored.iter().map(|task| task["task_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 48);
    let mut args = vec!["task", "wait"];
    args.extend(&ids);
    assert_eq!(house.call(&args).code, 0);
    let mut wanted: Vec<String> = ids.iter().map(|id| format!("{id}#1")).collect();
    let log = house.read("log");
    let mut ran: Vec<&str> = log.lines().collect();
    wanted.sort_unstable();
    ran.sort_unstable();
    assert_eq!(ran, wanted, "each once, in its first attempt");
    house.assert_empties();
}

#[test]
fn orc_35_one_that_never_becomes_ready_frees_its_slot() {
    let house = House::new();
    let (code, report) = house.run_with(
        &["--jobs", "1"],
        "[[task]]\nid = \"stuck\"\ntimeout = \"1s\"\nservice = { ready = \"log:READY\" }\n\
         run = \"trap '' TERM INT HUP; while :; do sleep 0.2; done\"\n\
         [[task]]\nid = \"next\"\nrun = \"touch ran\"\n",
    );
    assert_eq!(code, 1, "{report:#}");
    let task = |at: usize| report["tasks"][at].clone();
    assert_eq!((&task(0)["state"], &task(0)["attempts"]), (&json!("timed_out"), &json!(1)));
    assert_eq!(task(1)["state"], "succeeded");
    assert!(house.path("ran").exists());
    house.assert_empties();
}

#[test]
fn orc_36_a_second_coordinator_joins_or_refuses() {
    let house = House::new();
    let run = detached(&house, "[[task]]\nid = \"a\"\nrun = \"touch up; sleep 60\"\n", &[]);
    exists(&house, "up");
    let elsewhere = house.root().join("state2");
    std::fs::create_dir(&elsewhere).unwrap();
    let call = |args: &[&str]| {
        let mut command = house.command(args);
        command.env("XDG_STATE_HOME", &elsewhere);
        finish(command.spawn().unwrap())
    };
    // As a client it joins, wherever it would have kept its state.
    let seen = call(&["task", "ls", "--json"]).json();
    assert_eq!(seen["tasks"][0]["task_id"], json!(format!("{run}/a")), "{seen}");
    let other = call(&["task", "dispatch", "--run", "true", "--json"]).json();
    let other = other["task_id"].as_str().unwrap().to_owned();
    assert_ne!(other.split('/').next().unwrap(), run, "names carry their run");
    assert_eq!(call(&["task", "wait", &other]).code, 0);
    // As a coordinator it refuses, and names the one there is.
    let pid = status(&house)["coordinator"]["pid"].to_string();
    let refused = call(&["serve"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains(&pid), "{refused:?}");
    assert_eq!(call(&["task", "cancel", &format!("{run}/a")]).code, 0);
    house.assert_empties();
}

/// How many descriptors a process has open.
fn descriptors(pid: i64) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// How many terminals the house's processes have open, each once.
fn terminals(house: &House) -> usize {
    let mut found: BTreeSet<PathBuf> = BTreeSet::new();
    for line in house.processes() {
        let pid = line.split(' ').next().unwrap().to_owned();
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        found.extend(links.filter(|link| link.starts_with("/dev/pts")));
    }
    found.len()
}

#[test]
fn orc_72_nothing_grows_with_the_tasks_that_were() {
    let house = House::new();
    let server = spawn(&house, &["serve"]);
    let pid = wait_for("the coordinator serves", || {
        status(&house)["coordinator"]["pid"].as_i64().ok_or(String::new())
    });
    let scripts = ["true", "exit 3", "setsid sleep 3600 & true", "sleep 3600"];
    let mut counts = Vec::new();
    for round in 0..4 {
        let mut ids = Vec::new();
        for n in 0..15 {
            let called = house.call(&["task", "dispatch", "--json", "--run", scripts[n % 4]]);
            let id = called.json()["task_id"].as_str().unwrap().to_owned();
            if n % 4 == 3 {
                assert_eq!(house.call(&["task", "cancel", &id]).code, 0);
            }
            ids.push(id);
        }
        let mut args = vec!["task", "wait"];
        args.extend(ids.iter().map(String::as_str));
        assert_eq!(house.call(&args).code, 1, "some fail, round {round}");
        let count = wait_for("all is at rest", || {
            let status = status(&house);
            let sessions = status["sessions"].as_array().unwrap().len();
            let orphans = house.processes().iter().filter(|line| line.contains("3600")).count();
            let count = (sessions, terminals(&house), orphans);
            if count == (0, 0, 0) { Ok(descriptors(pid)) } else { Err(format!("{count:?}")) }
        });
        counts.push(count);
    }
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least <= 2, "descriptors of the coordinator after each round: {counts:?}");
    assert_eq!(tasks(&house, &["--all"]).len(), 60);
    let stop = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status();
    assert!(stop.unwrap().success());
    assert_eq!(finish(server).code, 0);
    house.assert_empties();
}

/// A wait that ends with its time ends nothing else, and one for what is over needs nobody.
#[test]
fn waiting_is_told_in_exit_codes() {
    let house = House::new();
    let run = detached(
        &house,
        "[[task]]\nid = \"good\"\nrun = \"true\"\n\
         [[task]]\nid = \"bad\"\nrun = \"exit 9\"\n\
         [[task]]\nid = \"behind\"\nafter = [\"bad\"]\nrun = \"true\"\n\
         [[task]]\nid = \"missing\"\nrun = \"no-such-program\"\n\
         [[task]]\nid = \"slow\"\nrun = \"while [ ! -e over ]; do sleep 0.05; done\"\n",
        &["--jobs", "5"],
    );
    let code = |args: &[&str]| {
        let mut all = vec!["task", "wait"];
        all.extend(args);
        house.call(&all).code
    };
    let began = Instant::now();
    assert_eq!(code(&["slow", "good", "--timeout", "300ms"]), 124);
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(code(&["slow", "good", "--any", "--timeout", "30s"]), 0);
    assert_eq!(code(&["good"]), 0);
    assert_eq!(code(&["good", "bad"]), 1);
    assert_eq!(code(&["behind"]), 3);
    assert_eq!(code(&["missing"]), 3);
    assert_eq!(code(&["good", "nothing"]), 2);
    let waiter = spawn(&house, &["task", "wait", "slow"]);
    house.write("over", "");
    assert_eq!(finish(waiter).code, 0);
    house.assert_empties();
    // Without a coordinator.
    assert_eq!(code(&["good", "slow"]), 0);
    assert_eq!(code(&[&format!("{run}/bad"), "--timeout", "1s"]), 1);
    assert_eq!(code(&["nothing", "no-run/good"]), 2);
    assert!(house.processes().is_empty(), "nobody was started for what is over");
}
