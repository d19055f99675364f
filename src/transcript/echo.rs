//! What was typed and comes back from the terminal is no output: it is taken out of the bytes while
//! they come, cut anywhere.
//!
//! Of each typed line the first place is taken out where it stands as a terminal shows it, from
//! where the transcript ended when it was typed up to where the next was typed. The beginning of
//! such a line at the end of the bytes is held until it is known how it goes on.

use std::collections::VecDeque;

/// So much of what has passed is looked at when something was typed before it that was not known
/// then.
const PASSED_KEPT: usize = 4096;
/// How many echoes are waited for; whoever has not shown so many shows none.
const AWAITED_MAX: usize = 64;

/// Text that was typed, and from where on in the transcript it may come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// Nowhere before this offset.
    pub offset: u64,
    /// As it was typed.
    pub text: String,
}

/// Takes the echoes out.
#[derive(Clone, Debug)]
pub struct Unechoed {
    start: u64,
    /// Where the next byte is expected.
    at: u64,
    /// What was typed, as it was told last.
    told: Vec<Typed>,
    awaited: VecDeque<Awaited>,
    /// The last bytes of those that were dealt with.
    passed: Vec<u8>,
    held: Vec<u8>,
}

/// Lines that will come back.
#[derive(Clone, Debug)]
struct Awaited {
    offset: u64,
    lines: VecDeque<Vec<u8>>,
}

impl Unechoed {
    /// Before the byte at `start`.
    pub fn new(start: u64) -> Self {
        let (told, awaited) = (Vec::new(), VecDeque::new());
        Self { start, at: start, told, awaited, passed: Vec::new(), held: Vec::new() }
    }

    /// Appends what is no echo of `bytes`, which begin at `offset`. `typed` is what was lately
    /// typed, oldest first: what was told before, but for the oldest, and what has come since.
    pub fn feed(&mut self, offset: u64, bytes: &[u8], typed: &[Typed], output: &mut Vec<u8>) {
        if offset != self.at {
            // What lies between is missing.
            output.append(&mut self.held);
            self.passed.clear();
            self.at = offset;
        }
        self.learn(typed);
        let mut joined = std::mem::take(&mut self.held);
        let start = self.at - joined.len() as u64;
        joined.extend_from_slice(bytes);
        self.at += bytes.len() as u64;
        let rest = self.take_out(&joined, start, output);
        let done = joined.len() - rest;
        self.held = joined.split_off(done);
        self.passed.extend_from_slice(&joined);
        let excess = self.passed.len().saturating_sub(PASSED_KEPT);
        self.passed.drain(..excess);
    }

    /// What is held: nothing follows.
    pub fn rest(&self) -> &[u8] {
        &self.held
    }

    /// Takes in what was typed since.
    fn learn(&mut self, typed: &[Typed]) {
        let known = (0..=typed.len()).rev().find(|&known| self.told.ends_with(&typed[..known]));
        let news = &typed[known.unwrap_or(0)..];
        if news.is_empty() {
            return;
        }
        for Typed { offset, text } in news {
            let lines = text.split(['\n', '\r']).filter(|line| !line.is_empty());
            let mut awaited = Awaited { offset: *offset, lines: lines.map(shown).collect() };
            if offset + (text.len() as u64) < self.start {
                continue;
            }
            awaited.pass(&self.passed, self.at - (self.held.len() + self.passed.len()) as u64);
            if self.awaited.len() == AWAITED_MAX {
                self.awaited.pop_front();
            }
            self.awaited.push_back(awaited);
        }
        self.told = typed.to_vec();
    }

    /// How many bytes at the end are to be held; all others are dealt with.
    fn take_out(&mut self, bytes: &[u8], start: u64, output: &mut Vec<u8>) -> usize {
        let place = |offset: u64| {
            usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX).min(bytes.len())
        };
        let mut at = 0;
        while let Some(awaited) = self.awaited.front_mut() {
            let Some(line) = awaited.lines.front() else {
                self.awaited.pop_front();
                continue;
            };
            let begin = place(awaited.offset).max(at);
            output.extend_from_slice(&bytes[at..begin]);
            at = begin;
            if let Some(found) = memchr::memmem::find(&bytes[at..], line) {
                let next = self.awaited.get(1).map(|next| next.offset);
                let awaited = &mut self.awaited[0];
                let is_its = next.is_none_or(|next| {
                    next <= awaited.offset || at + found + awaited.first_len() <= place(next)
                });
                if is_its {
                    output.extend_from_slice(&bytes[at..at + found]);
                    at += found + awaited.first_len();
                    awaited.lines.pop_front();
                    continue;
                }
            }
            let awaited = &self.awaited[0];
            let next = self.awaited.get(1).map(|next| next.offset);
            match next.filter(|next| *next > awaited.offset && *next <= self.at) {
                // It did not come before the next was typed.
                Some(_) => drop(self.awaited.pop_front()),
                None => {
                    let held = awaited.lines.front().map_or(0, |line| begun(&bytes[at..], line));
                    output.extend_from_slice(&bytes[at..bytes.len() - held]);
                    return held;
                }
            }
        }
        output.extend_from_slice(&bytes[at..]);
        0
    }
}

impl Awaited {
    fn first_len(&self) -> usize {
        self.lines.front().map_or(0, Vec::len)
    }

    /// Lets go of the lines that have come back already, in bytes that begin at `start`.
    fn pass(&mut self, bytes: &[u8], start: u64) {
        let at = usize::try_from(self.offset.saturating_sub(start)).unwrap_or(usize::MAX);
        let mut rest = bytes.get(at..).unwrap_or_default();
        while let Some(line) = self.lines.front() {
            let Some(found) = memchr::memmem::find(rest, line) else { return };
            rest = &rest[found + line.len()..];
            self.lines.pop_front();
        }
    }
}

/// How many bytes at the end are the beginning of `line`.
fn begun(bytes: &[u8], line: &[u8]) -> usize {
    let most = bytes.len().min(line.len().saturating_sub(1));
    (1..=most).rev().find(|&count| bytes.ends_with(&line[..count])).unwrap_or(0)
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

    fn typed(offset: u64, text: &str) -> Typed {
        Typed { offset, text: text.to_owned() }
    }

    #[track_caller]
    fn leaves(bytes: &str, typed: &[Typed], left: &str) {
        for cut in 1..=bytes.len() {
            let mut echoes = Unechoed::new(100);
            let mut output = Vec::new();
            let mut at = 100;
            for piece in bytes.as_bytes().chunks(cut) {
                echoes.feed(at, piece, typed, &mut output);
                at += piece.len() as u64;
            }
            output.extend_from_slice(echoes.rest());
            assert_eq!(String::from_utf8(output).unwrap(), left, "in pieces of {cut}");
        }
    }

    #[test]
    fn an_echo_is_no_output() {
        let both = [typed(106, "yes\n"), typed(116, "no\x03")];
        let bytes = "Sure? yes\r\nWhy? \r\nno^C\r\nso yes\r\n";
        leaves(bytes, &both, "Sure? \r\nWhy? \r\n\r\nso yes\r\n");
        leaves("? a\r\nb\r\n", &[typed(102, "a\nb\n")], "? \r\n\r\n");
        leaves("? yeyes\r\n", &[typed(102, "yes\n")], "? ye\r\n");
        leaves("? ab\r\n", &[typed(102, "a"), typed(102, "b\n")], "? \r\n");
    }

    #[test]
    fn a_question_that_names_the_answer_keeps_it() {
        leaves("Type yes: yes\r\n", &[typed(110, "yes\n")], "Type yes: \r\n");
    }

    #[test]
    fn what_is_not_echoed_takes_nothing_from_what_comes_after_the_next() {
        let both = [typed(102, "secret\n"), typed(106, "x\n")];
        leaves("? \r\n? x\r\nsecret\r\n", &both, "? \r\n? \r\nsecret\r\n");
    }

    #[test]
    fn what_becomes_known_late_is_not_looked_for_again() {
        let mut echoes = Unechoed::new(100);
        let mut output = Vec::new();
        echoes.feed(100, b"? yes\r\n", &[], &mut output);
        echoes.feed(107, b"so yes\r\n", &[typed(102, "yes\n")], &mut output);
        assert_eq!(output, b"? yes\r\nso yes\r\n");
    }

    #[test]
    fn the_list_of_what_was_typed_may_forget_its_oldest() {
        let mut echoes = Unechoed::new(0);
        let mut output = Vec::new();
        echoes.feed(0, b"a\r\n", &[typed(0, "a\n")], &mut output);
        echoes.feed(3, b"b\r\n", &[typed(0, "a\n"), typed(3, "b\n")], &mut output);
        echoes.feed(6, b"c\r\na b c\r\n", &[typed(3, "b\n"), typed(6, "c\n")], &mut output);
        assert_eq!(output, b"\r\n\r\n\r\na b c\r\n");
    }

    #[test]
    fn gaps_are_not_bridged() {
        let mut echoes = Unechoed::new(0);
        let mut output = Vec::new();
        let typed = [typed(0, "yes\n")];
        echoes.feed(0, b"ye", &typed, &mut output);
        echoes.feed(100, b"s", &typed, &mut output);
        assert_eq!(output, b"yes");
    }
}
