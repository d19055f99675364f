//! What is typed at a session: keys, pastes, long lines, secrets, receipts.

use callboard::domain::ids::CommandId;
use callboard::domain::key::{Input, Refused, Written};
use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::plan::InputRule;
use callboard::domain::result::Note;
use callboard::session::link::Stage;
use callboard::session::wire::{Ask, FactBody};

use super::house::{Ended, Session, command, eventually, open, open_on, with};

fn text(text: &str) -> Input {
    Input::Text { text: text.to_owned() }
}

fn keys(names: &[&str]) -> Input {
    Input::Keys { keys: names.iter().map(|name| name.parse().unwrap()).collect() }
}

fn paste(text: &str) -> Input {
    Input::Paste { text: text.to_owned() }
}

fn secret(text: &str) -> Input {
    Input::Secret { text: text.to_owned() }
}

async fn asked(session: &mut Session) -> String {
    let awaiting = |fact: &FactBody| match fact {
        FactBody::Awaiting { awaiting, .. } => Some(awaiting.prompt.clone()),
        FactBody::Ended { end } => panic!("ended unasked: {end:?}"),
        _ => None,
    };
    session.until(awaiting).await
}

/// Sends the input and waits for its receipt.
async fn send(session: &mut Session, command: Option<&CommandId>, input: Input) -> Written {
    let request = ask(session, command, input);
    receipt_of(session, request).await
}

fn ask(session: &mut Session, command: Option<&CommandId>, input: Input) -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let request = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    session.link.send(&Ask::Input { request, command: command.cloned(), input }).unwrap();
    request
}

async fn receipt_of(session: &mut Session, request: u64) -> Written {
    let receipt = |fact: &FactBody| match fact {
        FactBody::Input { request: told, written } if *told == request => Some(written.clone()),
        _ => None,
    };
    match session.facts.iter().find_map(receipt) {
        Some(told) => told,
        None => session.until(receipt).await,
    }
}

fn whole(written: u64) -> Written {
    Written { written, refused: None }
}

/// Runs `script` until its output ends with `ready`, sends, and waits for its end.
async fn typed(session: &mut Session, script: &str, ready: &str, inputs: &[Input]) -> Ended {
    let id = session.begin(command("", script)).await;
    session.printed(ready).await;
    for input in inputs {
        let written = send(session, Some(&id), input.clone()).await;
        assert_eq!(written.refused, None, "{script}");
    }
    session.end_of(&id).await
}

/// Reads so many bytes in raw mode, with `before` printed first, and shows each as hex.
fn raw_reader(before: &str, bytes: usize) -> String {
    format!(
        "python3 -c 'import os,sys,tty
tty.setraw(0)
os.write(1,b\"{before}ready\")
got=b\"\"
while len(got)<{bytes}: got+=os.read(0,4096)
os.system(\"stty sane\")
print(\"\\n<\"+got.hex()+\">\")'"
    )
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[test]
fn keys_arrive_as_the_program_asked_for_them() {
    with(async {
        let mut session = open().await;
        let all = ["up", "ctrl-left", "home", "f5", "shift-tab", "alt-x", "kp-5", "ctrl-c", "é"];
        for (modes, expected) in [
            ("", "\x1b[A\x1b[1;5D\x1b[H\x1b[15~\x1b[Z\x1bx5\x03é"),
            ("\\x1b[?1h\\x1b=", "\x1bOA\x1b[1;5D\x1bOH\x1b[15~\x1b[Z\x1bx\x1bOu\x03é"),
            // What the program before asked for is not asked for any more.
            ("", "\x1b[A\x1b[1;5D\x1b[H\x1b[15~\x1b[Z\x1bx5\x03é"),
        ] {
            let script = raw_reader(modes, expected.len());
            let ended = typed(&mut session, &script, "ready", &[keys(&all)]).await;
            let shown = format!("<{}>", hex(expected.as_bytes()));
            assert!(ended.stdout.contains(&shown), "{shown} {ended:?}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t27_a_paste_is_marked_only_where_the_program_asked() {
    with(async {
        let mut session = open().await;
        for (modes, expected) in [
            ("", "ab\ncd\x1b[201~e"),
            ("\\x1b[?2004h", "\x1b[200~ab\ncde\x1b[201~"),
            ("\\x1b[?2004h\\x1b[?2004l", "ab\ncd\x1b[201~e"),
        ] {
            let script = raw_reader(modes, expected.len());
            let inputs = [paste("ab\ncd\x1b[201~e")];
            let ended = typed(&mut session, &script, "ready", &inputs).await;
            let shown = format!("<{}>", hex(expected.as_bytes()));
            assert!(ended.stdout.contains(&shown), "{shown} {ended:?}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn readline_understands_the_keys() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "read -e -p 'line: ' x; echo \"<$x>\"")).await;
        session.printed("line: ").await;
        // "world", to its beginning, "hello ", to the end, back over one letter and delete it.
        for input in [
            text("world"),
            keys(&["home"]),
            text("hello "),
            keys(&["end", "left", "delete", "x", "ctrl-a", "ctrl-e", "backspace", "D", "enter"]),
        ] {
            assert_eq!(send(&mut session, Some(&id), input).await.refused, None);
        }
        let ended = session.end_of(&id).await;
        assert!(ended.stdout.ends_with("<hello worlD>\n"), "{ended:?}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t22_a_line_that_is_too_long_is_refused_whole() {
    with(async {
        let mut session = open().await;
        let reads = "python3 -c 'import sys;print(len(sys.stdin.readline()))'";
        let id = session.begin(command("", reads)).await;
        asked(&mut session).await;
        let refused = |offset| Some(Refused::LineTooLong { offset, limit: 4095 });
        let long = format!("{}\n", "x".repeat(6_000));
        let written = send(&mut session, Some(&id), text(&long)).await;
        assert_eq!(written, Written { written: 0, refused: refused(0) });
        let second = format!("short\n{long}");
        let written = send(&mut session, Some(&id), text(&second)).await;
        assert_eq!(written, Written { written: 0, refused: refused(6) });
        // What was typed of the line before counts, too.
        assert_eq!(send(&mut session, Some(&id), text(&"y".repeat(4_000))).await, whole(4_000));
        let rest = send(&mut session, Some(&id), text(&"z".repeat(96))).await;
        assert_eq!(rest, Written { written: 0, refused: refused(0) });
        // Until it is thrown away as a person would.
        assert_eq!(send(&mut session, Some(&id), keys(&["ctrl-u"])).await, whole(1));
        let longest = format!("{}\n", "x".repeat(4_095));
        assert_eq!(send(&mut session, Some(&id), text(&longest)).await, whole(4_096));
        let ended = session.end_of(&id).await;
        assert!(ended.stdout.ends_with("\n4096\n"), "{:?}", ended.end);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t22_a_given_answer_that_is_too_long_is_told() {
    with(async {
        let mut session = open().await;
        let mut reads = command("", "read -p 'text: ' x; echo ${#x}");
        reads.inputs = vec![format!("{}\n", "x".repeat(6_000)), "short\n".to_owned()];
        let ended = session.run_as(reads).await;
        assert!(ended.stdout.ends_with("short\n5\n"), "{ended:?}");
        let reason = Some(Refused::LineTooLong { offset: 0, limit: 4095 });
        let note = Note::InputDiscarded { bytes: 6_001, reason };
        assert!(ended.end.notes.contains(&note), "{:?}", ended.end.notes);
        let told = |fact: &FactBody| matches!(fact, FactBody::Noted { note: n, .. } if *n == note);
        assert!(session.facts.iter().any(told), "{:?}", session.facts);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn long_input_arrives_whole() {
    with(async {
        let mut session = open().await;
        // Lines in line mode; one long line in raw mode, for a program that reads slowly at first.
        let lines = format!("{}\u{4}", format!("{}\n", "0123456789".repeat(300)).repeat(100));
        let id = session.begin(command("", "sha256sum | cut -c1-8; sleep 0")).await;
        asked(&mut session).await;
        let all = lines.len() as u64;
        assert_eq!(send(&mut session, Some(&id), text(&lines)).await, whole(all));
        let ended = session.end_of(&id).await;
        let expected = session
            .run("for i in {1..100}; do printf '0123456789%.0s' {1..300}; echo; done | sha256sum | cut -c1-8")
            .await;
        assert!(ended.stdout.ends_with(&expected.stdout), "{:?}", expected.stdout);
        let raw = "python3 -c 'import os,time,tty
tty.setraw(0)
os.write(1,b\"ready\")
got=os.read(0,5)
time.sleep(0.3)
while len(got)<100000: got+=os.read(0,65536)
os.system(\"stty sane\")
print(\"\\n\",len(got),got.count(b\"x\"))'";
        let ended = typed(&mut session, raw, "ready", &[text(&"x".repeat(100_000))]).await;
        assert!(ended.stdout.contains("100000 100000"), "{:?}", ended.end);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn input_of_any_size_arrives_in_order() {
    with(async {
        let mut session = open().await;
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        // A reader in line mode, one in raw mode, and one that takes its time.
        for (script, ready) in [
            ("cat > got", ""),
            ("stty raw -echo; echo up; head -c SIZE > got", "up"),
            ("echo up; while IFS= read -r line; do echo \"$line\" >&9; done 9> got", "up"),
        ] {
            let mut all = String::new();
            let mut parts = Vec::new();
            for _ in 0..40 {
                let lines = random(12);
                let mut part = String::new();
                for line in 0..lines {
                    let length = if line == 0 { random(4_000) } else { random(200) };
                    let letter = char::from(b'a' + u8::try_from(random(26)).unwrap());
                    part.extend(std::iter::repeat_n(letter, usize::try_from(length).unwrap()));
                    part.push('\n');
                }
                all.push_str(&part);
                parts.push(part);
            }
            let script = script.replace("SIZE", &all.len().to_string());
            let id = session.begin(command("", &script)).await;
            session.printed(ready).await;
            let mut requests = Vec::new();
            for part in &parts {
                let input = if random(2) == 0 { text(part) } else { paste(part) };
                requests.push((ask(&mut session, Some(&id), input), part.len() as u64));
            }
            for (request, length) in requests {
                assert_eq!(receipt_of(&mut session, request).await, whole(length), "{script}");
            }
            if !script.contains("raw") {
                assert_eq!(send(&mut session, Some(&id), keys(&["ctrl-d"])).await, whole(1));
            }
            let ended = session.end_of(&id).await;
            assert_eq!(ended.end.notes, [], "{script}");
            let got = std::fs::read_to_string(session.folder.path().join("work/got")).unwrap();
            assert!(got == all, "{script}: {} of {} bytes", got.len(), all.len());
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t98_a_program_that_does_not_read_holds_nobody_up() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "sleep 1000")).await;
        session.until(|fact| matches!(fact, FactBody::Started { .. }).then_some(())).await;
        let many = "x".repeat(63) + "\n";
        let start = std::time::Instant::now();
        let written = send(&mut session, Some(&id), text(&many.repeat(16 * 1024))).await;
        assert!((1_024..=8_192).contains(&written.written), "{written:?}");
        assert!(matches!(written.refused, Some(Refused::QueueFull { .. })), "{written:?}");
        assert!(start.elapsed() < std::time::Duration::from_secs(6), "{:?}", start.elapsed());
        let too_long = send(&mut session, Some(&id), text(&"x".repeat(2_000_000))).await;
        assert_eq!(too_long.refused, Some(Refused::TooLong { limit: 1_048_576 }));
        // The holder is as quick as ever, and the next command gets nothing of it.
        session.link.send(&Ask::End { command: id.clone(), reason: Reason::INTERRUPT }).unwrap();
        let ended = session.end_of(&id).await;
        assert!(ended.end.notes.iter().any(|note| matches!(
            note,
            Note::InputDiscarded { bytes, reason: None } if *bytes >= 1_024
        )));
        let mut asks = command("", "read x; echo \"<$x>\"");
        asks.inputs = vec!["right\n".to_owned()];
        assert!(session.run_as(asks).await.stdout.ends_with("<right>\n"));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_program_that_ends_without_reading_leaves_nothing_to_the_next() {
    with(async {
        let mut session = open().await;
        for _ in 0..5 {
            let id = session.begin(command("", "sleep 0.2")).await;
            session.until(|fact| matches!(fact, FactBody::Started { .. }).then_some(())).await;
            let written = send(&mut session, Some(&id), text(&"early\n".repeat(5_000))).await;
            assert_eq!(written.refused, Some(Refused::Ended));
            assert!(written.written >= 4_090, "{written:?}");
            let mut asks = command("", "read x; echo \"<$x>\"");
            asks.inputs = vec!["right\n".to_owned()];
            let ended = session.run_as(asks).await;
            assert!(ended.stdout.ends_with("<right>\n"), "{ended:?}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t99_a_large_input_and_its_echo_are_interleaved() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "cat")).await;
        asked(&mut session).await;
        let many = format!("{}\u{4}", "line of text\n".repeat(23_000));
        assert_eq!(send(&mut session, Some(&id), text(&many)).await, whole(many.len() as u64));
        let ended = session.end_of(&id).await;
        assert_eq!(ended.end.state, CommandState::Completed);
        let lines = ended.stdout.lines().filter(|line| *line == "line of text").count();
        // What cat writes, and the terminal's echo, of which the kernel may leave something out.
        assert!((23_000..=46_000).contains(&lines), "{lines}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn only_a_running_command_gets_input() {
    with(async {
        let mut session = open().await;
        let refused = |refused| Written { written: 0, refused: Some(refused) };
        let nothing = send(&mut session, None, text("ls\n")).await;
        assert_eq!(nothing, refused(Refused::Idle));
        let id = session.begin(command("", "read x; echo \"<$x>\"")).await;
        let queued = session.begin(command("", "true")).await;
        asked(&mut session).await;
        let other = send(&mut session, Some(&queued), text("a\n")).await;
        assert_eq!(other, refused(Refused::NotRunning));
        assert_eq!(send(&mut session, None, text("b\n")).await, whole(2));
        assert!(session.end_of(&id).await.stdout.ends_with("<b>\n"));
        session.end_of(&queued).await;
        let late = send(&mut session, Some(&id), text("c\n")).await;
        assert_eq!(late, refused(Refused::NotRunning));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn what_is_typed_ahead_is_the_commands_own() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "sleep 0.2; read x; read y; echo \"<$x$y>\"")).await;
        session.until(|fact| matches!(fact, FactBody::Started { .. }).then_some(())).await;
        assert_eq!(send(&mut session, Some(&id), text("one\ntwo\nthree\n")).await, whole(14));
        let ended = session.end_of(&id).await;
        assert!(ended.stdout.ends_with("<onetwo>\n"), "{ended:?}");
        let note = Note::InputDiscarded { bytes: 6, reason: None };
        assert!(ended.end.notes.contains(&note), "{:?}", ended.end.notes);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t02_a_secret_is_sent_only_where_nothing_shows_it() {
    with(async {
        let mut session = open().await;
        let hidden = "read -s -p 'Password: ' p; echo; echo ${#p}";
        let id = session.begin(command("", hidden)).await;
        asked(&mut session).await;
        assert_eq!(send(&mut session, Some(&id), secret("hunter2\n")).await, whole(8));
        assert!(session.end_of(&id).await.stdout.ends_with("\n7\n"));

        for (script, ready, why, rest) in [
            ("read -p 'Name: ' x; echo ${#x}", "Name: ", Refused::EchoOn, text("x\n")),
            ("read -e -p 'Name: ' x; echo ${#x}", "Name: ", Refused::RawMode, text("x\n")),
        ] {
            let id = session.begin(command("", script)).await;
            session.printed(ready).await;
            let written = send(&mut session, Some(&id), secret("hunter2\n")).await;
            assert_eq!(written, Written { written: 0, refused: Some(why) });
            send(&mut session, Some(&id), rest).await;
            assert!(session.end_of(&id).await.stdout.ends_with("1\n"), "{script}");
        }
        let idle = send(&mut session, None, secret("hunter2\n")).await;
        assert_eq!(idle.refused, Some(Refused::Idle));
        assert!(!format!("{:?}", session.facts).contains("hunter2"));
        assert!(!session.transcript().contains("hunter2"));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_rule_does_not_answer_a_wrong_password_for_ever() {
    with(async {
        let mut session = open().await;
        let script = "while :; do read -s -p 'Password: ' p; echo; [[ $p = right ]] && break; done";
        let mut spec = command("", script);
        spec.on_input = vec![InputRule { pattern: "word".to_owned(), send: "wrong\n".to_owned() }];
        let id = session.begin(spec).await;
        assert_eq!(asked(&mut session).await, "Password: ");
        let answered = |fact: &&FactBody| matches!(fact, FactBody::Answered { .. });
        assert_eq!(session.facts.iter().filter(answered).count(), 3);
        assert_eq!(send(&mut session, Some(&id), secret("right\n")).await, whole(6));
        assert_eq!(session.end_of(&id).await.end.state, CommandState::Completed);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t47_modes_that_a_program_left_behind_are_gone() {
    with(async {
        let mut session = open().await;
        session
            .run("printf '\\e[?1049h\\e[?25l\\e[?2004h\\e[?1h\\e='; stty raw -echo -isig ixon cols 77")
            .await;
        let raw = session
            .run("printf 'a\\nb\\n'; stty -a | grep -o ' columns [0-9]*\\|-*ixon\\|-*isig'")
            .await;
        assert!(raw.stdout.starts_with("a\nb\n") && raw.stdout.contains("\nisig\n"), "{raw:?}");
        assert!(raw.stdout.contains(" columns 77") && raw.stdout.contains("\n-ixon\n"), "{raw:?}");
        let bytes = session.end_bytes(&raw.end);
        assert!(bytes.starts_with(b"a\r\nb\r\n"), "{bytes:?}");
        // A paste is not marked, an arrow is the plain one, and the echo is on.
        let id = session.begin(command("", "read -p 'n? ' x; printf %q \"$x\"")).await;
        let awaiting = |fact: &FactBody| match fact {
            FactBody::Awaiting { awaiting, .. } => Some(awaiting.clone()),
            _ => None,
        };
        let awaiting = session.until(awaiting).await;
        assert_eq!((&*awaiting.prompt, awaiting.secret), ("n? ", false));
        send(&mut session, Some(&id), paste("p")).await;
        send(&mut session, Some(&id), keys(&["up", "enter"])).await;
        let ended = session.end_of(&id).await;
        assert!(
            ended.stdout.starts_with("p^[[A\n") && ended.stdout.ends_with("$'p\\E[A'"),
            "{ended:?}"
        );
        // A job of an earlier command spoils nothing either.
        let job = session
            .run("(trap '' TTOU; sleep 0.2; stty raw -echo; touch spoilt) <$(tty) & true")
            .await;
        assert_eq!(job.end.exit_code, Some(0));
        let spoilt = session.folder.path().join("work/spoilt");
        eventually("the job has spoilt the terminal", || spoilt.exists()).await;
        let next = session.run("printf 'a\\nb\\n'").await;
        assert_eq!(session.end_bytes(&next.end), b"a\r\nb\r\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t60_an_interrupt_is_what_ctrl_c_is() {
    with(async {
        let mut session = open().await;
        for (script, ready, signal) in [
            ("echo up; sleep 999", "up", "INT"),
            ("echo up; sleep 999 | cat", "up", "INT"),
            ("python3 -qic 'import time; print(\"up\"); time.sleep(999)'", "up", "TERM"),
            ("stty raw -echo; echo up; sleep 999", "up", "INT"),
            ("sh -c 'trap \"\" INT; echo up; sleep 999; sleep 999'", "up", "TERM"),
            ("sh -c 'trap \"\" INT TERM; echo up; while :; do sleep 1; done'", "up", "KILL"),
        ] {
            let id = session.begin(command("", script)).await;
            session.printed(ready).await;
            // What was typed before goes with it.
            send(&mut session, Some(&id), text("C-c")).await;
            session
                .link
                .send(&Ask::End { command: id.clone(), reason: Reason::INTERRUPT })
                .unwrap();
            let ended = session.end_of(&id).await;
            let reason = Reason::Interrupted { signal: Some(signal.to_owned()) };
            assert_eq!(
                (ended.end.exit_code, ended.end.reason),
                (Some(130), Some(reason)),
                "{script}"
            );
            let mut next = command("", "read x; echo \"<$x>\"");
            next.inputs = vec!["usable\n".to_owned()];
            assert!(session.run_as(next).await.stdout.ends_with("<usable>\n"), "{script}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t60_ctrl_c_as_a_key_is_the_terminals_to_take() {
    with(async {
        let mut session = open().await;
        // The foreground program, and the shell itself in `read` and in a loop.
        for script in ["echo up; sleep 999", "echo up; read x", "echo up; while :; do :; done"] {
            let id = session.begin(command("", script)).await;
            session.printed("up\r\n").await;
            assert_eq!(send(&mut session, Some(&id), keys(&["C-c"])).await, whole(1), "{script}");
            let ended = session.end_of(&id).await;
            assert_eq!(ended.end.exit_code, Some(130), "{script}: {ended:?}");
            assert!(!ended.stdout.contains("C-c"), "{ended:?}");
            assert_eq!(session.run("echo next").await.stdout, "next\n", "{script}");
        }
        // Whoever reads it as a key gets it.
        let ended = typed(&mut session, &raw_reader("", 1), "ready", &[keys(&["ctrl-c"])]).await;
        assert!(ended.stdout.contains("<03>"), "{ended:?}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn ctrl_c_goes_before_what_was_typed() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "echo up; sleep 999")).await;
        session.printed("up\r\n").await;
        let many = ask(&mut session, Some(&id), text(&"typed\n".repeat(10_000)));
        let key = ask(&mut session, Some(&id), keys(&["ctrl-c"]));
        let dropped = receipt_of(&mut session, many).await;
        assert_eq!(dropped.refused, Some(Refused::Interrupted), "{dropped:?}");
        assert_eq!(receipt_of(&mut session, key).await, whole(1));
        let ended = session.end_of(&id).await;
        assert_eq!(ended.end.exit_code, Some(130), "{ended:?}");
        assert!(ended.end.duration_ms < 2_000, "{ended:?}");
        let mut next = command("", "read x; echo \"<$x>\"");
        next.inputs = vec!["usable\n".to_owned()];
        assert!(session.run_as(next).await.stdout.ends_with("<usable>\n"));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t61_a_session_ignores_no_signal_that_its_starter_ignored() {
    use std::os::unix::fs::PermissionsExt as _;

    with(async {
        let folder = tempfile::tempdir().unwrap();
        let deaf = folder.path().join("deaf");
        let text = format!(
            "#!/bin/bash\ntrap '' INT QUIT HUP PIPE\nexec {} \"$@\"\n",
            env!("CARGO_BIN_EXE_callboard")
        );
        std::fs::write(&deaf, text).unwrap();
        std::fs::set_permissions(&deaf, std::fs::Permissions::from_mode(0o700)).unwrap();
        let stage = Stage::start(&deaf, [("PATH", "/usr/bin:/bin")]).unwrap();
        let mut session = open_on(std::sync::Arc::new(stage)).await.unwrap();
        let script = "sh -c '/bin/grep SigIgn /proc/self/status; exec sleep 60'";
        let id = session.begin(command("", script)).await;
        session.printed("SigIgn").await;
        assert_eq!(send(&mut session, Some(&id), keys(&["ctrl-c"])).await, whole(1));
        let ended = session.end_of(&id).await;
        assert_eq!(ended.end.exit_code, Some(130), "{ended:?}");
        assert!(ended.end.duration_ms < 5_000, "{ended:?}");
        let mask = ended.stdout.split_whitespace().nth(1).unwrap();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        for (name, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("PIPE", 13)] {
            assert_eq!(mask >> (number - 1) & 1, 0, "{name}: {ended:?}");
        }
        assert_eq!(session.close().await, 0);
    });
}
