//! Texts reach the shell as they are, and each gives a clear result and a usable next command.

use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::result::Note;

use super::house::{Ended, command, open, with};

/// What a text is to give.
struct Row {
    text: &'static str,
    code: Option<i32>,
    stdout: &'static str,
    stderr: &'static str,
}

const fn row(text: &'static str, code: i32, stdout: &'static str, stderr: &'static str) -> Row {
    Row { text, code: Some(code), stdout, stderr }
}

fn check(row: &Row, ended: &Ended) {
    assert_eq!(ended.end.exit_code, row.code, "{}: {ended:?}", row.text);
    assert_eq!(ended.stdout, row.stdout, "{}", row.text);
    assert_eq!(ended.stderr, row.stderr, "{}", row.text);
    let state = if row.code == Some(0) { CommandState::Completed } else { CommandState::Failed };
    assert_eq!(ended.end.state, state, "{}", row.text);
}

/// One session takes them all, one after the other: none may spoil the next.
const TEXTS: &[Row] = &[
    row("echo hi; echo err >&2", 0, "hi\n", "err\n"),
    row("false", 1, "", ""),
    row("echo $?", 0, "1\n", ""),
    row("echo a # which", 0, "a\n", ""),
    row("", 0, "", ""),
    row("# nothing", 0, "", ""),
    row("cat <<'EOF'\nhello\n\tEOF-not-yet $x `y`\nEOF", 0, "hello\n\tEOF-not-yet $x `y`\n", ""),
    row("printf '%s' 'a != b!x'; echo \"a != b!x\"", 0, "a != b!xa != b!x\n", ""),
    row("echo '他说 ✅' \"\\\"好\\\" \\`x\\`\"", 0, "他说 ✅ \"好\" `x`\n", ""),
    row("printf 'a\\n\\n\\n'", 0, "a\n\n\n", ""),
    row("x=5; declare -a l=(1 2); declare y=7", 0, "", ""),
    row("echo $x ${l[1]} $y", 0, "5 2 7\n", ""),
    row(
        "read() { echo R; }; eval() { echo E; }; printf() { echo P; }; mapfile() { echo M; }",
        0,
        "",
        "",
    ),
    row("echo still", 0, "still\n", ""),
    row("unset -f read eval printf mapfile", 0, "", ""),
    row("builtin() { :; }; v=$BASHOPTS$SHELLOPTS; unset() { echo U; }", 0, "", ""),
    row("declare w=3; [ \"$v\" = \"$BASHOPTS$SHELLOPTS\" ] && type -t builtin", 0, "builtin\n", ""),
    row("builtin() { command builtin \"$@\"; }; set -o posix; unset -f unset", 0, "", ""),
    row("echo $w; [[ -o posix ]] && set +o posix && type -t builtin", 0, "3\nbuiltin\n", ""),
    row("exec 9>&-", 0, "", ""),
    row("set -x; echo x; set +x", 0, "x\n", "++++ echo x\n++++ set +x\n"),
    row(
        "echo a; break; echo b",
        0,
        "a\nb\n",
        "bash: break: only meaningful in a `for', `while', or `until' loop\n",
    ),
    row(
        "[ -f nope ] || continue 2\nbreak\necho built; false",
        1,
        "built\n",
        "bash: continue: only meaningful in a `for', `while', or `until' loop\n\
         bash: break: only meaningful in a `for', `while', or `until' loop\n",
    ),
    row("for i in 1 2 3; do [ $i = 2 ] && break; echo $i; done; echo $i", 0, "1\n2\n", ""),
    row("echo after", 0, "after\n", ""),
    row("return 5", 2, "", "bash: return: can only `return' from a function or sourced script\n"),
    row("set -u; echo $nope\necho after; set +u", 0, "after\n", "bash: nope: unbound variable\n"),
    row("echo ${q:?bad}; echo no", 1, "", "bash: q: bad\n"),
    row("set -f; IFS=0123456789; set -o noclobber", 0, "", ""),
    row("false | true; x=1a2; echo \"$x\"", 0, "1a2\n", ""),
    row("set +f +o noclobber; IFS=$' \\t\\n'", 0, "", ""),
    row("trap 'echo ERR' ERR; false; trap - ERR", 0, "ERR\n", ""),
    row(
        "shopt -s extdebug; t() { [ \"$BASH_COMMAND\" = skipme ] && return 1; return 0; }; trap t DEBUG",
        0,
        "",
        "",
    ),
    row("skipme; echo rc=$?; trap -p DEBUG", 0, "rc=0\ntrap -- 't' DEBUG\n", ""),
    row("trap - DEBUG; shopt -u extdebug", 0, "", ""),
    row("kill 0; kill -TERM -$$; kill -TERM $$", 0, "", ""),
    row("unset PROMPT_COMMAND", 0, "", ""),
    row(
        "echo a\nfi",
        2,
        "a\n",
        "bash: eval: line 2: syntax error near unexpected token `fi'\nbash: eval: line 2: `fi'\n",
    ),
    row("(exit 7)", 7, "", ""),
    row("cd /usr && pwd && (exit 3)", 3, "/usr\n", ""),
    row("pwd", 0, "/usr\n", ""),
    row(
        "tty=$(tty); [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && [ \"$tty\" = /dev/pts/${tty##*/} ] && echo yes",
        0,
        "yes\n",
        "",
    ),
    row("stty size; echo $- | tr -d B", 0, "40 120\nhims\n", ""),
    row("TMOUT=1; sleep 0.1", 0, "", ""),
    row("unset TMOUT; exec 2>/dev/null; echo kept >&2", 0, "", ""),
    row("echo kept >&2", 0, "", "kept\n"),
];

#[test]
fn texts() {
    with(async {
        let mut session = open().await;
        for row in TEXTS {
            let ended = session.run(row.text).await;
            check(row, &ended);
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn texts_that_are_not_whole_are_refused_before_they_run() {
    with(async {
        let mut session = open().await;
        for text in [
            "touch ran; echo \"unclosed",
            "touch ran; echo 'x",
            "touch ran\ncat <<EOF\nno end",
            "touch ran; echo a\\",
            "touch ran\nif true; then",
            "touch ran &&",
            "touch ran; echo $(",
            "touch ran; f() {",
        ] {
            let ended = session.run(text).await;
            let refused = matches!(ended.end.reason, Some(Reason::Incomplete { .. }));
            assert!(refused && ended.end.started_at.is_none(), "{text}: {ended:?}");
            assert_eq!(session.run("ls").await.stdout, "", "{text}");
        }
        let ended = session.run("echo a\0b").await;
        let Some(Reason::Incomplete { message }) = ended.end.reason else { panic!("{ended:?}") };
        assert!(message.contains("byte offset 6"), "{message}");
        // Whole, though they look otherwise.
        for (text, stdout) in [
            ("echo a # not a quote ' \\", "a\n"),
            ("echo a\\\\", "a\\\n"),
            ("echo $(cat <<E\nb\nE\n)", "b\n"),
            ("case x in x) echo c;; esac", "c\n"),
        ] {
            assert_eq!(session.run(text).await.stdout, stdout, "{text}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_script_of_a_megabyte_arrives_whole() {
    with(async {
        let mut session = open().await;
        let line = "x=$((x+1)) # 他\n";
        let lines = 1_048_576 / line.len();
        let text = format!("x=0\n{}echo $x", line.repeat(lines));
        assert_eq!(session.run(&text).await.stdout, format!("{lines}\n"));
        assert_eq!(session.run("echo next").await.stdout, "next\n");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn commands_wait_in_their_order() {
    with(async {
        let mut session = open().await;
        let mut ids = Vec::new();
        for n in 0..4 {
            ids.push(
                session.begin(command("", &format!("echo {n}; exit_status={n}; (exit {n})"))).await,
            );
        }
        for (n, id) in ids.iter().enumerate() {
            let ended = session.end_of(id).await;
            assert_eq!(ended.stdout, format!("{n}\n"));
            assert_eq!(ended.end.exit_code, i32::try_from(n).ok());
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn statuses_of_pipelines() {
    with(async {
        let mut session = open().await;
        for (text, statuses, masked) in [
            ("sh -c 'exit 1' | tail -5", vec![1, 0], true),
            ("grep zzz /etc/hostname | wc -l", vec![1, 0], true),
            ("yes | head -1", vec![141, 0], false),
            ("true | true", vec![0, 0], false),
            ("true", vec![0], false),
            // A pipeline of one, whatever runs inside it.
            ("f() { false | true; }", vec![0], false),
            ("f", vec![0], false),
            ("eval \"$(printf 'false \\174 true')\"", vec![0], false),
            // The text does not show it.
            ("alias x='false | true'", vec![0], false),
            ("x", vec![1, 0], true),
            ("unalias x; printf \"alias y='false \\174 true'\" >y", vec![0], false),
            ("source ./y\ny", vec![1, 0], true),
            ("unalias y", vec![0], false),
            ("! false", vec![0], false),
        ] {
            let ended = session.run(text).await;
            assert_eq!(ended.end.exit_code, Some(0), "{text}");
            assert_eq!(ended.end.pipe_status, Some(statuses.clone()), "{text}");
            let note = Note::MaskedFailure { pipe_status: statuses };
            assert_eq!(ended.end.notes.contains(&note), masked, "{text}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_command_sees_no_private_descriptor() {
    with(async {
        let mut session = open().await;
        for text in [
            "ls /proc/self/fd | tr '\\n' ' '",
            "(sleep 0.05; ls /proc/self/fd | tr '\\n' ' '; :) & wait",
            "x=$(ls /proc/self/fd | tr '\\n' ' '); echo -n \"$x\"",
            "ls /proc/self/fd | cat | tr '\\n' ' '",
        ] {
            assert_eq!(session.run(text).await.stdout, "0 1 2 3 ", "{text}");
        }
        let environment = session
            .run("cat /proc/self/environ | tr '\\0' '\\n' | cut -d= -f1 | sort | tr '\\n' ' '");
        let names = "HOME LANG OLDPWD PATH PWD SHLVL TERM _ ";
        let seen = environment.await.stdout;
        assert!(seen == names || seen == names.replace("OLDPWD ", ""), "{seen}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn both_streams_over_one_terminal_keep_their_order() {
    with(async {
        let mut session = open().await;
        let text = "for i in 1 2 3; do echo o$i; echo e$i >&2; done";
        let apart = session.run(text).await;
        assert_eq!((&*apart.stdout, &*apart.stderr), ("o1\no2\no3\n", "e1\ne2\ne3\n"));
        let mut merged = command("", text);
        merged.merge = true;
        let merged = session.run_as(merged).await;
        assert_eq!((&*merged.stdout, &*merged.stderr), ("o1\ne1\no2\ne2\no3\ne3\n", ""));
        assert!(merged.end.merged);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_cwd_of_its_own_stays() {
    with(async {
        let mut session = open().await;
        let mut there = command("", "pwd");
        there.cwd = Some("/usr/bin".into());
        assert_eq!(session.run_as(there).await.stdout, "/usr/bin\n");
        assert_eq!(session.run("pwd").await.end.cwd, "/usr/bin");
        let mut nowhere = command("", "echo ran");
        nowhere.cwd = Some("/nowhere".into());
        let ended = session.run_as(nowhere).await;
        let Some(Reason::StartFailed { message }) = &ended.end.reason else { panic!("{ended:?}") };
        assert!(message.contains("/nowhere") && ended.stdout.is_empty());
        // A folder that goes away under the session is told, and does not hold it.
        session.run("cd /tmp && mkdir cb-gone.$$ && cd cb-gone.$$").await;
        session.run("rmdir \"$PWD\"").await;
        let hello = session.run("echo hello").await;
        assert_eq!(hello.stdout, "hello\n");
        let missing =
            |note: &Note| matches!(note, Note::CwdMissing { path } if path.contains("cb-gone"));
        assert!(hello.end.notes.iter().any(missing), "{hello:?}");
        assert_eq!(session.run("cd / && pwd").await.stdout, "/\n");
        assert_eq!(session.close().await, 0);
    });
}
