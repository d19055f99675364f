//! A transcript as a recording: asciicast, version 3.
//!
//! One JSON document a line: a header, then `[interval, code, data]` with the seconds since the
//! event before. `o` is output, `r` a new window size, `m` a marker (a command begins), `x` the
//! shell's exit status.
//!
//! Times are the index's own, to the microsecond. The format holds text only: a character that is
//! cut between two pieces waits for its rest, and what is not UTF-8 becomes U+FFFD, as asciinema's
//! own recorder has it. The bytes themselves stay in `out.raw`.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde::Serialize;

use super::index::{Segment, Stream};
use crate::domain::session::Size;
use crate::domain::time::Timestamp;

/// What a recording says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The window when it begins.
    pub size: Size,
    /// `$TERM`.
    pub term: Option<String>,
    /// When it began.
    pub began: Option<Timestamp>,
    /// What it is.
    pub title: Option<String>,
}

/// Something that happened at an offset, besides the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Before this byte of `out.raw`.
    pub offset: u64,
    /// Microseconds since the session's start, where known; otherwise it happens with that byte.
    pub micros: Option<u64>,
    /// What.
    pub what: What,
}

/// What a mark is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A command begins: its text.
    Command(String),
    /// The window has this size from here on.
    Resize(Size),
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    version: u32,
    term: Term<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

#[derive(Serialize)]
struct Term<'a> {
    cols: u16,
    rows: u16,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
}

/// Writes a recording while the transcript is read, in pieces of any size.
#[derive(Debug)]
pub struct Cast {
    marks: VecDeque<Mark>,
    /// Time of the last event.
    micros: u64,
    /// The beginning of a character, one for each stream.
    cut: [Vec<u8>; 2],
    /// When the last bytes came.
    last: u64,
}

impl Cast {
    /// A recording that begins at `micros`, and the line that it begins with. `marks` in the order
    /// of their offsets.
    pub fn new(header: &Header, marks: Vec<Mark>, micros: u64) -> (Self, String) {
        let line = HeaderLine {
            version: 3,
            term: Term {
                cols: header.size.cols,
                rows: header.size.rows,
                kind: header.term.as_deref(),
            },
            timestamp: header.began.map(|began| began.0.div_euclid(1000)),
            title: header.title.as_deref(),
        };
        let mut text = serde_json::to_string(&line).unwrap_or_default();
        text.push('\n');
        let cut = [Vec::new(), Vec::new()];
        (Self { marks: marks.into(), micros, cut, last: micros }, text)
    }

    /// Appends the events of these bytes: all of a segment's, or a part of it that begins at
    /// `offset`.
    pub fn output(&mut self, segment: &Segment, offset: u64, bytes: &[u8], text: &mut String) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            self.marks_up_to(at, segment.micros, text);
            let until = self.marks.front().map_or(u64::MAX, |mark| mark.offset);
            let count = usize::try_from(until - at).unwrap_or(usize::MAX).min(rest.len());
            let (piece, after) = rest.split_at(count);
            self.piece(segment, piece, text);
            (at, rest) = (at + count as u64, after);
        }
    }

    /// Appends a marker that no byte brings with it.
    pub fn note(&mut self, micros: u64, words: &str, text: &mut String) {
        self.last = self.last.max(micros);
        self.line(micros, 'm', words, text);
    }

    /// What is left when nothing follows, and how the shell ended, if it has.
    pub fn finish(mut self, exit: Option<i32>, text: &mut String) {
        for cut in std::mem::take(&mut self.cut) {
            let lost = String::from_utf8_lossy(&cut).into_owned();
            self.event(self.last, 'o', &lost, text);
        }
        self.marks_up_to(u64::MAX, self.last, text);
        if let Some(status) = exit {
            let status = status.to_string();
            self.event(self.last, 'x', &status, text);
        }
    }

    fn marks_up_to(&mut self, offset: u64, micros: u64, text: &mut String) {
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.offset <= offset) {
            // Never later than the bytes that follow it.
            let at = mark.micros.map_or(micros, |known| known.min(micros).max(self.micros));
            match mark.what {
                What::Command(command) => self.line(at, 'm', &command, text),
                What::Resize(size) => {
                    self.line(at, 'r', &format!("{}x{}", size.cols, size.rows), text);
                }
            }
        }
    }

    fn piece(&mut self, segment: &Segment, bytes: &[u8], text: &mut String) {
        self.last = self.last.max(segment.micros);
        let cut = &mut self.cut[usize::from(segment.stream == Stream::Stderr)];
        let joined;
        let bytes = if cut.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(cut).as_slice(), bytes].concat();
            joined.as_slice()
        };
        let (whole, rest) = bytes.split_at(bytes.len() - unfinished(bytes));
        *cut = rest.to_vec();
        let said = String::from_utf8_lossy(whole).into_owned();
        self.event(segment.micros, 'o', &said, text);
    }

    fn event(&mut self, micros: u64, code: char, data: &str, text: &mut String) {
        if !data.is_empty() {
            self.line(micros, code, data, text);
        }
    }

    fn line(&mut self, micros: u64, code: char, data: &str, text: &mut String) {
        let interval = micros.saturating_sub(self.micros);
        self.micros = self.micros.max(micros);
        let data = serde_json::to_string(data).unwrap_or_default();
        let (seconds, rest) = (interval / 1_000_000, interval % 1_000_000);
        // Writing to a string does not fail.
        let _ = writeln!(text, "[{seconds}.{rest:06},\"{code}\",{data}]");
    }
}

/// How many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let lead = bytes[from..].iter().rposition(|byte| byte & 0xc0 != 0x80);
    let Some(at) = lead.map(|at| from + at) else { return 0 };
    match std::str::from_utf8(&bytes[at..]) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() == 0 => bytes.len() - at,
        _ => 0,
    }
}

/// How long a player waits for an event that came `interval` microseconds after the one before:
/// idle times are cut to `idle_limit` before the speed counts.
pub fn pause(interval: u64, idle_limit: Option<u64>, speed: f64) -> std::time::Duration {
    let limited = idle_limit.map_or(interval, |limit| interval.min(limit));
    let real = std::time::Duration::from_micros(limited);
    // A speed that is none plays without any waiting.
    std::time::Duration::try_from_secs_f64(real.as_secs_f64() / speed).unwrap_or_default()
}

#[cfg(test)]
#[path = "cast_tests.rs"]
mod tests;
