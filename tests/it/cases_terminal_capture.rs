//! Failures seen in other tools' handling of output, each by its id, against the real binary.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{House, skipped, wait_for};
use crate::session::SmallDisk;

/// The transcript folders of a house.
fn transcripts(house: &House) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                walk(&entry.path(), found);
            } else if entry.file_name() == "out.raw" {
                found.push(folder.to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(&house.root().join("state"), &mut found);
    found
}

fn on_disk(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |of| of.blocks() * 512)).sum()
}

fn degraded(result: &Value) -> bool {
    result["notes"].as_array().unwrap().iter().any(|note| note["kind"] == "capture_degraded")
}

#[test]
fn t66_head_and_tail_are_kept_and_the_rest_is_counted() {
    let house = House::new();
    let flags = ["--session", "s", "--timeout", "110s"];
    let script =
        "echo first; head -c 100000000 /dev/zero | tr '\\0' x | fold -w 999; echo; echo last";
    let (code, result) = house.exec_with(&flags, script);
    assert_eq!((code, &result["state"]), (0, &json!("completed")), "{}", result["reason"]);
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\nxxx") && stdout.ends_with("xxx\nlast\n"));
    assert!(stdout.len() <= 2 * 64 * 1024 && stdout.len() > 100_000, "{}", stdout.len());
    assert!(!stdout.contains('\0'));
    // Each line end is two bytes on a terminal; what the mark itself takes is not output.
    let all = 100_000_000 + 2 * (100_000_000 / 999) + "first\r\n\r\nlast\r\n".len() as u64;
    let omitted = result["truncated"]["stdout"]["omitted_bytes"].as_u64().unwrap();
    let mark = format!("[… {omitted} bytes left out …]\n");
    let shown = stdout.replace(&mark, "").replace('\n', "\r\n").len() as u64;
    assert_eq!(omitted + shown, all, "{}", result["truncated"]);
    let reference = result["truncated"]["ref"].as_str().unwrap();
    assert_eq!(reference, format!("{}@0", result["session_id"].as_str().unwrap()));
    // The disk quota: the middle of it is a hole that nobody takes for output.
    let [folder] = &transcripts(&house)[..] else { panic!() };
    assert!(on_disk(folder) <= (64 << 20) + 64 * 1024, "{}", on_disk(folder));
    assert_eq!(std::fs::metadata(folder.join("out.raw")).unwrap().len(), all);
    let (_, next) = house.exec_with(&["--session", "s"], "echo next");
    assert_eq!(next["stdout"], "next\n");
}

#[test]
fn t67_a_flood_fills_no_disk_and_its_limit_ends_it() {
    let house = House::new();
    let flood = house.command(&["exec", "--json", "--timeout", "3s", "-c", "yes"]).spawn().unwrap();
    wait_for("the flood", || {
        let folders = transcripts(&house);
        let begun = folders.iter().any(|folder| on_disk(folder) > 100_000);
        if begun { Ok(()) } else { Err(format!("{folders:?}")) }
    });
    let (code, other) = house.exec("echo fine");
    assert_eq!((code, &other["stdout"]), (0, &json!("fine\n")));
    let flooded = crate::house::finish(flood);
    assert_eq!(flooded.code, 124, "{:?}", flooded.stderr);
    assert_eq!(flooded.json()["reason"], json!({ "kind": "total", "limit_ms": 3000 }));
    house
        .write("agents.toml", "[[agent]]\nname = 'a'\ncapacity = 3\nlimits = { output = '2MB' }\n");
    let (code, report) = house.run(
        "[defaults]\nlimits = { output = '1MiB' }\n\
         [[task]]\nid = 'flood'\nrun = 'yes'\n\
         [[task]]\nid = 'own'\nrun = 'yes'\nlimits = { output = '4MiB' }\n\
         [[task]]\nid = 'quiet'\nrun = 'echo fine'\n",
    );
    assert_eq!(code, 1, "{report:#}");
    for (index, limit) in [(0, 1 << 20), (1, 2_000_000)] {
        let task = &report["tasks"][index];
        let quota = json!({ "kind": "quota", "resource": "output", "limit": limit });
        assert_eq!((&task["state"], &task["reason"]), (&json!("failed"), &quota));
        let command = &task["commands"][0];
        assert_eq!(command["reason"], quota);
        assert!(command["truncated"]["stdout"]["omitted_bytes"].as_u64().unwrap() > 900_000);
    }
    assert_eq!(report["tasks"][2]["state"], "succeeded");
}

#[test]
fn t69_on_a_full_disk_a_command_says_what_it_says() {
    let house = House::new();
    house.exec_with(&["--session", "s"], "echo here");
    let sessions = transcripts(&house)[0].parent().unwrap().to_owned();
    let Some(disk) = SmallDisk::over(&sessions) else {
        return skipped("t69_on_a_full_disk…", "no small file system can be mounted here");
    };
    disk.fill();
    let (code, result) = house.exec("echo hi; echo oh >&2; exit 3");
    assert_eq!(code, 3, "{result:#}");
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("hi\n"), &json!("oh\n")));
    assert_eq!(result["truncated"], Value::Null);
    assert!(degraded(&result), "{result:#}");
    // What is more than is kept in memory is counted.
    let (code, result) = house.exec("echo hi; seq 100000; echo end");
    assert_eq!((code, degraded(&result)), (0, true), "{:#}", result["notes"]);
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("hi\n1\n2\n") && stdout.ends_with("100000\nend\n"));
    assert!(!stdout.contains('\0'));
    let omitted = result["truncated"]["stdout"]["omitted_bytes"].as_u64().unwrap();
    assert!((600_000..688_904).contains(&omitted), "{omitted}");
    disk.empty();
    let (code, result) = house.exec("echo again");
    assert_eq!((code, &result["stdout"], degraded(&result)), (0, &json!("again\n"), false));
}

#[test]
fn t71_finished_output_stays_readable() {
    let house = House::new();
    let (_, report) = house.run("[[task]]\nid = 'a'\nrun = 'echo done; seq 3 >&2'\n");
    let first = &report["tasks"][0]["commands"][0];
    assert_eq!((&first["stdout"], &first["stderr"]), (&json!("done\n"), &json!("1\n2\n3\n")));
    house.assert_empties();
    let id = report["run_id"].as_str().unwrap();
    for _ in 0..2 {
        let called = house.call(&["report", id, "--json"]);
        assert_eq!(&called.json()["tasks"][0]["commands"][0], first, "{called:?}");
    }
}

#[test]
fn t72_nothing_is_missed_and_nobody_waits_for_it() {
    let house = House::new();
    let start = Instant::now();
    for n in 0..40 {
        // The last words of a process that is gone at once, over both terminals.
        let script = format!("echo {n}; (echo late {n} >&2; kill -9 $BASHPID)");
        let (_, result) = house.exec_with(&["--session", "s"], &script);
        assert_eq!(result["stdout"], json!(format!("{n}\n")), "{result:#}");
        assert!(result["stderr"].as_str().unwrap().starts_with(&format!("late {n}\n")));
    }
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}

#[test]
fn t84_nothing_is_cut_at_80_columns() {
    let house = House::new();
    let (_, result) = house.exec(
        "stty size; tput cols; echo $COLUMNS; printf '%0110d\\n' 7; ls -C /usr/bin | head -3",
    );
    let stdout = result["stdout"].as_str().unwrap();
    let mut lines = stdout.lines();
    assert_eq!(lines.next(), Some("40 120"), "{stdout}");
    assert_eq!((lines.next(), lines.next()), (Some("120"), Some("120")));
    assert_eq!(lines.next().map(str::len), Some(110));
}

#[test]
fn questions_to_the_terminal_are_no_text() {
    let house = House::new();
    let script =
        r"printf 'a\033[6nb\033]11;?\007c\033P+q544e\033\\d\033[>q\033[?ue\n' | tee /dev/stderr";
    let (code, result) = house.exec(script);
    assert_eq!(code, 0);
    for text in ["stdout", "stderr"] {
        assert_eq!(result[text], "abcde\n", "{result:#}");
    }
    assert_eq!(result["notes"], json!([]));
}
