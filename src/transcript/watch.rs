//! Looking for a pattern in output that still grows.
//!
//! It is looked for in the text as a person sees it, or in the raw bytes. What was typed and comes
//! back from the terminal is no output: it is left out before the pattern is looked for.

use regex::bytes::Regex;

use super::clean::clean;
use super::decode::{Hint, decode};
use crate::domain::session::Size;

/// How much is looked at at a time; what came earlier is let go of.
const WINDOW_BYTES: usize = 256 * 1024;
/// How much of it stays when it is full: a match may begin in it.
const OVERLAP_BYTES: usize = 64 * 1024;

/// Text that was typed, and from where on in the transcript it may come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// Nowhere before this offset.
    pub offset: u64,
    /// As it was typed.
    pub text: String,
}

/// How the bytes are read.
#[derive(Clone, Debug, PartialEq)]
pub enum As {
    /// As they are.
    Raw,
    /// Decoded and cleaned.
    Text {
        /// What the session's locale says.
        hint: Hint,
        /// The session's window.
        size: Size,
    },
}

/// A pattern, and the output in which it is looked for.
#[derive(Clone, Debug)]
pub struct Watch {
    pattern: Regex,
    reading: As,
    window: Vec<u8>,
    /// Where the window begins in the transcript.
    start: u64,
}

impl Watch {
    /// Looks for `pattern` from `start` on.
    pub fn new(pattern: Regex, reading: As, start: u64) -> Self {
        Self { pattern, reading, window: Vec::new(), start }
    }

    /// Output goes on with `bytes`, which begin at `offset`. What lies between is missing.
    pub fn feed(&mut self, offset: u64, bytes: &[u8]) {
        if offset != self.start + self.window.len() as u64 {
            self.window.clear();
            self.start = offset;
        }
        self.window.extend_from_slice(bytes);
        if self.window.len() > WINDOW_BYTES {
            let early = self.window.len() - OVERLAP_BYTES;
            let cut =
                memchr::memchr(b'\n', &self.window[early..]).map_or(early, |at| early + at + 1);
            self.window.drain(..cut);
            self.start += cut as u64;
        }
    }

    /// What matches, if anything does by now.
    pub fn found(&self, typed: &[Typed]) -> Option<String> {
        let output = self.output(typed);
        let text = match &self.reading {
            As::Raw => output,
            As::Text { hint, size } => clean(&decode(&output, hint), *size).text.into_bytes(),
        };
        let found = self.pattern.find(&text)?;
        Some(String::from_utf8_lossy(found.as_bytes()).into_owned())
    }

    /// The window without what was typed.
    fn output(&self, typed: &[Typed]) -> Vec<u8> {
        let mut output = self.window.clone();
        // From the last one on: what is taken out then moves nothing that is still looked at.
        let mut end = output.len();
        for typed in typed.iter().rev() {
            let Ok(early) = usize::try_from(typed.offset.saturating_sub(self.start)) else {
                continue;
            };
            if early > end || typed.offset + (typed.text.len() as u64) < self.start {
                continue;
            }
            let mut at = early;
            let mut taken = Vec::new();
            for line in typed.text.split(['\n', '\r']).filter(|line| !line.is_empty()) {
                let shown = shown(line);
                let Some(found) = memchr::memmem::find(&output[at..end], &shown) else { break };
                taken.push(at + found..at + found + shown.len());
                at += found + shown.len();
            }
            for range in taken.into_iter().rev() {
                output.drain(range);
            }
            end = early;
        }
        output
    }
}

/// What a terminal shows of a typed line.
fn shown(line: &str) -> Vec<u8> {
    let mut shown = Vec::with_capacity(line.len());
    for byte in line.bytes() {
        match byte {
            b'\t' => shown.push(byte),
            0..0x20 | 0x7f => shown.extend([b'^', byte ^ 0x40]),
            _ => shown.push(byte),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(pattern: &str, reading: As) -> Watch {
        Watch::new(Regex::new(pattern).unwrap(), reading, 100)
    }

    fn text() -> As {
        As::Text { hint: Hint::default(), size: Size::default() }
    }

    #[test]
    fn a_match_may_come_in_pieces() {
        let mut watch = watch("(?m)^ready on \\d+$", text());
        watch.feed(100, b"starting\r\nready ");
        assert_eq!(watch.found(&[]), None);
        watch.feed(116, b"\x1b[32mon 80\x1b[0m\r\n");
        assert_eq!(watch.found(&[]).as_deref(), Some("ready on 80"));
    }

    #[test]
    fn what_is_redrawn_counts_as_it_is_seen_and_raw_as_it_came() {
        for (reading, found) in [(text(), None), (As::Raw, Some("50%"))] {
            let mut watch = watch("50%", reading);
            watch.feed(100, b" 50%\r100%");
            assert_eq!(watch.found(&[]).as_deref(), found);
        }
    }

    #[test]
    fn an_echo_is_no_output() {
        let typed = [
            Typed { offset: 106, text: "yes\n".to_owned() },
            Typed { offset: 116, text: "no\x03".to_owned() },
        ];
        let mut watch = watch("yes|no", text());
        watch.feed(100, b"Sure? yes\r\nWhy? ");
        watch.feed(116, b"\r\nno^C\r\n");
        assert_eq!(watch.found(&typed), None);
        watch.feed(124, b"so yes\r\n");
        assert_eq!(watch.found(&typed).as_deref(), Some("yes"));
    }

    #[test]
    fn a_question_that_names_the_answer_keeps_it() {
        let typed = [Typed { offset: 110, text: "yes\n".to_owned() }];
        let mut watch = watch("yes", text());
        watch.feed(100, b"Type yes: yes\r\n");
        assert_eq!(watch.found(&typed).as_deref(), Some("yes"));
    }

    #[test]
    fn the_window_is_bounded_and_gaps_are_not_bridged() {
        let mut watch = watch("ab", text());
        let mut at = 100;
        for _ in 0..100 {
            watch.feed(at, &b"x".repeat(10_000));
            at += 10_000;
        }
        assert!(watch.window.len() <= WINDOW_BYTES);
        watch.feed(at, b"a");
        watch.feed(at + 100, b"b");
        assert_eq!(watch.found(&[]), None);
    }
}
