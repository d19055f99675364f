//! From index and raw bytes to texts.

use proptest::prelude::*;

use super::*;
use crate::transcript::index::{Record, Stream};

/// A transcript of one command.
fn transcript(parts: &[(Stream, &[u8])]) -> (Vec<u8>, Vec<u8>) {
    let (mut raw, mut idx) = (Vec::new(), Vec::new());
    for (stream, bytes) in parts {
        let offset = raw.len() as u64;
        let record = Record { offset, micros: 0, command: 1, stream: *stream };
        idx.extend(record.to_bytes());
        raw.extend_from_slice(bytes);
    }
    (raw, idx)
}

fn read(raw: &[u8], plan: &Plan) -> Vec<Vec<u8>> {
    let place = |offset: u64| usize::try_from(offset).unwrap().min(raw.len());
    plan.reads().iter().map(|read| raw[place(read.start)..place(read.end)].to_vec()).collect()
}

fn texts_of(parts: &[(Stream, &[u8])], limit: usize, setting: &Setting) -> Texts {
    let (raw, idx) = transcript(parts);
    let plan = Plan::of(&idx, 0..raw.len() as u64, limit);
    texts(&plan, &read(&raw, &plan), setting)
}

const MAIN: Stream = Stream::Main;
const ERR: Stream = Stream::Stderr;

#[test]
fn streams_apart_and_together() {
    let parts: [(Stream, &[u8]); 4] =
        [(MAIN, b"o1\r\n"), (ERR, b"e1\r\n"), (MAIN, b"o2\r\n"), (ERR, b"\x1b[31me2\x1b[m\r\n")];
    let texts = texts_of(&parts, 100, &Setting::default());
    assert_eq!(texts.stdout, "o1\no2\n");
    assert_eq!(texts.stderr, "e1\ne2\n");
    assert_eq!(texts.output, "o1\ne1\no2\ne2\n");
    assert_eq!(texts.encoding, "utf-8");
    assert_eq!(texts.truncated(&"s1".into()), None);
    assert_eq!(texts.notes().count(), 0);
}

#[test]
fn turns_within_a_character_or_a_sequence() {
    let parts: [(Stream, &[u8]); 5] = [
        (MAIN, b"a\xe2"),
        (ERR, b"X\x1b[3"),
        (MAIN, b"\x82\xac\x1b"),
        (ERR, b"1mY"),
        (MAIN, b"[mb"),
    ];
    let texts = texts_of(&parts, 100, &Setting::default());
    assert_eq!(texts.output, "aX€Yb");
    assert_eq!(texts.stdout, "a€b");
    assert_eq!(texts.stderr, "XY");
}

#[test]
fn one_encoding_for_a_command() {
    let gbk = b"\xb3\xc9\xb9\xa6: \xd2\xd1\xd6\xd5\xd6\xb9\r\n";
    let texts = texts_of(&[(MAIN, gbk), (ERR, b"\xb3\xc9\xb9\xa6\r\n")], 100, &Setting::default());
    assert_eq!((texts.stdout.as_str(), texts.stderr.as_str()), ("成功: 已终止\n", "成功\n"));
    assert_eq!((texts.encoding.as_str(), texts.guessed), ("gbk", false));
    let texts = texts_of(&[(MAIN, b"\xc4\xe3\xba\xc3\r\n")], 100, &Setting::default());
    assert_eq!(texts.notes().collect::<Vec<_>>(), [Note::EncodingGuess]);
}

#[test]
fn a_character_under_way() {
    let parts: [(Stream, &[u8]); 1] = [(MAIN, b"ab\xe2\x82")];
    let running = Setting { running: true, ..Setting::default() };
    assert_eq!(texts_of(&parts, 100, &running).stdout, "ab");
    assert_eq!(texts_of(&parts, 100, &Setting::default()).stdout, "ab\u{fffd}");
}

#[test]
fn head_and_tail() {
    let lines: String = (0..1000).map(|n| format!("line {n:04}\r\n")).collect();
    let texts = texts_of(&[(MAIN, lines.as_bytes()), (ERR, b"oops\r\n")], 220, &Setting::default());
    let head: String = (0..20).map(|n| format!("line {n:04}\n")).collect();
    let tail: String = (986..1000).map(|n| format!("line {n:04}\n")).collect();
    let left_out = 11_000 - 34 * 11;
    assert_eq!(texts.stdout, format!("{head}[… {left_out} bytes left out …]\n{tail}"));
    assert_eq!(texts.stderr, "oops\n");
    assert!(texts.output.ends_with("line 0999\noops\n"));
    let truncation = texts.truncated(&"s1".into()).unwrap();
    assert_eq!(truncation.stdout, Some(Omitted { omitted_bytes: left_out }));
    assert_eq!((truncation.stderr, truncation.reference.as_str()), (None, "s1@0"));
}

#[test]
fn one_long_line() {
    let text = "你".repeat(50_000);
    let whole = texts_of(&[(MAIN, text.as_bytes())], 100_000, &Setting::default());
    assert_eq!(whole.stdout, text);
    let cut = texts_of(&[(MAIN, text.as_bytes())], 1000, &Setting::default());
    assert!(!cut.stdout.contains('\u{fffd}'));
    assert!(cut.stdout.len() <= 2000);
    let kept = cut.stdout.matches('你').count() as u64 * 3;
    assert_eq!(cut.truncated(&"s".into()).unwrap().stdout.unwrap().omitted_bytes, 150_000 - kept);
}

#[test]
fn text_longer_than_its_bytes() {
    let (latin, ..) = encoding_rs::WINDOWS_1252.encode("é à ü ");
    let raw = latin.repeat(1000);
    let texts = texts_of(&[(MAIN, &raw)], 4000, &Setting::default());
    assert!(texts.stdout.len() <= 8000, "{}", texts.stdout.len());
    assert!(texts.truncated(&"s".into()).is_some());
    let spaces = texts_of(&[(MAIN, &b"\x1b[99Cx\n".repeat(100))], 1000, &Setting::default());
    assert!(spaces.stdout.len() <= 2000);
}

#[test]
fn a_full_screen_program_across_the_cut() {
    let mut raw = b"before\r\n\x1b[?1049h".to_vec();
    raw.extend(b"\x1b[Hsome picture~".repeat(1000));
    raw.extend(b"\x1b[?1049l\r\nafter\r\n");
    let texts = texts_of(&[(MAIN, &raw)], 2000, &Setting::default());
    assert!(texts.stdout.starts_with("before\n[… "), "{}", texts.stdout);
    assert!(texts.stdout.ends_with("…]\n\nafter\n"), "{}", texts.stdout);
    assert!(texts.full_screen);
}

#[test]
fn what_could_not_be_read_is_missing() {
    let plan = Plan::of(&[], 0..9000, 10);
    assert_eq!(texts(&plan, &[], &Setting::default()).stdout, "[… 9000 bytes left out …]\n");
    let plan = Plan::of(&[], 0..100, 100);
    assert_eq!(texts(&plan, &[b"abc".to_vec()], &Setting::default()).stdout, "abc");
}

proptest! {
    #[test]
    fn anything_is_within_the_limit(
        parts in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..60)), 0..12),
        limit in 65usize..200,
        running in any::<bool>(),
    ) {
        let parts: Vec<_> = parts
            .iter()
            .map(|(main, bytes)| (if *main { MAIN } else { ERR }, bytes.as_slice()))
            .collect();
        let texts = texts_of(&parts, limit, &Setting { running, ..Setting::default() });
        for text in [texts.stdout, texts.stderr, texts.output] {
            prop_assert!(text.len() <= 2 * limit + 1, "{}: {text:?}", text.len());
            prop_assert!(!text.contains(|ch: char| ch.is_control() && ch != '\n' && ch != '\t'));
        }
    }
}
