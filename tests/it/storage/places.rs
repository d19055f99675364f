//! A workspace that is read-only, copied, or whose small files are not what they were.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::disk::{DISK, on_a_small_disk_as, remount};
use super::{coordinator, end_coordinator, kill_coordinator, refused, settled, signal, state};
use crate::house::{Called, House, finish, skipped, wait_for};

const MANIFEST: &str = "[[task]]\nid = \"a\"\nrun = \"pwd > out\"\n";

fn call_in(house: &House, folder: &Path, args: &[&str]) -> Called {
    let mut command = house.command(args);
    command.current_dir(folder);
    finish(command.spawn().unwrap())
}

fn runs(called: &Called) -> usize {
    called.json()["runs"].as_array().unwrap().len()
}

#[test]
fn a_workspace_that_may_not_be_written_is_refused_in_words() {
    on_a_small_disk_as("storage::places", "inside_read_only_root");
}

#[test]
#[ignore = "run by `a_workspace_that_may_not_be_written_is_refused_in_words` on a disk of its own"]
fn inside_read_only_root() {
    let Some(disk) = std::env::var_os(DISK).map(std::path::PathBuf::from) else { return };
    let house = House::new();
    let (used, fresh) = (disk.join("used"), disk.join("fresh"));
    for folder in [&used, &fresh] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("m.toml"), MANIFEST).unwrap();
    }
    let called = call_in(&house, &used, &["run", "m.toml", "--json"]);
    assert_eq!(called.code, 0, "{called:?}");
    let run = called.json()["run_id"].as_str().unwrap().to_owned();
    house.assert_empties();
    remount(&disk, "ro");
    for folder in [&used, &fresh] {
        let called = call_in(&house, folder, &["run", "m.toml", "--json"]);
        let (code, kind, message) = refused(&called);
        assert_eq!((code, kind.as_str()), (3, "machine"), "{called:?}");
        assert!(message.contains(&folder.display().to_string()), "{message}");
        assert!(
            message.contains("make it writable") && message.contains("--workspace"),
            "{message}"
        );
    }
    for args in
        [&["status"][..], &["report", &run], &["run", "ls"], &["task", "ls"], &["audit", "show"]]
    {
        let called = call_in(&house, &used, args);
        assert_eq!(called.code, 0, "{args:?}: {called:?}");
    }
    // A command needs nothing of the folder, where it is no workspace yet.
    let called = call_in(&house, &fresh, &["exec", "-c", "pwd"]);
    assert_eq!((called.code, called.stdout.trim()), (0, &*fresh.to_string_lossy()), "{called:?}");
    let pid = call_in(&house, &fresh, &["status", "--json"]).json()["coordinator"]["pid"].as_i64();
    signal(pid.unwrap(), "TERM");
    house.assert_empties();
}

#[test]
fn a_copied_workspace_is_another_whoever_is_alive() {
    for alive in [true, false] {
        let house = settled();
        house.exec_with(&["--session", "s"], "kept=yes");
        let first = coordinator(&house).unwrap();
        if !alive {
            kill_coordinator(&house);
        }
        let copy = house.root().join("copy");
        let copied = Command::new("cp").arg("-a").arg(house.workspace()).arg(&copy).status();
        assert!(copied.unwrap().success());
        // Looking changes nothing, and shows nothing of the original's.
        let seen = call_in(&house, &copy, &["status", "--json"]);
        assert_eq!(seen.json()["coordinator"], Value::Null, "{seen:?}");
        std::fs::write(copy.join("m.toml"), MANIFEST).unwrap();
        let called = call_in(&house, &copy, &["run", "m.toml", "--json"]);
        assert_eq!(called.code, 0, "{called:?}");
        assert_eq!(
            std::fs::read_to_string(copy.join("out")).unwrap(),
            format!("{}\n", copy.display())
        );
        assert_eq!(runs(&call_in(&house, &copy, &["run", "ls", "--json"])), 1);
        let second =
            call_in(&house, &copy, &["status", "--json"]).json()["coordinator"]["pid"].as_i64();
        assert_ne!(second, Some(first));
        // The original has its session, its run and, if it lived, its coordinator.
        let (_, result) = house.exec_with(&["--session", "s"], "echo $kept");
        assert_eq!(result["stdout"], "yes\n", "{result:#}");
        assert_eq!(runs(&house.call(&["run", "ls", "--json"])), 1);
        assert_eq!(coordinator(&house) == Some(first), alive);
        assert_eq!(house.call(&["audit", "verify"]).code, 0);
        assert_eq!(call_in(&house, &copy, &["audit", "verify"]).code, 0);
        if let Some(second) = second {
            signal(second, "TERM");
        }
        assert_eq!(house.call(&["session", "close", "s"]).code, 0);
        end_coordinator(&house);
    }
}

/// Both work from one state folder that was copied as well: nothing is shared.
#[test]
fn a_state_folder_that_was_copied_is_not_taken_for_the_others() {
    let house = settled();
    let original = state(&house);
    let double = original.with_file_name("double");
    assert!(Command::new("cp").arg("-a").args([&original, &double]).status().unwrap().success());
    assert_eq!(house.exec("true").0, 0);
    assert_eq!(state(&house), original);
    end_coordinator(&house);
}

#[test]
fn a_lock_and_a_socket_that_are_stale_are_no_obstacle() {
    let house = settled();
    let lock = house.path(".callboard/lock");
    assert_eq!(house.exec("true").0, 0);
    let socket: Value = serde_json::from_str(&house.read(".callboard/lock")).unwrap();
    let socket = std::path::PathBuf::from(socket["socket"].as_str().unwrap());
    kill_coordinator(&house);
    assert!(socket.exists(), "it is stale");
    let stale = std::fs::read(&lock).unwrap();
    for content in [&stale[..], b"", b"garbage \xff", b"{}", b"{\"pid\": 1}"] {
        std::fs::write(&lock, content).unwrap();
        let seen = house.call(&["status", "--json"]);
        assert_eq!((seen.code, &seen.json()["coordinator"]), (0, &Value::Null), "{seen:?}");
        assert_eq!(house.exec("exit 5").0, 5, "{}", String::from_utf8_lossy(content));
        kill_coordinator(&house);
    }
    // After a reboot the runtime folder is gone.
    std::fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    assert_eq!(house.exec("exit 6").0, 6);
    end_coordinator(&house);
    // What is no socket is not removed, and told.
    std::fs::write(&socket, "somebody's").unwrap();
    let called = house.call(&["exec", "--json", "-c", "true"]);
    let (code, _, message) = refused(&called);
    assert!(matches!(code, 3 | 5), "{called:?}");
    assert!(message.contains(&*socket.to_string_lossy()), "{message}");
    assert!(message.contains("hint: ") || called.json()["error"]["hint"].is_string(), "{called:?}");
    assert_eq!(std::fs::read(&socket).unwrap(), b"somebody's");
    std::fs::remove_file(&socket).unwrap();
    // Nor is a lock that leads elsewhere followed.
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(house.path("innocent"), "text").unwrap();
    symlink(house.path("innocent"), &lock).unwrap();
    let called = house.call(&["exec", "--json", "-c", "true"]);
    let (code, _, message) = refused(&called);
    assert!(matches!(code, 3 | 5), "{called:?}");
    assert!(message.contains("lock"), "{message}");
    assert_eq!(house.read("innocent"), "text");
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(house.exec("true").0, 0);
    end_coordinator(&house);
}

#[test]
fn a_pointer_that_is_broken_or_anothers_leads_nowhere_and_loses_nothing() {
    let house = settled();
    let other = house.root().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("m.toml"), MANIFEST).unwrap();
    assert_eq!(call_in(&house, &other, &["run", "m.toml"]).code, 0);
    assert_eq!(call_in(&house, &other, &["run", "m.toml"]).code, 0);
    house.assert_empties();
    let pointer = house.path(".callboard/pointer");
    let whole = std::fs::read_to_string(&pointer).unwrap();
    let own = state(&house);
    let others = std::fs::read_to_string(other.join(".callboard/pointer")).unwrap();
    let with = |key: &str, value: Value| {
        let mut document: Value = serde_json::from_str(&whole).unwrap();
        document[key] = value;
        document.to_string()
    };
    let others_state: Value = serde_json::from_str::<Value>(&others).unwrap()["state"].clone();
    let broken = [
        ("", 1),
        ("garbage \u{0}", 1),
        (&whole[..whole.len() / 2], 1),
        (&with("key", json!("../../../tmp")), 1),
        (&with("state", json!("relative/folder")), 1),
        // A state that is no more, or another's: this one's own is found again by its key.
        (&with("state", json!("/nonexistent/state")), 1),
        (&with("state", others_state), 1),
        (&others, 1),
    ];
    for (text, count) in broken {
        std::fs::write(&pointer, text).unwrap();
        let looked = house.call(&["run", "ls", "--json"]);
        assert_eq!((looked.code, runs(&looked)), (0, count), "looking: {text}: {looked:?}");
        assert_eq!(std::fs::read_to_string(&pointer).unwrap(), text, "looking changes nothing");
        assert_eq!(house.exec("exit 7").0, 7, "{text}");
        let listed = house.call(&["run", "ls", "--json"]);
        assert_eq!((listed.code, runs(&listed)), (0, count), "{text}: {listed:?}");
        assert_eq!(state(&house), own, "{text}");
        end_coordinator(&house);
        // The other's state is as it was.
        assert_eq!(runs(&call_in(&house, &other, &["run", "ls", "--json"])), 2, "{text}");
    }
    // One that is a folder is in the way, and said to be.
    std::fs::remove_file(&pointer).unwrap();
    std::fs::create_dir(&pointer).unwrap();
    let called = house.call(&["exec", "--json", "-c", "true"]);
    let (code, _, message) = refused(&called);
    assert_ne!(code, 0, "{called:?}");
    assert!(message.contains(&*pointer.to_string_lossy()), "{message}");
    std::fs::remove_dir(&pointer).unwrap();
    assert_eq!(house.exec("true").0, 0);
    end_coordinator(&house);
}

const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// The wall clock is set back and forth under a coordinator, as an administrator sets it: what is
/// under way goes by the time that passes.
#[test]
fn a_wall_clock_that_is_set_moves_no_deadline() {
    if !Path::new(FAKETIME).exists() {
        return skipped("a_wall_clock_that_is_set", "no faketime here");
    }
    let house = House::new();
    let wall = house.root().join("wall");
    let set = |offset: &str| std::fs::write(&wall, offset).unwrap();
    set("+0");
    let mut serve = house.command(&["serve"]);
    serve.env("LD_PRELOAD", FAKETIME).env("FAKETIME_TIMESTAMP_FILE", &wall);
    serve.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let server = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the coordinator serves", || coordinator(&house).ok_or(String::new()));
    house.exec_with(&["--session", "kept"], "x=1");
    house.write(
        "m.toml",
        "[[task]]\nid = \"long\"\ntimeout = \"30s\"\nrun = \"until [ -e go ]; do sleep 0.02; done\"\n\
         [[task]]\nid = \"short\"\ntimeout = \"1s\"\nrun = \"touch began; sleep 60\"\n",
    );
    let client = house.command(&["run", "m.toml", "--json", "--jobs", "2"]).spawn().unwrap();
    wait_for("it runs", || house.path("began").exists().then_some(()).ok_or(String::new()));
    for offset in ["-2d", "+400d", "-30y", "+0"] {
        set(offset);
        assert_eq!(house.exec("exit 4").0, 4, "{offset}");
        let (code, result) = house.exec_with(&["--session", "kept"], "echo $x");
        assert_eq!((code, &result["stdout"]), (0, &json!("1\n")), "{offset}: {result:#}");
        assert!(result["duration_ms"].as_u64().unwrap() < 20_000, "{offset}: {result:#}");
    }
    set("-1d");
    wait_for("the limit of one second", || {
        let listed = house.call(&["task", "ls", "--json", "--all"]).json();
        let ended = listed["tasks"].as_array().unwrap().iter().any(|t| t["state"] == "timed_out");
        if ended { Ok(()) } else { Err(listed.to_string()) }
    });
    house.write("go", "");
    let called = finish(client);
    let report = called.json();
    let states: Vec<_> = report["tasks"].as_array().unwrap().iter().map(|t| &t["state"]).collect();
    assert_eq!(states, ["succeeded", "timed_out"], "{report:#}");
    assert!(report["duration_ms"].as_u64().unwrap() < 60_000, "{report:#}");
    // The journal's times never go back.
    let shown = house.call(&["audit", "show", "--json"]);
    let times: Vec<String> = shown
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| line["at"].as_str().map(str::to_owned))
        .collect();
    assert!(times.len() > 10 && times.is_sorted(), "{times:#?}");
    assert_eq!(house.call(&["session", "close", "kept"]).code, 0);
    signal(i64::from(server.id()), "TERM");
    assert_eq!(finish(server).code, 0);
    house.assert_empties();
    // The next one begins a day earlier than the last one ended.
    set("-1d");
    let mut serve = house.command(&["serve"]);
    serve.env("LD_PRELOAD", FAKETIME).env("FAKETIME_TIMESTAMP_FILE", &wall);
    let server = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the next one serves", || coordinator(&house).ok_or(String::new()));
    assert_eq!(house.exec("exit 3").0, 3);
    assert_eq!(house.call(&["audit", "verify"]).code, 0);
    signal(i64::from(server.id()), "TERM");
    assert_eq!(finish(server).code, 0);
    house.assert_empties();
}
