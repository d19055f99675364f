//! Failures seen in other tools around commands that ask, each by its id, against the real binary.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{House, finish, skipped};

fn has(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|folder| std::path::Path::new(folder).join(program).exists())
}

/// A call that returned because its command asks.
#[track_caller]
fn asks((code, result): (i32, Value), evidence: &str) -> Value {
    assert_eq!((code, &result["state"]), (125, &json!("awaiting_input")), "{result:#}");
    assert_eq!(result["awaiting"]["evidence"], evidence, "{result:#}");
    result
}

#[track_caller]
fn completed((code, result): (i32, Value)) -> Value {
    assert_eq!((code, &result["state"]), (0, &json!("completed")), "{result:#}");
    result
}

fn notes(result: &Value) -> Vec<&str> {
    result["notes"].as_array().unwrap().iter().map(|note| note["kind"].as_str().unwrap()).collect()
}

/// A repository of one file with so many commits.
fn repository(house: &House, commits: u32) {
    let script = format!(
        "git init -q . && git config user.email t@example.invalid && git config user.name T && \
         for i in $(seq {commits}); do echo $i > f; git add f; git commit -q -m \"commit $i\"; done"
    );
    completed(house.exec_with(&["--class", "build"], &script));
}

#[test]
fn t02_a_password_prompt_is_secret() {
    let house = House::new();
    let script = "read -s -p 'Password: ' p; echo; echo ${#p}";
    let result = asks(house.exec(script), "tty_read");
    let awaiting = &result["awaiting"];
    assert_eq!((&awaiting["prompt"], &awaiting["secret"]), (&json!("Password: "), &json!(true)));
    assert_eq!(awaiting["certainty"], "certain");
    // Nobody who answers sees it come back.
    let result = completed(house.exec_with(&["--input", "hunter2\n"], script));
    assert!(result["stdout"].as_str().unwrap().ends_with("\n7\n"), "{result:#}");
    assert!(!result.to_string().contains("hunter2"), "{result:#}");
}

#[test]
fn t07_a_failed_command_leaves_no_question() {
    let house = House::new();
    for flags in [&[][..], &["--session", "s"]] {
        let script = "mkdir -p d/x; rmdir d && echo DONE";
        let (code, result) = house.exec_with(flags, script);
        assert_eq!((code, &result["state"]), (1, &json!("failed")), "{result:#}");
        assert_eq!(result["exit_code"], 1, "{result:#}");
        assert_eq!(result["awaiting"], Value::Null, "{result:#}");
        assert!(result["stderr"].as_str().unwrap().contains("rmdir"), "{result:#}");
    }
    let status = house.call(&["status", "--json"]).json();
    assert_eq!(status["waiting"], json!([]), "the shell's own prompt is no question: {status:#}");
}

#[test]
fn t08_a_silent_reader_is_no_slow_command() {
    let house = House::new();
    let start = Instant::now();
    let result = asks(house.exec_with(&["--session", "s"], "cat > out"), "tty_read");
    assert_eq!(result["awaiting"]["certainty"], "certain");
    assert!(start.elapsed() < Duration::from_secs(10));
    let status = house.call(&["status", "--json"]).json();
    let waits = &status["waiting"][0];
    assert!(waits["on"].as_str().is_some_and(|on| on.starts_with("input")), "{status:#}");
    // Lines and an end of file answer it.
    completed(house.exec_with(&["--input", "text\n\u{4}"], "cat > out"));
    assert_eq!(house.read("out"), "text\n");
}

#[test]
fn t10_an_editor_never_waits_in_silence() {
    if !has("vi") {
        return skipped("t10", "vi is missing");
    }
    let house = House::watched();
    repository(&house, 2);
    completed(house.exec("git commit -q --amend"));
    let conflict = "git checkout -qb side HEAD~1 && echo side > f && git commit -qam side && \
                    ! git rebase -q master 2>/dev/null && echo both > f && git add f";
    completed(house.exec(&conflict.replace("master", "@{-1}")));
    // An editor that does nothing is the session's own.
    completed(house.exec("EDITOR=vi git rebase --continue"));
    // One that is asked for is seen.
    let result = asks(house.exec("GIT_EDITOR=vi git commit --amend"), "tty_poll");
    assert!(notes(&result).contains(&"full_screen"), "{result:#}");
    assert_eq!(result["awaiting"]["certainty"], "possible");
    completed(house.exec_with(&["--input", ":q!\r"], "GIT_EDITOR=vi git commit --amend"));
}

#[test]
fn t11_pagers_do_not_hold_a_command() {
    let house = House::watched();
    repository(&house, 500);
    let result = completed(house.exec("unset PAGER; git log --format=%s"));
    let stdout = result["stdout"].as_str().unwrap();
    assert_eq!(stdout.lines().count(), 500);
    assert!(stdout.starts_with("commit 500\n") && stdout.ends_with("commit 1\n"));
    if !has("less") {
        return skipped("t11", "less is missing");
    }
    let script = "seq 1000 > lines; less lines";
    let result = asks(house.exec(script), "tty_read");
    assert!(notes(&result).contains(&"full_screen"), "{result:#}");
    completed(house.exec_with(&["--input", "q"], script));
}

#[test]
fn t12_a_menu_of_keys_is_seen_and_takes_them() {
    let house = House::new();
    let menu = "import sys,tty,termios\nfd=0\no=termios.tcgetattr(fd)\ntty.setraw(fd)\n\
                print('Pick: > a   b\\r')\nk=sys.stdin.read(3)\ntermios.tcsetattr(fd,0,o)\nprint('got',repr(k))\n";
    house.write("menu.py", menu);
    let result = asks(house.exec("python3 menu.py"), "tty_read");
    assert_eq!(result["awaiting"]["prompt"], "Pick: > a   b");
    assert_eq!(result["awaiting"]["secret"], false, "keys are no password: {result:#}");
    let result = completed(house.exec_with(&["--input", "\u{1b}[B"], "python3 menu.py"));
    assert!(result["stdout"].as_str().unwrap().ends_with("got '\\x1b[B'\n"), "{result:#}");
}

#[test]
fn t13_a_program_that_opens_the_terminal_itself_is_seen() {
    let house = House::new();
    let script = "printf 'a\\nb\\n' | sh -c 'read x </dev/tty; echo $x'";
    asks(house.exec(script), "tty_read");
    let result = completed(house.exec_with(&["--input", "x\n"], script));
    assert!(result["stdout"].as_str().unwrap().ends_with("x\n"), "{result:#}");
    if !has("fzf") {
        return skipped("t13", "fzf is missing");
    }
    let script = "printf 'first\\nsecond\\n' | fzf > picked";
    let (code, result) = house.exec(script);
    assert_eq!((code, &result["state"]), (125, &json!("awaiting_input")), "{result:#}");
    completed(house.exec_with(&["--input", "\r"], script));
    assert_eq!(house.read("picked"), "first\n");
}

#[test]
fn t14_a_pipe_that_nobody_writes_to_holds_its_own_command_alone() {
    let house = House::new();
    let args = ["exec", "--json", "--session", "a", "--timeout", "3s", "-c", "mkfifo p; cat p"];
    let blocked = house.command(&args).spawn().unwrap();
    let start = Instant::now();
    let result = completed(house.exec_with(&["--session", "b"], "echo alive"));
    assert_eq!(result["stdout"], "alive\n");
    assert!(start.elapsed() < Duration::from_secs(3), "another session answers at once");
    let called = finish(blocked);
    let result = called.json();
    assert_eq!((called.code, &result["state"]), (124, &json!("timeout")), "{result:#}");
    assert_eq!(result["awaiting"], Value::Null, "it is no read of a terminal: {result:#}");
    let left: Vec<_> =
        house.processes().into_iter().filter(|line| line.contains("cat p")).collect();
    assert!(left.is_empty(), "{left:?}");
}
