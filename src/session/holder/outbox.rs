//! Facts on their way to the coordinator: numbered, written as the socket takes them, and kept
//! within a bound until they are acknowledged, and the latest command's longer: a coordinator that
//! adopts the session is told them again.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::domain::frame;
use crate::domain::ids::CommandId;
use crate::session::wire::{Fact, FactBody, Present};

/// Bytes that may wait for the socket. Facts are few and output is no fact, so a peer that lets so
/// much pile up has stopped reading.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// From here on growth of the transcript is not told until the peer has caught up.
const BUSY_BYTES: usize = 64 * 1024;
/// Facts kept for the next coordinator. Beyond it answers go first, then the oldest that are not the
/// latest command's: a coordinator that is told no end of a command that it does not find at work
/// takes it for lost.
const KEPT_MAX: usize = 1024;
/// The same in bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of `facts.jsonl` from which on only ends are written down: a command that asks for ever
/// and is answered by a rule fills no disk.
const UNHEARD_BYTES_MAX: usize = KEPT_BYTES_MAX;
/// Length of a frame's head.
const HEAD: usize = 4;

/// The file in a session's transcript folder with what its holder had to say while nobody heard it.
pub(in crate::session) const UNHEARD: &str = "facts.jsonl";

/// The facts of one session.
#[derive(Default)]
pub(super) struct Outbox {
    last: u64,
    acknowledged: u64,
    waiting: Vec<u8>,
    written: usize,
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    /// Where facts are written down while there is no coordinator.
    unheard: Option<Unheard>,
    /// The file of those that were, and the last number in it: it stays until all of it is on
    /// record, since holder and coordinator may be killed at once.
    written_down: Option<(PathBuf, u64)>,
}

/// The open `facts.jsonl`.
struct Unheard {
    file: File,
    bytes: usize,
}

/// A fact that the next coordinator has to hear.
struct Kept {
    seq: u64,
    /// What it is about.
    about: About,
    /// The whole frame.
    frame: Box<[u8]>,
}

/// What a fact is about, as far as that decides how long it is kept.
#[derive(Clone, PartialEq, Eq)]
enum About {
    /// The session, for as long as that is there.
    Session,
    /// A command that has begun, or what it waits for: until it has ended and another has begun.
    Command(CommandId),
    /// The end of a command: as long.
    End(CommandId),
    /// A question of a command, until that goes on.
    Question(CommandId),
    /// Nothing that is needed once it is acknowledged.
    Passing,
}

impl Outbox {
    /// Adds a fact.
    ///
    /// # Errors
    /// When the peer has stopped reading.
    pub(super) fn push(&mut self, body: FactBody) -> io::Result<()> {
        self.last += 1;
        let about = about(&body);
        if let FactBody::Resumed { command } | FactBody::Awaiting { command, .. } = &body {
            // Answered, or another question in its place.
            let question = About::Question(command.clone());
            self.forget(|kept| kept.about == question);
        }
        if matches!(body, FactBody::Started { .. }) {
            self.forget_ended();
        }
        let start = self.waiting.len();
        let fact = Fact { seq: self.last, body };
        frame::encode(&fact, &mut self.waiting).map_err(io::Error::other)?;
        if let Some(about) = about {
            let frame: Box<[u8]> = self.waiting[start..].into();
            let kept = Kept { seq: self.last, about, frame };
            self.write_down(&kept);
            self.kept_bytes += kept.frame.len();
            self.kept.push_back(kept);
            self.keep_within_bounds();
        }
        if self.waiting.len() - self.written > WAITING_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// The coordinator has these on record: of them only what the next one needs is kept.
    pub(super) fn acknowledge(&mut self, through: u64) {
        self.acknowledged = self.acknowledged.max(through.min(self.last));
        let acknowledged = self.acknowledged;
        self.forget(|kept| kept.seq <= acknowledged && kept.about == About::Passing);
        if self.unheard.is_none()
            && let Some((file, _)) = self.written_down.take_if(|(_, last)| *last <= acknowledged)
        {
            // Left over it would say nothing that is not on record.
            drop(std::fs::remove_file(file));
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

    /// The coordinator is gone: what it had not acknowledged is written down beside the transcript,
    /// and so is what follows, in case that nobody hears of it from us.
    pub(super) fn lose_peer(&mut self, transcript: &Path) {
        self.waiting.clear();
        self.written = 0;
        // Without the file the facts are in memory all the same.
        drop(self.open_unheard(&transcript.join(UNHEARD)));
    }

    /// Begins the file anew, without a moment at which it says less than before.
    fn open_unheard(&mut self, path: &Path) -> io::Result<()> {
        let fresh = path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        let mut lines = Vec::new();
        for kept in self.kept.iter().filter(|kept| kept.seq > self.acknowledged) {
            push_line(&mut lines, &kept.frame);
        }
        file.write_all(&lines)?;
        std::fs::rename(&fresh, path)?;
        self.unheard = Some(Unheard { file, bytes: lines.len() });
        self.written_down = Some((path.to_owned(), self.last));
        Ok(())
    }

    /// Another coordinator is there: it is told who we are, and all that is kept.
    pub(super) fn meet_peer(&mut self, present: Present) -> io::Result<()> {
        self.waiting.clear();
        self.written = 0;
        let fact = Fact { seq: 0, body: FactBody::Present { present: Box::new(present) } };
        frame::encode(&fact, &mut self.waiting).map_err(io::Error::other)?;
        for kept in &self.kept {
            self.waiting.extend_from_slice(&kept.frame);
        }
        self.unheard = None;
        Ok(())
    }

    /// True while something waits for the socket.
    pub(super) fn has_waiting(&self) -> bool {
        self.written < self.waiting.len()
    }

    /// True once the coordinator has all on record.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged >= self.last
    }

    /// True while the peer is behind.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting.len() - self.written > BUSY_BYTES
    }

    /// Nothing is written to anybody: what is pushed is only kept.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting.clear();
        self.written = 0;
    }

    /// With the next command's start the ended ones are history, once that is on record.
    fn forget_ended(&mut self) {
        let ends = self.kept.iter().filter(|kept| kept.seq <= self.acknowledged);
        let ended: Vec<CommandId> = ends
            .filter_map(|kept| match &kept.about {
                About::End(command) => Some(command.clone()),
                _ => None,
            })
            .collect();
        if ended.is_empty() {
            return;
        }
        let acknowledged = self.acknowledged;
        self.forget(|kept| {
            kept.seq <= acknowledged && kept.command().is_some_and(|id| ended.contains(id))
        });
    }

    fn keep_within_bounds(&mut self) {
        while self.kept.len() > KEPT_MAX || self.kept_bytes > KEPT_BYTES_MAX {
            let latest = self.kept.iter().rev().find_map(Kept::command).cloned();
            let is_old = |kept: &Kept| kept.command().is_some_and(|id| Some(id) != latest.as_ref());
            let answer = self.kept.iter().position(|kept| kept.about == About::Passing);
            let oldest = answer.or_else(|| self.kept.iter().position(is_old));
            let Some(gone) = oldest.and_then(|oldest| self.kept.remove(oldest)) else { return };
            self.kept_bytes -= gone.frame.len();
        }
    }

    fn forget(&mut self, gone: impl Fn(&Kept) -> bool) {
        let mut bytes = 0;
        self.kept.retain(|kept| {
            let stays = !gone(kept);
            if !stays {
                bytes += kept.frame.len();
            }
            stays
        });
        self.kept_bytes -= bytes;
    }

    fn write_down(&mut self, kept: &Kept) {
        let Some(unheard) = &mut self.unheard else { return };
        if !kept.is_end() && unheard.bytes > UNHEARD_BYTES_MAX {
            return;
        }
        let mut line = Vec::with_capacity(kept.frame.len());
        push_line(&mut line, &kept.frame);
        unheard.bytes += line.len();
        if unheard.file.write_all(&line).is_err() {
            self.unheard = None;
        } else if let Some((_, last)) = &mut self.written_down {
            *last = kept.seq;
        }
    }
}

impl Kept {
    /// True where nothing after it tells the same.
    fn is_end(&self) -> bool {
        matches!(self.about, About::Session | About::End(_))
    }

    fn command(&self) -> Option<&CommandId> {
        match &self.about {
            About::Command(command) | About::End(command) | About::Question(command) => {
                Some(command)
            }
            About::Session | About::Passing => None,
        }
    }
}

fn push_line(lines: &mut Vec<u8>, frame: &[u8]) {
    lines.extend_from_slice(&frame[HEAD..]);
    lines.push(b'\n');
}

/// What a fact is about; `None` for what the next coordinator sees for itself, or has no use for:
/// the transcript's end and the ports are part of `Present`, and a receipt is the asker's alone.
fn about(body: &FactBody) -> Option<About> {
    Some(match body {
        FactBody::Output { .. }
        | FactBody::Listening { .. }
        | FactBody::Input { .. }
        | FactBody::MayTouch { .. }
        | FactBody::Resumed { .. }
        | FactBody::Present { .. } => return None,
        FactBody::Opened { .. } | FactBody::OpenFailed { .. } | FactBody::Closed { .. } => {
            About::Session
        }
        FactBody::Started { command, .. }
        | FactBody::Noted { command, .. }
        | FactBody::ServiceReady { command }
        | FactBody::TakenOver { command, .. }
        | FactBody::HandedBack { command } => About::Command(command.clone()),
        FactBody::Awaiting { command, .. } => About::Question(command.clone()),
        FactBody::Ended { end } => About::End(end.command.clone()),
        FactBody::Answered { .. } | FactBody::Touched { .. } => About::Passing,
    })
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
