//! Every shell at the holder's wire: what holds for bash holds for the others, as far as they can
//! tell.

use std::time::{Duration, Instant};

use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::result::Note;
use callboard::domain::session::{Shell, Size};
use callboard::session::wire::{Ask, FactBody};

use super::house::*;

/// A session with this shell; `None`, said on stderr, where the machine lacks it.
pub(super) async fn open_with(shell: Shell) -> Option<Session> {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(folder.path());
    spec.shell = shell;
    match open_as(stage(), folder, spec).await {
        Ok(session) => Some(session),
        Err(message) if message.contains("on this machine") => {
            eprintln!("skipped: {message}");
            None
        }
        Err(message) => panic!("{message}"),
    }
}

/// Runs a test once for every shell.
pub(super) fn with_each<F: Future<Output = ()>>(test: impl Fn(Shell, Session) -> F) {
    for (_, shell) in Shell::ALL {
        with(async {
            let Some(session) = open_with(shell).await else { return };
            test(shell, session).await;
        });
    }
}

async fn run_merged(session: &mut Session, text: &str) -> Ended {
    let mut spec = command("", text);
    spec.merge = true;
    session.run_as(spec).await
}

/// Runs a text, interrupts it once `ready` is in its output, and gives its end.
async fn interrupted(session: &mut Session, text: &str) -> Ended {
    let id = session.begin(command("", text)).await;
    session.until(|fact| matches!(fact, FactBody::Output { .. }).then_some(())).await;
    session.link.send(&Ask::End { command: id.clone(), reason: Reason::INTERRUPT }).unwrap();
    session.end_of(&id).await
}

#[test]
fn t38_every_shell_tells_status_text_and_place() {
    with_each(|shell, mut session| async move {
        let ended = session.run("false").await;
        assert_eq!(ended.end.exit_code, Some(1), "{shell:?} {ended:?}");
        let ended = session.run("echo hi; echo err >&2").await;
        assert_eq!(ended.end.state, CommandState::Completed, "{shell:?} {ended:?}");
        assert_eq!((&*ended.stdout, &*ended.stderr), ("hi\n", "err\n"), "{shell:?}");
        assert_eq!(ended.end.exit_code, Some(0));
        let ended = session.run("cd / && sh -c 'exit 3'").await;
        assert_eq!((ended.end.exit_code, &*ended.end.cwd), (Some(3), "/"), "{shell:?}");
        let ended = session.run("pwd").await;
        assert_eq!(ended.stdout, "/\n", "{shell:?}");
        let ended = session.run("false | true | sh -c 'exit 3'").await;
        let told = if shell == Shell::Sh { None } else { Some(vec![1, 0, 3]) };
        assert_eq!((ended.end.exit_code, &ended.end.pipe_status), (Some(3), &told), "{shell:?}");
        let ended = session.run("nosuchprogram").await;
        assert_eq!(ended.end.exit_code, Some(127), "{shell:?} {ended:?}");
        assert!(ended.stderr.contains("nosuchprogram"), "{shell:?} {ended:?}");
        // No name of the driver's is in its messages.
        assert!(!ended.stderr.contains("callboard") && !ended.stderr.contains("__cb"), "{ended:?}");
        let ended = run_merged(&mut session, "echo one; echo two >&2; echo three").await;
        assert_eq!(ended.stdout, "one\ntwo\nthree\n", "{shell:?} {ended:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn an_interrupt_leaves_a_usable_session() {
    with_each(|shell, mut session| async move {
        let endless = match shell {
            Shell::Fish => "echo go; while true; end",
            _ => "echo go; while :; do :; done",
        };
        for text in
            ["echo go; sleep 100", endless, "sh -c 'echo go; exec sleep 100' | cat", endless]
        {
            let began = Instant::now();
            let ended = interrupted(&mut session, text).await;
            let interrupted = Reason::Interrupted { signal: Some("INT".to_owned()) };
            assert_eq!(ended.end.reason, Some(interrupted), "{shell:?} {text}");
            // fish sets its colours back.
            let seen = callboard::transcript::clean::clean(&ended.stdout, Size::default()).text;
            assert_eq!(seen, "go\n", "{shell:?} {text}: {ended:?}");
            assert_eq!(ended.end.notes, [], "{shell:?} {text}");
            assert!(began.elapsed() < Duration::from_millis(1_500), "{shell:?} {text}");
            let next = session.run("echo next; echo err >&2").await;
            assert_eq!((&*next.stdout, &*next.stderr), ("next\n", "err\n"), "{shell:?} {text}");
        }
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn state_stays_between_commands() {
    with_each(|shell, mut session| async move {
        let (define, show) = match shell {
            Shell::Fish => (
                "set -gx A 'x y'; set b 2; function f; echo f:\"$argv\"; return 4; end; cd /usr",
                "echo $A $b; pwd; f 1 2",
            ),
            Shell::Sh => (
                "export A='x y'; b=2; f() { echo \"f:$*\"; return 4; }; cd /usr",
                "echo $A $b; pwd; f 1 2",
            ),
            _ => (
                "export A='x y'; typeset b=2; f() { echo \"f:$*\"; return 4; }; cd /usr",
                "echo $A $b; pwd; f 1 2",
            ),
        };
        assert_eq!(session.run(define).await.end.exit_code, Some(0), "{shell:?}");
        let ended = session.run(show).await;
        assert_eq!(ended.stdout, "x y 2\n/usr\nf:1 2\n", "{shell:?} {ended:?}");
        assert_eq!(ended.end.exit_code, Some(4), "{shell:?}");
        let last = if shell == Shell::Fish { "echo $status" } else { "echo $?" };
        assert_eq!(session.run(last).await.stdout, "4\n", "{shell:?}");
        let options = match shell {
            Shell::Fish => None,
            _ => Some(("set -o noglob", "echo /us*", "/us*\n")),
        };
        if let Some((set, show, shown)) = options {
            session.run(set).await;
            assert_eq!(session.run(show).await.stdout, shown, "{shell:?}");
        }
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn unfinished_text_is_refused_by_every_shell() {
    with_each(|shell, mut session| async move {
        let posix = [
            "echo \"open",
            "echo 'open",
            "if true; then echo a",
            "echo $(ls",
            "cat <<EOF\nno end",
            "echo a \\",
            "true &&",
            "for i in 1 2; do",
            "f() {",
        ];
        let fish = [
            "echo \"open",
            "echo 'open",
            "if true; echo a",
            "echo (ls",
            "begin; echo a",
            "echo a \\",
            "true &&",
            "for i in 1 2",
            "function f",
        ];
        for text in if shell == Shell::Fish { fish } else { posix } {
            let ended = session.run(text).await;
            let refused = matches!(&ended.end.reason, Some(Reason::Incomplete { message }) if !message.is_empty());
            assert!(refused, "{shell:?} {text:?}: {ended:?}");
        }
        for text in ["echo 'a b' \\\\", "# only a comment \\", "echo \"x\n\ty\"", "echo '<<EOF'"] {
            let ended = session.run(text).await;
            assert_eq!(ended.end.state, CommandState::Completed, "{shell:?} {text:?}: {ended:?}");
        }
        assert_eq!(session.run("echo usable").await.stdout, "usable\n", "{shell:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn odd_ends_are_told_by_every_shell() {
    with_each(|shell, mut session| async move {
        let fatal = match shell {
            Shell::Fish => vec![("echo (", None), ("break; echo x", None)],
            _ => {
                vec![("echo ${nope:?bad}", None), ("set -u; echo $nope", None), ("set +u", Some(0))]
            }
        };
        for (text, status) in fatal {
            let ended = session.run(text).await;
            if let Some(status) = status {
                assert_eq!(ended.end.exit_code, Some(status), "{shell:?} {text}: {ended:?}");
            }
            let next = session.run("echo next").await;
            assert_eq!(next.stdout, "next\n", "{shell:?} after {text}: {ended:?}");
        }
        // A long text, and one that is all quotes.
        let long = format!("echo '{}'", "long ".repeat(20_000));
        assert_eq!(session.run(&long).await.stdout.len(), 100_001, "{shell:?}");
        let quotes = format!("echo {}end", "'a'\"'\"".repeat(3_000));
        let ended = session.run(&quotes).await;
        assert_eq!(ended.stdout, format!("{}end\n", "a'".repeat(3_000)), "{shell:?}");
        // No descriptor of the driver's is seen.
        let ended = session.run("ls /proc/self/fd | cat").await;
        assert_eq!(ended.stdout, "0\n1\n2\n3\n", "{shell:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}

#[test]
fn the_shells_own_end_is_told_by_every_shell() {
    for (text, code) in [("exit 3", 3), ("exec sh -c 'exit 5'", 5), ("set -e; false", 1)] {
        with_each(|shell, mut session| async move {
            if shell == Shell::Fish && text.starts_with("set") {
                return;
            }
            session.run("sleep 300 &").await;
            let ended = session.run(text).await;
            assert_eq!(ended.end.exit_code, Some(code), "{shell:?} {text}: {ended:?}");
            let survives = shell == Shell::Bash && text.starts_with("set");
            let closed = ended.end.notes.contains(&Note::SessionEnded);
            assert!(closed || survives, "{shell:?} {text}: {ended:?}");
        });
    }
}

#[test]
fn jobs_never_keep_a_command_from_ending() {
    with_each(|shell, mut session| async move {
        let began = Instant::now();
        let ended = session.run("sleep 300 & echo up").await;
        assert!(began.elapsed() < Duration::from_secs(3), "{shell:?}");
        assert!(ended.stdout.ends_with("up\n"), "{shell:?}: {ended:?}");
        let left: Vec<_> = ended.end.children.iter().map(|child| &*child.command).collect();
        assert_eq!(left, ["sleep 300"], "{shell:?}");
        // Stopped from outside: the shell gets control back.
        let ended = session.run("sh -c 'kill -STOP $$'; echo back").await;
        assert!(ended.stdout.ends_with("back\n"), "{shell:?}: {ended:?}");
        let ended = session.run("sh -c 'kill -TSTP $$; echo resumed'").await;
        // fish itself does not tell.
        let told = if shell == Shell::Fish { 0 } else { 148 };
        assert_eq!(ended.end.exit_code, Some(told), "{shell:?}: {ended:?}");
        assert_eq!(ended.end.children.len(), 1, "{shell:?}: {ended:?}");
        let ended = session.run("fg").await;
        assert!(ended.stdout.contains("resumed\n"), "{shell:?}: {ended:?}");
        assert_eq!(session.close().await, 0, "{shell:?}");
    });
}
