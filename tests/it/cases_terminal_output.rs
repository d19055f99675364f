//! Failures seen in what other tools make of output, each by its id, against the real binary.

use std::io::Write;
use std::process::{Command, Stdio};

use callboard::transcript::screen::{Tail, of_tail};
use serde_json::{Value, json};

use crate::house::{House, skipped};

fn notes(result: &Value) -> Vec<&str> {
    result["notes"].as_array().unwrap().iter().map(|note| note["kind"].as_str().unwrap()).collect()
}

/// The result of a script that succeeded.
#[track_caller]
fn done((code, result): (i32, Value)) -> Value {
    assert_eq!((code, &result["state"]), (0, &json!("completed")), "{result:#}");
    result
}

/// The raw bytes of the house's only transcript.
fn raw(house: &House) -> Vec<u8> {
    let mut folders = vec![house.root().join("state")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name() == "out.raw" => found.push(entry.path()),
                false => {}
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    std::fs::read(&found[0]).unwrap()
}

#[track_caller]
fn raw_holds(house: &House, bytes: &[u8]) {
    let raw = raw(house);
    assert!(memchr::memmem::find(&raw, bytes).is_some(), "{:?}", raw.escape_ascii().to_string());
}

#[test]
fn t73_characters_cut_by_a_read_stay_whole() {
    let house = House::new();
    let result = done(house.exec(r#"python3 -c "print('你'*50000)""#));
    let text = result["stdout"].as_str().unwrap();
    // More than a result keeps: head and tail of it, and what is missing is counted.
    assert!(!text.contains('\u{fffd}'));
    let omitted = result["truncated"]["stdout"]["omitted_bytes"].as_u64().unwrap();
    assert_eq!(text.matches('你').count() as u64 * 3 + omitted, 150_000);
    assert_eq!(raw(&house), ["你".repeat(50_000).as_bytes(), b"\r\n"].concat());

    let house = House::new();
    let result = done(house.exec(r"printf '\xe2\x82'; sleep .3; printf '\xac\n'"));
    assert_eq!((&result["stdout"], &result["encoding"]), (&json!("€\n"), &json!("utf-8")));
    raw_holds(&house, b"\xe2\x82\xac");
}

#[test]
fn t73_half_a_character_is_not_shown_while_the_command_runs() {
    let house = House::new();
    // The one that answers is not waited for: the question keeps the command open.
    let script = r"printf 'price \xe2\x82'; read x; printf '\xac\n'";
    let (code, result) = house.exec_with(&["--session", "s"], script);
    assert_eq!((code, &result["state"]), (125, &json!("awaiting_input")), "{result:#}");
    assert_eq!(result["stdout"], "price ", "{result:#}");
}

#[test]
fn t74_gbk_is_read_as_gbk() {
    let house = House::new();
    let script = r"printf '\xb3\xc9\xb9\xa6: \xd2\xd1\xd6\xd5\xd6\xb9 PID 123\n'";
    let result = done(house.exec(script));
    assert_eq!(result["stdout"], "成功: 已终止 PID 123\n");
    assert_eq!(result["encoding"], "gbk");
    assert_eq!(notes(&result), [""; 0]);
    raw_holds(&house, b"\xb3\xc9\xb9\xa6: \xd2\xd1\xd6\xd5\xd6\xb9 PID 123");

    // Both in one command, each line by itself.
    let result = done(
        House::new().exec(r"echo 成功; printf '\xb3\xc9\xb9\xa6: \xd2\xd1\xd6\xd5\xd6\xb9\n'"),
    );
    assert_eq!(result["stdout"], "成功\n成功: 已终止\n");
    assert_eq!(result["encoding"], "utf-8+gbk");
}

#[test]
fn t75_short_text_is_judged_with_the_locale() {
    let script = r"printf '\xc4\xe3\xba\xc3\n'";
    let house = House::new().with_env("LANG", "zh_CN.GBK");
    let result = done(house.exec(script));
    assert_eq!((&result["stdout"], &result["encoding"]), (&json!("你好\n"), &json!("gbk")));
    assert!(!notes(&result).contains(&"encoding_guess"), "{result:#}");

    let house = House::new();
    let result = done(house.exec(script));
    assert!(notes(&result).contains(&"encoding_guess"), "{result:#}");
    raw_holds(&house, b"\xc4\xe3\xba\xc3");

    // And with the rest of the command's output.
    let script = format!(
        r"{script}; printf '\xb4\xed\xce\xf3: \xd5\xd2\xb2\xbb\xb5\xbd\xce\xc4\xbc\xfe\n' >&2"
    );
    let result = done(House::new().exec(&script));
    assert_eq!(
        (&result["stdout"], &result["stderr"]),
        (&json!("你好\n"), &json!("错误: 找不到文件\n"))
    );
    assert!(!notes(&result).contains(&"encoding_guess"), "{result:#}");
}

#[test]
fn t77_results_are_json_whatever_is_printed() {
    let house = House::new();
    let script = r"printf '\xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x80\xa8 \x00 \x1b\n'";
    let called = house.call(&["exec", "--json", "-c", script]);
    assert_eq!(called.code, 0, "{called:?}");
    let text = called.json()["stdout"].as_str().unwrap().to_owned();
    let odd = |ch: char| ch != '\n' && (ch.is_control() || matches!(ch, '\u{2028}' | '\u{2029}'));
    assert!(!text.contains(odd), "{text:?}");
    assert!(text.starts_with('\u{fffd}') && text.ends_with('\n'), "{text:?}");
    raw_holds(&house, b"\xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x80\xa8 \0 \x1b");

    // A reader other than our own, and everything there is.
    house.write(
        "all.py",
        "import sys\nfor n in range(4):\n  sys.stdout.buffer.write(bytes(range(256)))\n",
    );
    let called = house.call(&["exec", "--json", "-c", "python3 all.py"]);
    let mut python = Command::new("python3")
        .args([
            "-c",
            "import json,sys; json.loads(sys.stdin.buffer.read().decode('utf-8', 'strict'))",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(called.stdout.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success(), "{called:?}");
}

#[test]
fn t78_escape_sequences_of_every_kind_go() {
    let house = House::new();
    let script = r"printf '\e]0;title\a\e]8;;http://x\e\\link\e]8;;\e\\ \e]3008;start=1\e\\ \ePq#0\e\\ \e[1;31mred\e[0m 2\n'";
    assert_eq!(done(house.exec(script))["stdout"], "link   red 2\n");
    raw_holds(
        &house,
        b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b]3008;start=1\x1b\\ \x1bPq#0\x1b\\",
    );
    let result = done(House::new().exec(r"printf '\e]0;abc\nnext\n'"));
    assert_eq!(result["stdout"].as_str().unwrap().trim_start(), "next\n");
}

#[test]
fn t79_progress_is_shown_as_it_last_stood() {
    let script = r"for i in 1 50 100; do printf '\rload %d%%\e[K' $i; done; printf '\n'; printf 'a\nb\n\e[2A\e[2KA\n\n'";
    assert_eq!(done(House::new().exec(script))["stdout"], "load 100%\nA\nb\n");
    let long = "x".repeat(500);
    let result = done(House::new().exec(&format!("echo {long}")));
    assert_eq!(result["stdout"], format!("{long}\n"), "no line ends where the window does");
}

#[test]
fn t80_the_text_of_a_full_screen_program_is_not_its_pictures() {
    if !["/usr/bin/vim", "/usr/bin/vi"].iter().any(|path| std::path::Path::new(path).exists()) {
        return skipped("t80", "vi");
    }
    let house = House::new();
    let result = house.exec_with(
        &["--input", "ihello", "--input", "\x1b", "--input", ":q!\r"],
        "echo before; vi -u NONE -i NONE n; echo after",
    );
    let result = done(result);
    let text = result["stdout"].as_str().unwrap();
    assert!(text.starts_with("before\n") && text.ends_with("after\n"), "{text:?}");
    assert!(!text.contains("hello") && !text.contains('~'), "{text:?}");
    assert!(notes(&result).contains(&"full_screen"), "{result:#}");
    // The picture can be drawn from the raw bytes, as it stood before it was left.
    let raw = raw(&house);
    let left = memchr::memmem::rfind(&raw, b"\x1b[?1049l").unwrap();
    let (hint, size) = Default::default();
    let tail = Tail { bytes: &raw[..left], before: None, size, resizes: &[] };
    let screen = of_tail(&tail, &hint).screen();
    assert!(screen.full_screen && screen.lines[0] == "hello", "{screen:#?}");
}

#[test]
fn t81_the_alternate_screen_is_kept_apart() {
    let house = House::new();
    let result = done(house.exec(r"echo before; printf '\e[?1049h\e[HFULL\e[?1049l'; echo after"));
    assert_eq!(result["stdout"], "before\nafter\n");
    assert_eq!(notes(&result), ["full_screen"]);
    raw_holds(&house, b"\x1b[?1049h\x1b[HFULL\x1b[?1049l");
}

#[test]
fn binary_output_stays_small_and_readable() {
    let house = House::new();
    let result = done(house.exec("head -c 3000000 /dev/urandom; printf '\\nend\\n'"));
    assert!(serde_json::to_string(&result).unwrap().len() < 2_000_000);
    assert!(result["stdout"].as_str().unwrap().ends_with("end\n"));
}
