//! Two want the same: the real coordinator, real shells, and the kernel's word for who was first.

use serde_json::{Value, json};

use crate::house::{House, finish, skipped, wait_for};

/// Tracing takes rights here that only root has by itself.
fn traced(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(test, "tracing is off for a plain user unless it is asked for");
    }
    is_root
}

fn task<'a>(report: &'a Value, id: &str) -> &'a Value {
    report["tasks"].as_array().unwrap().iter().find(|task| task["id"] == id).unwrap()
}

const BOTH: &str = r#"
[[task]]
id = "first"
run = "echo first >> shared.txt; touch first.holds; sleep 1; echo again >> shared.txt"
[[task]]
id = "second"
run = ["until [ -e first.holds ]; do sleep 0.02; done", "echo second >> shared.txt; echo went on"]
"#;

#[test]
fn the_later_one_is_stopped_before_it_writes_and_comes_again() {
    if !traced("the_later_one_is_stopped_before_it_writes") {
        return;
    }
    let house = House::watched();
    let (code, report) = house.run_with(&["--jobs", "2"], BOTH);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(house.read("shared.txt"), "first\nagain\nsecond\n", "nothing of either is lost");
    let (first, second) = (task(&report, "first"), task(&report, "second"));
    assert_eq!((&first["attempts"], &first["conflicts"]), (&json!(1), &json!(0)));
    assert_eq!((&second["attempts"], &second["conflicts"]), (&json!(2), &json!(1)), "{second:#}");
    let backoff = &second["backoffs"][0];
    assert_eq!((&backoff["n"], &backoff["resource"]), (&json!(1), &json!("file/shared.txt")));
    let run = report["run_id"].as_str().unwrap();
    assert_eq!(backoff["holder"], format!("{run}/first"));
    assert!(backoff["wait_ms"].as_u64().is_some(), "{backoff}");
    // It is told in every other place as well.
    let shown = house.call(&["task", "show", "second"]).stdout;
    assert!(shown.contains("file/shared.txt is held by"), "{shown}");
    let audit = house.call(&["audit", "show"]).stdout;
    assert!(audit.contains("stopped: write file/shared.txt"), "{audit}");
    house.assert_empties();
}

#[test]
fn who_waits_for_a_resource_says_so() {
    if !traced("who_waits_for_a_resource_says_so") {
        return;
    }
    let house = House::watched();
    let manifest = BOTH.replace("sleep 1", "until [ -e go ]; do sleep 0.02; done");
    house.write("m.toml", manifest);
    let run = house.command(&["run", "m.toml", "--jobs", "2", "--json"]).spawn().unwrap();
    let waiting = wait_for("the second backs off", || {
        let status = house.call(&["status", "--json"]).json();
        let waiting = status["waiting"].as_array().cloned().unwrap_or_default();
        let found = waiting
            .into_iter()
            .find(|wait| wait["on"].as_str().is_some_and(|on| on.contains("file/shared.txt")));
        found.ok_or_else(|| format!("{status:#}"))
    });
    assert!(waiting["what"].as_str().unwrap().ends_with("/second"), "{waiting}");
    assert!(waiting["deadline"].is_string(), "{waiting}");
    house.write("go", "");
    let called = finish(run);
    assert_eq!(called.code, 0, "{called:?}");
    assert_eq!(house.read("shared.txt"), "first\nagain\nsecond\n");
    house.assert_empties();
}

#[test]
fn a_command_outside_of_any_run_fails_with_it() {
    if !traced("a_command_outside_of_any_run_fails_with_it") {
        return;
    }
    let house = House::watched();
    house.write(
        "m.toml",
        "[[task]]\nid = 'a'\nrun = 'echo a > x; until [ -e go ]; do sleep 0.02; done'\n",
    );
    let run = house.command(&["run", "m.toml", "--json"]).spawn().unwrap();
    wait_for("it holds the file", || {
        if house.path("x").exists() { Ok(()) } else { Err("no x".to_owned()) }
    });
    let (code, result) = house.exec("echo mine > x; sleep 30");
    assert_eq!((code, &result["state"]), (1, &json!("failed")), "{result:#}");
    assert_eq!(result["reason"]["kind"], "conflict", "{result:#}");
    assert_eq!(result["reason"]["resource"], "file/x");
    assert_eq!(house.read("x"), "a\n");
    // What is nobody's it may have.
    let (code, result) = house.exec("echo mine > y");
    assert_eq!(code, 0, "{result:#}");
    house.write("go", "");
    assert_eq!(finish(run).code, 0);
    let (code, result) = house.exec("echo mine > x");
    assert_eq!((code, house.read("x").as_str()), (0, "mine\n"), "{result:#}");
}

#[test]
fn a_port_is_waited_for_until_it_is_let_go_of() {
    if !traced("a_port_is_waited_for_until_it_is_let_go_of") {
        return;
    }
    let house = House::watched();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let serve = |word: &str, hold: &str| {
        format!(
            "import socket,time,os\\ns=socket.socket()\\n\
             s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\\ns.bind(('127.0.0.1',{port}))\\n\
             s.listen()\\nopen('{word}','w')\\n{hold}\\n"
        )
    };
    let manifest = format!(
        "[[task]]\nid = 'a'\nrun = \"\"\"printf \"{}\" | python3 -\"\"\"\n\
         [[task]]\nid = 'b'\nrun = [\"until [ -e a.up ]; do sleep 0.02; done\", \"\"\"printf \"{}\" | python3 -\"\"\"]\n",
        serve("a.up", "time.sleep(1)"),
        serve("b.up", "")
    )
    .replace("\\n", "\\\\n");
    let (code, report) = house.run_with(&["--jobs", "2"], &manifest);
    assert_eq!(code, 0, "{report:#}");
    let second = task(&report, "b");
    assert_eq!((&second["attempts"], &second["conflicts"]), (&json!(2), &json!(1)), "{second:#}");
    let resource = second["backoffs"][0]["resource"].as_str().unwrap();
    assert!(resource.starts_with("port/") && resource.ends_with(&format!("/{port}")), "{resource}");
    house.assert_empties();
}

#[test]
fn what_was_seen_of_a_conflict_outlasts_the_coordinator() {
    if !traced("what_was_seen_of_a_conflict_outlasts_the_coordinator") {
        return;
    }
    let house = House::watched();
    let manifest = BOTH.replace("sleep 1", "until [ -e go ]; do sleep 0.02; done");
    house.write("m.toml", manifest);
    let run = house.command(&["run", "m.toml", "--jobs", "2", "--json"]).spawn().unwrap();
    let backs_off = || {
        wait_for("the second backs off", || {
            let status = house.call(&["status", "--json"]).json();
            let second =
                status["tasks"].as_array().into_iter().flatten().find(|task| {
                    task["task_id"].as_str().is_some_and(|id| id.ends_with("/second"))
                });
            match second {
                Some(task) if task["state"] == "backing_off" => Ok(status.clone()),
                _ => Err(format!("{status:#}")),
            }
        })
    };
    let pid = backs_off()["coordinator"]["pid"].to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    wait_for("another coordinator", || {
        let status = house.call(&["status", "--json"]).json();
        match status["coordinator"]["pid"].as_i64() {
            Some(next) if next.to_string() != pid => Ok(()),
            _ => Err(format!("{status:#}")),
        }
    });
    backs_off();
    // The file is still the first one's.
    let (code, result) = house.exec("echo mine > shared.txt");
    assert_eq!((code, &result["reason"]["kind"]), (1, &json!("conflict")), "{result:#}");
    house.write("go", "");
    let called = finish(run);
    let report = called.json();
    assert_eq!(called.code, 0, "{report:#}");
    assert_eq!(house.read("shared.txt"), "first\nagain\nsecond\n");
    let second = task(&report, "second");
    assert_eq!(second["conflicts"], 1, "{second:#}\n{}", house.call(&["audit", "show"]).stdout);
}
