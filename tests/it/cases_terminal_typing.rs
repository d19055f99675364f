//! Failures seen in other tools' terminals when something is typed, each by its id, against the
//! real binary.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::House;

#[test]
fn t02_a_secret_prompt_says_so() {
    let house = House::new();
    let script = "read -s -p 'Password: ' p; echo; echo ${#p}";
    let (code, result) = house.exec(script);
    assert_eq!((code, &result["awaiting"]["secret"]), (125, &json!(true)), "{result:#}");
    let (code, result) = house.exec_with(&["--input", "hunter2\n"], script);
    assert_eq!((code, &result["stdout"]), (0, &json!("Password: \n7\n")), "{result:#}");
    assert!(!result.to_string().contains("hunter2"), "{result:#}");
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
        assert_eq!(result["notes"], json!([note]), "{result:#}");
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
