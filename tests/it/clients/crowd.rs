//! Ten and fifty of anything at once.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{begin, close, coordinator, end, lives, signal, start};
use crate::house::{House, wait_for};

/// Coordinators that there have ever been, as the journal has them.
fn coordinators(house: &House) -> usize {
    let shown = house.call(&["audit", "show", "--json"]);
    shown.stdout.lines().filter(|line| line.contains("\"coordinator_started\"")).count()
}

#[test]
fn ten_runs_at_once_are_ten_runs() {
    let house = House::new();
    house.write(
        "m.toml",
        "[[task]]\nid = \"a\"\nrun = \"echo x >> ran\"\n[[task]]\nid = \"b\"\nafter = [\"a\"]\nrun = \"exit 3\"\n",
    );
    let clients: Vec<_> = (0..10).map(|_| start(&house, &["run", "m.toml", "--json"])).collect();
    let mut ids = BTreeSet::new();
    for client in clients {
        let called = end(client);
        assert_eq!(called.code, 1, "{called:?}");
        let report = called.json();
        assert_eq!(report["counts"], serde_json::json!({"succeeded": 1, "failed": 1}));
        ids.insert(report["run_id"].as_str().unwrap().to_owned());
    }
    assert_eq!((ids.len(), house.read("ran").lines().count()), (10, 10));
    let listed = house.call(&["run", "ls", "--json"]).json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 10);
    assert_eq!(coordinators(&house), 1);
    close(&house);
}

#[test]
fn of_ten_coordinators_at_once_one_serves_and_nine_say_who() {
    let house = House::new();
    let mut servers: Vec<_> = (0..10).map(|_| start(&house, &["serve"])).collect();
    let pid = coordinator(&house);
    wait_for("all but one have ended", || {
        let left =
            servers.iter_mut().map(|s| s.try_wait()).filter(|end| matches!(end, Ok(None))).count();
        if left == 1 { Ok(()) } else { Err(left.to_string()) }
    });
    assert!(lives(pid) && coordinator(&house) == pid);
    assert_eq!(house.exec("exit 9").0, 9);
    assert_eq!(coordinators(&house), 1);
    signal(pid, "TERM");
    for server in servers {
        let is_it = i64::from(server.id()) == pid;
        let called = end(server);
        assert_eq!(called.code, if is_it { 0 } else { 5 }, "{called:?}");
        assert!(is_it || called.stderr.contains(&pid.to_string()), "{called:?}");
    }
    house.assert_empties();
}

#[test]
fn of_ten_sessions_with_one_name_at_once_one_is_opened() {
    let house = House::new();
    begin(&house);
    let clients: Vec<_> =
        (0..10).map(|_| start(&house, &["session", "new", "same", "--json"])).collect();
    let mut opened = Vec::new();
    for client in clients {
        let called = end(client);
        let document = called.json();
        if called.code == 0 {
            opened.push(document["session_id"].as_str().unwrap().to_owned());
        } else {
            assert_eq!(
                (called.code, &document["error"]["kind"]),
                (2, &"usage".into()),
                "{called:?}"
            );
            assert!(
                document["error"]["message"].as_str().unwrap().contains("already"),
                "{called:?}"
            );
        }
    }
    assert_eq!(opened.len(), 1);
    let listed = house.call(&["session", "ls", "--json"]).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed["sessions"][0]["session_id"], opened[0].as_str());
    // A command's own flag means the one that is there, or makes it: all of them use one.
    let clients: Vec<_> = (0..10)
        .map(|n| {
            start(
                &house,
                &["exec", "--session", "two", "--json", "-c", &format!("echo {n}; echo x >> n")],
            )
        })
        .collect();
    let mut sessions = BTreeSet::new();
    for (n, client) in clients.into_iter().enumerate() {
        let called = end(client);
        let result: Value = called.json();
        assert_eq!((called.code, &result["stdout"]), (0, &format!("{n}\n").into()), "{called:?}");
        sessions.insert(result["session_id"].as_str().unwrap().to_owned());
    }
    assert_eq!((sessions.len(), house.read("n").lines().count()), (1, 10));
    for name in ["same", "two"] {
        assert_eq!(house.call(&["session", "close", name]).code, 0);
    }
    close(&house);
}
