//! Programs that ask their terminal.

use callboard::domain::key::Input;
use callboard::domain::session::Size;
use callboard::session::wire::Ask;

use super::house::{Session, command, open, with};

/// Asks over the terminal in raw mode, and prints what came up to the answer of the last question.
const ASK: &str = r"
import os, sys, tty, termios
fd = os.open('/dev/tty', os.O_RDWR)
old = termios.tcgetattr(fd)
tty.setraw(fd)
os.write(fd, b'QUESTIONS\x1b[5n')
got = b''
while not got.endswith(b'\x1b[0n'):
    got += os.read(fd, 1)
termios.tcsetattr(fd, termios.TCSANOW, old)
print(got[:-4])
";

async fn answers(session: &mut Session, questions: &str) -> String {
    let script = session.folder.path().join("work/ask.py");
    std::fs::write(script, ASK.replace("QUESTIONS", questions)).unwrap();
    let ended = session.run("python3 ask.py").await;
    assert_eq!(ended.end.exit_code, Some(0), "{ended:?}");
    assert!(ended.end.notes.is_empty(), "{ended:?}");
    let line = ended.stdout.lines().last().unwrap_or_default();
    // Before it stand the questions themselves.
    let (_, answers) = line.rsplit_once("b'").unwrap();
    answers.trim_end_matches('\'').to_owned()
}

#[test]
fn more_answers_than_a_terminal_takes_at_once_all_come() {
    with(async {
        let mut session = open().await;
        let questions = r"' + b''.join(b'\x1b]4;%d;?\x07' % n for n in range(256)) + b'\x1b[18t";
        let got = answers(&mut session, questions).await;
        assert_eq!(got.matches(r"\x1b]4;").count(), 256);
        assert!(got.ends_with(r"\x1b]4;255;rgb:eeee/eeee/eeee\x07\x1b[8;40;120t"), "{got}");
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn each_question_is_answered_once() {
    with(async {
        let mut session = open().await;
        let version = env!("CARGO_PKG_VERSION");
        for (question, answer) in [
            (r"\x1b[c", r"\x1b[?62;22c".to_owned()),
            (r"\x1b[>c", r"\x1b[>0;1;0c".to_owned()),
            (r"\x1b[=c", r"\x1bP!|00000000\x1b\\".to_owned()),
            (r"\x1b[?2026$p", r"\x1b[?2026;0$y".to_owned()),
            (r"\x1b[>q", format!(r"\x1bP>|callboard({version})\x1b\\")),
            (r"\x1b]11;?\x07", r"\x1b]11;rgb:0000/0000/0000\x07".to_owned()),
            (r"\x1bP+q544e\x1b\\", r"\x1bP0+r\x1b\\".to_owned()),
            (r"\x1bP$qm\x1b\\", r"\x1bP0$r\x1b\\".to_owned()),
            (r"\x1b[18t\x1b[14t", r"\x1b[8;40;120t\x1b[4;640;960t".to_owned()),
            (r"\x1b]52;c;?\x07\x1b[?u\x1b[21t", String::new()),
        ] {
            assert_eq!(answers(&mut session, question).await, answer, "{question}");
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn the_cursor_is_where_a_person_would_see_it() {
    with(async {
        let mut session = open().await;
        session.run("seq 1000").await;
        let read = "IFS= read -rsd R x; printf '%q' \"$x\"";
        for (print, place) in [
            (r"printf '\033[6n'", "1;1"),
            (r"printf 'ab\ncd\033[6n'", "2;3"),
            (r"printf '世界\033[6n'", "1;5"),
            (r"printf '\033[10;20H\033[6n'", "10;20"),
            (r"printf '\033[999;999H\033[6n'", "40;120"),
            (r"seq 100000; printf 'x\033[6n'", "40;2"),
            // Who asks over standard error reads from its standard input.
            (r"printf 'abc\033[6n' >&2", "1;4"),
        ] {
            let ended = session.run(&format!("{print}; {read}")).await;
            let expected = format!("$'\\E[{place}'");
            assert!(ended.stdout.ends_with(&expected), "{print}: {ended:?}");
        }
        let size = Size { cols: 60, rows: 20 };
        session.link.send(&Ask::Resize { size }).unwrap();
        assert_eq!(
            answers(&mut session, r"\x1b[999;999H\x1b[6n\x1b[19t").await,
            r"\x1b[20;60R\x1b[9;20;60t"
        );
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn nobody_else_reads_an_answer() {
    with(async {
        let mut session = open().await;
        // In line mode no program can read one: whoever reads the next line gets that line.
        let id = session
            .begin(command("", r#"printf '\033[6n\033[c> '; IFS= read -r x; printf '%q' "$x""#))
            .await;
        session
            .until(|fact| {
                matches!(fact, callboard::session::wire::FactBody::Awaiting { .. }).then_some(())
            })
            .await;
        let text = "a line\n".to_owned();
        session
            .link
            .send(&Ask::Input {
                request: 1,
                command: Some(id.clone()),
                input: Input::Text { text },
            })
            .unwrap();
        let ended = session.end_of(&id).await;
        assert!(ended.stdout.ends_with("> a line\na\\ line"), "{ended:?}");
        // Who asks in raw mode and goes leaves nothing to the next command, and no remark.
        for asked in [
            r"printf '\033[6n\033[c'",
            r"printf '\033[6n\033[c' >&2",
            r"printf '\033[c\033]11;?\007'; sleep 0.05",
        ] {
            for _ in 0..5 {
                let ended = session.run(&format!("stty raw -echo; {asked}")).await;
                assert!(ended.end.notes.is_empty(), "{ended:?}");
                let next = session.run("IFS= read -rsn 1 -t 0.1 x; printf '[%q]' \"$x\"").await;
                assert_eq!(next.stdout, "['']", "{asked}");
            }
        }
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn who_asks_without_end_harms_nobody() {
    with(async {
        let mut session = open().await;
        let text = r#"stty raw -echo; python3 -c "import os
for n in range(20000): os.write(1, b'\x1b[6n\x1b[c' + b'x' * 50)""#;
        let ended = session.run(text).await;
        assert_eq!(ended.end.exit_code, Some(0), "{:?}", ended.end);
        assert_eq!(session.run("echo next").await.stdout, "next\n");
        assert_eq!(session.close().await, 0);
    });
}
