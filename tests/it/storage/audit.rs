//! What `audit` and `gc` show.

use serde_json::Value;

use super::{coordinator, end_coordinator, segments, settled, state};
use crate::house::House;

const MANIFEST: &str =
    "[[task]]\nid = \"a\"\nrun = \"true\"\n[[task]]\nid = \"b\"\nrun = \"exit 3\"\n";

fn shown(house: &House, args: &[&str]) -> Vec<Value> {
    let called = house.call(&[&["audit", "show", "--json"], args].concat());
    assert_eq!(called.code, 0, "{called:?}");
    called.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["event"].as_str().unwrap()).collect()
}

#[test]
fn records_are_shown_by_run_task_session_and_time_with_and_without_a_coordinator() {
    let house = House::new();
    let (_, first) = house.run_with(&["--jobs", "1"], MANIFEST);
    let (_, second) = house.run_with(&["--jobs", "1"], MANIFEST);
    assert_eq!(house.exec("true").0, 0);
    assert!(coordinator(&house).is_some());
    let all = shown(&house, &[]);
    let seqs: Vec<u64> = all.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=all.len() as u64).collect::<Vec<_>>());
    assert!(all.iter().all(|line| line["schema_version"] == 1));
    end_coordinator(&house);

    let run = first["run_id"].as_str().unwrap();
    let of_run = shown(&house, &["--run", run]);
    assert_eq!(names(&of_run).first(), Some(&"run_submitted"));
    assert_eq!(names(&of_run).last(), Some(&"run_ended"));
    assert!(names(&of_run).contains(&"command_ended"), "what goes on in its sessions is its own");
    let of_task = shown(&house, &["--task", "b"]);
    let session = second["tasks"][1]["session_id"].as_str().unwrap();
    let of_session = shown(&house, &["--session", session]);
    for lines in [&of_task, &of_session] {
        for name in ["attempt_started", "session_opened", "command_ended"] {
            assert_eq!(names(lines).iter().filter(|n| **n == name).count(), 1, "{lines:#?}");
        }
    }
    let exact = format!("{run}/b");
    let both = shown(&house, &["--run", run, "--task", &exact]);
    assert!(!both.is_empty() && both != of_task);
    assert!(shown(&house, &["--run", run, "--session", session]).is_empty());
    assert_eq!(shown(&house, &["--since", "1h"]).len(), shown(&house, &[]).len());
    assert!(shown(&house, &["--since", "2999-01-01T00:00:00Z"]).is_empty());
    let unknown = house.call(&["audit", "show", "--task", "nobody"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    let words = house.call(&["audit", "show", "--task", &exact]);
    assert!(words.stdout.contains("attempt 1 ended: failed"), "{words:?}");

    let verdict = house.call(&["audit", "verify", "--json"]);
    let document = verdict.json();
    assert_eq!((verdict.code, &document["whole"]), (0, &true.into()));
    assert_eq!(document["counts"]["run_submitted"], 2);
    assert_eq!(document["records"], document["last_seq"]);
    assert_eq!(document["head"].as_str().unwrap().len(), 64);
    assert!(house.call(&["audit", "verify"]).stdout.contains("are good"));
}

#[test]
fn nothing_is_audited_or_collected_where_there_is_nothing() {
    let house = House::new();
    assert!(shown(&house, &[]).is_empty());
    for args in
        [&["audit", "verify", "--json"][..], &["gc", "--json"], &["gc", "--apply", "--json"]]
    {
        let called = house.call(args);
        assert_eq!((called.code, &called.json()["schema_version"]), (0, &1.into()), "{called:?}");
    }
}

#[test]
fn gc_says_what_it_would_remove_and_removes_it_when_told() {
    let house = settled();
    let (_, result) = house.exec("echo kept");
    assert!(house.call(&["gc"]).stdout.contains("nothing is kept longer"));
    house.write("agents.toml", "[defaults]\nretention = \"1h\"\n");
    let opened = house.call(&["session", "new", "open", "--json"]).json();
    end_coordinator(&house);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let sessions = state(&house).join("sessions");
    let folder = sessions.join(result["session_id"].as_str().unwrap());
    let aside = state(&house).join("board.bak-7");
    std::fs::create_dir(&aside).unwrap();
    for folder in [&folder, &aside] {
        for entry in std::fs::read_dir(folder).unwrap() {
            std::fs::File::open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
        }
        std::fs::File::open(folder).unwrap().set_modified(old).unwrap();
    }
    let paths = |document: &Value| -> Vec<String> {
        let items = document["items"].as_array().unwrap();
        items.iter().map(|item| item["path"].as_str().unwrap().to_owned()).collect()
    };
    let due = [folder.clone(), aside.clone()].map(|path| path.to_string_lossy().into_owned());
    let said = house.call(&["gc", "--json"]).json();
    assert_eq!((paths(&said), &said["applied"]), (due.to_vec(), &false.into()), "{said:#}");
    assert!(folder.exists() && aside.exists(), "nothing is removed unless told");
    let done = house.call(&["gc", "--apply", "--json"]).json();
    assert_eq!((paths(&done), &done["applied"]), (due.to_vec(), &true.into()));
    assert!(!folder.exists() && !aside.exists());
    assert!(sessions.join(opened["session_id"].as_str().unwrap()).exists(), "it is not old");
    assert_eq!(segments(&house).len(), 1, "what is needed stays");
    let gone = house.call(&["session", "show", result["session_id"].as_str().unwrap(), "--json"]);
    assert_eq!(gone.json()["error"]["kind"], "session_expired", "{gone:?}");
}
