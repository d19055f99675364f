//! The transcript: every byte that the terminals gave, and the index that says when, where and in
//! which command. Nothing that goes wrong here stops the session.
//!
//! Every byte has its offset, stored or not: what outgrows its share of the disk and what a full
//! disk does not take leaves a gap that readers see (`docs/transcript.md`).

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::domain::session::{SessionLimits, Size};
use crate::session::wire::Unstored;
use crate::transcript::gaps::Gap;
use crate::transcript::index::{RECORD_BYTES, Record, Resize, Stream};

use super::capture_files::Files;
use super::capture_ring::{Ring, Room};

/// What is kept of the end of the output, for prompts.
const TAIL_BYTES: usize = 1024;
/// What comes so soon after a record's beginning came at the same time.
const SAME_MICROS: u64 = 2_000;
/// After a failure the disk is tried again no sooner.
const RETRY_MICROS: u64 = 50_000;
/// What is kept in memory of output that is not stored: so much of its beginning and of its end.
const UNSTORED_BYTES: usize = 8 * 1024;
/// The two streams may take turns byte by byte: so many pieces of each are kept.
const UNSTORED_PIECES: usize = 64;

/// A session's transcript.
pub(super) struct Capture {
    files: Files,
    ring: Ring,
    raw_end: u64,
    /// Where the output of the running command begins, or what has come since the last one.
    start: u64,
    size: Size,
    /// The size has to be said before the next record.
    size_unsaid: bool,
    /// The last record, as long as it speaks for what comes next.
    open: Option<Record>,
    tail: Vec<u8>,
    /// The disk failed: with what, and before when it is not tried again.
    down: Option<(u64, String)>,
    faults: Faults,
}

/// What went wrong since the last `take_faults`.
#[derive(Default)]
struct Faults {
    /// What the system said first.
    message: Option<String>,
    /// Bytes that were not stored for it.
    lost: u64,
    head: Vec<Unstored>,
    head_len: usize,
    tail: VecDeque<Unstored>,
    tail_len: usize,
}

impl Capture {
    /// Goes on at the end of the files in the session's folder; those that are not there are made
    /// with their first bytes, since making files costs more than most sessions ever say.
    ///
    /// # Errors
    /// When they cannot be made.
    pub(super) fn open(folder: &Path, size: Size, limits: &SessionLimits) -> io::Result<Self> {
        let (files, raw_end) = Files::open(folder)?;
        Ok(Self {
            files,
            ring: Ring::new(limits),
            raw_end,
            start: raw_end,
            size,
            size_unsaid: true,
            open: None,
            tail: Vec::new(),
            down: None,
            faults: Faults::default(),
        })
    }

    /// Takes bytes of one stream.
    pub(super) fn append(&mut self, stream: Stream, command: u32, micros: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.keep_tail(bytes);
        let record = Record { offset: self.raw_end, micros, command, stream };
        let stored = if self.down.as_ref().is_some_and(|(until, _)| micros < *until) {
            0
        } else {
            self.down = None;
            let stored = self.store(record, bytes);
            stored.unwrap_or_else(|error| self.failed(micros, &error))
        };
        let at = self.raw_end + stored as u64;
        self.raw_end += bytes.len() as u64;
        if stored < bytes.len() {
            let lost = bytes.len() - stored;
            let is_stderr = stream == Stream::Stderr;
            let stderr = if is_stderr { lost as u64 } else { 0 };
            self.files.note_gap(Gap { start: at, end: self.raw_end, stderr });
            self.open = None;
            self.faults.keep(at, is_stderr, &bytes[stored..]);
            // The failure may have been seen in the command before.
            if let Some((_, message)) = &self.down {
                self.faults.message.get_or_insert_with(|| message.clone());
            }
        }
    }

    /// Stores bytes and, where one is needed, the record that speaks for them; answers with how
    /// many of them.
    fn store(&mut self, record: Record, bytes: &[u8]) -> io::Result<usize> {
        self.make_room((bytes.len() + 2 * RECORD_BYTES) as u64)?;
        // What is missing is said before anything comes after it: a hole is never taken for output.
        self.files.tell_gaps()?;
        let (at, idx) = (record.offset, self.files.idx_end);
        let continues = !self.ring.opens_block(at, idx)
            && self.open.is_some_and(|open| {
                (open.stream, open.command) == (record.stream, record.command)
                    && record.micros - open.micros < SAME_MICROS
            });
        let (stored, result) = self.files.write_raw(at, bytes);
        if stored > 0 && !continues {
            let mut entries = Vec::with_capacity(2 * RECORD_BYTES);
            if self.size_unsaid {
                let Record { offset, micros, .. } = record;
                entries.extend(Resize { offset, micros, size: self.size }.to_bytes());
            }
            entries.extend(record.to_bytes());
            // Bytes that no record speaks for would be taken for another stream's.
            self.files.write_idx(&entries)?;
            self.size_unsaid = false;
            self.open = Some(record);
        }
        let stderr = if record.stream == Stream::Stderr { stored as u64 } else { 0 };
        self.ring.add(at..at + stored as u64, idx..self.files.idx_end, stderr);
        match result {
            Err(error) if stored == 0 => Err(error),
            Err(error) => {
                self.failed(record.micros, &error);
                Ok(stored)
            }
            Ok(()) => Ok(stored),
        }
    }

    /// Leaves the disk alone for a while. Nothing was stored.
    fn failed(&mut self, micros: u64, error: &io::Error) -> usize {
        self.down = Some((micros + RETRY_MICROS, error.to_string()));
        0
    }

    fn make_room(&mut self, more: u64) -> io::Result<()> {
        loop {
            match self.ring.room(more, || self.files.can_punch()) {
                Room::Enough => return Ok(()),
                Room::GiveUp(block) => {
                    self.files.give_up(&block.raw, &block.idx, block.stderr)?;
                }
                Room::None => {
                    return Err(io::Error::other(
                        "out.raw: the file system cannot punch holes, and the disk quota is used up",
                    ));
                }
            }
        }
    }

    /// The window has another size from here on.
    pub(super) fn resized(&mut self, size: Size, micros: u64) {
        self.size = size;
        let entry = Resize { offset: self.raw_end, micros, size };
        let idx = self.files.idx_end;
        let said = self.make_room(RECORD_BYTES as u64);
        let said = said.and_then(|()| self.files.write_idx(&entry.to_bytes()));
        // What could not be said now is said with the next record.
        self.size_unsaid = said.is_err();
        if said.is_ok() {
            self.ring.add(self.raw_end..self.raw_end, idx..self.files.idx_end, 0);
        }
    }

    /// End of the raw file, had everything been stored.
    pub(super) fn raw_end(&self) -> u64 {
        self.raw_end
    }

    /// End of the index.
    pub(super) fn idx_end(&self) -> u64 {
        self.files.idx_end
    }

    /// How much the running command has printed.
    pub(super) fn said(&self) -> u64 {
        self.raw_end - self.start
    }

    /// The last bytes of the merged output.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Where the last `most` bytes of the running command before `end` begin.
    pub(super) fn recent(&self, end: u64, most: u64) -> u64 {
        self.start.max(end.saturating_sub(most)).min(end)
    }

    /// Stored output.
    pub(super) fn read(&self, range: Range<u64>) -> Vec<u8> {
        self.files.read(range)
    }

    /// A command begins: prompts and records begin anew.
    pub(super) fn begin(&mut self) {
        self.open = None;
        self.tail.clear();
        self.size_unsaid = true;
        // Its first words may find room.
        self.down = None;
        self.end();
    }

    /// What comes next has a record of its own.
    pub(super) fn cut(&mut self) {
        self.open = None;
    }

    /// A command is over: what comes is not its own.
    pub(super) fn end(&mut self) {
        self.start = self.raw_end;
        self.ring.begin(self.raw_end);
        self.faults = Faults::default();
    }

    /// What went wrong since the command began, in words, and what is left of the bytes that were
    /// not stored for it.
    pub(super) fn take_faults(&mut self) -> Option<(String, Vec<Unstored>)> {
        if let Err(error) = self.files.tell_gaps() {
            self.faults.message.get_or_insert_with(|| error.to_string());
        }
        let Faults { message, lost, head, tail, .. } = std::mem::take(&mut self.faults);
        let message = message?;
        let message = match lost {
            0 => message,
            _ => format!("{message}; {lost} bytes of output are not stored"),
        };
        Some((message, head.into_iter().chain(tail).collect()))
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let surplus = (self.tail.len() + last.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend_from_slice(last);
    }
}

impl Faults {
    fn keep(&mut self, at: u64, stderr: bool, bytes: &[u8]) {
        self.lost += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(UNSTORED_BYTES - self.head_len));
        if !head.is_empty() {
            self.head_len += head.len();
            match self.head.last_mut() {
                Some(last) if continues(last, at, stderr) => last.bytes.extend_from_slice(head),
                _ => self.head.push(Unstored { offset: at, stderr, bytes: head.to_vec() }),
            }
            if self.head.len() >= UNSTORED_PIECES {
                self.head_len = UNSTORED_BYTES;
            }
        }
        let skipped = rest.len().saturating_sub(UNSTORED_BYTES);
        let (at, rest) = (at + (head.len() + skipped) as u64, &rest[skipped..]);
        if rest.is_empty() {
            return;
        }
        self.tail_len += rest.len();
        match self.tail.back_mut() {
            Some(last) if continues(last, at, stderr) => last.bytes.extend_from_slice(rest),
            _ => self.tail.push_back(Unstored { offset: at, stderr, bytes: rest.to_vec() }),
        }
        while self.tail.len() > UNSTORED_PIECES
            && let Some(first) = self.tail.pop_front()
        {
            self.tail_len -= first.bytes.len();
        }
        while self.tail_len > UNSTORED_BYTES
            && let Some(first) = self.tail.front_mut()
        {
            let excess = (self.tail_len - UNSTORED_BYTES).min(first.bytes.len());
            first.bytes.drain(..excess);
            first.offset += excess as u64;
            self.tail_len -= excess;
            if first.bytes.is_empty() {
                self.tail.pop_front();
            }
        }
    }
}

fn continues(last: &Unstored, at: u64, stderr: bool) -> bool {
    last.stderr == stderr && last.offset + last.bytes.len() as u64 == at
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
