//! What commands start, leave behind and do to their own session.

use std::time::{Duration, Instant};

use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::result::Note;
use callboard::domain::session::{Limit, Shell};

use super::house::*;
use super::shells::{open_with, with_each};

fn commands(ended: &Ended) -> Vec<&str> {
    ended.end.children.iter().map(|child| child.command.as_str()).collect()
}

#[test]
fn t49_t50_whatever_is_left_behind_is_listed_and_keeps_nothing_waiting() {
    with_each(|shell, mut session| async move {
        let background = if shell == Shell::Fish { "&" } else { "& :;" };
        let daemon = "python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(300)'";
        let cases = [
            (format!("sleep 301 {background}"), "sleep 301"),
            (format!("nohup sleep 302 >/dev/null 2>&1 {background}"), "sleep 302"),
            (format!("setsid sleep 303 {background}"), "sleep 303"),
            ("sh -c 'sleep 304 & exit 0'".to_owned(), "sleep 304"),
            ("sh -c '(setsid sleep 305 &)'".to_owned(), "sleep 305"),
            (format!("{daemon}; echo up"), "time.sleep(300)"),
            ("bash -c 'bash -c \"sleep 306 & disown\"'".to_owned(), "sleep 306"),
        ];
        for (text, left) in &cases {
            let began = Instant::now();
            let ended = session.run(text).await;
            assert_eq!(ended.end.state, CommandState::Completed, "{shell:?} {text}: {ended:?}");
            assert!(began.elapsed() < Duration::from_secs(3), "{shell:?} {text}");
            let listed = commands(&ended);
            assert!(
                listed.len() <= 2 && listed.iter().any(|child| child.contains(left)),
                "{shell:?} {text}: {listed:?}"
            );
        }
        // Each is told by its own command alone, and all go with the session.
        assert_eq!(commands(&session.run("true").await), [""; 0], "{shell:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn t44_a_session_whose_folder_is_gone_recovers() {
    with_each(|shell, mut session| async move {
        let place = session.folder.path().join("w");
        let text = format!("mkdir -p {0} && cd {0}", place.display());
        assert_eq!(session.run(&text).await.end.cwd, place.to_str().unwrap(), "{shell:?}");
        std::fs::remove_dir(&place).unwrap();
        let ended = session.run("echo hello").await;
        assert_eq!(ended.stdout, "hello\n", "{shell:?}: {ended:?}");
        let path = place.to_str().unwrap().to_owned();
        assert!(ended.end.notes.contains(&Note::CwdMissing { path }), "{shell:?}: {ended:?}");
        let ended = session.run("cd / && pwd").await;
        assert_eq!((&*ended.stdout, &*ended.end.cwd), ("/\n", "/"), "{shell:?}: {ended:?}");
        assert_eq!(ended.end.notes, [], "{shell:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn t45_the_place_is_kept_whatever_the_status() {
    with_each(|shell, mut session| async move {
        let ended = session.run("cd /tmp && false").await;
        assert_eq!((ended.end.exit_code, &*ended.end.cwd), (Some(1), "/tmp"), "{shell:?}");
        assert_eq!(session.run("pwd").await.stdout, "/tmp\n", "{shell:?}");
        let ended = session.run("cd /tmp; cd /nonexist").await;
        assert!(ended.end.exit_code.is_some_and(|code| code != 0), "{shell:?}: {ended:?}");
        assert_eq!(ended.end.cwd, "/tmp", "{shell:?}");
        // A subshell's place is its own.
        session.run("sh -c 'cd /usr'").await;
        let inner = if shell == Shell::Fish { "fish -c 'cd /usr'" } else { "(cd /usr)" };
        assert_eq!(session.run(inner).await.end.cwd, "/tmp", "{shell:?}");
        // Where a command is to run it runs, and the session stays there.
        let mut spec = command("", "pwd");
        spec.cwd = Some("/usr".into());
        let ended = session.run_as(spec).await;
        assert_eq!((&*ended.stdout, &*ended.end.cwd), ("/usr\n", "/usr"), "{shell:?}");
        let mut spec = command("", "pwd");
        spec.cwd = Some("/nonexist".into());
        let ended = session.run_as(spec).await;
        assert!(matches!(ended.end.reason, Some(Reason::StartFailed { .. })), "{shell:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn t97_results_are_told_apart_however_they_are_asked_for() {
    with_each(|shell, mut session| async move {
        let mut ids = Vec::new();
        for number in 0..4 {
            ids.push(
                session
                    .begin(command("", &format!("echo out-{number}; sh -c 'exit {number}'")))
                    .await,
            );
        }
        for (number, id) in ids.iter().enumerate().rev() {
            let ended = session.end_of(id).await;
            assert_eq!(ended.stdout, format!("out-{number}\n"), "{shell:?}");
            assert_eq!(ended.end.exit_code, i32::try_from(number).ok(), "{shell:?}");
        }
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn t55_signals_to_the_own_group_end_no_holder() {
    with_each(|shell, mut session| async move {
        let myself = if shell == Shell::Fish { "$fish_pid" } else { "$$" };
        for text in
            ["kill 0".to_owned(), format!("kill -TERM -{myself}"), format!("kill -TERM {myself}")]
        {
            if shell == Shell::Fish && text == "kill 0" {
                // There a job is a group of its own, and `kill` is a program.
                session.run("kill 0").await;
                continue;
            }
            let text =
                if shell == Shell::Fish { text.replace("-TERM -", "-TERM -- -") } else { text };
            let ended = session.run(&text).await;
            if ended.end.notes.contains(&Note::SessionEnded) {
                assert_eq!(shell, Shell::Fish, "{text}: {ended:?}");
                return;
            }
            assert_eq!(session.run("echo usable").await.stdout, "usable\n", "{shell:?} {text}");
        }
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn a_killed_shell_is_told_and_its_session_closes_whole() {
    with_each(|shell, mut session| async move {
        let myself = if shell == Shell::Fish { "$fish_pid" } else { "$$" };
        let background = if shell == Shell::Fish { "&" } else { "& :;" };
        session.run(&format!("sleep 300 {background}")).await;
        let ended = session.run(&format!("kill -9 {myself}")).await;
        let reason = Reason::Signal { signal: "KILL".to_owned(), inferred: false };
        assert_eq!(ended.end.reason, Some(reason), "{shell:?}: {ended:?}");
        assert!(ended.end.notes.contains(&Note::SessionEnded), "{shell:?}");
        while session.fact().await.is_some() {}
        let closed = session.facts.iter().any(|fact| {
            matches!(fact, callboard::session::wire::FactBody::Closed { survivors } if survivors.is_empty())
        });
        assert!(closed, "{shell:?}: {:?}", session.facts);
    });
}

#[test]
fn t52_t53_a_time_limit_ends_the_whole_tree() {
    with_each(|shell, mut session| async move {
        if shell == Shell::Fish {
            return;
        }
        for text in [
            "for i in 1 2 3; do (while :; do :; done) & done; wait",
            "yes | grep -c nothing | cat",
            "setsid sh -c 'while :; do :; done' & sleep 60",
        ] {
            let mut spec = command("", text);
            spec.limit = Limit::Exact { ms: 300 };
            let ended = session.run_as(spec).await;
            assert_eq!(ended.end.state, CommandState::Timeout, "{shell:?} {text}: {ended:?}");
            assert!(ended.end.children.iter().all(|child| child.ended && !lives(child.pid)));
            assert!(!ended.end.children.is_empty(), "{shell:?} {text}");
            assert_eq!(session.run("echo on").await.stdout, "on\n", "{shell:?} {text}");
        }
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn a_bomb_of_short_processes_hurts_no_holder() {
    with(async {
        let mut session = open().await;
        let text = "for i in {1..2000}; do : & done; wait; echo done";
        let mut spec = command("", text);
        spec.limit = Limit::Exact { ms: 60_000 };
        let ended = session.run_as(spec).await;
        assert_eq!(ended.stdout, "done\n", "{:?}", ended.end);
        assert_eq!(ended.end.children, []);
        // One that the limit ends in the middle.
        let mut spec = command(
            "",
            "b() { if (($1)); then b $(($1 - 1)) & b $(($1 - 1)) & wait; else sleep 300; fi; }; b 6",
        );
        spec.limit = Limit::Exact { ms: 400 };
        let ended = session.run_as(spec).await;
        assert_eq!(ended.end.state, CommandState::Timeout, "{:?}", ended.end.state);
        assert_eq!(session.run("echo on; jobs -r").await.stdout, "on\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn the_session_outlives_a_lack_of_descriptors() {
    with_each(|shell, mut session| async move {
        // bash keeps the driver's descriptors at 200 and above.
        let few = if shell == Shell::Bash { "ulimit -n 240" } else { "ulimit -n 20" };
        session.run(few).await;
        let ended = session.run("python3 -c 'import os\ntry:\n  while 1: os.open(\"/\", 0)\nexcept OSError: print(\"full\")'").await;
        assert_eq!(ended.stdout, "full\n", "{shell:?}: {ended:?}");
        let ended = session.run("echo on | cat").await;
        assert_eq!(ended.stdout, "on\n", "{shell:?}: {ended:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn closed_standard_descriptors_do_not_end_a_session() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Sh] {
        with(async {
            let Some(mut session) = open_with(shell).await else { return };
            let ended = session.run("exec 0<&- 1>&- 2>&-").await;
            assert_eq!(ended.end.state, CommandState::Completed, "{shell:?}: {ended:?}");
            // What the shell has given up stays given up; statuses are told all the same.
            let ended = session.run("sh -c 'exit 3'").await;
            assert_eq!(ended.end.exit_code, Some(3), "{shell:?}: {ended:?}");
            assert_eq!(session.run("cd /").await.end.cwd, "/", "{shell:?}");
            assert_eq!(session.close().await, 0, "{shell:?}");
        });
    }
}

#[test]
fn stderr_given_elsewhere_stays_there() {
    for shell in [Shell::Zsh, Shell::Sh] {
        with(async {
            let Some(mut session) = open_with(shell).await else { return };
            session.run("exec 2>err.txt").await;
            let ended = session.run("echo out; echo err >&2").await;
            assert_eq!((&*ended.stdout, &*ended.stderr), ("out\n", ""), "{shell:?}");
            assert_eq!(session.run("cat err.txt").await.stdout, "err\n", "{shell:?}");
            assert_eq!(session.close().await, 0, "{shell:?}");
        });
    }
}

#[test]
fn tracing_shows_the_commands_own_lines_alone() {
    for shell in [Shell::Zsh, Shell::Sh] {
        with(async {
            let Some(mut session) = open_with(shell).await else { return };
            session.run("set -x").await;
            let ended = session.run("echo traced").await;
            assert_eq!(ended.stdout, "traced\n", "{shell:?}");
            let lines: Vec<_> = ended.stderr.lines().collect();
            assert!(lines.len() == 1 && lines[0].ends_with("echo traced"), "{shell:?}: {ended:?}");
            session.run("set +x").await;
            assert_eq!(session.run("echo plain").await.stderr, "", "{shell:?}");
            assert_eq!(session.close().await, 0, "{shell:?}");
        });
    }
}

#[test]
fn names_that_a_driver_uses_may_be_anybodys() {
    for (shell, text) in [
        (
            Shell::Sh,
            "printf() { :; }; command() { :; }; cd() { :; }; alias eval=false printf=false",
        ),
        (
            Shell::Zsh,
            "builtin() { :; }; printf() { :; }; read() { :; }; alias eval=false builtin=false",
        ),
        (Shell::Zsh, "setopt ksharrays shwordsplit noclobber; IFS=0123456789"),
        (Shell::Sh, "IFS=0123456789; set -C -f -u"),
        (
            Shell::Fish,
            "function printf; end; function test; end; function read; end; function cd; end; function count; end",
        ),
    ] {
        with(async {
            let Some(mut session) = open_with(shell).await else { return };
            session.run(text).await;
            for _ in 0..2 {
                let ended = session.run("sh -c 'echo on; exit 3'").await;
                assert_eq!(
                    (&*ended.stdout, ended.end.exit_code),
                    ("on\n", Some(3)),
                    "{shell:?} {text}: {ended:?}"
                );
            }
            assert_eq!(session.close().await, 0, "{shell:?}");
        });
    }
}
