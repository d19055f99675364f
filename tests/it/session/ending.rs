//! Commands that end their shell, or are ended from outside.

use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::result::Note;
use callboard::domain::session::Limit;
use callboard::session::wire::{Ask, FactBody};
use rustix::process::{Pid, Signal};

use super::house::{command, eventually, lives, open, with};

#[test]
fn the_end_of_the_shell_is_the_end_of_the_command() {
    let exit = |code| Some(Reason::Exit { code });
    let signal = |name: &str| Some(Reason::Signal { signal: name.to_owned(), inferred: false });
    for (text, code, reason) in [
        ("exit 42 || true; echo not-reached", 42, exit(42)),
        ("exit", 0, None),
        ("echo x; exit 0", 0, None),
        ("exec true", 0, None),
        ("exec sh -c 'exit 9'", 9, exit(9)),
        ("set -e; false; echo no", 1, exit(1)),
        ("kill -9 $$", 137, signal("KILL")),
        ("exec sh -c 'kill -TERM $$'", 143, signal("TERM")),
        ("sleep 300 & exit 1", 1, exit(1)),
        ("exec /nonexistent/program", 127, None),
    ] {
        with(async {
            let mut session = open().await;
            let id = session.begin(command("", text)).await;
            let queued = session.begin(command("", "echo next")).await;
            let ended = session.end_of(&id).await;
            if text.contains("nonexistent") {
                // An interactive bash survives an exec that fails.
                assert_eq!(ended.end.exit_code, Some(127), "{ended:?}");
                assert_eq!(session.end_of(&queued).await.stdout, "next\n");
                assert_eq!(session.close().await, 0);
                return;
            }
            assert_eq!(ended.end.exit_code, Some(code), "{text}: {ended:?}");
            assert_eq!(ended.end.reason, reason, "{text}");
            assert!(ended.end.notes.contains(&Note::SessionEnded), "{text}: {ended:?}");
            assert!(ended.end.duration_ms < 1_000, "{text}: {ended:?}");
            if text.contains("sleep") {
                let child = ended.end.children.first().unwrap();
                assert!(
                    child.ended
                        && ["sleep 300", "bash"].contains(&&*child.command)
                        && !lives(child.pid)
                );
            }
            // The end of the link says it of what came too late to be read.
            while session.fact().await.is_some() {}
            let refused = session.facts.iter().find_map(|fact| match fact {
                FactBody::Ended { end } if end.command == queued => end.reason.clone(),
                _ => None,
            });
            assert!(refused.is_none_or(|reason| reason == Reason::SessionClosed), "{text}");
            assert!(matches!(session.facts.last(), Some(FactBody::Closed { .. })), "{text}");
            let holder = session.holder;
            eventually("the holder ends", || !lives(holder)).await;
        });
    }
}

#[test]
fn a_program_in_the_shells_place_that_asks_has_replaced_it() {
    with(async {
        let mut session = open().await;
        let ended = session.run("exec dash").await;
        assert_eq!(ended.end.reason, Some(Reason::ShellReplaced), "{ended:?}");
        assert!(ended.end.notes.contains(&Note::SessionEnded) && ended.end.duration_ms < 1_500);
        session.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
    });
}

#[test]
fn a_signal_below_the_shell_is_inferred() {
    with(async {
        let mut session = open().await;
        for (text, code, name) in [
            ("bash -c 'kill -SEGV $$'", 139, "SEGV"),
            ("sh -c 'kill -9 $$'", 137, "KILL"),
            ("(exit 143)", 143, "TERM"),
        ] {
            let ended = session.run(text).await;
            let reason = Reason::Signal { signal: name.to_owned(), inferred: true };
            assert_eq!(
                (ended.end.exit_code, ended.end.reason),
                (Some(code), Some(reason)),
                "{text}"
            );
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn an_interrupt_leaves_a_usable_session() {
    with(async {
        let mut session = open().await;
        for text in [
            "sleep 300",
            "sleep 300 | cat",
            "declare v=3; sleep 300",
            "while :; do :; done",
            "while :; do sleep 1; done",
            "f() { for i in 1 2 3; do sleep 100; done; }; f",
            "x=$(sleep 300)",
            "sleep 300 & wait",
            "unset PROMPT_COMMAND; sleep 300",
            "trap 'echo trapped' DEBUG; sleep 300; trap - DEBUG",
            "trap - DEBUG; read -r line",
            "set -m; (trap '' INT; sleep 300) & (sleep 300; echo no)",
        ] {
            let id = session.begin(command("", text)).await;
            session.until(|fact| matches!(fact, FactBody::Started { .. }).then_some(())).await;
            tokio::time::sleep(std::time::Duration::from_millis(40)).await;
            session
                .link
                .send(&Ask::End { command: id.clone(), reason: Reason::INTERRUPT })
                .unwrap();
            let ended = session.end_of(&id).await;
            assert_eq!(ended.end.state, CommandState::Failed, "{text}");
            // Jobs in the background get no interrupt.
            let signal = if text.contains(" & ") { "TERM" } else { "INT" };
            let reason = Reason::Interrupted { signal: Some(signal.to_owned()) };
            assert_eq!(ended.end.reason, Some(reason), "{text}");
            assert_eq!(ended.end.exit_code, Some(130), "{text}");
            assert!(ended.end.duration_ms < 1_500, "{text}: {ended:?}");
            for child in &ended.end.children {
                assert!(child.ended && !lives(child.pid), "{text}: {ended:?}");
            }
            let next = session.run("trap - DEBUG; echo ${v-}next").await;
            assert!(next.stdout.ends_with("next\n"), "{text}: {next:?}");
        }
        assert_eq!(session.run("echo $v").await.stdout, "3\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_queued_command_is_dropped() {
    with(async {
        let mut session = open().await;
        let running = session.begin(command("", "sleep 300")).await;
        let queued = session.begin(command("", "echo no")).await;
        session
            .link
            .send(&Ask::End { command: queued.clone(), reason: Reason::INTERRUPT })
            .unwrap();
        let dropped = session.end_of(&queued).await.end;
        assert_eq!((dropped.reason, dropped.started_at), (Some(Reason::INTERRUPT), None));
        session.link.send(&Ask::Close).unwrap();
        let closed = session.end_of(&running).await.end;
        assert_eq!(closed.reason, Some(Reason::SessionClosed));
        session.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
    });
}

#[test]
fn an_idle_shell_that_dies_closes_its_session() {
    with(async {
        let mut session = open().await;
        let shell = Pid::from_raw(session.shell).unwrap();
        rustix::process::kill_process(shell, Signal::KILL).unwrap();
        session.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
        assert_eq!(session.fact().await, None);
    });
}

#[test]
fn without_a_coordinator_nothing_is_left() {
    with(async {
        let mut session = open().await;
        let started = session
            .run("setsid sleep 300 & (trap '' TERM; exec sleep 300) & sleep 0.05; echo $!")
            .await;
        let mut endless = command("", "sleep 300");
        endless.limit = Limit::Unlimited;
        session.begin(endless).await;
        let (holder, shell) = (session.holder, session.shell);
        let children: Vec<i32> = started.end.children.iter().map(|child| child.pid).collect();
        assert_eq!(children.len(), 2, "{started:?}");
        drop(session);
        eventually("the tree is gone", || {
            !lives(holder) && !lives(shell) && !children.iter().any(|&child| lives(child))
        })
        .await;
    });
}

#[test]
fn interrupts_at_any_moment_hit_their_own_command_alone() {
    with(async {
        let mut session = open().await;
        for round in 0..400_u64 {
            let text = ["true", "sleep 0.003", "/bin/true; echo x | cat", "x=$(echo a)"];
            let first = session.begin(command("", text[usize::try_from(round % 4).unwrap()])).await;
            let second = session.begin(command("", "echo second; (exit 3)")).await;
            tokio::time::sleep(std::time::Duration::from_micros(round * 97 % 4_000)).await;
            let ask = Ask::End { command: first.clone(), reason: Reason::INTERRUPT };
            session.link.send(&ask).unwrap();
            let ended = session.end_of(&first).await.end;
            let clean = ended.exit_code == Some(0) && ended.reason.is_none();
            let interrupted = matches!(ended.reason, Some(Reason::Interrupted { .. }));
            assert!(clean || interrupted, "{round}: {ended:?}");
            assert!(ended.duration_ms < 1_000, "{round}: {ended:?}");
            let first_ended = ended;
            let ended = session.end_of(&second).await;
            assert_eq!(
                (ended.end.exit_code, &*ended.stdout),
                (Some(3), "second\n"),
                "{round}: {first_ended:?} {ended:?}"
            );
            session.facts.clear();
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_session_that_is_closed_runs_its_exit_trap() {
    with(async {
        for (text, running) in [
            ("trap 'sleep 0.05; echo out; echo err >&2; touch ran' EXIT", None),
            ("trap 'kill %1; wait; touch ran' EXIT; sleep 300 &", None),
            ("set -ex; trap 'touch ran' EXIT", None),
            ("trap 'touch ran' EXIT", Some("sleep 300")),
            ("trap 'touch ran' EXIT", Some("read x")),
            ("trap 'touch ran' EXIT", Some("while :; do :; done")),
            ("sleep 300 &", None),
        ] {
            let mut session = open().await;
            let ended = session.run(text).await;
            let children: Vec<i32> = ended.end.children.iter().map(|child| child.pid).collect();
            if let Some(text) = running {
                session.begin(command("", text)).await;
                session.until(|fact| matches!(fact, FactBody::Started { .. }).then_some(())).await;
            }
            let folder = session.folder.path().to_owned();
            session.link.send(&Ask::Close).unwrap();
            let began = std::time::Instant::now();
            session.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
            assert!(began.elapsed().as_millis() < 900, "{text} {running:?}");
            assert_eq!(
                folder.join("work/ran").exists(),
                text.contains("touch"),
                "{text} {running:?}"
            );
            assert!(!children.into_iter().any(lives), "{text}");
            if text.contains("echo out") {
                let raw = std::fs::read(folder.join("transcript/out.raw")).unwrap();
                assert_eq!(String::from_utf8_lossy(&raw), "out\r\nerr\r\n");
            }
        }
        // But not for ever.
        let mut session = open().await;
        session.run("trap 'sleep 300; sleep 300' EXIT").await;
        let began = std::time::Instant::now();
        assert_eq!(session.close().await, 0);
        assert!((2..5).contains(&began.elapsed().as_secs()));
    });
}

#[test]
fn the_line_end_of_an_interrupt_is_nobodys() {
    with(async {
        let mut session = open().await;
        for (text, stdout) in [
            ("sleep 300", ""),
            ("echo a; sleep 300 | cat", "a\n"),
            ("printf a; sleep 300", "a"),
            ("sh -c 'trap \"echo bye; exit\" INT; sleep 300'", "bye\n"),
            ("while :; do sleep 1; done", ""),
        ] {
            let mut limited = command("", text);
            limited.limit = Limit::Exact { ms: 200 };
            let ended = session.run_as(limited).await;
            assert_eq!(ended.end.state, CommandState::Timeout, "{text}");
            assert_eq!(ended.stdout, stdout, "{text}");
            assert_eq!(session.run("echo next").await.stdout, "next\n", "{text}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_broken_driver_ends_its_session_soon() {
    with(async {
        for text in [
            "shopt -s extdebug; trap false DEBUG",
            "for i in {3..255}; do eval \"exec $i>&-\"; done",
        ] {
            let mut session = open().await;
            let ended = session.run(text).await;
            assert_eq!(ended.end.state, CommandState::Failed, "{ended:?}");
            assert!(ended.end.notes.contains(&Note::SessionEnded), "{ended:?}");
            assert!(ended.end.duration_ms < 1_000, "{ended:?}");
            assert!(ended.stdout.len() + ended.stderr.len() < 4_096, "{ended:?}");
            session.until(|fact| matches!(fact, FactBody::Closed { .. }).then_some(())).await;
        }
    });
}
