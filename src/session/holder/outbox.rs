//! Facts on their way to the coordinator: numbered, written as the socket takes them, and kept
//! within a bound until they are acknowledged.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;

use crate::domain::frame;
use crate::session::wire::{Fact, FactBody};

/// Bytes that may wait for the socket. Facts are few and output is no fact, so a peer that lets so
/// much pile up has stopped reading.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// From here on growth of the transcript is not told until the peer has caught up.
const BUSY_BYTES: usize = 64 * 1024;
/// Facts kept for a coordinator that has not acknowledged them.
const KEPT_MAX: usize = 1024;

/// The facts of one session.
#[derive(Default)]
pub(super) struct Outbox {
    last: u64,
    waiting: Vec<u8>,
    written: usize,
    /// Not acknowledged yet, oldest first; beyond the bound the oldest go.
    kept: VecDeque<(u64, Box<[u8]>)>,
}

impl Outbox {
    /// Adds a fact.
    ///
    /// # Errors
    /// When the peer has stopped reading.
    pub(super) fn push(&mut self, body: FactBody) -> io::Result<()> {
        self.last += 1;
        let start = self.waiting.len();
        let fact = Fact { seq: self.last, body };
        frame::encode(&fact, &mut self.waiting).map_err(io::Error::other)?;
        self.kept.push_back((self.last, self.waiting[start..].into()));
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
        }
        if self.waiting.len() - self.written > WAITING_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Forgets what the coordinator has on record.
    pub(super) fn acknowledge(&mut self, through: u64) {
        while self.kept.front().is_some_and(|(seq, _)| *seq <= through) {
            self.kept.pop_front();
        }
    }

    /// Writes what the socket takes.
    ///
    /// # Errors
    /// When the peer is gone.
    pub(super) fn flush(&mut self, mut socket: &UnixStream) -> io::Result<()> {
        while self.has_waiting() {
            match socket.write(&self.waiting[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.written += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.waiting.clear();
        self.waiting.shrink_to(BUSY_BYTES);
        self.written = 0;
        Ok(())
    }

    /// True while something waits for the socket.
    pub(super) fn has_waiting(&self) -> bool {
        self.written < self.waiting.len()
    }

    /// True while the peer is behind.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting.len() - self.written > BUSY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_peer_that_reads_late_gets_all_of_it_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut outbox = Outbox::default();
        for end in 0..20_000 {
            outbox.push(FactBody::Output { end }).unwrap();
            outbox.flush(&near).unwrap();
        }
        assert!(outbox.is_busy() && outbox.kept.len() == KEPT_MAX);
        let mut decoder = frame::Decoder::default();
        let mut expected = 1;
        let mut buffer = vec![0; 4096];
        while expected <= 20_000 {
            let got = far.read(&mut buffer).unwrap();
            decoder.push(&buffer[..got]);
            while let Some(fact) = decoder.document::<Fact>().unwrap() {
                assert_eq!(fact.seq, expected);
                expected += 1;
            }
            outbox.flush(&near).unwrap();
        }
        outbox.acknowledge(19_999);
        assert_eq!(outbox.kept.len(), 1);
    }

    #[test]
    fn a_peer_that_never_reads_is_given_up() {
        let mut outbox = Outbox::default();
        let message = "x".repeat(1024 * 1024);
        let body = || FactBody::OpenFailed { message: message.clone() };
        assert!((0..9).any(|_| outbox.push(body()).is_err()));
    }
}
