//! What the terminals say: read in bounded pieces, kept, and heard by whoever waits for it.

use crate::command::event::Event;
use crate::domain::outcome::Reason;
use crate::transcript::index::Stream;

use super::super::os::pty::Terminal;
use super::session::{Session, TELL_EVERY_MS};

/// Output is taken in pieces of this size: one write each.
const CHUNK_BYTES: usize = 64 * 1024;
/// The first piece: many a session never says more, and memory that nobody touches costs nothing.
const FIRST_CHUNK_BYTES: usize = 4 * 1024;
/// What is read at a boundary at most: a background job may never stop printing.
const BOUNDARY_BYTES_MAX: usize = 1024 * 1024;

impl Session {
    /// Reads both terminals to their present ends.
    pub(super) fn read_terminals(&mut self, now_ms: u64) {
        for stream in [Stream::Main, Stream::Stderr] {
            self.read_terminal(stream, BOUNDARY_BYTES_MAX, now_ms);
        }
    }

    /// Reads one terminal to its present end, or to `bytes_max`.
    pub(super) fn read_terminal(&mut self, stream: Stream, bytes_max: usize, now_ms: u64) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.is_empty() {
            buffer.resize(FIRST_CHUNK_BYTES, 0);
        }
        let mut total = 0;
        while total < bytes_max {
            let terminal = if stream == Stream::Main { &self.main } else { &self.stderr };
            let got = fill(terminal, &mut buffer);
            if got == 0 {
                break;
            }
            total += got;
            self.keep_output(stream, &buffer[..got], now_ms);
            if got < buffer.len() {
                break;
            }
            buffer.resize(CHUNK_BYTES, 0);
        }
        self.buffer = buffer;
    }

    fn keep_output(&mut self, stream: Stream, bytes: &[u8], now_ms: u64) {
        self.modes.follow(stream, bytes);
        let stay = self.takeover.as_ref().filter(|stay| stay.is_at_shell());
        let stay = stay.map_or(0, |stay| stay.number);
        let number = self.active.as_ref().filter(|a| a.started.is_some()).map_or(0, |a| a.number);
        let held_back = if number == 0 { None } else { self.newline.hold_back(stream, bytes) };
        let kept = held_back.as_deref().unwrap_or(bytes);
        let offset = self.capture.raw_end();
        self.capture.append(stream, number.max(stay), self.clock.micros(), kept);
        if self.tell_at_ms.is_none() && self.capture.raw_end() > self.told_end {
            self.tell_at_ms = Some(now_ms + TELL_EVERY_MS);
        }
        if number != 0 {
            self.looks.soon(now_ms);
            self.answers.listen(stream, offset, kept, now_ms);
            self.feed(Event::Output { bytes, stderr: stream == Stream::Stderr }, now_ms);
            self.hold_to_limit(now_ms);
        }
    }

    /// Ends the command that prints more than it may.
    fn hold_to_limit(&mut self, now_ms: u64) {
        let Some(limit) = self.spec.limits.output.filter(|limit| self.capture.said() > *limit)
        else {
            return;
        };
        let reason = Reason::Quota { resource: "output".to_owned(), limit };
        self.feed(Event::End { reason }, now_ms);
    }
}

/// Reads until the terminal has no more, or the buffer is full: the kernel gives little at a time.
fn fill(terminal: &Terminal, buffer: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(&terminal.master, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    filled
}
