//! `callboard session` with the real binary: opening, answering, waiting, reading, closing.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use callboard::control::{Answer, CONTROL_VERSION, Call, Exec, Request, Response};
use callboard::domain::frame::{self, Decoder};
use callboard::domain::ids::SessionId;
use callboard::domain::session::Size;
use serde_json::{Value, json};

use crate::house::{Called, House, finish, wait_for};

/// `session … --json`: its exit code and document.
fn session(house: &House, args: &[&str]) -> (i32, Value) {
    let called = call(house, args);
    (called.code, called.json())
}

fn call(house: &House, args: &[&str]) -> Called {
    house.call(&[&["session"], args, &["--json"]].concat())
}

fn open(house: &House, args: &[&str]) -> String {
    let (code, document) = session(house, &[&["new"], args].concat());
    assert_eq!(code, 0, "{document:#}");
    assert_eq!((&document["schema_version"], &document["state"]), (&json!(1), &json!("idle")));
    document["session_id"].as_str().unwrap().to_owned()
}

fn spawn(house: &House, args: &[&str]) -> Child {
    house.command(args).spawn().unwrap()
}

/// Waits until the session is in this state.
fn wait_until(house: &House, id: &str, state: &str) {
    wait_for(&format!("{id} to be {state}"), || {
        let (_, document) = session(house, &["ls"]);
        let lines = document["sessions"].as_array().unwrap().clone();
        let line = lines.iter().find(|line| line["session_id"] == id || line["name"] == id);
        match line {
            Some(line) if line["state"] == state => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[track_caller]
fn refused(called: &Called, kind: &str) -> String {
    let error = called.json()["error"].clone();
    assert_eq!((called.code, &error["kind"]), (2, &json!(kind)), "{called:?}");
    format!("{} | {}", error["message"].as_str().unwrap(), error["hint"].as_str().unwrap_or(""))
}

/// A client of the coordinator's socket.
struct Wire {
    stream: UnixStream,
    decoder: Decoder,
    asked: u64,
}

impl Wire {
    fn open(house: &House) -> Self {
        let socket = socket_below(&house.root().join("run")).unwrap();
        let stream = UnixStream::connect(socket).unwrap();
        let mut wire = Self { stream, decoder: Decoder::default(), asked: 0 };
        wire.ask(Call::Hello { version: CONTROL_VERSION, callboard: None });
        wire
    }

    fn ask(&mut self, call: Call) -> Answer {
        self.asked += 1;
        let mut bytes = Vec::new();
        frame::encode(&Request { id: self.asked, call }, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
        let mut buffer = [0; 4096];
        loop {
            match self.decoder.document().unwrap() {
                Some(Response::Reply { id, answer }) if id == self.asked => return *answer,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the coordinator is gone");
            self.decoder.push(&buffer[..count]);
        }
    }
}

fn socket_below(folder: &Path) -> Option<PathBuf> {
    std::fs::read_dir(folder).unwrap().flatten().find_map(|entry| {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            socket_below(&entry.path())
        } else {
            kind.is_socket().then(|| entry.path())
        }
    })
}

#[test]
fn t01_a_question_is_answered_by_session_send() {
    let house = House::new();
    open(&house, &["s"]);
    let script = "read -p 'Username: ' u; echo \"hi $u\"";
    let (code, result) = house.exec_with(&["--session", "s"], script);
    assert_eq!((code, &result["state"]), (125, &json!("awaiting_input")), "{result:#}");
    assert_eq!(result["awaiting"]["prompt"], "Username: ");
    // Until then the question is there for everybody to see.
    let status = house.call(&["status", "--json"]).json();
    let waiting = &status["waiting"][0];
    assert_eq!((&waiting["what"], &waiting["on"]), (&json!("s"), &json!("input: Username: ")));
    assert!(waiting["deadline"].is_string(), "{waiting:#}");
    let (_, shown) = session(&house, &["show", "s"]);
    assert_eq!(shown["commands"][0]["state"], "awaiting_input", "{shown:#}");
    let (code, read) = session(&house, &["read", "s", "--until", "input"]);
    assert_eq!((code, &read["outcome"]), (0, &json!("holds")), "{read:#}");
    assert_eq!(read["awaiting"]["prompt"], "Username: ");
    let (code, read) = session(&house, &["read", "s", "--until", "exit"]);
    assert_eq!((code, &read["outcome"]), (125, &json!("awaiting_input")), "{read:#}");
    let (code, sent) = session(&house, &["send", "s", "bob", "--enter"]);
    assert_eq!((code, &sent["input"]["written"]), (0, &json!(4)), "{sent:#}");
    let (code, read) = session(&house, &["read", "s", "--until", "exit", "--timeout", "30s"]);
    assert_eq!((code, &read["outcome"]), (0, &json!("holds")), "{read:#}");
    assert_eq!(read["text"], "Username: bob\nhi bob\n");
    assert_eq!(
        (&read["command"]["state"], &read["command"]["exit_code"]),
        (&json!("completed"), &json!(0))
    );
    assert_eq!((&read["next"], &read["awaiting"]), (&read["end"], &Value::Null));
    let (_, shown) = session(&house, &["show", result["command_id"].as_str().unwrap()]);
    let command = &shown["commands"][0];
    assert_eq!((&command["state"], &command["exit_code"]), (&json!("completed"), &json!(0)));
    assert!(command["stdout"].as_str().unwrap().ends_with("hi bob\n"), "{command:#}");
}

#[test]
fn t71_results_stay_readable_and_then_are_expired() {
    let house = House::new();
    house.write("agents.toml", "[defaults]\nretention = \"2s\"\n");
    let id = open(&house, &["s"]);
    let (_, result) = house.exec_with(&["--session", "s"], "echo done; echo oops >&2");
    let command = result["command_id"].as_str().unwrap().to_owned();
    let again = || session(&house, &["show", &command]).1["commands"][0].clone();
    let same = |shown: &Value| {
        for key in ["stdout", "stderr", "state", "exit_code", "duration_ms", "cwd", "command"] {
            assert_eq!(shown[key], result[key], "{key}: {shown:#}");
        }
    };
    same(&again());
    assert_eq!(session(&house, &["close", "s"]).0, 0);
    same(&again());
    let (code, read) = session(&house, &["read", &id]);
    assert_eq!((code, &read["state"]), (0, &json!("closed")), "{read:#}");
    assert!(read["text"].as_str().unwrap().contains("done\n"));
    // By its name, too, and what an exec of its own said.
    let (_, own) = house.exec("echo own");
    let (_, shown) = session(&house, &["show", own["session_id"].as_str().unwrap()]);
    assert_eq!(shown["commands"][0]["stdout"], "own\n", "{shown:#}");
    let words = wait_for("the retention to be over", || {
        let called = call(&house, &["show", &command]);
        if called.code == 0 {
            Err("still there".to_owned())
        } else {
            Ok(refused(&called, "session_expired"))
        }
    });
    assert!(words.contains("was kept until 20") && words.contains("retention"), "{words}");
    refused(&call(&house, &["read", "s"]), "session_expired");
}

#[test]
fn results_are_read_without_a_coordinator() {
    let house = House::new();
    let id = open(&house, &["s"]);
    house.exec_with(&["--session", "s"], "echo one");
    let mut child = spawn(&house, &["exec", "--session", "s", "-c", "echo two; sleep 600"]);
    wait_until(&house, "s", "busy");
    let status = house.call(&["status", "--json"]).json();
    let pid = status["coordinator"]["pid"].to_string();
    let signal = |name: &str| {
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    // Its client goes as well, and it cannot notice: a client would bring another one.
    signal("-STOP");
    child.kill().unwrap();
    child.wait().unwrap();
    signal("-KILL");
    wait_for("the coordinator to be gone", || {
        let status = house.call(&["status", "--json"]).json();
        if status["coordinator"].is_null() { Ok(()) } else { Err(status.to_string()) }
    });
    // It goes on, and waits for another coordinator.
    let (code, shown) = session(&house, &["show", &id]);
    assert_eq!((code, &shown["state"]), (0, &json!("unattended")), "{shown:#}");
    assert_eq!(shown["commands"][0]["stdout"], "one\n");
    assert_eq!(shown["commands"][1]["state"], "running");
    let (code, read) = session(&house, &["read", &id, "--from", "0", "--until", "two"]);
    assert_eq!((code, &read["matched"]), (0, &json!("two")), "{read:#}");
    assert_eq!(read["text"].as_str().unwrap().trim_end(), "one\ntwo");
    // Whoever wants something of it brings one.
    let (code, document) = session(&house, &["interrupt", "s"]);
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(document["command"]["reason"]["kind"], "interrupted");
    assert_eq!(house.exec_with(&["--session", "s"], "echo three").1["stdout"], "three\n");
    assert_eq!(session(&house, &["close", "s"]).0, 0);
    refused(&call(&house, &["send", "s", "x"]), "session_closed");
}

#[test]
fn t72_what_is_over_is_not_waited_for() {
    let house = House::new();
    open(&house, &["s"]);
    let mut took = Vec::new();
    for n in 0..100 {
        let start = Instant::now();
        let (code, result) = house.exec_with(&["--session", "s"], "echo x");
        took.push(start.elapsed());
        assert_eq!((code, &result["stdout"]), (0, &json!("x\n")), "{n}: {result:#}");
    }
    took.sort();
    eprintln!("t72: median {:?}, longest {:?}", took[50], took[99]);
    assert!(took[99] < Duration::from_secs(5), "{took:?}");
    let start = Instant::now();
    let (code, _) = session(&house, &["read", "s", "--until", "exit", "--timeout", "30s"]);
    assert_eq!(code, 0);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn t91_a_crash_ends_every_wait() {
    let house = House::new();
    let id = open(&house, &["s"]);
    let script = "sh -c 'echo $$ >pid; echo up; exec sleep 600'";
    let exec = spawn(&house, &["exec", "--session", "s", "--json", "-c", script]);
    wait_until(&house, &id, "busy");
    let (code, read) = session(&house, &["read", &id, "--until", "^up$", "--timeout", "30s"]);
    assert_eq!((code, &read["matched"]), (0, &json!("up")), "{read:#}");
    let waiter = spawn(&house, &["session", "read", "s", "--until", "exit", "--json"]);
    let interrupt = house.read("pid");
    let start = Instant::now();
    let killed = std::process::Command::new("kill").args(["-KILL", interrupt.trim()]).status();
    assert!(killed.unwrap().success());
    let (exec, waiter) = (finish(exec), finish(waiter));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(exec.code, 137, "{exec:?}");
    let waited = waiter.json();
    assert_eq!((waiter.code, &waited["command"]["state"]), (0, &json!("failed")), "{waited:#}");
    assert_eq!(waited["command"]["reason"]["kind"], "signal");
    wait_until(&house, "s", "idle");
}

#[test]
fn t96_an_interrupt_reaches_its_own_session_only() {
    let house = House::new();
    let (a, b) = (open(&house, &["a"]), open(&house, &["b"]));
    let exec = spawn(&house, &["exec", "--session", "a", "--json", "-c", "sleep 3; echo whole"]);
    wait_until(&house, &a, "busy");
    for round in 0..10 {
        let other = spawn(&house, &["exec", "--session", "b", "--json", "-c", "sleep 600"]);
        wait_until(&house, &b, "busy");
        let (code, document) = session(&house, &["interrupt", &b]);
        assert_eq!(code, 0, "{document:#}");
        let reason = &document["command"]["reason"]["kind"];
        assert_eq!(reason, "interrupted", "{round}: {document:#}");
        assert_eq!(finish(other).code, 130);
    }
    let called = finish(exec);
    assert_eq!((called.code, &called.json()["stdout"]), (0, &json!("whole\n")));
    // Where nothing runs there is nothing to interrupt, and the session can be used on.
    let (code, document) = session(&house, &["interrupt", &b]);
    assert_eq!((code, &document["command"]), (0, &Value::Null));
    assert_eq!(house.exec_with(&["--session", "b"], "echo on").1["stdout"], "on\n");
}

#[test]
fn t97_commands_queue_and_each_has_its_own_result() {
    let house = House::new();
    open(&house, &["s"]);
    let children: Vec<Child> = (0..4)
        .map(|n| {
            let script = format!("echo begin {n}; sleep 0.2; echo end {n}; (exit {n})");
            spawn(&house, &["exec", "--session", "s", "--json", "-c", &script])
        })
        .collect();
    let mut ids = Vec::new();
    for (n, child) in children.into_iter().enumerate().rev() {
        let called = finish(child);
        let result = called.json();
        assert_eq!(called.code, i32::try_from(n).unwrap(), "{result:#}");
        assert_eq!(result["stdout"], format!("begin {n}\nend {n}\n"), "{result:#}");
        ids.push((n, result["command_id"].as_str().unwrap().to_owned()));
    }
    for (n, id) in &ids {
        let (_, shown) = session(&house, &["show", id]);
        assert_eq!(shown["commands"][0]["stdout"], format!("begin {n}\nend {n}\n"));
        let (_, read) = session(&house, &["read", id]);
        assert_eq!(read["text"], format!("begin {n}\nend {n}\n"), "{read:#}");
    }
    let (_, shown) = session(&house, &["show", "s"]);
    assert_eq!((&shown["command_count"], &shown["commands_omitted"]), (&json!(4), &json!(0)));
    assert_eq!(shown["commands"].as_array().unwrap().len(), 4);
}

#[test]
fn t100_a_wait_that_is_given_up_ends_nothing_and_can_be_gone_on_with() {
    let house = House::new();
    open(&house, &["s"]);
    let script = "read go; for i in 1 2 3 4 5 6; do echo line $i; sleep 0.3; done";
    assert_eq!(house.exec_with(&["--session", "s"], script).0, 125);
    session(&house, &["send", "s", "", "--enter"]);
    let (code, first) = session(&house, &["read", "s", "--until", "exit", "--timeout", "500ms"]);
    assert_eq!((code, &first["outcome"]), (124, &json!("timeout")), "{first:#}");
    assert_eq!(first["command"]["state"], "running");
    let mut waiter = spawn(&house, &["session", "read", "s", "--until", "exit"]);
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    let from = first["next"].to_string();
    let (code, rest) = session(&house, &["read", "s", "--from", &from, "--until", "exit"]);
    assert_eq!((code, &rest["command"]["state"]), (0, &json!("completed")), "{rest:#}");
    let whole = format!("{}{}", first["text"].as_str().unwrap(), rest["text"].as_str().unwrap());
    assert_eq!(whole.trim_start(), "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n");
}

#[test]
fn t100_a_command_that_was_left_alone_is_waited_for_by_its_id() {
    let house = House::new();
    open(&house, &["s"]);
    let exec = Exec {
        ticket: None,
        text: "echo begun; read x; sleep 0.5; echo $x".to_owned(),
        cwd: house.workspace(),
        cwd_given: false,
        shell: Default::default(),
        shell_given: false,
        env: Default::default(),
        policy: Default::default(),
        timeout_ms: Some(600_000),
        class: None,
        inputs: Vec::new(),
        stop_on: Vec::new(),
        merge: false,
        session: Some("s".to_owned()),
        defaults: Default::default(),
    };
    let start = Instant::now();
    let mut client = Wire::open(&house);
    let begun = client.ask(Call::ExecStart { exec: Box::new(exec) });
    let Answer::Begun { session: id, command } = begun else { panic!("{begun:?}") };
    let wait = |wait_ms| Call::Wait { session: id.clone(), command: command.clone(), wait_ms };
    // It asks: the wait is over at once, whatever was allowed.
    let Answer::Waited { result, from, .. } = client.ask(wait(Some(60_000))) else { panic!() };
    assert_eq!((result.stdout.as_str(), from), ("begun\n", Some(0)), "{result:?}");
    assert_eq!(result.awaiting.unwrap().prompt, "begun");
    drop(client);
    // Whoever comes next goes on with it.
    let mut client = Wire::open(&house);
    session(&house, &["send", "s", "more", "--enter"]);
    let Answer::Waited { result, end, .. } = client.ask(wait(Some(1))) else { panic!() };
    assert_eq!(result.exit_code, None, "{result:?}");
    assert!(end >= 7, "{end}");
    let Answer::Waited { result, .. } = client.ask(wait(None)) else { panic!() };
    assert_eq!(result.exit_code, Some(0), "{result:?}");
    assert!(result.stdout.ends_with("more\n"), "{result:?}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn t102_an_unused_session_closes_by_itself_whoever_looks() {
    let house = House::new();
    let start = Instant::now();
    let idle = open(&house, &["idle", "--ttl", "2s"]);
    let busy = open(&house, &["busy", "--ttl", "1s"]);
    let exec = spawn(&house, &["exec", "--session", &busy, "--json", "-c", "sleep 4; echo kept"]);
    // Looking keeps nothing alive.
    wait_for("the idle session to be closed", || {
        let (_, document) = session(&house, &["ls"]);
        let open =
            document["sessions"].as_array().unwrap().iter().any(|s| s["session_id"] == *idle);
        session(&house, &["show", "idle"]);
        if open { Err(document.to_string()) } else { Ok(()) }
    });
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let called = finish(exec);
    assert_eq!((called.code, &called.json()["stdout"]), (0, &json!("kept\n")));
    for args in [["send", "idle", "x"].as_slice(), &["interrupt", &idle]] {
        let words = refused(&call(&house, args), "session_expired");
        assert!(words.contains("nobody had used it for 2"), "{words}");
    }
    refused(&house.call(&["exec", "--session", &idle, "--json", "-c", "true"]), "session_expired");
    // `session_ttl` says it for all, and `exec --session` heeds it.
    house.write("agents.toml", "[defaults]\nsession_ttl = \"1500ms\"\n");
    let (_, result) = house.exec_with(&["--session", "named"], "true");
    wait_for("the named session to be closed", || {
        let (_, shown) = session(&house, &["show", result["session_id"].as_str().unwrap()]);
        if shown["closed"]["why"] == "unused" { Ok(()) } else { Err(shown.to_string()) }
    });
}

#[test]
fn t105_variables_of_a_session_are_in_nobodys_arguments() {
    let house = House::new();
    open(&house, &["a", "--env", "S=topsecret"]);
    let (_, result) = house.exec_with(&["--session", "a"], "echo $S");
    assert_eq!(result["stdout"], "topsecret\n");
    let (_, result) = house.exec("ps -eo args | grep -c '[t]opsecret'");
    assert_eq!(result["stdout"], "0\n", "{result:#}");
}

#[test]
fn a_closed_session_has_left_nothing_when_the_verb_returns() {
    let house = House::new();
    let id = open(&house, &["s"]);
    let script = "setsid sleep 601 & (trap '' TERM; sleep 602) & echo $!";
    house.exec_with(&["--session", "s"], script);
    let mut waiting = spawn(&house, &["exec", "--session", "s", "--json", "-c", "read x"]);
    waiting.wait().unwrap();
    let (code, document) = session(&house, &["close", &id[..8]]);
    let expected =
        json!({ "schema_version": 1, "session_id": id, "state": "closed", "survivors": [] });
    assert_eq!((code, document), (0, expected));
    let left: Vec<_> =
        house.processes().into_iter().filter(|line| line.contains("sleep 60")).collect();
    assert!(left.is_empty(), "{left:?}");
    let (_, shown) = session(&house, &["show", &id]);
    assert_eq!(shown["closed"]["why"], "closed", "{shown:#}");
    assert_eq!(shown["commands"][1]["reason"]["kind"], "session_closed", "{shown:#}");
    // A second time there is nothing to do.
    assert_eq!(session(&house, &["close", "s"]).0, 0);
    refused(&call(&house, &["close", "nothing"]), "not_found");
}

#[test]
fn waiting_ends_as_soon_as_it_is_so() {
    let house = House::new();
    open(&house, &["s"]);
    let script =
        "read go; echo starting; sleep 0.3; echo \"\u{1b}[32mready\u{1b}[0m on 80\"; sleep 600";
    assert_eq!(house.exec_with(&["--session", "s"], script).0, 125);
    // What is typed is no output, though the terminal echoes it.
    let (_, sent) = session(&house, &["send", "s", "ready on 99", "--enter"]);
    assert_eq!(sent["input"]["written"], 12, "{sent:#}");
    let start = Instant::now();
    let (code, read) =
        session(&house, &["read", "s", "--until", "ready on \\d+", "--timeout", "30s"]);
    assert_eq!((code, &read["matched"]), (0, &json!("ready on 80")), "{read:#}");
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!((&read["until"], &read["state"]), (&json!("pattern"), &json!("busy")));
    assert!(read["text"].as_str().unwrap().contains("ready on 99"), "{read:#}");
    let (code, read) = session(&house, &["read", "s", "--until", "idle:300ms"]);
    assert_eq!((code, &read["until"]), (0, &json!("idle")), "{read:#}");
    // The early stop: it was seen, so the command is ended.
    let (_, interrupted) = session(&house, &["interrupt", "s"]);
    assert_eq!(interrupted["command"]["exit_code"], 130, "{interrupted:#}");
    let (code, read) = session(&house, &["read", "s", "--until", "never", "--timeout", "30s"]);
    assert_eq!((code, &read["outcome"]), (1, &json!("ended")), "{read:#}");
    let (code, read) = session(&house, &["read", "s", "--until", "input"]);
    assert_eq!((code, &read["outcome"]), (1, &json!("ended")), "{read:#}");
}

#[test]
fn output_of_what_a_command_left_running_can_be_waited_for() {
    let house = House::new();
    open(&house, &["s"]);
    let script = "(sleep 0.5; echo serving; exec sleep 600) &";
    assert_eq!(house.exec_with(&["--session", "s"], script).0, 0);
    let (code, read) = session(&house, &["read", "s", "--until", "serving", "--timeout", "30s"]);
    assert_eq!((code, &read["matched"]), (0, &json!("serving")), "{read:#}");
}

#[test]
fn reading_goes_on_by_offset_and_raw_is_exact() {
    let house = House::new();
    open(&house, &["s"]);
    house.exec_with(&["--session", "s"], "printf 'a\\377b\\n'; printf ' 50%%\\r100%%\\n'");
    let (_, read) = session(&house, &["read", "s"]);
    let keys = [
        "awaiting",
        "command",
        "end",
        "from",
        "gaps",
        "matched",
        "next",
        "outcome",
        "schema_version",
        "session_id",
        "state",
        "text",
        "until",
    ];
    let found: Vec<_> = read.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found, keys);
    assert!(read["text"].as_str().unwrap().ends_with("100%\n"), "{read:#}");
    let (_, raw) = session(&house, &["read", "s", "--raw"]);
    assert_eq!(raw["raw_base64"], "Yf9iDQogNTAlDTEwMCUNCg==", "{raw:#}");
    let bytes = house.command(&["session", "read", "s", "--raw"]).output().unwrap();
    assert_eq!(bytes.stdout, b"a\xffb\r\n 50%\r100%\r\n");
    let (_, rest) = session(&house, &["read", "s", "--from", "11"]);
    assert_eq!((&rest["text"], &rest["from"]), (&json!("00%\n"), &json!(11)), "{rest:#}");
    refused(&call(&house, &["read", "s", "--from", "99999"]), "usage");
    // More than one reading holds: what is left is told by its offset, and nothing is lost.
    house.exec_with(&["--session", "s"], "seq 1 300000");
    let (mut text, mut from) = (String::new(), String::new());
    loop {
        let mut args = vec!["read", "s"];
        if !from.is_empty() {
            args.extend(["--from", &from]);
        }
        let (_, read) = session(&house, &args);
        text.push_str(read["text"].as_str().unwrap());
        if read["next"] == read["end"] {
            break;
        }
        from = read["next"].to_string();
    }
    let whole: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    assert!(text == whole, "{} bytes for {}", text.len(), whole.len());
}

#[test]
fn a_pattern_is_found_wherever_it_is_in_much_output() {
    let house = House::new();
    open(&house, &["s"]);
    house.exec_with(&["--session", "s"], "seq 1 400000");
    for (pattern, found) in
        [("^777$", true), ("^200000$", true), ("^400000$", true), ("^0$", false)]
    {
        let (code, read) = session(&house, &["read", "s", "--until", pattern]);
        let outcome = if found { "holds" } else { "ended" };
        assert_eq!(read["outcome"], outcome, "{pattern}: {code} {}", read["matched"]);
    }
}

#[test]
fn a_follower_sees_every_line_and_the_end() {
    let house = House::new();
    open(&house, &["s"]);
    let words = spawn(&house, &["session", "read", "s", "--follow"]);
    let lines = spawn(&house, &["session", "read", "s", "--follow", "--json"]);
    house.exec_with(
        &["--session", "s"],
        "for i in 1 2 3; do echo line $i; sleep 0.1; done; printf 'no end'",
    );
    house.exec_with(&["--session", "s", "--input", "yes\n"], "read -p 'Sure? ' x; echo got $x");
    session(&house, &["close", "s"]);
    let (words, lines) = (finish(words), finish(lines));
    assert_eq!((words.code, lines.code), (0, 0), "{words:?} {lines:?}");
    assert_eq!(words.stdout, "line 1\nline 2\nline 3\nno endSure? yes\ngot yes\n", "{words:?}");
    let lines: Vec<Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    let text: String = of("text").iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(text, words.stdout);
    // The pieces touch one another.
    let mut at = 0;
    for line in of("text") {
        assert_eq!(line["from"], at, "{line}");
        at = line["next"].as_u64().unwrap();
    }
    let end = lines.last().unwrap();
    assert_eq!((&end["type"], &end["outcome"]), (&json!("end"), &json!("closed")), "{end}");
    assert!(!of("state").is_empty());
}

#[test]
fn t02_a_secret_comes_by_a_pipe_and_is_seen_nowhere() {
    let house = House::new();
    open(&house, &["s"]);
    let script = "read -s -p 'Password: ' p; echo; printf '%s' \"$p\" | md5sum";
    let (code, result) = house.exec_with(&["--session", "s"], script);
    assert_eq!((code, &result["awaiting"]["secret"]), (125, &json!(true)), "{result:#}");
    let mut child = house
        .command(&["session", "send", "s", "--secret", "--json"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hunter2\n").unwrap();
    let called = finish(child);
    assert_eq!(called.code, 0, "{called:?}");
    let (_, read) = session(&house, &["read", "s", "--until", "exit"]);
    let text = read["text"].as_str().unwrap();
    assert!(text.contains("2ab96390c7dbe3439de74d0c9b0b1767"), "{text}");
    // While it is open and afterwards: in no file of the house (state, record, journal, logs), no
    // result, no view.
    let unseen = |when: &str| {
        for args in [&["show", "s"][..], &["ls", "--all"], &["screen", "s"]] {
            let called = call(&house, args);
            assert_eq!(called.code, 0, "{called:?}");
            assert!(!called.stdout.contains("hunter2"), "{when}: {called:?}");
        }
        let found = std::process::Command::new("grep")
            .args(["-rlaF", "--devices=skip", "hunter2"])
            .arg(house.root())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{when}");
    };
    unseen("open");
    session(&house, &["close", "s"]);
    unseen("closed");
}

#[test]
fn keys_drive_a_full_screen_program_and_its_screen_can_be_seen() {
    let house = House::new();
    if std::process::Command::new("less").arg("--version").output().is_err() {
        return crate::house::skipped("keys_drive_a_full_screen_program", "there is no less");
    }
    let text: String = (1..=500).map(|n| format!("row {n}\n")).collect();
    house.write("text", text);
    open(&house, &["s", "--size", "60x10"]);
    house.exec_with(&["--session", "s"], "less text");
    let top = |house: &House| session(house, &["screen", "s"]).1;
    let screen = top(&house);
    assert_eq!((&screen["cols"], &screen["rows"]), (&json!(60), &json!(10)), "{screen:#}");
    assert_eq!((&screen["lines"][0], &screen["full_screen"]), (&json!("row 1"), &json!(true)));
    session(&house, &["send", "s", "--key", "G"]);
    wait_for("the last rows", || {
        let screen = top(&house);
        let lines = screen["lines"].to_string();
        if lines.contains("row 500") { Ok(()) } else { Err(lines) }
    });
    session(&house, &["send", "s", "--key", "q"]);
    let (code, read) = session(&house, &["read", "s", "--until", "exit", "--timeout", "30s"]);
    assert_eq!((code, &read["command"]["exit_code"]), (0, &json!(0)), "{read:#}");
}

#[test]
fn screens_and_results_are_drawn_at_the_size_that_the_window_had() {
    let house = House::new();
    let id = open(&house, &["s", "--size", "20x5"]);
    // In 20 columns the cursor goes back to the second row, and not to the first.
    let redrawn = "printf '%030d\\rX\\033]2;title\\007' 0";
    let (_, result) = house.exec_with(&["--session", "s"], redrawn);
    assert_eq!(result["stdout"], json!("00000000000000000000X000000000"), "{result:#}");
    let screen = session(&house, &["screen", "s"]).1;
    assert_eq!(screen["lines"], json!(["00000000000000000000", "X000000000", "", "", ""]));
    assert_eq!(screen["cursor"], json!({ "col": 1, "row": 1, "visible": true }));
    assert_eq!((&screen["title"], &screen["full_screen"]), (&json!("title"), &json!(false)));
    let mut client = Wire::open(&house);
    let size = Size { cols: 50, rows: 8 };
    let session_id = SessionId::from(id.as_str());
    let attached = client.ask(Call::Attach { session: session_id.clone(), size });
    assert!(matches!(attached, Answer::Attached { .. }), "{attached:?}");
    let big = || {
        wait_for("the new size", || {
            let screen = session(&house, &["screen", &id]).1;
            let is_big = (&screen["cols"], &screen["rows"]) == (&json!(50), &json!(8));
            if is_big { Ok(screen) } else { Err(screen.to_string()) }
        })
    };
    assert_eq!(big()["lines"][0], json!("00000000000000000000X000000000"));
    client.ask(Call::Detach { session: session_id });
    let (_, result) = house.exec_with(&["--session", "s"], redrawn);
    assert_eq!(result["stdout"], json!("X00000000000000000000000000000"), "{result:#}");
    session(&house, &["close", "s"]);
    big();
}

#[test]
fn an_idle_session_takes_no_input_and_says_so() {
    let house = House::new();
    open(&house, &["s"]);
    let (code, document) = session(&house, &["send", "s", "ls", "--enter"]);
    assert_eq!((code, &document["input"]["written"]), (1, &json!(0)), "{document:#}");
    assert_eq!(document["input"]["refused"]["kind"], "idle");
}

#[test]
fn a_session_is_found_by_id_beginning_and_name_and_near_misses_are_told() {
    let house = House::new();
    let id = open(&house, &["build"]);
    let other = open(&house, &[]);
    for which in [id.as_str(), "build", &id[..10]] {
        assert_eq!(session(&house, &["show", which]).1["session_id"], json!(id));
    }
    let words = refused(&call(&house, &["show", "biuld"]), "not_found");
    assert!(words.contains("did you mean `build`?"), "{words}");
    let words = refused(&call(&house, &["new", "build"]), "usage");
    assert!(words.contains("already") && words.contains(&id), "{words}");
    let (_, document) = session(&house, &["ls"]);
    let ids: Vec<_> =
        document["sessions"].as_array().unwrap().iter().map(|s| &s["session_id"]).collect();
    assert_eq!(ids, [&json!(id), &json!(other)]);
    let line = &document["sessions"][0];
    assert_eq!((&line["name"], &line["state"]), (&json!("build"), &json!("idle")), "{line:#}");
    assert_eq!(line["origin"]["purpose"], "session");
    assert_eq!(line["ttl_ms"], 1_800_000);
    session(&house, &["close", "build"]);
    let (_, document) = session(&house, &["ls", "--all"]);
    assert_eq!(document["sessions"].as_array().unwrap().len(), 2, "{document:#}");
}

#[test]
fn as_many_sessions_as_agents_toml_says() {
    let house = House::new();
    house.write("agents.toml", "[defaults]\nmax_sessions = 1\n");
    open(&house, &["only"]);
    for args in [
        ["session", "new", "more", "--json"].as_slice(),
        &["exec", "--session", "more", "--json", "-c", "true"],
    ] {
        let called = house.call(args);
        let error = &called.json()["error"];
        assert_eq!((called.code, &error["kind"]), (3, &json!("session_limit")), "{called:?}");
        assert!(error["hint"].as_str().unwrap().contains("`only` is idle longest"), "{error:#}");
    }
    session(&house, &["close", "only"]);
    open(&house, &["more"]);
}

#[test]
fn what_a_killed_holder_and_coordinator_left_is_ended_at_the_next_start() {
    let house = House::new();
    open(&house, &["s"]);
    house.exec_with(&["--session", "s"], "setsid nohup sleep 603 >/dev/null 2>&1 &");
    let (_, document) = session(&house, &["ls"]);
    let shell = document["sessions"][0]["pid"].to_string();
    let status = std::fs::read_to_string(format!("/proc/{shell}/status")).unwrap();
    let holder =
        status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned();
    let coordinator = house.call(&["status", "--json"]).json()["coordinator"]["pid"].to_string();
    // Stopped first, so that it does not see the holder die.
    for (signal, pid) in [("-STOP", &coordinator), ("-KILL", &holder), ("-KILL", &coordinator)] {
        assert!(std::process::Command::new("kill").args([signal, pid]).status().unwrap().success());
    }
    let orphan = || house.processes().into_iter().any(|line| line.contains("sleep 603"));
    wait_for("both to be gone", || {
        let left = house.processes();
        let gone = !left.iter().any(|line| line.starts_with(&format!("{coordinator} ")));
        if gone { Ok(()) } else { Err(left.join("\n")) }
    });
    assert!(orphan(), "nothing was left behind");
    assert_eq!(house.exec("true").0, 0);
    wait_for(
        "the orphan to be ended",
        || if orphan() { Err("it lives".to_owned()) } else { Ok(()) },
    );
}
