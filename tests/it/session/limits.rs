//! Time limits, and the end of a whole tree.

use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::plan::StopRule;
use callboard::domain::result::Note;
use callboard::domain::session::{CommandSpec, Limit};

use super::house::{command, lives, open, with};

fn limited(text: &str, ms: u64) -> CommandSpec {
    CommandSpec { limit: Limit::Exact { ms }, ..command("", text) }
}

#[test]
fn at_the_limit_the_whole_tree_ends() {
    for text in [
        "for i in 1 2 3; do (while :; do :; done) & done; wait",
        "yes | grep -c nothing | cat",
        "setsid sh -c 'while :; do :; done' & sleep 60",
        "python3 -c 'import os,time;os.fork() and os._exit(0);os.setsid();os.fork() and os._exit(0);time.sleep(300)'; sleep 60",
        "sleep 60",
    ] {
        with(async {
            let mut session = open().await;
            let earlier = session.run("sleep 301 & echo $!").await;
            let ended = session.run_as(limited(text, 300)).await;
            assert_eq!(ended.end.state, CommandState::Timeout, "{text}");
            assert_eq!(ended.end.reason, Some(Reason::Total { limit_ms: 300 }), "{text}");
            assert!(ended.end.duration_ms < 3_000, "{text}: {ended:?}");
            assert!(!ended.end.children.is_empty(), "{text}");
            for child in &ended.end.children {
                assert!(child.ended && !lives(child.pid), "{text}: {child:?}");
            }
            assert_eq!(session.run("echo next").await.stdout, "next\n", "{text}");
            // An earlier job is none of the command's.
            let earlier: i32 = earlier.stdout.trim().parse().unwrap();
            assert!(lives(earlier), "{text}");
            assert_eq!(session.close().await, 0);
            assert!(!lives(earlier));
        });
    }
}

#[test]
fn what_ignores_every_signal_is_killed() {
    with(async {
        let mut session = open().await;
        let ended =
            session.run_as(limited("trap '' TERM INT HUP; while :; do sleep 1; done", 500)).await;
        assert_eq!(ended.end.state, CommandState::Timeout);
        assert!(ended.end.duration_ms < 500 + 2_500 + 1_000, "{ended:?}");
        assert!(ended.end.notes.contains(&Note::SessionEnded), "{ended:?}");
        for child in &ended.end.children {
            assert!(!lives(child.pid));
        }
        assert!(!lives(session.shell));
    });
    with(async {
        let mut session = open().await;
        let text = "sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done'";
        let ended = session.run_as(limited(text, 200)).await;
        assert!(ended.end.duration_ms < 200 + 2_500 + 500, "{ended:?}");
        assert_eq!(session.run("echo next").await.stdout, "next\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn the_heartbeat() {
    with(async {
        let mut session = open().await;
        let heartbeat = |text, ms, hard_ms| CommandSpec {
            limit: Limit::Heartbeat { ms, hard_ms },
            ..command("", text)
        };
        // Silent and idle: ended at the tier.
        let silent = session.run_as(heartbeat("tail -f /dev/null", 1_200, 60_000)).await;
        let Some(Reason::Silent { limit_ms: 1_200, last_output_ms }) = silent.end.reason else {
            panic!("{silent:?}")
        };
        assert!((1_200..1_400).contains(&last_output_ms));
        // Busy without a word, and printing without work: both go on.
        let busy = "end=$((SECONDS+2)); while [ $SECONDS -lt $end ]; do :; done; echo done";
        assert_eq!(session.run_as(heartbeat(busy, 1_200, 60_000)).await.stdout, "done\n");
        let chatty = "sh -c 'for i in 1 2 3 4; do echo $i; sleep 0.4; done'";
        assert_eq!(session.run_as(heartbeat(chatty, 1_100, 60_000)).await.stdout, "1\n2\n3\n4\n");
        // Up to the hard limit.
        let hard =
            session.run_as(heartbeat("while :; do echo x; sleep 0.05; done", 200, 700)).await;
        assert_eq!(hard.end.reason, Some(Reason::Total { limit_ms: 700 }));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_pattern_stops_a_command() {
    with(async {
        let mut session = open().await;
        let mut spec =
            command("", "echo fine; printf '\\033[31mFATAL\\033[0m: disk\\n' >&2; sleep 300");
        spec.stop_on =
            vec![StopRule { pattern: "^FATAL: d".to_owned(), reason: Some("full".to_owned()) }];
        let ended = session.run_as(spec).await;
        let reason =
            Reason::Stopped { pattern: "^FATAL: d".to_owned(), reason: Some("full".to_owned()) };
        assert_eq!((ended.end.reason, ended.end.exit_code), (Some(reason), None));
        assert!(ended.end.duration_ms < 1_000);
        let mut broken = command("", "echo ran");
        broken.stop_on = vec![StopRule { pattern: "(".to_owned(), reason: None }];
        let refused = session.run_as(broken).await;
        assert!(matches!(refused.end.reason, Some(Reason::StartFailed { .. })));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_flood_ends_at_its_limit() {
    with(async {
        let mut session = open().await;
        for text in ["yes", "yes >&2", "yes & sleep 60"] {
            let ended = session.run_as(limited(text, 300)).await;
            assert_eq!(ended.end.reason, Some(Reason::Total { limit_ms: 300 }), "{text}");
            assert!(ended.end.duration_ms < 2_000, "{text}");
            assert!(ended.end.span.raw_end > ended.end.span.raw_start, "{text}");
            assert_eq!(session.run("echo next").await.stdout, "next\n", "{text}");
        }
        // A job that never stops printing does not keep a command from ending.
        let ended = session.run("yes & sleep 0.05").await;
        assert!(ended.end.duration_ms < 2_000 && ended.end.children.len() == 1, "{:?}", ended.end);
        session.run("echo over").await;
        assert_eq!(session.close().await, 0);
    });
}
