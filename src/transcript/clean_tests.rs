//! What a reader gets to see of what a terminal was sent.

use proptest::prelude::*;

use super::*;
use crate::transcript::decode::Hint;
use crate::transcript::live::LiveDecoder;

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
        ("\x1b)0\x0elqk\x0f lqk\r\n", "┌─┐ lqk\n"),
        ("\x1bP1;2q#0!9~\n-~~\x1b\\after\n", "after\n"),
        ("\x1b_Gf=100;AAAA\x1b\\\x1b]1337;File=:AA==\x07x\x1bkname\x1b\\y", "xy"),
        // Closed by the 8-bit ST; controls as characters; bytes of a character that look like one.
        ("\x1b]0;t\u{9c}a\u{9b}31mb\u{90}x\u{9c}c\u{98}s\x1b\\", "abc"),
        ("Àà ě \u{85}x", "Àà ě \nx"),
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
        ("12345678\x1b[3g\x1b[4G\x1bH\ra\tb\tc", "a23b5678           c"),
        ("\x1b[3g\tx\x1b[?5W\r\n\tx", &format!("{}x\n\tx", " ".repeat(19))),
        ("👩\u{200d}💻 ok\r🎉\x1b[6Gk", "🎉💻 kk"),
        ("e\u{301}a\x08\x08o", "oa"),
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
        ("a\nb\x1b[Sc", "a\nb\n c"),
        ("a\nb\x1b[Tc", "\nac\nb"),
        ("1\n2\n3\n4\x1b[2;3r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy\x1b[?6l\x1b[1;1Hz", "z\nx\ny\n4"),
        ("\x1b[?6h\x1b[2;3r\x1b(0q\x1b[!p\x1b[1;1Hq", "q\n─"),
        // Rows outside the region are not shifted.
        ("1\n2\n3\n4\x1b[2;3r\x1b[1d\x1b[L\x1b[4d\x1b[M\x1b[3d\x1b[M", "1\n2\n\n4"),
        ("ab\x1b[?1048h\ncd\x1b[?1048lX", "abX\ncd"),
    ]);
}

#[test]
fn layers_that_are_pulled() {
    // As docker draws them: up to the layer's row, the row anew, and down again.
    let mut text = String::from("latest: Pulling from demo\r\n");
    text.extend(["aa", "bb", "cc"].map(|layer| format!("{layer}: Waiting\r\n")));
    for done in [1, 5, 9] {
        for (layer, up) in [("bb", 2), ("aa", 3), ("cc", 1)] {
            let bar = "#".repeat(done);
            text.extend([format!("\x1b[{up}A\x1b[2K\r{layer}: [{bar:<9}]\r\x1b[{up}B")]);
        }
    }
    text.push_str("\x1b[3A\x1b[2K\raa: Pull complete \r\x1b[3BStatus: new\r\n");
    let expected = "latest: Pulling from demo\naa: Pull complete \nbb: [#########]\ncc: [#########]\nStatus: new\n";
    assert_eq!(clean(&text, Size::default()).text, expected);
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
        "\x1b\\[\\?(6|7|25|47|1048|1049)[hl]",
        "\x1b[78DEHMc=>(]|[\x0e\x0f]|\x1b[()][0B]|\x1b\\[!p|\x1b\\[\\?5W",
        "\x1b[PX^_k][0-9;]{0,2}[q#!~a-z \n]{0,6}(\x07|\x1b\\\\|\x18|\u{9c})?",
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

#[test]
fn strings_may_be_cut_at_every_byte() {
    for string in [
        "\x1b]0;title\x07",
        "\x1b]8;;http://x/€\x1b\\link\x1b]8;;\x1b\\",
        "\x1bPq#0;2;0;0;0~~-\r\n!9?\x1b\\",
        "\x1bP+q544e\x1b\\\x1bXs\x1b\\\x1b^pm\u{9c}\x1b_apc\x1b\\",
        "\u{9d}0;t\u{9c}\u{9b}1;31mred\u{9b}m\x1bktmux\x1b\\",
        "\x1b]0;open\nnext",
        "\x1bPtmux;\x1b\x1b]52;c;AA==\x07\x1b\\",
    ] {
        let bytes = format!("a{string}b\r\n").into_bytes();
        let whole = of_bytes(&bytes, bytes.len(), None);
        assert!(whole.starts_with('a') && whole.ends_with("b\n"), "{whole:?}");
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(
                    of_pieces(&pieces, None),
                    whole,
                    "{string:?} cut at {first} and {second}"
                );
            }
        }
    }
}

/// From bytes to text as it is done while they come.
fn of_pieces(pieces: &[&[u8]], resize: Option<Size>) -> String {
    let size = Size { cols: 12, rows: 4 };
    let (mut decoder, mut cleaner) = (LiveDecoder::new(Hint::default()), Cleaner::new(size));
    let mut text = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        text.clear();
        decoder.feed(piece, &mut text);
        cleaner.feed(&text);
        let page = &cleaner.drawing.page;
        assert!(page.window.len() <= page.rows && page.row < page.rows);
        assert!(page.window.iter().all(|row| row.len() <= 4096));
        if let (0, Some(size)) = (at, resize) {
            cleaner.resize(size);
        }
    }
    text.clear();
    decoder.finish(&mut text);
    cleaner.feed(&text);
    cleaner.finish().text
}

fn of_bytes(bytes: &[u8], piece: usize, resize: Option<Size>) -> String {
    of_pieces(&bytes.chunks(piece.max(1)).collect::<Vec<_>>(), resize)
}

/// Bytes with all that a terminal, an encoding or this room looks at well represented.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => any::<u8>(),
        2 => Just(0x1b),
        4 => prop::sample::select(b"[]P_;?0127859ABCDHJKLMPSTXb@hlmrsugW\\\n\r\t\x08\x07".to_vec()),
        1 => prop::sample::select(b"\xe2\x80\xa8\xc2\x9b\x9c\xff\xfe\0".to_vec()),
    ];
    prop::collection::vec(byte, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_in_any_pieces(
        bytes in hostile(),
        piece in 1usize..40,
        (cols, rows) in (0u16..40, 0u16..10),
    ) {
        let text = of_bytes(&bytes, bytes.len(), None);
        prop_assert_eq!(&of_bytes(&bytes, piece, None), &text);
        // A window of another size in the middle of it all.
        let resized = of_bytes(&bytes, piece, Some(Size { cols, rows }));
        for text in [text, resized] {
            let is_odd = |ch: char| {
                matches!(ch, '\u{2028}' | '\u{2029}') || (ch.is_control() && !"\n\t".contains(ch))
            };
            prop_assert!(!text.contains(is_odd), "{text:?}");
            // No few bytes ask for much text: at most a screenful or so for a sequence.
            prop_assert!(text.len() <= 1000 + bytes.len() * 64, "{}", text.len());
            prop_assert_eq!(clean(&text, Size::default()).text, text);
        }
    }
}

/// Output whose outcome this room and a full emulator have to agree on. Left out is where they
/// differ on purpose: a cleared screen, a row that grows where wrapping is off, erasing from behind
/// the last column, which costs a terminal the row's last character, a tab from behind it, which
/// keeps the wrap that is due (as xterm does), and character sets that are restored with the cursor.
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
        1 => "\x1b\\[r\r\n\x1b\\[[1-4]?[LM]\r",
        1 => "\x1b\\[([12];4|2;3)r\x1b\\[[23]d\x1b\\[[1-4]?[LM]\r",
        1 => "\x1b[78E]|\x1b\\[C\x1bD|\r\n\x1bM",
        1 => "\x1b\\[([12];4)?r|\x1b\\[2;3r",
        1 => "\x1b\\[C\x1b\\[[0-5]?[ST]",
        1 => "\x1b\\[\\?6h(\x1b\\[[1-4](;[1-9])?H|\x1b\\[[1-4]d)[a-z]{0,3}\x1b\\[\\?6l",
        1 => "\x1b\\(0[a-z]{0,4}\x1b\\(B|\x1b\\)0\x0e[a-z]{0,4}\x0f",
        1 => "\x1bH|\x1b\\[[03]?g|\x1b\\[C\x1b\\[[1-2]?[IZ]",
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
