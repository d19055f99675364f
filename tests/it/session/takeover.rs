//! Take-overs: a person at the session's own shell.

use callboard::domain::ids::CommandId;
use callboard::domain::key::Input;
use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::result::Note;
use callboard::domain::session::Limit;
use callboard::session::wire::{Ask, CommandEnd, FactBody};

use super::house::{Session, command, eventually, open, with};

impl Session {
    fn raw(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("transcript/out.raw")).unwrap_or_default()
    }

    async fn take_over(&mut self, name: &str) -> CommandId {
        let id = CommandId::new(name);
        let ask = Ask::TakeOver { command: id.clone(), by: "a tester".to_owned() };
        self.link.send(&ask).unwrap();
        let taken = |fact: &FactBody| {
            matches!(fact, FactBody::TakenOver { command, .. } if *command == id).then_some(())
        };
        self.until(taken).await;
        id
    }

    fn typed(&self, bytes: &[u8]) {
        self.link.send(&Ask::Type { bytes: bytes.to_vec() }).unwrap();
    }

    /// Waits until the transcript goes on with `wanted`, and gives what came up to it.
    async fn shows(&self, from: &mut usize, wanted: &str) -> String {
        let mut seen = String::new();
        let what = format!("the terminal shows {wanted:?}");
        let start = *from;
        let mut end = start;
        eventually(&what, || {
            seen = String::from_utf8_lossy(&self.raw()[start..]).into_owned();
            // A prompt's sign says who the person is.
            let found = [wanted, if wanted == "$ " { "# " } else { wanted }]
                .into_iter()
                .find_map(|wanted| seen.find(wanted).map(|at| at + wanted.len()));
            end = start + found.unwrap_or(0);
            found.is_some()
        })
        .await;
        *from = end;
        seen.truncate(end - start);
        seen
    }

    /// Types a line at the prompt and waits for the next prompt: what came between.
    async fn at_prompt(&self, from: &mut usize, line: &str) -> String {
        self.typed(format!("{line}\r").as_bytes());
        self.shows(from, "\u{1b}[?2004l").await;
        self.shows(from, "$ ").await
    }

    /// Takes an idle session over and waits for the prompt.
    async fn prompt(&mut self, name: &str) -> (CommandId, usize) {
        let mut from = self.raw().len();
        let id = self.take_over(name).await;
        self.shows(&mut from, "$ ").await;
        (id, from)
    }

    async fn hand_back(&mut self, id: &CommandId) -> CommandEnd {
        self.link.send(&Ask::HandBack).unwrap();
        let end = self.end_of(id).await.end;
        self.until(|fact| matches!(fact, FactBody::HandedBack { .. }).then_some(())).await;
        end
    }
}

fn agent_types(running: &CommandId) -> Ask {
    let input = Input::Text { text: "agent\n".to_owned() };
    Ask::Input { request: 1, command: Some(running.clone()), input }
}

fn by_tester(end: &CommandEnd) -> bool {
    end.notes.contains(&Note::TakenOver { by: "a tester".to_owned() })
}

#[test]
fn a_person_has_the_same_shell_and_what_they_do_stays() {
    with(async {
        let mut session = open().await;
        session.run("x=5; f() { echo \"fun $x\"; }; mkdir sub; cd sub; sleep 300 &").await;
        let (id, mut at) = session.prompt("t1").await;
        let said = session.at_prompt(&mut at, "echo $x; f; pwd; jobs").await;
        assert!(said.contains("5\r\nfun 5\r\n"), "{said}");
        assert!(said.contains("/sub\r\n") && said.contains("Running"), "{said}");
        let said = session.at_prompt(&mut at, "ls /nowhere").await;
        assert!(said.contains("cannot access"), "standard error is on the same terminal: {said}");
        session.at_prompt(&mut at, "cd ..; y=seven; g() { echo \"from $1\"; }; (exit 9)").await;
        let end = session.hand_back(&id).await;
        assert_eq!((end.state, end.reason.clone()), (CommandState::Completed, None), "{end:?}");
        assert!(by_tester(&end) && end.merged, "{end:?}");
        assert!(end.cwd.ends_with("/work"), "{end:?}");
        let [stdout, stderr] = session.output(&end);
        assert!(stdout.contains("fun 5\n") && stdout.contains("cannot access"), "{stdout}");
        assert!(!stdout.contains("__cb"), "{stdout}");
        assert_eq!(stderr, "");
        let ended = session
            .run("echo $?; echo $y; g me; jobs | wc -l; kill $!; wait; pwd; echo ${PS1-}")
            .await;
        assert!(ended.stdout.starts_with("9\nseven\nfrom me\n1\n"), "{ended:?}");
        assert!(ended.stdout.ends_with("/work\n\n"), "{ended:?}");
        // The streams are two again.
        let ended = session.run("echo out; echo err >&2").await;
        assert_eq!((&*ended.stdout, &*ended.stderr), ("out\n", "err\n"));
        // A second time, with the history of the first.
        let (id, mut at) = session.prompt("t2").await;
        let said = session.at_prompt(&mut at, "history").await;
        assert!(said.contains("ls /nowhere") && !said.contains("__cb"), "{said}");
        let end = session.hand_back(&id).await;
        assert_eq!(end.state, CommandState::Completed);
        assert!(!session.output(&end)[0].contains("__cb"), "{end:?}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn job_control_and_line_editing_work() {
    with(async {
        let mut session = open().await;
        let (id, mut at) = session.prompt("t").await;
        session.typed(b"cat\r");
        session.shows(&mut at, "\u{1b}[?2004l").await;
        session.typed(b"to cat\r");
        session.shows(&mut at, "to cat\r\nto cat\r\n").await;
        session.typed(b"\x1a");
        session.shows(&mut at, "Stopped").await;
        session.shows(&mut at, "$ ").await;
        session.typed(b"fg\r");
        session.shows(&mut at, "cat\r\n").await;
        session.typed(b"again\r");
        session.shows(&mut at, "again\r\nagain\r\n").await;
        session.typed(b"\x03");
        session.shows(&mut at, "$ ").await;
        let said = session.at_prompt(&mut at, "echo $?").await;
        assert!(said.contains("130\r\n"), "{said}");
        // One left, one character, end, delete word, history.
        let said = session.at_prompt(&mut at, "echo ad\u{1b}[Dbc\u{5} gone\u{17}done").await;
        assert!(said.contains("abcd done\r\n"), "{said}");
        let said = session.at_prompt(&mut at, "\u{1b}[A\u{1b}[A").await;
        assert!(said.contains("0\r\n"), "{said}");
        session.typed(b"sh -c 'echo up; exec sleep 300'\r");
        session.shows(&mut at, "\u{1b}[?2004l").await;
        session.shows(&mut at, "up\r\n").await;
        session.typed(b"\x1a");
        session.shows(&mut at, "$ ").await;
        let end = session.hand_back(&id).await;
        assert_eq!(end.children.len(), 1, "{end:?}");
        let ended = session.run("jobs; kill -9 %1").await;
        assert!(ended.stdout.contains("Stopped"), "{ended:?}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn what_is_half_typed_is_dropped() {
    with(async {
        let mut session = open().await;
        for (name, half) in [
            ("t1", "echo half > file"),
            ("t2", "for x in 1 2; do\recho half > file"),
            ("t3", "trap 'echo trapped' INT\recho half > file"),
            ("t4", "trap '' INT\recho half > file"),
            ("t5", "PROMPT_COMMAND='echo mine'\recho half > file"),
        ] {
            let (id, mut at) = session.prompt(name).await;
            session.typed(half.as_bytes());
            session.shows(&mut at, "echo half > file").await;
            let end = session.hand_back(&id).await;
            assert_eq!(end.state, CommandState::Completed, "{half}: {end:?}");
            let ended = session.run("ls; trap -p INT").await;
            let trap = if name < "t3" { "" } else { "trap -- '" };
            assert!(ended.stdout.starts_with(trap), "{half}: {ended:?}");
            assert!(!ended.stdout.contains("file"), "{half}: {ended:?}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_command_that_runs_goes_on_and_its_clock_stands_still() {
    with(async {
        let mut session = open().await;
        let mut spec = command("", "read -p 'Key: ' a; sleep 0.3; echo \"got $a\"");
        spec.limit = Limit::Exact { ms: 400 };
        spec.input_timeout_ms = 300;
        let running = session.begin(spec).await;
        session.until(|fact| matches!(fact, FactBody::Awaiting { .. }).then_some(())).await;
        let id = session.take_over("t").await;
        let during = session.facts.iter().find_map(|fact| match fact {
            FactBody::TakenOver { during, .. } => during.clone(),
            _ => None,
        });
        assert_eq!(during, Some(running.clone()));
        // The agent's input and commands wait.
        let input = agent_types(&running);
        session.link.send(&input).unwrap();
        let later = session.begin(command("", "echo later $mine")).await;
        let began = std::time::Instant::now();
        eventually("longer than both limits", || began.elapsed().as_millis() > 900).await;
        let mut at = 0;
        session.typed(b"person\r");
        session.shows(&mut at, "got person").await;
        let ended = session.end_of(&running).await;
        assert_eq!(ended.end.state, CommandState::Completed, "{ended:?}");
        assert!(by_tester(&ended.end) && ended.end.duration_ms > 900, "{ended:?}");
        assert_eq!(ended.stdout, "person\ngot person\n");
        // Then the prompt comes.
        session.shows(&mut at, "$ ").await;
        session.at_prompt(&mut at, "mine=yes").await;
        assert!(!session.facts.iter().any(|fact| {
            matches!(fact, FactBody::Started { command, .. } if *command == later)
        }));
        let end = session.hand_back(&id).await;
        assert!(session.output(&end)[0].contains("mine=yes"), "{end:?}");
        assert_eq!(session.end_of(&later).await.stdout, "later yes\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_take_over_that_ends_before_the_command_leaves_it_as_it_was() {
    with(async {
        let mut session = open().await;
        let mut spec = command("", "read -p 'Key: ' a; echo \"got $a\"; sleep 5");
        spec.limit = Limit::Exact { ms: 300 };
        let running = session.begin(spec).await;
        session.until(|fact| matches!(fact, FactBody::Awaiting { .. }).then_some(())).await;
        let id = session.take_over("t").await;
        let input = agent_types(&running);
        session.link.send(&input).unwrap();
        let end = session.hand_back(&id).await;
        assert_eq!(end.state, CommandState::Completed);
        // The agent's input has arrived, and the clock runs again.
        let ended = session.end_of(&running).await;
        assert_eq!(ended.end.reason, Some(Reason::Total { limit_ms: 300 }), "{ended:?}");
        assert!(ended.stdout.contains("got agent"), "{ended:?}");
        assert_eq!(session.run("echo on").await.stdout, "on\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn what_a_person_still_runs_has_its_time_and_can_be_ended() {
    with(async {
        let mut session = open().await;
        let (id, mut at) = session.prompt("t1").await;
        session.typed(b"read line < <(sleep 0.4; echo slow); echo \"$line\"\r");
        session.shows(&mut at, "\u{1b}[?2004l").await;
        let end = session.hand_back(&id).await;
        assert_eq!(end.state, CommandState::Completed);
        assert!(session.output(&end)[0].contains("\rslow\n"), "{:?}", session.output(&end));
        // One that never ends keeps the shell; commands wait at most their own limit.
        let (id, mut at) = session.prompt("t2").await;
        session.typed(b"trap '' INT; sleep 300\r");
        session.shows(&mut at, "\u{1b}[?2004l").await;
        session.link.send(&Ask::HandBack).unwrap();
        let mut spec = command("", "echo never");
        spec.limit = Limit::Heartbeat { ms: 300, hard_ms: 60_000 };
        let waits = session.begin(spec).await;
        let ended = session.end_of(&waits).await.end;
        assert_eq!(ended.state, CommandState::Timeout, "{ended:?}");
        assert_eq!(ended.reason, Some(Reason::Total { limit_ms: 300 }));
        assert!(by_tester(&ended) && ended.started_at.is_none(), "{ended:?}");
        // Whoever wants it back may take it again, or end what runs.
        session.take_over_again("t3").await;
        session.link.send(&Ask::HandBack).unwrap();
        let reason = Reason::INTERRUPT;
        session.link.send(&Ask::End { command: id.clone(), reason }).unwrap();
        let end = session.end_of(&id).await.end;
        assert_eq!(end.state, CommandState::Completed, "{end:?}");
        assert_eq!(session.run("trap - INT; echo on").await.stdout, "on\n");
        assert_eq!(session.close().await, 0);
    });
}

impl Session {
    async fn take_over_again(&self, name: &str) {
        let ask = Ask::TakeOver { command: CommandId::new(name), by: "a tester".to_owned() };
        self.link.send(&ask).unwrap();
    }
}

#[test]
fn a_person_who_comes_back_in_time_has_the_prompt_again() {
    with(async {
        let mut session = open().await;
        let (first, mut at) = session.prompt("t1").await;
        session.typed(b"cat\r");
        session.shows(&mut at, "\u{1b}[?2004l").await;
        session.link.send(&Ask::HandBack).unwrap();
        session.take_over_again("t2").await;
        session.typed(b"still\r");
        session.shows(&mut at, "still\r\nstill\r\n").await;
        let later = session.begin(command("", "echo later")).await;
        session.typed(b"\x04");
        session.end_of(&first).await;
        session.shows(&mut at, "$ ").await;
        let said = session.at_prompt(&mut at, "echo here").await;
        assert!(said.contains("here\r\n"), "{said}");
        let end = session.hand_back(&CommandId::new("t2")).await;
        assert_eq!(end.state, CommandState::Completed);
        assert_eq!(session.end_of(&later).await.stdout, "later\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_person_who_ends_the_shell_ends_the_session() {
    with(async {
        for (typed, state, code) in [
            ("exit\r", CommandState::Completed, 0),
            ("\u{4}", CommandState::Completed, 0),
            ("exit 3\r", CommandState::Failed, 3),
            ("kill -9 $$\r", CommandState::Failed, 137),
        ] {
            let mut session = open().await;
            let (id, _) = session.prompt("t").await;
            let later = session.begin(command("", "echo never")).await;
            session.typed(typed.as_bytes());
            let end = session.end_of(&id).await.end;
            assert_eq!((end.state, end.exit_code), (state, Some(code)), "{typed:?}: {end:?}");
            assert!(end.notes.contains(&Note::SessionEnded), "{end:?}");
            let never = session.end_of(&later).await.end;
            assert_eq!(never.reason, Some(Reason::SessionClosed), "{never:?}");
            let closed = |fact: &FactBody| matches!(fact, FactBody::Closed { .. }).then_some(());
            session.until(closed).await;
        }
    });
}

#[test]
fn a_session_that_is_closed_meanwhile_says_so() {
    with(async {
        let mut session = open().await;
        let (id, mut at) = session.prompt("t").await;
        session.typed(b"sleep 300\r");
        session.shows(&mut at, "\u{1b}[?2004l").await;
        session.link.send(&Ask::Close).unwrap();
        let end = session.end_of(&id).await.end;
        assert_eq!((end.state, end.reason), (CommandState::Failed, Some(Reason::SessionClosed)));
        let closed = |fact: &FactBody| match fact {
            FactBody::Closed { survivors } => Some(survivors.len()),
            _ => None,
        };
        assert_eq!(session.until(closed).await, 0);
    });
}

#[test]
fn a_session_that_cannot_be_taken_over_says_why() {
    with(async {
        let mut session = open().await;
        let (id, _) = session.prompt("t1").await;
        session.take_over_again("t2").await;
        let end = session.end_of(&CommandId::new("t2")).await.end;
        assert!(matches!(end.reason, Some(Reason::StartFailed { .. })), "{end:?}");
        session.hand_back(&id).await;
        // The driver's own loop survives an interrupted take-over, and a bare hand-back.
        session.link.send(&Ask::HandBack).unwrap();
        session.typed(b"nobody reads this");
        assert_eq!(session.run("read -t 0.1 x; echo \"[$x]\"").await.stdout, "[]\n");
        let ended = session.run("PROMPT_COMMAND=; kill -INT $$; echo no").await;
        assert!(!ended.stdout.contains("no") && ended.end.duration_ms < 5_000, "{ended:?}");
        assert_eq!(session.run("echo on").await.stdout, "on\n");
        assert_eq!(session.close().await, 0);
    });
}
