//! A holder without a coordinator: it listens at its door until one adopts it or its patience ends.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::domain::frame::Decoder;
use crate::domain::ids::SessionId;
use crate::domain::session::SessionSpec;
use crate::session::wire::Ask;

use super::super::door;

/// How long whoever knocks may take to say who it is: less than a coordinator waits for its answer,
/// who may stand behind one that says nothing.
const KNOCK_MS: u64 = 2_000;
/// How often the door is tried again that could not be opened.
const RETRY_MS: u64 = 1_000;
/// What is read of a knock at a time.
const READ_BYTES: usize = 4 * 1024;

/// The wait for another coordinator.
pub(super) struct Alone {
    folder: std::path::PathBuf,
    session: SessionId,
    door: Option<UnixListener>,
    /// Somebody who has not said yet who it is. One at a time; others wait at the door.
    knock: Option<Knock>,
    retry_ms: u64,
    until_ms: u64,
}

struct Knock {
    stream: UnixStream,
    decoder: Decoder,
    said: usize,
    until_ms: u64,
}

impl Alone {
    /// Opens the door.
    pub(super) fn at_door(spec: &SessionSpec, now_ms: u64) -> Self {
        let mut alone = Self {
            folder: spec.door.clone(),
            session: spec.id.clone(),
            door: None,
            knock: None,
            retry_ms: now_ms,
            until_ms: now_ms.saturating_add(spec.patience_ms),
        };
        alone.tick(now_ms);
        alone
    }

    /// True once nobody is waited for any more.
    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms <= now_ms
    }

    /// When `tick` has next something to do, or the wait is over.
    pub(super) fn due(&self) -> u64 {
        let knock = self.knock.as_ref().map(|knock| knock.until_ms);
        let retry = self.door.is_none().then_some(self.retry_ms);
        knock.into_iter().chain(retry).chain([self.until_ms]).min().unwrap_or(self.until_ms)
    }

    /// Gives up on who says nothing, and opens a door that could not be opened.
    pub(super) fn tick(&mut self, now_ms: u64) {
        if self.knock.as_ref().is_some_and(|knock| knock.until_ms <= now_ms) {
            self.knock = None;
        }
        if self.door.is_none() && self.retry_ms <= now_ms {
            // A full disk, or no descriptor left: that may pass.
            self.door = door::listen(&self.folder, &self.session).ok();
            self.retry_ms = now_ms + RETRY_MS;
        }
    }

    /// What to watch: who knocks, or else the door.
    pub(super) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let knock = self.knock.as_ref().map(|knock| knock.stream.as_fd());
        knock.or_else(|| self.door.as_ref().map(|door| door.as_fd())).into_iter()
    }

    /// There is something at the door: who adopts us, with its epoch and what else it has said.
    pub(super) fn answer(&mut self, epoch: u64, now_ms: u64) -> Option<(UnixStream, u64, Decoder)> {
        if self.knock.is_none() {
            let (stream, _) = self.door.as_ref()?.accept().ok()?;
            if !is_ours(&stream) || stream.set_nonblocking(true).is_err() {
                return None;
            }
            let decoder = Decoder::default();
            self.knock = Some(Knock { stream, decoder, said: 0, until_ms: now_ms + KNOCK_MS });
        }
        let knock = self.knock.as_mut()?;
        let is_there = knock.read();
        match knock.decoder.document::<Ask>() {
            Ok(Some(Ask::Adopt { epoch: theirs })) if theirs >= epoch => {
                let Knock { stream, decoder, .. } = self.knock.take()?;
                // Nobody else comes in; a door that is needed again is made anew.
                self.door = None;
                door::remove(&self.folder, &self.session);
                Some((stream, theirs, decoder))
            }
            Ok(None) if is_there => None,
            // One that has been replaced, or no coordinator at all. One of the same epoch is the
            // same one, whose first try came to nothing.
            _ => {
                self.knock = None;
                None
            }
        }
    }
}

impl Knock {
    /// Reads some of what has come; false at its end, and for one that says more than who it is.
    fn read(&mut self) -> bool {
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(got) => {
                self.decoder.push(&buffer[..got]);
                self.said += got;
                self.said <= READ_BYTES
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }
}

/// Another user is not let in, whatever the modes of file and folder say.
fn is_ours(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}
