//! Patterns in output that comes in pieces.

use proptest::prelude::*;

use super::*;

const SIZE: Size = Size { cols: 20, rows: 4 };

fn clean(pattern: &str) -> Finder {
    Finder::clean(pattern, SIZE, Hint::default()).unwrap()
}

fn line_of(mut finder: Finder, pieces: &[&[u8]]) -> Option<String> {
    pieces.iter().find_map(|piece| finder.feed(piece).map(|found| found.text.clone()))
}

/// The same, with nothing after the pieces.
fn line_at_end(mut finder: Finder, pieces: &[&[u8]]) -> Option<String> {
    for piece in pieces {
        finder.feed(piece);
    }
    finder.finish().map(|found| found.text)
}

#[track_caller]
fn finds(pattern: &str, bytes: &[u8], line: &str) {
    for cut in 1..=bytes.len() {
        let pieces: Vec<_> = bytes.chunks(cut).collect();
        let found = line_of(clean(pattern), &pieces);
        assert!(found.is_some(), "{pattern} in pieces of {cut}");
    }
    assert_eq!(line_of(clean(pattern), &[bytes]).as_deref(), Some(line), "{pattern}");
}

#[track_caller]
fn finds_not(pattern: &str, bytes: &[u8]) {
    for cut in 1..=bytes.len() {
        let pieces: Vec<_> = bytes.chunks(cut).collect();
        assert_eq!(line_of(clean(pattern), &pieces), None, "{pattern} in pieces of {cut}");
    }
}

#[test]
fn lines_that_end() {
    let bytes = b"ok\r\n\x1b[1;31merror\x1b[0m: full\r\nnext\r\n";
    finds("^error: full$", bytes, "error: full");
    finds("^next$", bytes, "next");
    finds("^$", b"a\r\n\r\nb", "");
    finds_not("^full", bytes);
    finds_not("okerror|fullnext|31m", bytes);
}

#[test]
fn lines_that_do_not_end() {
    finds("listening", b"x\r\nnow listening", "now listening");
    finds(r"\? $", b"\x1b[1mGo on\x1b[0m? ", "Go on? ");
    finds_not("^$", b"");
}

#[test]
fn each_state_of_a_line_counts() {
    let bar = b" 10%\r 50%\r\x1b[K100%\r\ndone";
    finds("^ 10%$", bar, " 10%");
    finds("^ 50%$", bar, " 50%");
    finds("^100%$", bar, "100%");
    finds("/", b"|\x08/\x08-\x08ok", "/");
    finds("^abc$", b"abcdef\x08\x08\x08\x1b[K\r\n", "abc");
    // Never on the screen together.
    finds_not("50%%|100%0", b"100%\r\x1b[K50%\r\n");
    finds_not("10% 50%", bar);
}

#[test]
fn rows_that_are_drawn_again() {
    let layers = b"one: waiting\r\ntwo: waiting\r\n\x1b[2A\x1b[5Cdone   \r\n\x1b[1B";
    finds("^one: done", layers, "one: done   ");
    finds_not("two: done", layers);
}

#[test]
fn wrapped_rows_are_one_line() {
    // The program has drawn over it, so it is kept as rows.
    let wrapped = b"x\r0123456789abcdefghijABCDE\r\n";
    finds("^0123456789abcdefghijABCDE$", wrapped, "0123456789abcdefghijABCDE");
    finds("hijAB", wrapped, "0123456789abcdefghijABCDE");
}

#[test]
fn the_alternate_screen_is_no_text() {
    let bytes = b"before\r\n\x1b[?1049h\x1b[Hhidden\r\n\x1b[?1049lafter";
    finds_not("hidden", bytes);
    finds("after", bytes, "after");
}

#[test]
fn other_encodings() {
    let mut finder = Finder::clean("密码", SIZE, Hint::of_locale("zh_CN.GBK")).unwrap();
    let (bytes, ..) = encoding_rs::GBK.encode("请输入密码: ");
    assert!(finder.feed(&bytes[..7]).is_none());
    assert_eq!(finder.feed(&bytes[7..]).unwrap().text, "请输入密码: ");
    finds("€", "a € b".as_bytes(), "a € b");
}

#[test]
fn raw_bytes() {
    let bytes = b"ok\r\n\x1b[1;31merror\x1b[0m\r\nend";
    for cut in 1..=bytes.len() {
        let mut finder = Finder::raw(r"\x1b\[1;31merror").unwrap();
        let found = bytes.chunks(cut).find_map(|piece| finder.feed(piece).cloned());
        let found = found.unwrap();
        assert_eq!((found.text.as_str(), found.end), ("\x1b[1;31merror", 16));
        let mut finder = Finder::raw("^end").unwrap();
        assert!(bytes.chunks(cut).any(|piece| finder.feed(piece).is_some()));
        let mut finder = Finder::raw("^rror|^k$").unwrap();
        assert!(!bytes.chunks(cut).any(|piece| finder.feed(piece).is_some()), "pieces of {cut}");
    }
    let mut finder = Finder::raw(r"(?-u:\xff)\x00").unwrap();
    assert_eq!(finder.feed(b"a\xff\0").unwrap().end, 3);
    assert!(Finder::raw("(").is_err() && Finder::clean("(", SIZE, Hint::default()).is_err());
}

#[test]
fn the_end_is_a_pause_too() {
    // A row that was drawn over in its first half only.
    assert_eq!(line_of(clean("cac"), &[b"aac\r\n\x1b[Ac"]), None);
    assert_eq!(line_at_end(clean("cac"), &[b"aac\r\n\x1b[Ac"]).as_deref(), Some("cac"));
    assert_eq!(line_at_end(clean("\u{fffd}$"), &[b"a\xe2\x82"]).as_deref(), Some("a\u{fffd}"));
    assert_eq!(line_at_end(clean("^$"), &[]), None);
    assert_eq!(Finder::raw("x").unwrap().finish(), None);
}

#[test]
fn found_stays_found() {
    let mut finder = clean("one");
    finder.feed(b"one\r\n");
    let one = || "one".to_owned();
    assert_eq!(finder.feed(b"two\r\n"), Some(&Found { text: one(), matched: one(), end: 5 }));
}

#[test]
fn little_is_kept() {
    for line in ["a line of some length\r\n", "no end of it ", "\x1b[7mx\x1b[0m\r50%"] {
        let mut finder = clean("no such text");
        let bytes = line.repeat(1 + 2_000_000 / line.len());
        assert!(bytes.as_bytes().chunks(10_000).all(|piece| finder.feed(piece).is_none()));
        let Search::Clean(search) = &finder.search else { unreachable!() };
        assert!(search.watch.drawing.page.text.len() < 200_000, "{line:?}");
        // A beginning that was let go of is no beginning.
        let mut finder = clean("^(of it|end|no end of it no end of it$)");
        assert!(bytes.as_bytes().chunks(9_999).all(|piece| finder.feed(piece).is_none()));
    }
    let mut finder = Finder::raw("no such text").unwrap();
    finder.feed(&vec![b'x'; 1_000_000]);
    let Search::Raw(search) = &finder.search else { unreachable!() };
    assert!(search.kept.len() <= RAW_KEPT);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A word is found or not found however the bytes are cut.
    #[test]
    fn any_cut_finds_the_same(
        pieces in prop::collection::vec(
            prop_oneof![
                4 => "[ab]{1,6}",
                1 => Just("\r\n".to_owned()),
                1 => Just("\r".to_owned()),
                1 => Just("\x08".to_owned()),
                1 => "\x1b\\[[0-3]?[ABCDGKJPm@X]",
                1 => "\x1b\\[\\?1049[hl]|\x1b[78M]",
            ],
            0..20,
        ),
        word in "[ab]{2,4}",
        cut in 1usize..12,
    ) {
        let bytes = pieces.concat().into_bytes();
        let cut: Vec<_> = bytes.chunks(cut).collect();
        for find in [line_of, line_at_end] {
            let whole = find(clean(&word), &[&bytes]).is_some();
            prop_assert_eq!(find(clean(&word), &cut).is_some(), whole);
        }
    }

    /// What stands in the text at the end was found on the way.
    #[test]
    fn what_is_in_the_text_is_found(
        text in "([a-c]{1,5}|\r\n|\r|\x08|\x1b\\[[12]?[ACDK]){0,20}",
        word in "[a-c]{2,3}",
    ) {
        let cleaned = crate::transcript::clean::clean(&text, SIZE).text;
        if cleaned.contains(&word) {
            let found = line_at_end(clean(&word), &[text.as_bytes()]);
            prop_assert!(found.is_some(), "{cleaned:?}");
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
        let (mut clean, mut raw) = (clean("\u{fffd}{9}x"), Finder::raw("x{9}").unwrap());
        for piece in bytes.chunks(piece) {
            clean.feed(piece);
            raw.feed(piece);
        }
    }
}
