//! Failures seen in other tools' terminals, each by its id, against the real binary.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{House, finish_within};

fn notes(result: &Value) -> Vec<&str> {
    result["notes"].as_array().unwrap().iter().map(|note| note["kind"].as_str().unwrap()).collect()
}

/// A result that completed with `stdout`.
#[track_caller]
fn completed((code, result): (i32, Value), stdout: &str) {
    assert_eq!(
        (code, &result["state"], &result["exit_code"], &result["stdout"]),
        (0, &json!("completed"), &json!(0), &json!(stdout)),
        "{result:#}"
    );
}

#[test]
fn t01_a_question_returns_at_once_with_its_prompt() {
    let house = House::new();
    let script = "read -p 'Username: ' u; echo \"hi $u\"";
    for flags in [&[][..], &["--session", "s"], &["--merge"]] {
        let start = Instant::now();
        let (code, result) = house.exec_with(flags, script);
        assert_eq!(code, 125, "{flags:?}: {result:#}");
        assert_eq!(result["state"], "awaiting_input", "{flags:?}: {result:#}");
        assert_eq!((&result["reason"], &result["exit_code"]), (&Value::Null, &Value::Null));
        let awaiting = &result["awaiting"];
        assert_eq!(awaiting["prompt"], "Username: ", "{result:#}");
        assert_eq!(
            (&awaiting["evidence"], &awaiting["secret"]),
            (&json!("tty_read"), &json!(false))
        );
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    // In the session that was kept the question is still open: nothing queues behind it unseen.
    let called = house.call(&["exec", "--session", "s", "--json", "-c", "echo behind"]);
    assert_eq!(called.code, 2, "{called:?}");
    assert!(called.json()["error"]["message"].as_str().unwrap().contains("Username: "));
    let (code, result) = house.exec_with(&["--input", "bob\n"], script);
    assert_eq!(code, 0, "{result:#}");
    assert!(result["stdout"].as_str().unwrap().ends_with("hi bob\n"), "{result:#}");
}

#[test]
fn t03_words_alone_are_no_question() {
    let house = House::new();
    let script = "sh -c 'printf \"[sudo] password for me: \" >&2; read x; echo got' <<< pw; sleep 1; echo end";
    completed(house.exec(script), "got\nend\n");
    completed(house.exec("printf 'Password: '; sleep 2; echo"), "Password: \n");
}

#[test]
fn t18_a_trailing_comment_swallows_nothing() {
    let house = House::new();
    let (code, result) = house.exec("git --version # which version");
    assert_eq!((code, &result["exit_code"]), (0, &json!(0)), "{result:#}");
    assert!(result["stdout"].as_str().unwrap().starts_with("git version"));
}

#[test]
fn t19_unfinished_text_is_refused_at_once() {
    let house = House::new();
    for script in
        ["echo \"unclosed", "cat <<EOF\nno end", "echo a \\", "if true; then echo a", "echo $(ls"]
    {
        let start = Instant::now();
        let (code, result) = house.exec(script);
        assert_ne!(code, 0, "{script}");
        assert_eq!(result["state"], "failed", "{script}: {result:#}");
        assert_eq!(result["reason"]["kind"], "incomplete", "{script}: {result:#}");
        assert_eq!(result["stdout"], "", "{script}: nothing was run");
        assert!(start.elapsed() < Duration::from_secs(10), "{script}");
    }
    // In a session that is kept, the next command works.
    let (_, result) = house.exec_with(&["--session", "s"], "echo \"unclosed");
    assert_eq!(result["reason"]["kind"], "incomplete");
    completed(house.exec_with(&["--session", "s"], "echo usable"), "usable\n");
}

#[test]
fn t20_heredocs_arrive_byte_for_byte() {
    let house = House::new();
    let script = "cat << 'EOF' > t.txt\nhello world\n\tEOF-not-yet\n\"quotes\" and 'quotes'\nEOF\n";
    completed(house.exec(script), "");
    assert_eq!(house.read("t.txt"), "hello world\n\tEOF-not-yet\n\"quotes\" and 'quotes'\n");
}

#[test]
fn t23_exclamation_marks_are_left_alone() {
    let house = House::new();
    completed(house.exec("printf '%s' 'a != b!x' | od -An -c | tr -s ' '"), " a ! = b ! x\n");
    completed(house.exec("echo \"a != b!x\""), "a != b!x\n");
}

#[test]
fn t25_nested_quotes_and_other_scripts() {
    let house = House::new();
    let script = r#"python3 -c "print('他说: \"好\" \`x\` \$HOME → ✅')""#;
    completed(house.exec_with(&["--session", "s"], script), "他说: \"好\" `x` $HOME → ✅\n");
    completed(house.exec_with(&["--session", "s"], "echo NEXT"), "NEXT\n");
}

#[test]
fn t26_a_nul_byte_is_refused_with_its_offset() {
    // No argument can hold a NUL byte, so a manifest says it: TOML's escape for it.
    let house = House::new();
    house.write("m.toml", "[[task]]\nid = \"a\"\nrun = \"echo a\\u0000b\"\n");
    let called = house.call(&["run", "m.toml", "--json"]);
    assert_eq!(called.code, 2, "{called:?}");
    let document = called.json();
    let problem = &document["error"]["problems"][0];
    assert_eq!(problem["line"], 3, "{document:#}");
    assert!(problem["text"].as_str().unwrap().len() < 200);
    let words = document.to_string();
    assert!(words.contains("NUL") && words.contains('6'), "names the offset: {words}");
    completed(house.exec("echo ok"), "ok\n");
}

#[test]
fn t29_exit_ends_the_session_with_its_status() {
    let house = House::new();
    let start = Instant::now();
    let (code, result) = house.exec_with(&["--session", "s"], "exit 42 || true; echo not-reached");
    assert_eq!(code, 42, "{result:#}");
    assert_eq!(result["state"], "failed");
    assert_eq!(result["reason"], json!({"kind": "exit", "code": 42}));
    assert_eq!(result["stdout"], "");
    assert!(notes(&result).contains(&"session_ended"), "{result:#}");
    assert!(start.elapsed() < Duration::from_secs(10));
    let (code, result) = house.exec("exit 0");
    assert_eq!((code, &result["state"]), (0, &json!("completed")), "{result:#}");
    assert!(notes(&result).contains(&"session_ended"), "{result:#}");
}

#[test]
fn t30_a_background_job_does_not_hold_up_the_end() {
    let house = House::new();
    let start = Instant::now();
    let (code, result) = house.exec("sleep 300 & exit 1");
    assert_eq!(code, 1, "{result:#}");
    assert_eq!(result["reason"], json!({"kind": "exit", "code": 1}));
    let children = result["children"].as_array().unwrap();
    assert!(
        children.iter().any(|c| c["command"].as_str().unwrap().contains("sleep 300")),
        "{result:#}"
    );
    assert!(
        children.iter().all(|child| child["ended"] == true),
        "an exec's session ends: {result:#}"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
    house.assert_empties();
}

#[test]
fn t33_a_replaced_or_killed_shell_is_told() {
    let house = House::new();
    let (code, result) = house.exec("exec true");
    assert_eq!((code, &result["state"]), (0, &json!("completed")), "{result:#}");
    assert!(notes(&result).contains(&"session_ended"));
    let (code, result) = house.exec("kill -9 $$");
    assert_eq!(code, 137, "{result:#}");
    assert_eq!(result["reason"], json!({"kind": "signal", "signal": "KILL", "inferred": false}));
    assert!(notes(&result).contains(&"session_ended"));
    let (code, result) = house.exec("exec dash -c 'exit 7'");
    assert_eq!((code, &result["exit_code"]), (7, &json!(7)), "{result:#}");
    let (code, result) = house.exec("exec no-such-program-anywhere");
    assert_eq!(code, 127, "{result:#}");
}

#[test]
fn set_e_and_a_failure_end_the_session_with_the_status() {
    let house = House::new();
    let (code, result) = house.exec_with(&["--session", "s"], "set -e; echo a; false; echo b");
    assert_eq!(code, 1, "{result:#}");
    assert_eq!(result["stdout"], "a\n");
    assert_eq!(result["reason"], json!({"kind": "exit", "code": 1}));
    assert!(notes(&result).contains(&"session_ended"));
    // The name is free again: the next command gets a fresh session.
    completed(house.exec_with(&["--session", "s"], "echo next"), "next\n");
}

#[test]
fn t49_a_daemon_does_not_hold_up_completion() {
    let house = House::new();
    let start = Instant::now();
    let script = "python3 -c 'import os,time;os.fork() and os._exit(0);os.setsid();os.fork() and os._exit(0);time.sleep(300)'; echo up";
    let (code, result) = house.exec_with(&["--session", "s"], script);
    assert_eq!((code, &result["stdout"]), (0, &json!("up\n")), "{result:#}");
    assert!(start.elapsed() < Duration::from_secs(20));
    // The daemon may be a moment behind its parent's exit; the next command still lists none of its own.
    let children = result["children"].as_array().unwrap();
    assert!(children.iter().all(|child| child["ended"] == false), "{result:#}");
    let (code, result) = house.exec("(setsid sleep 300 &) ; echo up");
    assert_eq!((code, &result["stdout"]), (0, &json!("up\n")), "{result:#}");
}

#[test]
fn t50_nohup_leaves_the_session_idle() {
    let house = House::new();
    let start = Instant::now();
    let (code, result) = house.exec_with(&["--session", "s"], "nohup sleep 30 > /dev/null 2>&1 &");
    assert_eq!((code, &result["state"]), (0, &json!("completed")), "{result:#}");
    assert!(start.elapsed() < Duration::from_secs(15));
    let child = &result["children"][0];
    assert!(child["command"].as_str().unwrap().contains("sleep 30"), "{result:#}");
    assert_eq!(child["ended"], false);
    let status = house.call(&["status", "--json"]).json();
    let session = &status["sessions"][0];
    assert_eq!((&session["state"], &session["name"]), (&json!("idle"), &json!("s")), "{status:#}");
}

#[test]
fn t52_a_timeout_ends_background_loops_too() {
    let house = House::new();
    let script = "for i in 1 2 3; do (while :; do :; done) & done; wait";
    let (code, result) = house.exec_with(&["--timeout", "1s"], script);
    assert_eq!(code, 124, "{result:#}");
    assert_eq!(result["state"], "timeout");
    assert_eq!(result["reason"], json!({"kind": "total", "limit_ms": 1000}));
    let ended = result["children"].as_array().unwrap();
    assert!(ended.len() >= 3 && ended.iter().all(|c| c["ended"] == true), "{result:#}");
    house.assert_empties();
}

#[test]
fn t53_neither_pipelines_nor_setsid_survive_a_timeout() {
    let house = House::new();
    for script in [
        "yes | grep -c nothing | cat",
        "setsid sh -c 'while :; do :; done' & sleep 60",
        "(setsid setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' &) ; sleep 60",
    ] {
        let (code, result) = house.exec_with(&["--timeout", "1s"], script);
        assert_eq!((code, &result["state"]), (124, &json!("timeout")), "{script}: {result:#}");
    }
    house.assert_empties();
}

#[test]
fn t54_term_is_followed_by_kill() {
    let house = House::new();
    let start = Instant::now();
    let script = "trap '' TERM INT HUP; while :; do sleep 1; done";
    let (code, result) = house.exec_with(&["--timeout", "500ms"], script);
    assert_eq!((code, &result["state"]), (124, &json!("timeout")), "{result:#}");
    let took = result["duration_ms"].as_u64().unwrap();
    assert!((500..8_000).contains(&took), "{result:#}");
    assert!(start.elapsed() < Duration::from_secs(20));
    house.assert_empties();
}

#[test]
fn t55_no_kill_reaches_the_runtime() {
    let house = House::new();
    let keep = ["--session", "s"];
    completed(house.exec_with(&keep, "kill 0; echo here"), "here\n");
    completed(house.exec_with(&keep, "kill -TERM -$$; echo here"), "here\n");
    let (code, result) = house.exec_with(&["--session", "s", "--timeout", "300ms"], "sleep 60");
    assert_eq!(code, 124, "{result:#}");
    assert_eq!(result["reason"]["kind"], "total");
    completed(house.exec_with(&keep, "echo usable"), "usable\n");
}

#[test]
fn t57_an_explicit_limit_is_total_and_says_so() {
    let house = House::new();
    let (code, result) = house.exec_with(&["--timeout", "1s"], "tail -f /dev/null");
    assert_eq!(code, 124);
    assert_eq!(result["reason"], json!({"kind": "total", "limit_ms": 1000}), "{result:#}");
}

#[test]
fn t57_silence_past_the_tier_says_how_long() {
    // The quick tier is 30 s, and the point of the case: this test takes that long.
    let house = House::new();
    let child = house
        .command(&["exec", "--json", "--class", "quick", "-c", "tail -f /dev/null"])
        .spawn()
        .unwrap();
    let called = finish_within(child, Duration::from_secs(90));
    let result = called.json();
    assert_eq!((called.code, &result["state"]), (124, &json!("timeout")), "{result:#}");
    assert_eq!(result["reason"]["kind"], "silent");
    assert_eq!(result["reason"]["limit_ms"], 30_000);
    assert!(result["reason"]["last_output_ms"].as_u64().unwrap() >= 29_000, "{result:#}");
}

#[test]
fn t59_output_into_a_file_is_no_silence_before_the_tier() {
    let house = House::new();
    let script = "sh -c 'for i in $(seq 40); do echo $i; sleep 1; done > log'";
    let child =
        house.command(&["exec", "--json", "--class", "build", "-c", script]).spawn().unwrap();
    let called = finish_within(child, Duration::from_secs(120));
    completed((called.code, called.json()), "");
    assert_eq!(house.read("log").lines().count(), 40);
}

#[test]
fn t61_t62_signals_are_at_their_defaults() {
    // Started with signals ignored, as some tools start their servers.
    let house = House::new();
    let binary = env!("CARGO_BIN_EXE_callboard");
    let script = format!(
        "trap '' INT QUIT HUP PIPE TERM; exec {binary} exec --json -c 'grep -E \"^Sig(Ign|Blk)\" /proc/self/status; yes | head -1; echo ${{PIPESTATUS[@]}}'"
    );
    let mut command = house.command(&["--version"]);
    let mut shell = std::process::Command::new("bash");
    shell.arg("-c").arg(&script).env_clear().current_dir(house.workspace());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    command.stdin(std::process::Stdio::null());
    let output = shell.output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = result["stdout"].as_str().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "SigBlk:\t0000000000000000", "{text}");
    assert_eq!(lines[1], "SigIgn:\t0000000000000000", "{text}");
    assert_eq!(lines[2..], ["y", "141 0"], "{text}");
}

#[test]
fn t64_sessions_leave_no_descriptor_or_pty() {
    let house = House::new();
    // One call after the other, all by the same coordinator, which has to stay flat.
    let first = house.exec_with(&["--session", "keep"], "echo warm");
    completed(first, "warm\n");
    let pid = house.call(&["status", "--json"]).json()["coordinator"]["pid"].as_u64().unwrap();
    let count = |folder: String| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let fds = || count(format!("/proc/{pid}/fd"));
    for _ in 0..5 {
        completed(house.exec("echo x"), "x\n");
    }
    let before = fds();
    for round in 0..60 {
        completed(house.exec("echo x"), "x\n");
        if round % 6 == 0 {
            let (code, _) = house.exec_with(&["--cwd", "/no/such/folder"], "echo x");
            assert_ne!(code, 0);
            let (code, _) = house.exec("no-such-program-here");
            assert_eq!(code, 127);
        }
    }
    crate::house::wait_for("descriptors are back where they were", || {
        let now = fds();
        if now <= before + 1 { Ok(()) } else { Err(format!("{before} before, {now} now")) }
    });
}

#[test]
fn t88_pipeline_statuses_are_kept() {
    let house = House::new();
    let cases = [
        ("sh -c 'echo 2 failed; exit 1' | tail -5", json!([1, 0]), true),
        ("grep zzz /etc/hosts | wc -l", json!([1, 0]), true),
        ("yes | head -1", json!([141, 0]), false),
        ("true | true", json!([0, 0]), false),
    ];
    for (script, statuses, masked) in cases {
        let (code, result) = house.exec(script);
        assert_eq!((code, &result["state"]), (0, &json!("completed")), "{script}: {result:#}");
        assert_eq!(result["pipe_status"], statuses, "{script}");
        assert_eq!(notes(&result).contains(&"masked_failure"), masked, "{script}: {result:#}");
    }
}

#[test]
fn t89_signals_are_failures() {
    let house = House::new();
    let (code, result) = house.exec("bash -c 'kill -SEGV $$'");
    assert_eq!((code, &result["exit_code"]), (139, &json!(139)), "{result:#}");
    assert_eq!(result["reason"], json!({"kind": "signal", "signal": "SEGV", "inferred": true}));
    let (code, result) = house.exec("sleep 100 & p=$!; kill -KILL $p; wait $p");
    assert_eq!(code, 137, "{result:#}");
    assert_eq!(result["reason"], json!({"kind": "signal", "signal": "KILL", "inferred": true}));
}

#[test]
fn t90_each_of_twenty_has_its_own_status() {
    let house = House::new();
    let tasks: String = (0..20)
        .map(|n| format!("[[task]]\nid = \"t{n}\"\nrun = \"sh -c 'sleep 0.2; exit {n}'\"\n"))
        .collect();
    let (code, report) = house.run_with(&["--jobs", "20"], &tasks);
    assert_eq!(code, 1, "{report:#}");
    for (n, task) in report["tasks"].as_array().unwrap().iter().enumerate() {
        assert_eq!(task["commands"][0]["exit_code"], n, "{task:#}");
        let state = if n == 0 { "succeeded" } else { "failed" };
        assert_eq!(task["state"], state, "{task:#}");
    }
}

#[test]
fn t91_a_crash_is_not_running() {
    let house = House::new();
    let start = Instant::now();
    let (code, result) = house.exec("sh -c 'kill -9 $$'");
    assert_eq!((code, &result["state"]), (137, &json!("failed")), "{result:#}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn t92_a_status_is_a_result_and_no_error() {
    let house = House::new();
    let (code, result) = house.exec("grep -c zzz /etc/hosts");
    assert_eq!(code, 1);
    assert_eq!((&result["state"], &result["exit_code"]), (&json!("failed"), &json!(1)));
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("0\n"), &json!("")));
    assert!(result.get("error").is_none());
    house.write("a", "1\n");
    house.write("b", "2\n");
    let (code, result) = house.exec("diff a b");
    assert_eq!((code, &result["exit_code"]), (1, &json!(1)), "{result:#}");
}

#[test]
fn t93_streams_are_kept_apart_or_merged_in_order() {
    let house = House::new();
    let script = "for i in 1 2 3; do echo o$i; echo e$i >&2; done";
    let (_, result) = house.exec(script);
    assert_eq!(result["stdout"], "o1\no2\no3\n");
    assert_eq!(result["stderr"], "e1\ne2\ne3\n");
    assert_eq!(result["order"], "approximate");
    let (_, result) = house.exec_with(&["--merge"], script);
    assert_eq!(result["stdout"], "o1\ne1\no2\ne2\no3\ne3\n");
    assert_eq!((&result["stderr"], &result["order"]), (&json!(""), &json!("exact")));
}

#[test]
fn a_loop_of_short_programs_is_stopped_at_once() {
    let house = House::new();
    let script = "for i in $(seq 1 400); do printf '\\r%d%%' $i; sleep 0.01; done; echo; echo END";
    let (code, result) = house.exec_with(&["--stop-on", "50%"], script);
    assert_eq!((code, &result["reason"]["kind"]), (1, &json!("stopped")), "{result:#}");
    let stdout = result["stdout"].as_str().unwrap();
    let reached: u32 = stdout.trim_end().trim_end_matches('%').parse().unwrap();
    // Missed once by the interrupt, the loop would run on for half a second at least.
    assert!((50..80).contains(&reached), "{stdout}");
}
