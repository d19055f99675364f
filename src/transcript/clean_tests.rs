//! What a reader gets to see of what a terminal was sent.

use proptest::prelude::*;

use super::*;

fn cleaned(text: &str) -> String {
    clean(text, Size { cols: 20, rows: 5 }).text
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(cleaned(text), *expected, "{text:?}");
    }
}

#[test]
fn plain_text_is_left_alone() {
    check(&[
        ("", ""),
        ("a\nb", "a\nb"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\r\r\nb", "a\nb"),
        ("trailing  \r\n\tand tab\t\r\n", "trailing  \n\tand tab\t\n"),
        ("a line that is longer than the screen\r\n", "a line that is longer than the screen\n"),
        ("你好 \u{301}é\r\n", "你好 \u{301}é\n"),
        ("nul\0 bell\x07 del\x7f so\x0e\r\n", "nul bell del so\n"),
        ("form\x0cfeed\x0bdone", "form\nfeed\ndone"),
    ]);
}

#[test]
fn sequences_go() {
    check(&[
        (
            "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b]3008;start=1\x1b\\ \
             \x1bPq#0\x1b\\ \x1b[1;31mred\x1b[0m 2\n",
            "link   red 2\n",
        ),
        ("\x1b]0;abc\nnext\n", "\nnext\n"),
        ("\x1b]0;abc\r\nnext\r\n", "\nnext\n"),
        ("\u{2028}a\0\x1b\n", "a\n"),
        ("x\x1b[m\x1b[K\r\n", "x\n"),
        ("\x1b[?2004h\x1b[?25l\x1b=\x1b>x\x1b[6n\x1b[c", "x"),
        ("a\x1b[31", "a"),
        ("\x1b(0lqk\x1b(B lqk", "┌─┐ lqk"),
    ]);
}

#[test]
fn redrawn_lines() {
    check(&[
        ("10%\r50%\r100%\r\ndone", "100%\ndone"),
        ("progress\r        \rdone\n", "done\n"),
        ("long text\rshort\n", "shorttext\n"),
        ("long text\r\x1b[Kshort\n", "short\n"),
        ("long text\r\x1b[2Kshort", "short"),
        ("|\x08/\x08-\x08\\\x08 \x08ok\r\n", "ok\n"),
        ("abc\x08 \x08\x08 \x08d", "ad"),
        ("a\tb\rc", "c\tb"),
        ("a\tb\x1b[1Dc", "a\tc"),
        ("name: \rname: ", "name: "),
        ("x\x1b[5Cy\n", "x     y\n"),
        ("abcdef\x1b[4D\x1b[2P\n", "abef\n"),
        ("abef\x1b[2D\x1b[2@cd\n", "abcdef\n"),
        ("abcdef\x1b[3G\x1b[2X\n", "ab  ef\n"),
        ("abc\x1b[4hX\x1b[1GY\x1b[4lZ", "YZbcX"),
        ("-\x1b[4b|", "-----|"),
        ("\r-\x1b[4b|", "-----|"),
        ("abc\x1b[1K\rd", "d"),
        ("你好\r1", "1 好"),
    ]);
}

#[test]
fn several_lines_are_redrawn() {
    check(&[
        ("one 0%\r\ntwo 0%\r\n\x1b[2Aone 9%\r\ntwo 9%\r\n", "one 9%\ntwo 9%\n"),
        ("a\nb\nc\n\x1b[2A\x1b[J", "a\n"),
        ("a\nb\nc\n\x1b[2F\x1b[2KB\x1b[2E!", "a\nB\nc\n!"),
        ("a\nb\x1b[1A\x1b[2Bc", "a\nb\n c"),
        ("a\nb\n\x1b[99A\x1b[2KX", "X\nb\n"),
        (
            "1\n2\n3\n4\n5\n6\n7\x1b[99AX",
            "1\n2\n3X\n4\n5\n6\n7".replace("3X", "3").replace("\n3\n", "\n3X\n").as_str(),
        ),
        ("a\nb\nc\x1b7\x1b[2;1HX\x1b8Y", "a\nX\ncY"),
        ("a\nb\nc\x1b[1;1H\x1b[1M", "b\nc\n"),
        ("a\nb\x1b[1A\x1b[1L", "\na\nb"),
        ("a\nb\x1bM\rX", "X\nb"),
        ("a\x1bEb\x1bDc", "a\nb\n c"),
    ]);
}

#[test]
fn the_screen_is_cleared() {
    check(&[
        ("old\r\nlines\r\n\x1b[H\x1b[2J\x1b[3Jnew\r\n", "new\n"),
        ("old\x1b[2J\x1b[Hnew", "new"),
        ("1\n2\n3\n4\n5\n6\n7\x1b[2J\x1b[Hnew\nx\x1b[H\x1b[KNEW\n", "1\n2\nNEW\nx"),
        ("1\n2\n3\n4\n5\n6\n7\n\x1b[H\x1b[Jnew", "1\n2\n3\nnew"),
        ("frame 1\nx\n\x1b[Hframe 2\x1b[K\ny\x1b[K\n", "frame 2\ny\n"),
        ("a\nb\n\x1bcnew", "new"),
        ("a\nbcd\x1b[2D\x1b[1J", "\n  d"),
    ]);
}

#[test]
fn a_status_line_below_a_scrolling_region() {
    // As apt draws its progress bar.
    let mut text = String::from("start\n\n\x1b7\x1b[0;4r\x1b8\x1b[1A");
    text.extend(
        (0..6).map(|n| format!("\x1b7\x1b[5;0f\x1b[42mProgress {n}\x1b[m\x1b8line {n}\r\n")),
    );
    text.push_str("\x1b7\x1b[0;5r\x1b8\x1b[1A\x1b[J");
    let text = cleaned(&text);
    assert!(text.starts_with("start\nline 0\nline 1\n"), "{text}");
    assert!(!text.contains("Progress"), "{text}");
}

#[test]
fn wrapped_lines_are_joined() {
    let long = "0123456789abcdefghijABCDE";
    check(&[
        (format!("x\r{long}\r\n").as_str(), "0123456789abcdefghijABCDE\n"),
        // A redraw starts at the last row of the line, as on the screen.
        (format!("{long}\rXY").as_str(), "0123456789abcdefghijXYCDE"),
        (format!("{long}\n\x1b[2A\rXY").as_str(), "XY23456789abcdefghijABCDE\n"),
        ("x\r0123456789abcdefghi你\n", "0123456789abcdefghi你\n"),
        ("\x1b[?7lx\r0123456789abcdefghijABC\n", "0123456789abcdefghijABC\n"),
    ]);
    let endless = "x".repeat(5000);
    assert_eq!(cleaned(&format!("{endless}\x1b[9A\ry")).len(), 5000);
}

#[test]
fn the_alternate_screen_is_kept_apart() {
    let size = Size::default();
    let seen = clean("before\r\n\x1b[?1049h\x1b[HFULL\x1b[?1049lafter\r\n", size);
    assert_eq!(seen, Cleaned { text: "before\nafter\n".to_owned(), full_screen: true });
    assert!(!clean("x\x1b[?25l", size).full_screen);
    let mut cleaner = Cleaner::new(size).on_alternate_screen();
    cleaner.feed("~\r\n~\x1b[?1049l$ ");
    assert!(!cleaner.is_on_alternate_screen());
    assert_eq!(cleaner.finish(), Cleaned { text: "$ ".to_owned(), full_screen: true });
}

/// Pieces of terminal output, with the sequences that move the cursor well represented.
fn output() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~]{0,30}",
        "\\PC{0,6}",
        Just("\r\n".to_owned()),
        Just("\r".to_owned()),
        Just("\n".to_owned()),
        Just("\t".to_owned()),
        Just("\x08".to_owned()),
        Just("你好\u{301}\u{200d}".to_owned()),
        "\x1b\\[[0-9]{0,3}(;[0-9]{1,3})?[@A-Za-z`]",
        "\x1b\\[\\?(7|25|47|1049)[hl]",
        "\x1b[78DEMc=>(]",
        "\x1b\\][0-9;a-z]{0,8}(\x07|\x1b\\\\|\n)?",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_text(text in output(), cut in any::<prop::sample::Index>()) {
        let size = Size { cols: 12, rows: 4 };
        let whole = clean(&text, size);
        let at = text.floor_char_boundary(cut.index(text.len() + 1));
        let mut cleaner = Cleaner::new(size);
        cleaner.feed(&text[..at]);
        cleaner.feed(&text[at..]);
        prop_assert_eq!(&cleaner.finish(), &whole);
        let mut cleaner = Cleaner::new(size);
        for ch in text.chars() {
            cleaner.feed(ch.encode_utf8(&mut [0; 4]));
        }
        prop_assert_eq!(&cleaner.finish(), &whole);
    }

    #[test]
    fn the_outcome_is_clean(text in output()) {
        let once = clean(&text, Size { cols: 12, rows: 4 }).text;
        prop_assert!(!once.contains(|ch: char| ch.is_control() && ch != '\n' && ch != '\t'));
        let twice = clean(&once, Size::default());
        prop_assert_eq!(&twice.text, &once);
        prop_assert!(!twice.full_screen);
    }
}

/// Output whose outcome this room and a full emulator have to agree on. Left out is where they
/// differ on purpose: a cleared screen, a row that grows where wrapping is off, and erasing from
/// behind the last column, which costs a terminal the row's last character.
fn drawing() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,14}",
        2 => Just("\r\n".to_owned()),
        1 => Just("\r".to_owned()),
        1 => Just("\x08".to_owned()),
        1 => Just("\x1b[C\t".to_owned()),
        1 => Just("\r你好".to_owned()),
        4 => "\x1b\\[[1-6]?[ABCDEFGd]",
        1 => "\x1b\\[[1-4];[1-9]H",
        2 => "\x1b\\[C\x1b\\[[01]?[JK]",
        1 => "\x1b\\[2K",
        2 => "\x1b\\[C\x1b\\[[1-4]?[PX@]|[a-z]\x1b\\[[1-4]?b",
        1 => "\r\n\x1b\\[[1-4]?[LM]\r",
        1 => "\x1b[78E]|\x1b\\[C\x1bD|\r\n\x1bM",
        1 => "\x1b\\[([12];4)?r",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| {
        let text = pieces.concat();
        // Nothing is restored that was not saved.
        let saved = text.find("\x1b7").unwrap_or(usize::MAX);
        match text.find("\x1b8") {
            Some(restored) if restored < saved => format!("\x1b7{text}"),
            _ => text,
        }
    })
}

fn trimmed(rows: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<_> = rows.map(|row| row.trim_end().to_owned()).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

/// The rows that a text fills on a screen of this size when it is simply printed.
fn rows_of(text: &str, size: Size) -> Vec<String> {
    let mut terminal =
        avt::Terminal::with_scrollback(size.cols.into(), size.rows.into(), None).unwrap();
    terminal.feed(text);
    trimmed(terminal.screen().all_lines().map(avt::Line::text))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_full_emulator_agrees(text in drawing()) {
        let size = Size { cols: 12, rows: 4 };
        let cleaned = clean(&text, size).text.replace('\n', "\r\n");
        prop_assert_eq!(rows_of(&cleaned, size), rows_of(&text, size), "{:?}", cleaned);
    }
}
