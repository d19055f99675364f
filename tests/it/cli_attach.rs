//! `session attach` and `session replay` with the real binary on a terminal that the test holds.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use serde_json::Value;

use crate::house::{House, skipped, wait_for};

/// A person: a terminal of their own, and what it shows.
struct Person {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn std::io::Write + Send>,
    screen: Arc<Mutex<Vec<u8>>>,
    child: Box<dyn Child + Send + Sync>,
    /// Looked at up to here.
    at: usize,
}

fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

impl Person {
    /// Runs the binary at a terminal of their own, between two looks at its modes.
    fn at(house: &House, line: &str) -> Self {
        let pair = native_pty_system().openpty(size(100, 30)).unwrap();
        let exe = env!("CARGO_BIN_EXE_callboard");
        let script = format!("stty -g; {exe} {line}; echo \"code $?\"; stty -g");
        let model = house.command(&["status"]);
        let mut command = CommandBuilder::new("/bin/sh");
        command.args(["-c", &script]);
        command.env_clear();
        for (name, value) in model.get_envs() {
            command.env(name, value.unwrap());
        }
        command.env("TERM", "xterm-256color");
        command.cwd(house.workspace());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = reader.read(&mut buffer) {
                if count == 0 {
                    return;
                }
                seen.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        Self { master: pair.master, keyboard, screen, child, at: 0 }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until the terminal shows this next, and gives what came up to it.
    fn sees(&mut self, wanted: &str) -> String {
        let (screen, at) = (Arc::clone(&self.screen), self.at);
        let (text, end) = wait_for(&format!("{wanted:?} on the terminal"), || {
            let bytes = screen.lock().unwrap();
            let text = String::from_utf8_lossy(&bytes[at..]).into_owned();
            match text.find(wanted) {
                Some(found) => {
                    let end = found + wanted.len();
                    Ok((text[..end].to_owned(), at + end))
                }
                None => Err(text),
            }
        });
        self.at = end;
        text
    }

    /// Waits for the shell's own prompt, whoever the tester is.
    fn sees_prompt(&mut self) -> String {
        let sign = if rustix_is_root() { "# " } else { "$ " };
        self.sees(sign)
    }

    /// Types a line at the prompt: what it printed.
    fn runs(&mut self, line: &str) -> String {
        self.types(&format!("{line}\r"));
        self.sees("\u{1b}[?2004l");
        self.sees_prompt()
    }

    /// Waits for the end: the exit code. The terminal's modes are as they were.
    fn leaves(&mut self) -> i32 {
        let mut status = None;
        wait_for("the end", || {
            status = self.child.try_wait().unwrap();
            status.as_ref().map(|_| ()).ok_or_else(|| self.text())
        });
        // What the child wrote last may still be on its way.
        wait_for("both looks at the modes", || {
            let text = self.text();
            let modes: Vec<String> = text
                .lines()
                .map(|line| line.trim().trim_start_matches(|c: char| !c.is_ascii_hexdigit()))
                .filter(|line| line.matches(':').count() > 20)
                .map(str::to_owned)
                .collect();
            match &modes[..] {
                [before, .., after] if text.contains("code ") => {
                    assert_eq!(before, after, "{text}");
                    Ok(())
                }
                _ => Err(text),
            }
        });
        let text = self.text();
        let code = text.rsplit("code ").next().unwrap();
        code.split_whitespace().next().unwrap().parse().unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }
}

fn rustix_is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn session(house: &House, name: &str) -> Value {
    let called = house.call(&["session", "show", name, "--json"]);
    assert_eq!(called.code, 0, "{called:?}");
    called.json()
}

#[test]
fn a_person_takes_an_idle_session_over_and_leaves_it() {
    let house = House::new();
    house.exec_with(
        &["--session", "s"],
        "x=agent; mkdir -p sub; cd sub; printf '\\033[31mred\\033[0m\\n'",
    );
    let before = session(&house, "s");
    assert_eq!(before["claim"]["kind"], "client", "{before}");
    let mut person = Person::at(&house, "session attach s");
    let shown = person.sees_prompt();
    assert!(shown.contains("red"), "the present screen comes first: {shown}");
    let said = person.runs("echo $x; pwd; stty size");
    assert!(said.contains("agent\r\n") && said.contains("/sub\r\n"), "{said}");
    assert!(said.contains("30 100\r\n"), "{said}");
    person.master.resize(size(77, 22)).unwrap();
    wait_for("the window's new size", || {
        let said = person.runs("stty size");
        if said.contains("22 77\r\n") { Ok(()) } else { Err(said) }
    });
    // What programs ask the terminal is not asked of the person's.
    let said = person.runs("printf 'a\\033[6nb\\n'");
    assert!(said.contains("ab\r\n"), "{said:?}");
    person.runs("x=person; cd ..");
    // A command of the agent's waits, at most its own limit.
    let (code, late) = house.exec_with(&["--session", "s", "--timeout", "300ms"], "echo never");
    assert_eq!((code, &late["state"], &late["started_at"]), (124, &"timeout".into(), &Value::Null));
    assert_eq!(late["notes"][0]["kind"], "taken_over", "{late}");
    person.types("half typed\u{1c}d");
    assert_eq!(person.leaves(), 0, "{}", person.text());
    assert!(person.text().contains("it goes on"), "{}", person.text());
    let (code, after) = house.exec_with(&["--session", "s"], "echo $x; pwd; echo ${PS1-}.");
    assert_eq!(code, 0, "{after}");
    let stdout = after["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("person\n") && stdout.ends_with("/ws\n.\n"), "{after}");
    // What the person did is in the session's history.
    let shown = session(&house, "s");
    let commands = shown["commands"].as_array().unwrap();
    let stay = commands.iter().find(|command| command["command"] == "take_over").unwrap();
    assert_eq!((&stay["state"], &stay["order"]), (&"completed".into(), &"exact".into()), "{stay}");
    assert!(stay["output"].as_str().unwrap().contains("x=person; cd .."), "{stay}");
    assert_eq!(stay["notes"][0]["kind"], "taken_over", "{stay}");
    assert_eq!(house.call(&["session", "close", "s"]).code, 0);
}

#[test]
fn a_shell_that_is_not_bash_is_not_taken_over_and_says_so() {
    let house = House::new();
    if !std::path::Path::new("/bin/zsh").exists() {
        return skipped("attach to zsh", "no zsh");
    }
    let opened = house.call(&["session", "new", "z", "--shell", "zsh", "--json"]);
    assert_eq!(opened.code, 0, "{opened:?}");
    let mut person = Person::at(&house, "session attach z");
    assert_eq!(person.leaves(), 1, "{}", person.text());
    let words = "can be taken over where it is bash; this one is zsh";
    assert!(person.text().contains(words), "{}", person.text());
    // The session is none the worse for it.
    let (code, result) = house.exec_with(&["--session", "z"], "echo fine");
    assert_eq!((code, &result["stdout"]), (0, &"fine\n".into()), "{result}");
}

#[test]
fn nothing_is_sent_to_a_shell_that_somebody_has_taken_over() {
    let house = House::new();
    house.exec_with(&["--session", "s"], "true");
    let mut person = Person::at(&house, "session attach s");
    person.sees_prompt();
    let sent = house.call(&["session", "send", "s", "echo sneaked", "--enter", "--json"]);
    assert_eq!(sent.code, 1, "{sent:?}");
    assert_eq!(sent.json()["input"]["written"], 0, "{sent:?}");
    assert!(sent.stderr.contains("someone else holds the terminal"), "{sent:?}");
    let said = person.runs("echo mine");
    assert!(said.contains("mine") && !said.contains("sneaked"), "{said}");
    person.types("\u{1c}d");
    assert_eq!(person.leaves(), 0, "{}", person.text());
}

#[test]
fn who_only_looks_on_changes_nothing() {
    let house = House::new();
    house.exec_with(&["--session", "s"], "echo first");
    let mut person = Person::at(&house, "session attach s --read-only");
    person.sees("first");
    person.types("echo typed\r");
    let (code, result) =
        house.exec_with(&["--session", "s"], "read -t 0.2 line; echo \"got [$line]\"");
    assert_eq!((code, &result["stdout"]), (0, &"got []\n".into()), "{result}");
    person.sees("got []");
    person.types("\u{3}");
    assert_eq!(person.leaves(), 0);
    assert!(!person.text().contains("typed"), "{}", person.text());
    let shown = session(&house, "s");
    assert_eq!(shown["commands"].as_array().unwrap().len(), 2, "{shown}");
    house.call(&["session", "close", "s"]);
}

#[test]
fn a_terminal_is_put_back_on_every_way_out() {
    let house = House::new();
    house.exec_with(&["--session", "s"], "true");
    // A signal.
    let mut person = Person::at(&house, "session attach s");
    person.sees_prompt();
    let me = house.processes().into_iter().find(|line| line.contains("session attach s"));
    let attach = house
        .processes()
        .into_iter()
        .filter(|line| line.contains("session attach s") && !line.contains("stty"))
        .find_map(|line| line.split(' ').next().map(str::to_owned));
    let pid = attach.unwrap_or_else(|| panic!("no attach: {me:?}"));
    std::process::Command::new("kill").arg(pid).status().unwrap();
    assert_eq!(person.leaves(), 130, "{}", person.text());
    // Other keys; a program that has changed the modes.
    let mut person = Person::at(&house, "session attach s --detach-key 'ctrl-a x'");
    person.sees_prompt();
    person.types("stty -echo; printf '\\033[?1049h'; cat\r");
    person.sees("\u{1b}[?1049h");
    person.types("\u{1}x");
    assert_eq!(person.leaves(), 0);
    assert!(person.text().contains("\u{1b}[?1049l"), "{}", person.text());
    // The shell's end: `cat` still runs, so first that.
    house.call(&["session", "interrupt", "s"]);
    let mut person = Person::at(&house, "session attach s");
    person.sees_prompt();
    person.types("exit 3\r");
    assert_eq!(person.leaves(), 0, "{}", person.text());
    assert!(person.text().contains("is over: its shell ended"), "{}", person.text());
    let shown = session(&house, "s");
    assert_eq!(shown["closed"]["why"], "shell_ended", "{shown}");
    let stay = shown["commands"].as_array().unwrap().last().unwrap();
    assert_eq!((&stay["command"], &stay["exit_code"]), (&"take_over".into(), &3.into()), "{shown}");
}

#[test]
fn attach_needs_a_terminal_and_a_session() {
    let house = House::new();
    house.exec_with(&["--session", "s"], "true");
    let called = house.call(&["session", "attach", "s"]);
    assert_eq!(called.code, 2, "{called:?}");
    assert!(called.stderr.contains("needs a terminal"), "{called:?}");
    let mut person = Person::at(&house, "session attach nobody");
    assert_eq!(person.leaves(), 2, "{}", person.text());
    let mut person = Person::at(&house, "session attach s --detach-key nonsense");
    assert_eq!(person.leaves(), 2, "{}", person.text());
    house.call(&["session", "close", "s"]);
}

#[test]
fn a_person_at_a_tasks_terminal_stops_its_clock_and_hands_it_back() {
    let house = House::new();
    let manifest = "[[task]]\nid = 'work'\ntimeout = '1s'\n\
        run = ['until [ -e go ]; do sleep 0.02; done; echo went', 'echo \"then $key\"']\n";
    house.write("m.toml", manifest);
    let run = house.command(&["run", "m.toml", "--json"]).spawn().unwrap();
    let (id, claim) = wait_for("the task's session", || {
        let status = house.call(&["status", "--json"]).json();
        let line = status["sessions"].as_array().and_then(|lines| lines.first().cloned());
        match line.filter(|line| line["state"] == "busy") {
            Some(line) => {
                Ok((line["session_id"].as_str().unwrap().to_owned(), line["claim"].clone()))
            }
            None => Err(status.to_string()),
        }
    });
    assert_eq!((&claim["kind"], &claim["turn_id"]), (&"session".into(), &"1".into()), "{claim}");
    assert_eq!(claim["tool_call_id"], format!("{id}.1"), "{claim}");
    let mut person = Person::at(&house, &format!("session attach {id}"));
    let claim = wait_for("the person's claim", || {
        let claim = session(&house, &id)["claim"].clone();
        if claim["kind"] == "client" { Ok(claim) } else { Err(claim.to_string()) }
    });
    assert!(claim["client_id"].as_str().unwrap().starts_with("command-line:"), "{claim}");
    let began = std::time::Instant::now();
    wait_for("longer than the task's limit", || {
        if began.elapsed().as_millis() > 1_300 { Ok(()) } else { Err(String::new()) }
    });
    house.write("go", "");
    person.sees("went");
    person.sees_prompt();
    person.runs("key=persons");
    person.types("\u{1c}d");
    assert_eq!(person.leaves(), 0, "{}", person.text());
    let called = crate::house::finish(run);
    let report = called.json();
    assert_eq!(called.code, 0, "{report}");
    let commands = report["tasks"][0]["commands"].as_array().unwrap();
    let told = |text: &str| {
        let found = commands.iter().find(|c| c["command"].as_str().unwrap().contains(text));
        found.unwrap_or_else(|| panic!("no {text}: {report}"))
    };
    assert_eq!(told("until")["stdout"], "went\n", "{report}");
    assert!(told("until")["notes"].to_string().contains("taken_over"), "{report}");
    assert!(told("until")["duration_ms"].as_u64().unwrap() > 1_000, "{report}");
    assert_eq!(told("then")["stdout"], "then persons\n", "{report}");
    assert_eq!(told("take_over")["state"], "completed", "{report}");
}

#[test]
fn a_replay_is_the_whole_transcript_at_its_times() {
    let house = House::new();
    let script = "printf 'one\\r\\ntwo \\342\\202\\254\\r\\n'; sleep 0.4; printf '\\377end\\n'";
    house.exec_with(&["--session", "s"], script);
    house.exec_with(&["--session", "s"], "echo err >&2");
    let raw = house.command(&["session", "read", "s", "--from", "0", "--raw"]).output().unwrap();
    let called = house.call(&["session", "replay", "s"]);
    assert_eq!(called.code, 0, "{called:?}");
    let lines: Vec<Value> =
        called.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let header = &lines[0];
    assert_eq!((&header["version"], &header["term"]["cols"]), (&3.into(), &120.into()), "{header}");
    assert_eq!(header["title"], "s", "{header}");
    let data = |code: &str| -> String {
        lines[1..]
            .iter()
            .filter(|line| line[1] == code)
            .map(|line| line[2].as_str().unwrap())
            .collect()
    };
    assert_eq!(data("o"), String::from_utf8_lossy(&raw.stdout), "{called:?}");
    assert!(data("o").contains("two €") && data("o").contains("\u{fffd}end"), "{called:?}");
    assert!(data("m").contains("echo err >&2"), "{called:?}");
    let whole: f64 = lines[1..].iter().map(|line| line[0].as_f64().unwrap()).sum();
    assert!((0.35..60.0).contains(&whole), "{called:?}");
    // On a terminal it is played: faster, and without idle times.
    let began = std::time::Instant::now();
    let mut person = Person::at(&house, "session replay s --idle-limit 50ms --speed 2");
    person.sees("two €");
    person.sees("err");
    assert_eq!(person.leaves(), 0);
    let quick = began.elapsed();
    assert!(quick.as_secs_f64() < whole + 20.0, "{quick:?}");
    assert_eq!(house.call(&["session", "replay", "s", "--speed", "0"]).code, 2);
    // After its end, too.
    house.call(&["session", "close", "s"]);
    let past = house.call(&["session", "replay", "s"]);
    assert_eq!(past.stdout, called.stdout);
}

/// Connections to the coordinator are what watches for a client: as many as there are clients.
#[test]
fn orc_73_nothing_is_left_of_a_viewer_that_goes() {
    let house = House::new();
    house.exec_with(&["--session", "s"], "true");
    let status = house.call(&["status", "--json"]).json();
    let pid = status["coordinator"]["pid"].as_u64().unwrap();
    let watchers = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let mut base = watchers();
    wait_for("calls so far are over", || {
        let before = std::mem::replace(&mut base, watchers());
        std::thread::sleep(std::time::Duration::from_millis(20));
        if before == base { Ok(()) } else { Err(base.to_string()) }
    });
    let attached = || {
        let exe = env!("CARGO_BIN_EXE_callboard");
        let lines = house.processes().into_iter();
        let lines = lines.filter(|line| line.contains(&format!(" {exe} session attach s")));
        let lines = lines.filter(|line| !line.contains("stty"));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let is = |wanted: usize, each: usize| {
        wait_for("as many watchers as attachments", || match (watchers(), attached().len()) {
            seen if seen == (base + wanted * each, wanted) => Ok(()),
            seen => Err(format!("{seen:?} instead of {base} and {wanted} times {each}")),
        });
    };
    // What one costs is what every one costs.
    let mut first = Person::at(&house, "session attach s");
    first.sees_prompt();
    let each = watchers() - base;
    assert!((1..=2).contains(&each), "{each}");
    first.types("\u{1c}d");
    assert_eq!(first.leaves(), 0, "{}", first.text());
    is(0, each);
    for round in 0..30 {
        let mut person = Person::at(&house, "session attach s");
        is(1, each);
        person.sees_prompt();
        if round % 2 == 0 {
            let client = attached().remove(0);
            let killed = std::process::Command::new("kill").args(["-KILL", &client]).status();
            assert!(killed.unwrap().success());
        } else {
            person.types("\u{1c}d");
            assert_eq!(person.leaves(), 0, "{}", person.text());
        }
        is(0, each);
        drop(person);
    }
    assert_eq!(house.call(&["session", "close", "s"]).code, 0);
    house.assert_empties();
}
