//! Commands that ask.

use callboard::domain::ids::CommandId;
use callboard::domain::key::Input;
use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::plan::InputRule;
use callboard::domain::result::{Awaiting, Certainty, Evidence, Note};
use callboard::domain::session::UnansweredInput;
use callboard::session::wire::{Ask, FactBody};

use super::house::{Session, command, open, with};

async fn asked(session: &mut Session) -> Awaiting {
    session
        .until(|fact| match fact {
            FactBody::Awaiting { awaiting, .. } => Some(awaiting.clone()),
            FactBody::Ended { end } => panic!("ended unasked: {end:?}"),
            _ => None,
        })
        .await
}

async fn answer(session: &mut Session, id: &CommandId, text: &str) {
    let ask = Ask::Input {
        request: 1,
        command: Some(id.clone()),
        input: Input::Text { text: text.to_owned() },
    };
    session.link.send(&ask).unwrap();
}

#[test]
fn questions_are_seen_and_answered() {
    with(async {
        let mut session = open().await;
        for (text, prompt, secret, reply, stdout) in [
            (
                "read -p 'Username: ' u; echo \"hi $u\"",
                "Username: ",
                false,
                "bob\n",
                "bob\nhi bob\n",
            ),
            (
                "read -s -p 'Password: ' p; echo; echo ${#p}",
                "Password: ",
                true,
                "hunter2\n",
                "\n7\n",
            ),
            ("sh -c 'printf \"ok? \"; read x; echo $x'", "ok? ", false, "y\n", "ok? y\ny\n"),
            ("printf 'a\\nb\\n' | sh -c 'read x </dev/tty; echo $x'", "", false, "t\n", "t\nt\n"),
            ("cat > got", "", false, "text\n\u{4}", "text\n"),
            ("sh -c 'read x <&2; echo $x'", "", false, "via\n", "via\n"),
            ("python3 -c 'print(input(\"name? \"))'", "name? ", false, "eve\n", "eve\neve\n"),
        ] {
            let id = session.begin(command("", text)).await;
            let awaiting = asked(&mut session).await;
            assert_eq!((&*awaiting.prompt, awaiting.secret), (prompt, secret), "{text}");
            assert_eq!(awaiting.evidence, Evidence::TtyRead, "{text}");
            assert_eq!(awaiting.certainty, Certainty::Certain, "{text}");
            assert!(awaiting.idle_ms < 1_000, "{text}: {awaiting:?}");
            answer(&mut session, &id, reply).await;
            let ended = session.end_of(&id).await;
            assert_eq!(ended.end.state, CommandState::Completed, "{text}: {ended:?}");
            if !text.contains("<&2") {
                assert_eq!(ended.stdout, stdout, "{text}");
            }
            let count =
                |wanted: fn(&FactBody) -> bool| session.facts.iter().filter(|f| wanted(f)).count();
            let asked = count(|fact| matches!(fact, FactBody::Awaiting { .. }));
            let resumed = count(|fact| matches!(fact, FactBody::Resumed { .. }));
            assert_eq!((asked, resumed), (1, 1), "{text}: {:?}", session.facts);
            session.facts.clear();
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn nobody_waits_for_the_terminal() {
    with(async {
        let mut session = open().await;
        for text in [
            "sh -c 'printf \"[sudo] password for me: \" >&2; read x; echo got' <<< pw; sleep 1; echo end",
            "mkfifo f; timeout 1 cat f; rm f",
            "sleep 1",
            "read -t 0.7 x; true",
            "python3 -c 'import select,sys; select.select([sys.stdin],[],[],1)'",
        ] {
            session.run(text).await;
            let asked = session.facts.iter().any(|fact| matches!(fact, FactBody::Awaiting { .. }));
            assert!(!asked, "{text}: {:?}", session.facts);
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn who_polls_the_terminal_may_be_waiting() {
    with(async {
        let mut session = open().await;
        for text in [
            "python3 -c 'import select,sys; select.select([sys.stdin],[],[])'",
            "python3 -c 'import select,sys; p=select.poll(); p.register(0, 1); p.poll()'",
            "python3 -c 'import select,sys; p=select.epoll(); p.register(0, 1); p.poll()'",
            "read -e x",
        ] {
            let id = session.begin(command("", text)).await;
            let awaiting = asked(&mut session).await;
            assert_eq!(
                (awaiting.evidence, awaiting.certainty),
                (Evidence::TtyPoll, Certainty::Possible)
            );
            answer(&mut session, &id, "\n").await;
            assert_eq!(session.end_of(&id).await.end.exit_code, Some(0), "{text}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn rules_and_given_inputs_answer() {
    with(async {
        let mut session = open().await;
        let text = "read -p 'Go on? [y/n] ' a; read -p 'Name: ' b; read -p 'Age: ' c; read -p 'Go on? [y/n] ' d; echo $a,$b,$c,$d";
        let mut spec = command("", text);
        spec.on_input = vec![InputRule { pattern: r"\[y/n\]".to_owned(), send: "y\n".to_owned() }];
        spec.inputs = vec!["bob\n".to_owned(), "7\n".to_owned()];
        let ended = session.run_as(spec).await;
        assert!(ended.stdout.ends_with("y,bob,7,y\n"), "{ended:?}");
        let prompts: Vec<_> = session
            .facts
            .iter()
            .filter_map(|fact| match fact {
                FactBody::Answered { prompt, .. } => Some(&**prompt),
                _ => None,
            })
            .collect();
        assert_eq!(prompts, ["Go on? [y/n] ", "Name: ", "Age: ", "Go on? [y/n] "]);
        assert!(!session.facts.iter().any(|fact| matches!(fact, FactBody::Awaiting { .. })));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_question_that_nobody_answers_ends_its_command() {
    with(async {
        let mut session = open().await;
        let mut at_once = command("", "read -p 'Key: ' x; echo no");
        at_once.unanswered = UnansweredInput::End;
        let mut in_time = command("", "read -p 'Key: ' x; echo no");
        in_time.input_timeout_ms = 200;
        for spec in [at_once, in_time] {
            let ended = session.run_as(spec).await;
            let reason = Reason::AwaitingInput { prompt: "Key: ".to_owned() };
            assert_eq!((ended.end.reason, ended.end.exit_code), (Some(reason), None));
            assert_eq!(ended.end.awaiting.map(|a| a.prompt), Some("Key: ".to_owned()));
            assert!(ended.end.duration_ms < 1_500);
            assert_eq!(session.run("echo next").await.stdout, "next\n");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn input_that_nobody_read_is_told_and_gone() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "sleep 0.3")).await;
        session.until(|fact| matches!(fact, FactBody::Started { .. }).then_some(())).await;
        answer(&mut session, &id, "early\nhalf").await;
        let ended = session.end_of(&id).await;
        assert!(
            ended.end.notes.contains(&Note::InputDiscarded { bytes: 10, reason: None }),
            "{ended:?}"
        );
        // Nor is there any for an idle session.
        answer(&mut session, &id, "late\n").await;
        let input = Input::Text { text: "late\n".to_owned() };
        session.link.send(&Ask::Input { request: 2, command: None, input }).unwrap();
        let mut asks = command("", "read x; echo \"<$x>\"");
        asks.inputs = vec!["right\n".to_owned()];
        assert!(session.run_as(asks).await.stdout.ends_with("<right>\n"));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn modes_are_put_back() {
    with(async {
        let mut session = open().await;
        session.run("stty raw -echo").await;
        assert_eq!(
            session
                .run("printf 'a\\nb\\n'; stty -a | grep -o -- '-ixon\\| echo \\| icanon'")
                .await
                .stdout,
            "a\nb\n icanon\n-ixon\n echo \n"
                .replace(" icanon\n-ixon\n echo \n", "-ixon\n icanon\n echo \n")
        );
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_large_input_and_its_echo_do_not_block_each_other() {
    with(async {
        let mut session = open().await;
        let id = session.begin(command("", "cat > got; wc -c < got")).await;
        asked(&mut session).await;
        let text = format!("{}\u{4}", "0123456789\n".repeat(27_000));
        answer(&mut session, &id, &text).await;
        let ended = session.end_of(&id).await;
        assert!(ended.stdout.ends_with("297000\n"), "{}", ended.end.span.raw_end);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn an_answer_without_a_line_end_leaves_the_question_open() {
    with(async {
        let mut session = open().await;
        let mut by_rule = command("", "read -p 'Go? ' x; echo \"<$x>\"");
        by_rule.on_input = vec![InputRule { pattern: "Go".to_owned(), send: "y".to_owned() }];
        let mut given = command("", "sh -c 'printf \"Go? \"; read x; echo \"<$x>\"'");
        given.inputs = vec!["y".to_owned()];
        let mut by_key = command("", "read -e -p 'Go? ' x; echo \"<$x>\"");
        by_key.on_input.clone_from(&by_rule.on_input);
        for spec in [by_rule, given, by_key] {
            let text = spec.text.clone();
            let id = session.begin(spec).await;
            assert_eq!(asked(&mut session).await.prompt, "Go? y", "{text}");
            answer(&mut session, &id, "es\n").await;
            let ended = session.end_of(&id).await;
            assert!(ended.stdout.ends_with("<yes>\n"), "{text}: {ended:?}");
            let told = |fact: &&FactBody| matches!(fact, FactBody::Answered { .. });
            assert_eq!(session.facts.iter().filter(told).count(), 1, "{text}");
            session.facts.clear();
        }
        assert_eq!(session.close().await, 0);
    });
}
