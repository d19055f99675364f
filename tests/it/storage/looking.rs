//! Verbs that only look: without a coordinator they read what lies there, start nobody and write
//! nothing, whatever state it is in.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::disk::{DISK, on_a_small_disk_as, remount};
use super::{end_coordinator, kill_coordinator, segments};
use crate::house::{Called, House};

/// Everything below a folder: size, mode and the two times that tell of a change.
fn listing(folder: &Path) -> BTreeMap<PathBuf, (u64, u32, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let of = entry.metadata().unwrap();
            let times = (of.mtime() * 1_000_000_000 + of.mtime_nsec(), of.ctime_nsec());
            found.insert(entry.path(), (of.len(), of.mode(), times.0, times.1));
            if of.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// A house with a run, a session and a command behind it: their ids.
struct Past {
    run: String,
    session: String,
}

fn live(house: &House) -> Past {
    let (code, report) = house.run(
        "[[task]]\nid = \"good\"\nrun = \"echo well done\"\n\
         [[task]]\nid = \"bad\"\nrun = \"echo oh no; exit 3\"\n",
    );
    assert_eq!(code, 1, "{report:#}");
    let opened = house.call(&["session", "new", "s", "--json"]).json();
    house.exec_with(&["--session", "s"], "echo remembered");
    assert_eq!(house.call(&["session", "close", "s"]).code, 0);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    Past { run: text(&report["run_id"]), session: text(&opened["session_id"]) }
}

/// Every verb that only looks, with its exit codes and what it has to show.
fn look(house: &House, past: &Past) -> Vec<(String, Called)> {
    let (good, bad) = (format!("{}/good", past.run), format!("{}/bad", past.run));
    let verbs: [(&[&str], &str); 18] = [
        (&["status"], &past.run),
        (&["status", "--json"], &past.run),
        (&["report", &past.run], "exit code 3"),
        (&["report", &past.run, "--json"], "well done"),
        (&["run", "ls"], &past.run),
        (&["task", "ls", "--all"], "bad"),
        (&["task", "show", &bad], "exit code 3"),
        (&["task", "logs", &good], "well done"),
        (&["task", "logs", &bad], "oh no"),
        (&["audit", "show"], &past.session),
        (&["audit", "show", "--json"], "\"seq\""),
        (&["audit", "verify"], ""),
        (&["session", "ls", "--all"], &past.session),
        (&["session", "show", &past.session], "closed"),
        (&["session", "read", &past.session], "remembered"),
        (&["gc"], ""),
        (&["gc", "--json"], ""),
        (&["plan", "m.toml"], "good"),
    ];
    let mut called: Vec<_> = verbs
        .into_iter()
        .map(|(args, shown)| {
            let called = house.call(args);
            assert_eq!(called.code, 0, "{args:?}: {called:?}");
            assert!(called.stdout.contains(shown), "{args:?}: {called:?}");
            (args.join(" "), called)
        })
        .collect();
    let doctor = house.call(&["doctor"]);
    assert!(doctor.stdout.contains("journal"), "{doctor:?}");
    called.push(("doctor".to_owned(), doctor));
    called
}

#[test]
fn verbs_that_look_start_nobody_and_write_nothing() {
    let house = House::new();
    let past = live(&house);
    end_coordinator(&house);
    let unchanged = |what: &str| {
        // `doctor` copies a board to where temporary files lie, to look at it.
        let all = || ["ws", "state", "run", "home"].map(|name| listing(&house.root().join(name)));
        let before = all();
        for (verb, _) in look(&house, &past) {
            assert!(house.processes().is_empty(), "{what}: {verb} has started somebody");
        }
        let after = all();
        for (before, after) in before.iter().zip(&after) {
            let new = after.iter().filter(|(path, is)| before.get(*path) != Some(is));
            let gone = before.keys().filter(|path| !after.contains_key(*path));
            let changed: Vec<_> = new.map(|(path, _)| path).chain(gone).collect();
            assert!(changed.is_empty(), "{what}: {changed:#?}");
        }
        assert_eq!(listing(&house.root().join("tmp")), BTreeMap::new(), "{what}");
    };
    unchanged("after an end in order");

    // With a record that was not written to its end.
    let segment = segments(&house).pop().unwrap();
    let whole = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, [&whole[..], b"{\"seq\":99,\"at\":\"20"].concat()).unwrap();
    unchanged("with a torn tail");
    std::fs::write(&segment, &whole).unwrap();

    // After a coordinator that was killed: its socket, lock and board are still there.
    assert_eq!(house.exec("true").0, 0);
    kill_coordinator(&house);
    house.assert_empties();
    unchanged("after a kill");
    assert_eq!(house.exec("exit 5").0, 5, "and the next one begins");
    end_coordinator(&house);
}

#[test]
fn verbs_that_look_do_so_where_nothing_may_be_written() {
    on_a_small_disk_as("storage::looking", "inside_nothing_written");
}

#[test]
#[ignore = "run by `verbs_that_look_do_so_where_nothing_may_be_written` on a disk of its own"]
fn inside_nothing_written() {
    let Some(disk) = std::env::var_os(DISK).map(PathBuf::from) else { return };
    let house = House::new().with_env("XDG_STATE_HOME", &disk.join("state").to_string_lossy());
    let past = live(&house);
    end_coordinator(&house);
    let segment = segments(&house).pop().unwrap();
    for torn in [false, true] {
        if torn {
            remount(&disk, "rw");
            let whole = std::fs::read(&segment).unwrap();
            std::fs::write(&segment, [&whole[..], b"{\"seq\":99"].concat()).unwrap();
        }
        remount(&disk, "ro");
        look(&house, &past);
        assert!(house.processes().is_empty());
    }
}
