//! Failures seen in other tools' terminals when something is typed, each by its id, against the
//! real binary.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{House, finish, wait_for};

/// The files below `folder` in which the bytes are.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let content = std::fs::read(entry.path()).unwrap_or_default();
                if content.windows(bytes.len()).any(|window| window == bytes) {
                    found.push(entry.path());
                }
            }
        }
    }
    found
}

#[test]
fn t02_a_secret_prompt_says_so() {
    let house = House::new();
    let script = "read -s -p 'Password: ' p; echo; echo ${#p}";
    let (code, result) = house.exec(script);
    assert_eq!((code, &result["awaiting"]["secret"]), (125, &json!(true)), "{result:#}");
    let (code, result) = house.exec_with(&["--input", "hunter2\n"], script);
    assert_eq!((code, &result["stdout"]), (0, &json!("\n7\n")), "{result:#}");
    assert!(!result.to_string().contains("hunter2"), "{result:#}");
    // Neither journal nor transcript nor log of the coordinator's has it.
    assert_eq!(files_with(house.root(), b"hunter2"), Vec::<PathBuf>::new());
    assert_ne!(files_with(house.root(), b"Password: "), Vec::<PathBuf>::new());
}

#[test]
fn t22_a_long_answer_is_whole_or_refused() {
    let house = House::new();
    let script = "python3 -c 'import sys;print(len(sys.stdin.readline()))'";
    let longest = format!("{}\n", "x".repeat(4_095));
    let (code, result) = house.exec_with(&["--input", &longest], script);
    assert_eq!(code, 0, "{result:#}");
    assert!(result["stdout"].as_str().unwrap().ends_with("4096\n"), "{result:#}");
    let long = format!("{}\n", "x".repeat(6_000));
    for flags in [&["--input", &*long][..], &["--session", "s", "--input", &long]] {
        let (code, result) = house.exec_with(flags, script);
        assert_eq!((code, &result["state"]), (125, &json!("awaiting_input")), "{result:#}");
        let note = json!({
            "kind": "input_discarded",
            "bytes": 6_001,
            "reason": {"kind": "line_too_long", "offset": 0, "limit": 4_095},
        });
        let notes = result["notes"].as_array().unwrap();
        assert!(notes.contains(&note), "{result:#}");
    }
}

#[test]
fn t47_the_next_command_finds_a_sane_terminal() {
    let house = House::new();
    let exec = |script: &str| house.exec_with(&["--session", "s"], script);
    let (code, left) = exec("printf '\\e[?1049h\\e[?25l\\e[?2004h'; stty raw -echo");
    assert_eq!(code, 0, "{left:#}");
    let (code, plain) = exec("printf 'a\\nb\\n'");
    assert_eq!((code, &plain["stdout"]), (0, &json!("a\nb\n")), "{plain:#}");
    let (code, asks) = exec("read -p 'n? ' x");
    assert_eq!((code, &asks["state"]), (125, &json!("awaiting_input")), "{asks:#}");
    let awaiting = &asks["awaiting"];
    assert_eq!((&awaiting["prompt"], &awaiting["secret"]), (&json!("n? "), &json!(false)));
}

#[test]
fn t60_the_result_says_what_an_interrupt_took() {
    let house = House::new();
    for (script, signal) in [
        // A program of its own: between two of them the shell would take the interrupt.
        ("sh -c 'touch up; exec sleep 999'", "INT"),
        ("stty raw -echo; sh -c 'touch up; exec sleep 999'", "INT"),
        ("trap '' INT; sh -c 'touch up; exec sleep 999'", "TERM"),
    ] {
        drop(std::fs::remove_file(house.path("up")));
        let args = ["exec", "--session", "s", "--json", "-c", script];
        let child = house.command(&args).spawn().unwrap();
        let is_up = || house.path("up").exists().then_some(()).ok_or(String::new());
        wait_for("the command is up", is_up);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let called = finish(child);
        let result = called.json();
        assert_eq!(called.code, 130, "{result:#}");
        assert_eq!((&result["state"], &result["exit_code"]), (&json!("failed"), &json!(130)));
        assert_eq!(result["reason"], json!({"kind": "interrupted", "signal": signal}));
        let (code, next) = house.exec_with(&["--session", "s"], "trap - INT; echo usable");
        assert_eq!((code, &next["stdout"]), (0, &json!("usable\n")), "{next:#}");
    }
}

#[test]
fn a_wrong_password_by_rule_escalates() {
    let house = House::new();
    let ask = "while :; do read -s -p 'Password: ' p; echo; [[ $p = right ]] && break; done";
    for (last, code, kind) in [("escalate", 4, "input"), ("fail", 1, "awaiting_input")] {
        let manifest = format!(
            "[[task]]\nid = \"a\"\nrun = \"{ask}\"\n\
             on_input = [{{ match = 'word', send = \"wrong\\n\" }}, \"{last}\"]\n"
        );
        let (ended, report) = house.run(&manifest);
        assert_eq!(ended, code, "{report:#}");
        assert_eq!(report["tasks"][0]["reason"]["kind"], kind, "{report:#}");
        let output = report["tasks"][0]["commands"][0]["output"].as_str().unwrap();
        assert_eq!(output.matches("Password: ").count(), 4, "{report:#}");
    }
}

#[test]
fn t61_ignored_signals_are_not_inherited() {
    let house = House::new();
    let mut deaf = std::process::Command::new("/bin/bash");
    let own = house.command(&[
        "exec",
        "--json",
        "--timeout",
        "700ms",
        "-c",
        "grep SigIgn /proc/self/status; sleep 60",
    ]);
    deaf.args(["-c", "trap '' INT QUIT HUP PIPE; exec \"$0\" \"$@\""])
        .arg(own.get_program())
        .args(own.get_args())
        .env_clear()
        .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(own.get_current_dir().unwrap());
    let start = Instant::now();
    let output = deaf.output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["reason"]["kind"], "total", "{result:#}");
    let mask = result["stdout"].as_str().unwrap().split_whitespace().nth(1).unwrap();
    let mask = u64::from_str_radix(mask, 16).unwrap();
    let ignored = [1, 2, 3, 13].map(|number| mask >> (number - 1) & 1);
    assert_eq!(ignored, [0; 4], "{result:#}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn t98_an_answer_that_nobody_reads_holds_nothing_up() {
    let house = House::new();
    let many = "0123456789\n".repeat(9_000);
    // It reads one line of it.
    let script = "read -p 'first: ' x; echo \"<$x>\"; sleep 0.3";
    let (code, result) = house.exec_with(&["--input", &many], script);
    assert_eq!(code, 0, "{result:#}");
    assert!(result["stdout"].as_str().unwrap().contains("<0123456789>"), "{result:#}");
    let note = &result["notes"][0];
    assert_eq!(note["kind"], "input_discarded", "{result:#}");
    assert!(note["bytes"].as_u64().unwrap() > 90_000, "{result:#}");
}

#[test]
fn t99_a_large_answer_is_echoed_and_read() {
    let house = House::new();
    let many = format!("{}\u{4}", "line of text\n".repeat(9_000));
    let (code, result) = house.exec_with(&["--input", &many], "cat | sort | uniq -c");
    assert_eq!(code, 0, "{}", result["notes"]);
    assert!(result["stdout"].as_str().unwrap().ends_with("   9000 line of text\n"));
}
