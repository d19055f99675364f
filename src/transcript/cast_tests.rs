//! What a recording holds: all of the text, at the index's own times.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::transcript::index::{Record, segments};

/// The events as (micros since the beginning, code, data).
fn events(text: &str) -> Vec<(u64, String, String)> {
    let mut micros = 0;
    text.lines()
        .map(|line| {
            let event = serde_json::from_str::<Value>(line).unwrap();
            // As written: a float would not say so many microseconds.
            let (interval, _) = line[1..].split_once(',').unwrap();
            let (seconds, rest) = interval.split_once('.').unwrap();
            let number = |digits: &str| digits.parse::<u64>().unwrap();
            assert_eq!(rest.len(), 6, "{line}");
            let (seconds, rest) = (number(seconds), number(rest));
            micros += seconds * 1_000_000 + rest;
            let word = |at: usize| event[at].as_str().unwrap().to_owned();
            (micros, word(1), word(2))
        })
        .collect()
}

fn record(offset: u64, micros: u64, command: u32, stream: Stream) -> Record {
    Record { offset, micros, command, stream }
}

/// A recording of these bytes, read in pieces.
fn cast(
    raw: &[u8],
    records: &[Record],
    marks: Vec<Mark>,
    piece: usize,
    exit: Option<i32>,
) -> String {
    let idx: Vec<u8> = records.iter().flat_map(|record| record.to_bytes()).collect();
    let (mut cast, _) = Cast::new(&Header::default(), marks, 0);
    let mut text = String::new();
    for segment in segments(&idx, raw.len() as u64) {
        let at = |offset: u64| usize::try_from(offset).unwrap();
        let mut offset = segment.start;
        for part in raw[at(segment.start)..at(segment.end)].chunks(piece) {
            cast.output(&segment, offset, part, &mut text);
            offset += part.len() as u64;
        }
    }
    cast.finish(exit, &mut text);
    text
}

#[test]
fn the_header_is_that_of_version_3() {
    let header = Header {
        size: Size { cols: 90, rows: 30 },
        term: Some("xterm-256color".to_owned()),
        began: Some(Timestamp(1_504_467_315_900)),
        title: Some("a \"b\"".to_owned()),
    };
    let (_, line) = Cast::new(&header, Vec::new(), 0);
    assert_eq!(
        line,
        "{\"version\":3,\"term\":{\"cols\":90,\"rows\":30,\"type\":\"xterm-256color\"},\
         \"timestamp\":1504467315,\"title\":\"a \\\"b\\\"\"}\n"
    );
    let (_, least) = Cast::new(&Header::default(), Vec::new(), 0);
    assert_eq!(least, "{\"version\":3,\"term\":{\"cols\":120,\"rows\":40}}\n");
}

#[test]
fn output_marks_sizes_and_the_exit() {
    let raw = b"one\x1b[1m\r\ntwo\r\n";
    let records = [record(0, 248, 1, Stream::Main), record(9, 2_000_250, 2, Stream::Stderr)];
    let mark = |offset, micros, what| Mark { offset, micros, what };
    let marks = vec![
        mark(0, Some(100), What::Command("echo one".to_owned())),
        mark(3, None, What::Resize(Size { cols: 90, rows: 30 })),
        mark(9, Some(1_999_999), What::Command("echo two >&2".to_owned())),
        mark(14, Some(9_000_000), What::Command("true".to_owned())),
    ];
    assert_eq!(
        cast(raw, &records, marks, 64, Some(3)),
        "[0.000100,\"m\",\"echo one\"]\n\
         [0.000148,\"o\",\"one\"]\n\
         [0.000000,\"r\",\"90x30\"]\n\
         [0.000000,\"o\",\"\\u001b[1m\\r\\n\"]\n\
         [1.999751,\"m\",\"echo two >&2\"]\n\
         [0.000251,\"o\",\"two\\r\\n\"]\n\
         [0.000000,\"m\",\"true\"]\n\
         [0.000000,\"x\",\"3\"]\n"
    );
}

#[test]
fn characters_that_are_cut_come_whole_and_the_rest_is_replaced() {
    let rows: [(&[u8], usize, &[&str]); 6] = [
        ("a€".as_bytes(), 2, &["a", "€"]),
        ("é😀!".as_bytes(), 1, &["é", "😀", "!"]),
        (b"\xff\xfe", 1, &["\u{fffd}", "\u{fffd}"]),
        (b"a\xe2\x82", 8, &["a", "\u{fffd}"]),
        (b"\xe2\x82z", 2, &["\u{fffd}z"]),
        (b"\xc3\x28", 1, &["\u{fffd}("]),
    ];
    for (raw, piece, expected) in rows {
        let text = cast(raw, &[record(0, 5, 1, Stream::Main)], Vec::new(), piece, None);
        let said: Vec<String> = events(&text).into_iter().map(|(_, _, data)| data).collect();
        assert_eq!(said, expected, "{raw:?}");
    }
    // Another stream comes between: each keeps its own beginning.
    let raw = b"\xe2\x82E\xac";
    let records = [
        record(0, 1, 1, Stream::Main),
        record(2, 2, 1, Stream::Stderr),
        record(3, 3, 1, Stream::Main),
    ];
    let text = cast(raw, &records, Vec::new(), 9, None);
    assert_eq!(text, "[0.000002,\"o\",\"E\"]\n[0.000001,\"o\",\"€\"]\n");
}

#[test]
fn a_player_skips_idle_times_and_hurries() {
    use std::time::Duration;
    assert_eq!(pause(2_000_000, None, 1.0), Duration::from_secs(2));
    assert_eq!(pause(2_000_000, None, 4.0), Duration::from_millis(500));
    assert_eq!(pause(60_000_000, Some(1_000_000), 2.0), Duration::from_millis(500));
    assert_eq!(pause(60_000_000, None, 0.0), Duration::ZERO);
}

proptest! {
    /// All of the text in order, whatever the pieces; and every byte at its record's time.
    #[test]
    fn a_recording_has_all_text_at_its_times(
        parts in prop::collection::vec(
            (0u64..5_000_000, prop_oneof!["\\PC{1,12}", "[\\x00-\\x7f]{1,12}"]), 1..12),
        cuts in prop::collection::vec(1usize..9, 12),
        piece in 1usize..20,
    ) {
        let mut raw = Vec::new();
        let mut records: Vec<Record> = Vec::new();
        let mut micros = 0;
        for ((pause, part), cut) in parts.iter().zip(&cuts) {
            micros += pause;
            // A record begins within the part: characters are cut by records, too.
            let within = raw.len() + part.len().min(*cut) - 1;
            raw.extend_from_slice(part.as_bytes());
            let offset = if records.is_empty() { 0 } else { within as u64 };
            records.push(record(offset, micros, 1, Stream::Main));
        }
        let text = cast(&raw, &records, Vec::new(), piece, None);
        let found = events(&text);
        let said: String = found.iter().map(|(_, _, data)| data.as_str()).collect();
        prop_assert_eq!(said.as_bytes(), &raw[..]);
        let mut at = 0;
        for (micros, code, data) in &found {
            prop_assert_eq!(code, "o");
            // The time of the event is that of its last byte's record.
            let last = (at + data.len() - 1) as u64;
            let owner = records.iter().rfind(|record| record.offset <= last).unwrap();
            prop_assert_eq!(*micros, owner.micros);
            at += data.len();
        }
    }

    #[test]
    fn any_bytes_are_decoded_as_a_whole(
        raw in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(0xe2), Just(0x82), Just(0xac), Just(0xf0)], 1..100),
        piece in 1usize..20,
    ) {
        let text = cast(&raw, &[record(0, 7, 1, Stream::Main)], Vec::new(), piece, None);
        let said: String = events(&text).iter().map(|(_, _, data)| data.as_str()).collect();
        prop_assert_eq!(said, String::from_utf8_lossy(&raw));
    }
}
