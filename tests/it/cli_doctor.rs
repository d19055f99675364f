//! `callboard doctor` with the real binary, and what coordinators log.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::house::{House, finish, wait_for};

fn doctor(house: &House, args: &[&str]) -> (i32, Value) {
    let called = house.call(&[&["doctor", "--json"], args].concat());
    assert!(called.stderr.is_empty(), "{called:?}");
    (called.code, called.json())
}

#[track_caller]
fn finding(document: &Value, id: &str) -> Value {
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["id"] == id);
    found.unwrap_or_else(|| panic!("no `{id}` in {document:#}")).clone()
}

fn fixed(document: &Value, id: &str) -> String {
    finding(document, id)["fixed"].to_string()
}

fn state(house: &House) -> PathBuf {
    let pointer = house.read(".callboard/pointer");
    let pointer: Value = serde_json::from_str(&pointer).unwrap();
    PathBuf::from(pointer["state"].as_str().unwrap())
}

/// The socket of the house's workspace, and its folder of runtime files.
fn runtime(house: &House) -> (PathBuf, PathBuf) {
    let key =
        state(house).file_name().unwrap().to_string_lossy().rsplit('-').next().unwrap().to_owned();
    let folder = house.root().join("run/callboard");
    (folder.join(format!("{key}.sock")), folder.join(key))
}

fn coordinator(house: &House) -> Option<i32> {
    let text = house.read(".callboard/lock");
    let lock: Value = serde_json::from_str(&text).ok()?;
    i32::try_from(lock["pid"].as_i64()?).ok()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn sleeper(house: &House, name: &str, value: &Path) -> Child {
    let mut command = Command::new("sleep");
    command.arg("600").env_clear().env(name, value).env("HOUSE", house.root());
    command.stdin(Stdio::null()).spawn().unwrap()
}

fn serve(house: &House) -> Child {
    let child = house.command(&["serve"]).spawn().unwrap();
    wait_for("the coordinator to listen", || match runtime_if_there(house) {
        Some(socket) if socket.exists() => Ok(()),
        other => Err(format!("{other:?}")),
    });
    child
}

fn runtime_if_there(house: &House) -> Option<PathBuf> {
    house.path(".callboard/pointer").exists().then(|| runtime(house).0)
}

#[test]
fn outside_of_any_workspace_the_machine_is_looked_at_and_nothing_made() {
    let house = House::watched();
    let (_, document) = doctor(&house, &[]);
    assert_eq!((&document["schema_version"], &document["workspace"]), (&json!(1), &Value::Null));
    assert_eq!(finding(&document, "workspace")["level"], "note");
    for id in ["kernel", "ptys", "landlock", "seccomp-notify", "cgroups", "pidfd", "bash", "git"] {
        assert!(!finding(&document, id)["means"].as_str().unwrap().is_empty());
    }
    let levels = ["ok", "note", "warning", "problem"];
    for finding in document["findings"].as_array().unwrap() {
        let level = finding["level"].as_str().unwrap();
        assert!(levels.contains(&level), "{finding}");
        assert!(
            !["warning", "problem"].contains(&level) || finding["todo"].is_string(),
            "{finding}"
        );
    }
    for folder in ["state", "run", "ws", "tmp"] {
        let left = std::fs::read_dir(house.root().join(folder)).unwrap().count();
        assert_eq!(left, 0, "{folder}");
    }
    let called = house.call(&["doctor", "--workspace", "nowhere"]);
    assert_eq!(called.code, 2, "{called:?}");
    let called = house.call(&["doctor"]);
    assert!(called.stdout.contains("kernel: Linux "), "{called:?}");
}

#[test]
fn a_problem_is_an_exit_code() {
    let house = House::new().with_env("TMPDIR", "/proc/nowhere");
    let (code, document) = doctor(&house, &[]);
    assert_eq!((code, &document["level"]), (1, &json!("problem")));
    assert_eq!(finding(&document, "temporary")["level"], "problem");
}

#[test]
fn orc_23_a_live_lock_is_never_touched() {
    let house = House::new();
    std::fs::create_dir_all(house.path(".callboard")).unwrap();
    let mut first = serve(&house);
    let before = house.path(".callboard/lock");
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
    let (lock, pid) = (inode(&before), coordinator(&house).unwrap());
    let socket = runtime(&house).0;
    let socket_inode = inode(&socket);
    house.write(
        "long.toml",
        "[[task]]\nid = \"a\"\nrun = \"touch up; until test -e go; do sleep 0.05; done\"\n",
    );
    let run = house.command(&["run", "long.toml", "--json"]).spawn().unwrap();
    wait_for("the task to run", || {
        if house.path("up").exists() { Ok(()) } else { Err(String::new()) }
    });
    for flags in [&[][..], &["--fix"]] {
        let (code, document) = doctor(&house, flags);
        let said = finding(&document, "coordinator");
        assert_eq!((code, &said["level"]), (0, &json!("ok")), "{document:#}");
        assert!(said["found"].as_str().unwrap().contains(&format!("process {pid} ")), "{said}");
        let findings = document["findings"].as_array().unwrap();
        assert!(findings.iter().all(|finding| finding["fixed"] == json!([])), "{document:#}");
    }
    assert_eq!((inode(&before), inode(&socket)), (lock, socket_inode));
    // A second run joins the same coordinator.
    let (code, _) = house.run("[[task]]\nid = \"b\"\nrun = \"touch go\"\n");
    assert_eq!((code, coordinator(&house)), (0, Some(pid)));
    assert_eq!(finish(run).code, 0);
    assert!(first.try_wait().unwrap().is_none());
    let first_pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(first_pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(finish(first).code, 0);
    house.assert_empties();
}

#[test]
fn orc_26_a_pid_that_is_anothers_by_now_is_left_alone() {
    let house = House::new();
    let child = serve(&house);
    let text = house.read(".callboard/lock");
    kill(coordinator(&house).unwrap());
    finish(child);
    // The lock's record names a process that lives and is another one.
    let mut innocent = sleeper(&house, "INNOCENT", Path::new("1"));
    let mut lock: Value = serde_json::from_str(&text).unwrap();
    lock["pid"] = json!(innocent.id());
    house.write(".callboard/lock", lock.to_string());
    let (_, document) = doctor(&house, &["--fix"]);
    assert!(finding(&document, "coordinator")["found"].as_str().unwrap().starts_with("none runs"));
    assert!(innocent.try_wait().unwrap().is_none());
    assert_eq!(house.exec("true").0, 0);
    assert!(innocent.try_wait().unwrap().is_none());
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    house.assert_empties();
}

#[test]
fn what_is_nobodys_is_told_and_mended_on_request() {
    let house = House::new();
    let child = serve(&house);
    kill(coordinator(&house).unwrap());
    finish(child);
    let (socket, folder) = runtime(&house);
    assert!(socket.exists());
    let left = folder.join("t/s-gone");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("file"), "x").unwrap();
    std::fs::create_dir_all(folder.join("h")).unwrap();
    let door = folder.join("h/s-gone.sock");
    drop(std::os::unix::net::UnixListener::bind(&door).unwrap());
    let mut orphan = sleeper(&house, "CALLBOARD_SOCKET", &socket);
    let mut other = sleeper(&house, "CALLBOARD_SOCKET", &socket.with_extension("other"));
    let (code, document) = doctor(&house, &[]);
    assert_eq!(code, 0, "{document:#}");
    for id in ["sockets", "doors", "private-folders", "orphans"] {
        let found = finding(&document, id);
        assert_eq!(
            (&found["level"], &found["fixable"]),
            (&json!("warning"), &json!(true)),
            "{found}"
        );
        assert_eq!(found["fixed"], json!([]));
    }
    // Looking has changed nothing.
    assert!(socket.exists() && left.exists() && door.exists());
    assert!(orphan.try_wait().unwrap().is_none());
    let (_, document) = doctor(&house, &["--fix"]);
    assert!(fixed(&document, "orphans").contains(&orphan.id().to_string()), "{document:#}");
    assert!(fixed(&document, "private-folders").contains("s-gone"), "{document:#}");
    assert!(!socket.exists() && !left.exists() && !door.exists());
    orphan.wait().unwrap();
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
    let (_, document) = doctor(&house, &[]);
    for id in ["sockets", "doors", "private-folders", "orphans"] {
        assert_eq!(finding(&document, id)["level"], "ok");
    }
    assert_eq!(house.exec("true").0, 0);
}

#[test]
fn a_session_that_waits_for_a_coordinator_is_left_alone() {
    let house = House::new();
    let mut child = serve(&house);
    let called = house.call(&["session", "new", "x", "--json"]);
    let id = called.json()["session_id"].as_str().unwrap().to_owned();
    kill(coordinator(&house).unwrap());
    // Its holder still has what it wrote to open: there is no end to read to.
    child.wait().unwrap();
    wait_for("the session to wait at its door", || {
        let (_, document) = doctor(&house, &["--fix"]);
        let found = finding(&document, "sessions-waiting")["found"].to_string();
        if found.contains(&id) { Ok(()) } else { Err(document.to_string()) }
    });
    assert!(runtime(&house).1.join("t").join(&id).exists());
    // The next coordinator has it.
    let (code, result) = house.exec_with(&["--session", "x"], "echo here");
    assert_eq!((code, &result["session_id"]), (0, &json!(id)), "{result:#}");
    assert_eq!(house.call(&["session", "close", "x"]).code, 0);
}

#[test]
fn a_damaged_journal_is_a_problem_and_a_damaged_board_is_not() {
    let house = House::new();
    assert_eq!(house.run("[[task]]\nid = \"a\"\nrun = \"true\"\n").0, 0);
    house.assert_empties();
    let (code, document) = doctor(&house, &[]);
    assert_eq!(code, 0, "{document:#}");
    for id in ["journal", "board", "clock", "disk-space"] {
        assert_ne!(finding(&document, id)["level"], "problem", "{document:#}");
    }
    std::fs::write(state(&house).join("board/conf"), "no database").unwrap();
    let (code, document) = doctor(&house, &[]);
    assert_eq!((code, &finding(&document, "board")["level"]), (0, &json!("warning")));
    assert_eq!(std::fs::read(state(&house).join("board/conf")).unwrap(), b"no database");
    let segment = state(&house).join("journal/00000000000000000001.jsonl");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let (code, document) = doctor(&house, &[]);
    let journal = finding(&document, "journal");
    assert_eq!((code, &journal["level"]), (1, &json!("problem")), "{document:#}");
    assert!(journal["found"].as_str().unwrap().contains("00000000000000000001.jsonl"), "{journal}");
}

#[test]
fn logs_are_json_lines_with_names_and_without_texts() {
    let house = House::new().with_env("CALLBOARD_LOG_FORMAT", "json");
    let (code, _) = house.run("[[task]]\nid = \"a\"\nrun = \"true hunter2\"\n");
    assert_eq!(code, 0);
    house.assert_empties();
    let log = std::fs::read_to_string(state(&house).join("serve.log")).unwrap();
    assert!(!log.contains("hunter2"), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started = lines.iter().find(|line| line["message"] == "attempt started").unwrap();
    assert_eq!((&started["task"], &started["attempt"]), (&json!("a"), &json!(1)), "{log}");
    for name in ["run", "session", "timestamp", "level", "target"] {
        assert!(started[name].is_string(), "{started}");
    }
    assert!(lines.iter().any(|line| line["message"] == "run ended"), "{log}");
}

#[test]
fn filters_hold_and_what_is_not_understood_is_said_on_stderr() {
    let house = House::new().with_env("RUST_LOG", "error");
    assert_eq!(house.run("[[task]]\nid = \"a\"\nrun = \"true\"\n").0, 0);
    house.assert_empties();
    let log = std::fs::read_to_string(state(&house).join("serve.log")).unwrap();
    assert!(log.is_empty(), "{log}");
    let odd = House::new().with_env("RUST_LOG", "a=b=c").with_env("CALLBOARD_LOG_FORMAT", "xml");
    let called = odd.call(&["status", "--json"]);
    assert_eq!(called.code, 0);
    assert!(called.json().is_object());
    assert!(
        called.stderr.contains("RUST_LOG")
            && called.stderr.contains("xml") | called.stderr.contains("CALLBOARD_LOG_FORMAT"),
        "{called:?}"
    );
}

#[test]
fn a_long_log_gives_way_to_a_new_one() {
    let house = House::new();
    std::fs::create_dir(house.path(".callboard")).unwrap();
    assert_eq!(house.exec("true").0, 0);
    let log = state(&house).join("serve.log");
    wait_for("the coordinator to end", || {
        let left = house.processes();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
    std::fs::write(&log, vec![b'x'; 5 * 1024 * 1024]).unwrap();
    assert_eq!(house.exec("true").0, 0);
    assert_eq!(log.with_extension("log.1").metadata().unwrap().len(), 5 * 1024 * 1024);
    assert!(log.metadata().unwrap().len() < 64 * 1024);
}

#[test]
fn a_coordinators_own_log_is_kept_short_while_it_runs() {
    let house = House::new();
    std::fs::create_dir(house.path(".callboard")).unwrap();
    assert_eq!(house.exec("true").0, 0);
    let log = state(&house).join("serve.log");
    house.assert_empties();
    std::fs::write(&log, vec![b'x'; 5 * 1024 * 1024]).unwrap();
    let stderr = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    let child = house.command(&["serve"]).stderr(stderr).spawn().unwrap();
    wait_for("it to listen", || match runtime(&house).0.exists() {
        true => Ok(()),
        false => Err(String::new()),
    });
    wait_for("the log to be begun anew", || {
        house.exec("true");
        match log.with_extension("log.1").metadata() {
            Ok(aside) if aside.len() == 5 * 1024 * 1024 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    wait_for("something to be in it", || match std::fs::read_to_string(&log) {
        Ok(text) if text.contains("session opened") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(finish(child).code, 0);
}
