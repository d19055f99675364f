//! Keys by name and by bytes: tables, and what no table lists.

use proptest::prelude::*;

use super::{Input, Key, KeyModes, PASTE_END, PASTE_START, Refused, Written, pasted};

const PLAIN: KeyModes =
    KeyModes { application_cursor: false, application_keypad: false, bracketed_paste: false };
const APPLICATION: KeyModes =
    KeyModes { application_cursor: true, application_keypad: true, bracketed_paste: true };

fn key(name: &str) -> Key {
    name.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn keys_send_what_xterm_sends() {
    // Name, bytes, and the bytes in the application modes where they differ.
    for (name, plain, application) in [
        ("up", "\x1b[A", Some("\x1bOA")),
        ("down", "\x1b[B", Some("\x1bOB")),
        ("right", "\x1b[C", Some("\x1bOC")),
        ("left", "\x1b[D", Some("\x1bOD")),
        ("home", "\x1b[H", Some("\x1bOH")),
        ("end", "\x1b[F", Some("\x1bOF")),
        ("ctrl-up", "\x1b[1;5A", None),
        ("shift-left", "\x1b[1;2D", None),
        ("alt-right", "\x1b[1;3C", None),
        ("ctrl-alt-shift-end", "\x1b[1;8F", None),
        ("pgup", "\x1b[5~", None),
        ("pgdn", "\x1b[6~", None),
        ("ctrl-pgdn", "\x1b[6;5~", None),
        ("insert", "\x1b[2~", None),
        ("delete", "\x1b[3~", None),
        ("shift-delete", "\x1b[3;2~", None),
        ("f1", "\x1bOP", None),
        ("f4", "\x1bOS", None),
        ("shift-f1", "\x1b[1;2P", None),
        ("f5", "\x1b[15~", None),
        ("f6", "\x1b[17~", None),
        ("f10", "\x1b[21~", None),
        ("f11", "\x1b[23~", None),
        ("f12", "\x1b[24~", None),
        ("ctrl-f12", "\x1b[24;5~", None),
        ("enter", "\r", None),
        ("alt-enter", "\x1b\r", None),
        ("tab", "\t", None),
        ("shift-tab", "\x1b[Z", None),
        ("esc", "\x1b", None),
        ("backspace", "\x7f", None),
        ("ctrl-backspace", "\x08", None),
        ("alt-backspace", "\x1b\x7f", None),
        ("space", " ", None),
        ("ctrl-space", "\0", None),
        ("a", "a", None),
        ("A", "A", None),
        ("shift-a", "A", None),
        ("é", "é", None),
        ("-", "-", None),
        ("+", "+", None),
        ("^", "^", None),
        ("alt-x", "\x1bx", None),
        ("alt-X", "\x1bX", None),
        ("alt--", "\x1b-", None),
        ("alt-ü", "\x1bü", None),
        ("ctrl-a", "\x01", None),
        ("ctrl-c", "\x03", None),
        ("ctrl-d", "\x04", None),
        ("ctrl-z", "\x1a", None),
        ("ctrl-[", "\x1b", None),
        ("ctrl-\\", "\x1c", None),
        ("ctrl-]", "\x1d", None),
        ("ctrl-^", "\x1e", None),
        ("ctrl-_", "\x1f", None),
        ("ctrl-/", "\x1f", None),
        ("ctrl-?", "\x7f", None),
        ("ctrl-alt-c", "\x1b\x03", None),
        ("kp-0", "0", Some("\x1bOp")),
        ("kp-9", "9", Some("\x1bOy")),
        ("kp-plus", "+", Some("\x1bOk")),
        ("kp-enter", "\r", Some("\x1bOM")),
    ] {
        let text = |modes| String::from_utf8(key(name).bytes(modes)).unwrap();
        assert_eq!(text(PLAIN), plain, "{name}");
        assert_eq!(text(APPLICATION), application.unwrap_or(plain), "{name}");
    }
}

#[test]
fn a_key_has_several_names() {
    for (shown, others) in [
        ("ctrl-c", &["C-c", "c-c", "Ctrl+C", "control-c", "^c", "^C"][..]),
        ("alt-x", &["M-x", "meta-x", "Alt+x"]),
        ("pgup", &["PageUp", "page-up", "PGUP"]),
        ("shift-up", &["S-up", "SHIFT-UP"]),
        ("space", &["spc", " "]),
        ("-", &["minus"]),
        ("esc", &["Escape"]),
        ("delete", &["del"]),
    ] {
        for name in others {
            assert_eq!(key(name).to_string(), shown, "{name}");
        }
    }
}

#[test]
fn what_is_no_key_is_refused_with_a_suggestion() {
    for (name, message) in [
        ("entr", "no key is called `entr`: did you mean `enter`?"),
        ("ctrl-pagup", "no key is called `ctrl-pagup`: did you mean `ctrl-pgup`?"),
        ("crtl-c", "no key is called `crtl-c`: did you mean `ctrl-c`?"),
        ("f13", "no key is called `f13`: did you mean `f1`?"),
        ("ctrl-enter", "no terminal can send `ctrl-enter`: only alt can be held with it"),
        (
            "ctrl-é",
            "no terminal can send `ctrl-é`: with ctrl it knows a to z, space and `@[\\]^_/?` alone",
        ),
        (
            "shift-1",
            "no terminal can send `shift-1`: send the character itself that shift makes of it",
        ),
    ] {
        assert_eq!(name.parse::<Key>().unwrap_err().to_string(), message);
    }
    for name in
        ["", "\n", "\x1b", "hello world", "ctrl-", "ctrl", "--", "a\nb", &"x".repeat(10_000)]
    {
        let message = name.parse::<Key>().unwrap_err().to_string();
        assert!(!message.contains(['\n', '\x1b']) && message.len() < 300, "{message}");
    }
}

#[test]
fn a_paste_is_marked_where_the_program_asked_for_it() {
    assert_eq!(pasted("ab\ncd", PLAIN), "ab\ncd");
    assert_eq!(pasted("ab\ncd", APPLICATION), "\x1b[200~ab\ncd\x1b[201~");
    for bad in [
        "a\x1b[201~b",
        "a\x1b[20\x1b[201~1~b",
        "a\x1b[\x1b[20\x1b[201~1~201~b",
        "a\u{9b}201~b",
        "a\x1b[20\u{9b}201~1~b",
    ] {
        assert_eq!(pasted(bad, APPLICATION), "\x1b[200~ab\x1b[201~", "{bad:?}");
        assert_eq!(pasted(bad, PLAIN), bad);
    }
}

#[test]
fn a_secret_is_in_no_debug_output() {
    let secret = Input::Secret { text: "hunter2".to_owned() };
    assert_eq!(format!("{secret:?}"), "Secret { .. }");
    assert!(!format!("{:#?}", Some(vec![&secret])).contains("hunter2"));
    let sent = serde_json::to_string(&secret).unwrap();
    assert_eq!(sent, r#"{"input":"secret","text":"hunter2"}"#);
}

#[test]
fn inputs_and_receipts_as_documents() {
    let keys = Input::Keys { keys: vec![key("ctrl-c"), key("f5"), key("x")] };
    let text = r#"{"input":"keys","keys":["ctrl-c","f5","x"]}"#;
    assert_eq!(serde_json::to_string(&keys).unwrap(), text);
    assert_eq!(serde_json::from_str::<Input>(text).unwrap(), keys);
    let wrong = serde_json::from_str::<Input>(r#"{"input":"keys","keys":["ctlr-c"]}"#);
    assert!(wrong.unwrap_err().to_string().contains("did you mean `ctrl-c`?"));

    let refused = Some(Refused::LineTooLong { offset: 7, limit: 4095 });
    let json = serde_json::to_string(&Written { written: 0, refused }).unwrap();
    assert_eq!(json, r#"{"written":0,"refused":{"kind":"line_too_long","offset":7,"limit":4095}}"#);
    let all = Written { written: 3, refused: None };
    assert_eq!(serde_json::to_string(&all).unwrap(), r#"{"written":3}"#);
}

/// Names that are likely to be almost right.
fn names() -> impl Strategy<Value = String> {
    let hold =
        prop::sample::select(vec!["", "ctrl-", "C-", "alt+", "M-", "shift-", "S-", "^", "x-"]);
    let known = prop::sample::select(vec![
        "up",
        "pgup",
        "page-down",
        "f1",
        "f12",
        "f0",
        "enter",
        "tab",
        "esc",
        "backspace",
        "space",
        "delete",
        "kp-5",
        "kp-enter",
        "minus",
    ]);
    let last =
        prop_oneof![known.prop_map(str::to_owned), any::<char>().prop_map(String::from), ".{0,6}"];
    (hold.clone(), hold, last).prop_map(|(first, second, last)| format!("{first}{second}{last}"))
}

proptest! {
    #[test]
    fn any_name_is_a_key_or_refused(name in prop_oneof![names(), ".{0,80}"]) {
        match name.parse::<Key>() {
            Ok(key) => {
                prop_assert!(!key.bytes(PLAIN).is_empty() && !key.bytes(APPLICATION).is_empty());
                prop_assert_eq!(key.to_string().parse::<Key>(), Ok(key));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn no_paste_ends_before_its_end(parts in prop::collection::vec(
        prop::sample::select(vec!["\x1b", "[", "201", "~", "20", "1~", "\x1b[201~", "a", "\u{9b}"]), 0..40,
    )) {
        let sent = pasted(&parts.concat(), APPLICATION);
        let inside = sent.strip_prefix(PASTE_START).unwrap().strip_suffix(PASTE_END).unwrap();
        let ends = [PASTE_END, "\u{9b}201~"].iter().any(|end| inside.contains(end));
        prop_assert!(!ends);
        // A text's own end may be the beginning of a mark, but the whole has only one.
        prop_assert_eq!(sent.matches(PASTE_END).count(), 1);
    }
}
