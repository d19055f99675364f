//! One line and its place in the chain: written from an event, read back to it.

use std::io::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::event::{Event, Stamped};
use crate::domain::time::Timestamp;

/// The longest line that is written or read: a plan of the longest frame, with room.
pub(super) const LINE_BYTES_MAX: usize = 128 * 1024 * 1024;

const SEQ: &[u8] = b"{\"seq\":";
const AT: &[u8] = b",\"at\":\"";
const PREV: &[u8] = b"\",\"prev\":\"";
const SUM: &[u8] = b",\"sum\":\"";
const SUM_HEX: usize = 16;
const END: &[u8] = b"\"}";
const TAIL: usize = SUM.len() + SUM_HEX + END.len();

/// One line of the journal as its readers get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its number, from 1.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    /// Its bytes are not those that were written.
    #[error("the line is damaged: {0}")]
    Damaged(&'static str),
    /// A line is missing, or there twice.
    #[error("the line's number is {found} where {expected} is due")]
    Sequence {
        /// The number that is due.
        expected: u64,
        /// The number it has.
        found: u64,
    },
    /// The line before is another than the one this line was written after.
    #[error("the line does not follow the one before: its `prev` is not that line's hash")]
    Chain,
    /// The line is whole, but this version does not know what it says.
    #[error("the line is whole, but this version cannot read its event: {0}")]
    Event(serde_json::Error),
    /// Longer than any line that is written.
    #[error("the line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
}

/// Why an event has no line.
#[derive(Debug)]
pub(super) enum Unwritable {
    Json(serde_json::Error),
    TooLong(usize),
}

/// Where the chain stands: what the next line has to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) next_seq: u64,
    prev: [u8; 32],
}

impl Chain {
    /// Before the first line.
    pub(super) const START: Self = Self { next_seq: 1, prev: [0; 32] };

    /// Behind the line of that hash, given in hex; `next_seq` comes next.
    pub(super) fn at(next_seq: u64, prev: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if prev.len() != 64 || !prev.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(prev.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self { next_seq, prev: bytes })
    }

    /// Before a line that is not the first: where it says it stands. `None` where it says nothing.
    pub(super) fn before(line: &[u8]) -> Option<Self> {
        let header = Header::parse(line)?;
        let mut prev = [0; 32];
        for (byte, digits) in prev.iter_mut().zip(header.prev.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self { next_seq: header.seq, prev })
    }

    /// The number of the last line; 0 before the first.
    pub(super) fn last_seq(self) -> u64 {
        self.next_seq - 1
    }

    /// The last line's hash.
    pub(super) fn head(self) -> String {
        let mut text = Vec::with_capacity(64);
        push_hex(&self.prev, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Appends the event's line with its newline to `out`. On an error `out` and the chain are as
    /// before.
    pub(super) fn write(&mut self, stamped: &Stamped, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        let start = out.len();
        out.extend_from_slice(SEQ);
        // Writing into a Vec does not fail.
        drop(write!(out, "{}", self.next_seq));
        out.extend_from_slice(AT);
        drop(write!(out, "{}", stamped.at));
        out.extend_from_slice(PREV);
        push_hex(&self.prev, out);
        out.push(b'"');
        // `{"event":…}` becomes `,"event":…`: its opening brace gives way to the comma, its closing
        // one to the sum.
        let brace = out.len();
        if let Err(error) = serde_json::to_writer(&mut *out, &stamped.event) {
            out.truncate(start);
            return Err(Unwritable::Json(error));
        }
        out[brace] = b',';
        out.pop();
        if out.len() - start + TAIL > LINE_BYTES_MAX {
            let bytes = out.len() - start;
            out.truncate(start);
            return Err(Unwritable::TooLong(bytes));
        }
        let mut hash = Sha256::new();
        hash.update(&out[start..]);
        let tail = out.len();
        out.extend_from_slice(SUM);
        push_hex(&hash.clone().finalize()[..SUM_HEX / 2], out);
        out.extend_from_slice(END);
        hash.update(&out[tail..]);
        out.push(b'\n');
        self.advance(hash);
        Ok(())
    }

    /// Reads a line (without its newline) that has to be the next one. Its bytes are used up. On an
    /// error the chain is as before.
    pub(super) fn read(&mut self, line: &mut [u8]) -> Result<Line, LineFault> {
        let body = line.len().checked_sub(TAIL).ok_or(LineFault::Damaged("it is too short"))?;
        let mut hash = Sha256::new();
        hash.update(&line[..body]);
        let mut tail = Vec::with_capacity(TAIL);
        tail.extend_from_slice(SUM);
        push_hex(&hash.clone().finalize()[..SUM_HEX / 2], &mut tail);
        tail.extend_from_slice(END);
        if line[body..] != tail[..] {
            return Err(LineFault::Damaged("its `sum` does not fit its bytes"));
        }
        hash.update(&tail);

        let header = Header::parse(&line[..body])
            .ok_or(LineFault::Damaged("it does not begin with `seq`, `at` and `prev`"))?;
        if header.seq != self.next_seq {
            return Err(LineFault::Sequence { expected: self.next_seq, found: header.seq });
        }
        let mut prev = Vec::with_capacity(64);
        push_hex(&self.prev, &mut prev);
        if header.prev != prev {
            return Err(LineFault::Chain);
        }
        let (seq, at, comma) = (header.seq, header.at, header.end);
        line[comma] = b'{';
        line[body] = b'}';
        let event = serde_json::from_slice(&line[comma..=body]).map_err(LineFault::Event)?;
        self.advance(hash);
        Ok(Line { seq, at, event })
    }

    fn advance(&mut self, hash: Sha256) {
        self.prev = hash.finalize().into();
        self.next_seq += 1;
    }
}

/// True when the bytes hold the seam of two lines whose newline is gone: not what a crash leaves,
/// since the writer puts whole lines down in order. JSON escapes quotes, so no text in an event can
/// look like it.
pub(super) fn holds_a_seam(bytes: &[u8]) -> bool {
    memchr::memmem::find_iter(bytes, SEQ).any(|at| at >= 3 && &bytes[at - 3..at - 1] == END)
}

struct Header<'a> {
    seq: u64,
    at: Timestamp,
    prev: &'a [u8],
    /// Where the event's fields begin: the comma before `"event"`.
    end: usize,
}

impl<'a> Header<'a> {
    fn parse(body: &'a [u8]) -> Option<Self> {
        let rest = body.strip_prefix(SEQ)?;
        let (seq, rest) = rest.split_at(memchr::memchr(b',', rest)?);
        let seq = std::str::from_utf8(seq).ok()?.parse().ok()?;
        let rest = rest.strip_prefix(AT)?;
        let (at, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
        let at: jiff::Timestamp = std::str::from_utf8(at).ok()?.parse().ok()?;
        let rest = rest.strip_prefix(PREV)?;
        let (prev, rest) = rest.split_at_checked(64)?;
        let fields = rest.strip_prefix(b"\"")?;
        if !fields.starts_with(b",") {
            return None;
        }
        let at = Timestamp(at.as_millisecond());
        Some(Self { seq, at, prev, end: body.len() - fields.len() })
    }
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}
