//! Tests of the queries: each question, cut anywhere, and any bytes at all.

use proptest::prelude::*;

use super::*;

fn found(pieces: &[&[u8]]) -> Vec<Query> {
    let mut scanner = Scanner::default();
    let mut queries = Vec::new();
    for piece in pieces {
        scanner.feed(piece, |query, end| {
            assert!((1..=piece.len()).contains(&end));
            queries.push(query);
        });
    }
    queries
}

/// Each question with its answer on a window of 80 by 24 with the cursor at row 2, column 5.
const ROWS: &[(&str, &str)] = &[
    ("\x1b[5n", "\x1b[0n"),
    ("\x1b[6n", "\x1b[2;5R"),
    ("\x1b[?6n", "\x1b[?2;5R"),
    ("\u{9b}6n", "\x1b[2;5R"),
    ("\x1b[?996n", "\x1b[?997;1n"),
    ("\x1b[c", "\x1b[?62;22c"),
    ("\x1b[0c", "\x1b[?62;22c"),
    ("\x1b[>c", "\x1b[>0;1;0c"),
    ("\x1b[>0c", "\x1b[>0;1;0c"),
    ("\x1b[=c", "\x1bP!|00000000\x1b\\"),
    ("\x1b[?2026$p", "\x1b[?2026;0$y"),
    ("\x1b[4$p", "\x1b[4;0$y"),
    ("\x1b[>q", concat!("\x1bP>|callboard(", env!("CARGO_PKG_VERSION"), ")\x1b\\")),
    ("\x1b[>0q", concat!("\x1bP>|callboard(", env!("CARGO_PKG_VERSION"), ")\x1b\\")),
    ("\x1b[14t", "\x1b[4;384;640t"),
    ("\x1b[16t", "\x1b[6;16;8t"),
    ("\x1b[18t", "\x1b[8;24;80t"),
    ("\x1b[19t", "\x1b[9;24;80t"),
    ("\x1b]10;?\x07", "\x1b]10;rgb:e5e5/e5e5/e5e5\x07"),
    ("\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
    ("\x1b]12;?\x07", "\x1b]12;rgb:e5e5/e5e5/e5e5\x07"),
    ("\u{9d}11;?\u{9c}", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
    ("\x1b]4;1;?\x07", "\x1b]4;1;rgb:cdcd/0000/0000\x07"),
    ("\x1b]4;196;?\x07", "\x1b]4;196;rgb:ffff/0000/0000\x07"),
    ("\x1b]4;255;?\x07", "\x1b]4;255;rgb:eeee/eeee/eeee\x07"),
    ("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\"),
    ("\x1bP+q544e\x1b\\", "\x1bP0+r\x1b\\"),
    ("\x1b[31\x1b[6n", "\x1b[2;5R"),
    ("\x1b]0;title\x1b[6n", "\x1b[2;5R"),
    ("\x1bPq#0;;\x1b[6n", "\x1b[2;5R"),
    ("\x1b_Ga=q\x1b\\\x1b[5n", "\x1b[0n"),
    ("\u{c2}\x1b[5n", "\x1b[0n"),
];

/// What is no question, or one that silence answers.
const NONE: &[&str] = &[
    "plain text, é «quoted» – and \u{9b} alone",
    "6n [6n \u{85}6n",
    "\x1b[31;1mred\x1b[m \x1b[2J\x1b[H \x1b[?25l \x1b[3J",
    "\x1b[?u",
    "\x1b[>1u",
    "\x1b]52;c;?\x07",
    "\x1b]52;p;?\x1b\\",
    "\x1b]0;6n\x07",
    "\x1b]0;?\x07",
    "\x1b]10;#fff\x07",
    "\x1b]4;1;#fff\x07",
    "\x1b]4;256;?\x07",
    "\x1b[20t\x1b[21t\x1b[8;24;80t\x1b[22;0t",
    "\x1b[6;1n\x1b[7n\x1b[?15n",
    "\x1b[1c\x1b[?1c\x1b[0 q\x1b[2 q\x1b[!p",
    "\x1b[99999999999999999999n",
    "\x1b[6\nn",
    "\x1b[6\x18n",
    "\x1b]11;?\n\x07",
    "\x1bP$qm\n\x1b\\",
    "\x1bPq#0$qm\x1b\\",
    "\x1b_\x07\x1b^6n\x1b\\",
    "\x1bX\u{1b}\\",
];

#[test]
fn each_question_has_its_answer_wherever_it_is_cut() {
    let facts = Facts { size: Size { cols: 80, rows: 24 }, cursor: (1, 4) };
    for (question, answer) in ROWS {
        let text = format!("before{question}after");
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            let queries = found(&[a, b]);
            let [query] = queries[..] else { panic!("{question:?} at {cut}: {queries:?}") };
            let given = query.answer(&facts);
            assert_eq!(String::from_utf8_lossy(&given), *answer, "{question:?} at {cut}");
        }
    }
}

#[test]
fn what_is_no_question_gets_no_answer() {
    for text in NONE {
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(found(&[a, b]), [], "{text:?} at {cut}");
        }
    }
    let long = format!("\x1bP$q{}\x1b\\\x1b]{}11;?\x07", "x".repeat(100), "4;".repeat(50));
    assert_eq!(found(&[long.as_bytes()]), []);
}

#[test]
fn questions_are_told_with_where_they_end() {
    let mut ends = Vec::new();
    Scanner::default().feed(b"ab\x1b[6nc\x1b[5n", |query, end| ends.push((query, end)));
    assert_eq!(ends, [(Query::Cursor { private: false }, 6), (Query::Status, 11)]);
}

#[test]
fn an_answer_is_never_a_question() {
    let facts = Facts { size: Size { cols: 80, rows: 24 }, cursor: (1, 4) };
    for (question, _) in ROWS {
        for query in found(&[question.as_bytes()]) {
            assert_eq!(found(&[&query.answer(&facts)]), [], "{question:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_however_cut_ask_the_same(
        bytes in prop::collection::vec(
            prop_oneof![
                any::<u8>(), Just(0x1b), Just(b'['), Just(b']'), Just(b'P'), Just(b'?'), Just(b';'),
                Just(b'6'), Just(b'1'), Just(b'n'), Just(b'c'), Just(b'$'), Just(b'q'), Just(b'\\'),
                Just(7), Just(0xc2), Just(0x9b), Just(0x9d), Just(0x9c),
            ], 0..300),
        piece in 1usize..40,
    ) {
        let pieces: Vec<_> = bytes.chunks(piece).collect();
        prop_assert_eq!(found(&pieces), found(&[&bytes]));
    }

    #[test]
    fn little_is_held(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut scanner = Scanner::default();
        scanner.feed(b"\x1b]", |_, _| {});
        scanner.feed(&bytes, |_, _| {});
        prop_assert!(scanner.held.len() <= SEQUENCE_MAX + 1);
    }
}
