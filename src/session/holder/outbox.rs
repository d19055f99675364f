//! Facts on their way to the coordinator: numbered, written as the socket takes them, and kept
//! within a bound until they are acknowledged, and the latest command's longer: a coordinator that
//! adopts the session is told them again.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::domain::frame;
use crate::domain::ids::CommandId;
use crate::session::wire::{Fact, FactBody, Present};

/// Bytes that may wait for the socket. Facts are few and output is no fact, so a peer that lets so
/// much pile up has stopped reading.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// From here on growth of the transcript is not told until the peer has caught up.
const BUSY_BYTES: usize = 64 * 1024;
/// Facts kept for the next coordinator. Beyond it the oldest go that are not the latest command's.
const KEPT_MAX: usize = 1024;
/// The same in bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
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
    unheard: Option<File>,
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
        if let FactBody::Resumed { command } = &body {
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
            self.write_down(&frame);
            self.kept_bytes += frame.len();
            self.kept.push_back(Kept { seq: self.last, about, frame });
            self.keep_within_bounds();
        }
        if self.waiting.len() - self.written > WAITING_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// The coordinator has these on record: of them only what the next one needs is kept.
    pub(super) fn acknowledge(&mut self, through: u64) {
        self.acknowledged = self.acknowledged.max(through);
        let acknowledged = self.acknowledged;
        self.forget(|kept| kept.seq <= acknowledged && kept.about == About::Passing);
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
        let file = transcript.join(UNHEARD);
        // Without the file the facts are in memory all the same.
        self.unheard = OpenOptions::new().append(true).create(true).mode(0o600).open(file).ok();
        let acknowledged = self.acknowledged;
        let mut lines = Vec::new();
        for kept in self.kept.iter().filter(|kept| kept.seq > acknowledged) {
            push_line(&mut lines, &kept.frame);
        }
        if let Some(file) = &mut self.unheard
            && file.write_all(&lines).is_err()
        {
            self.unheard = None;
        }
    }

    /// Another coordinator is there: it is told who we are, and all that is kept.
    pub(super) fn meet_peer(&mut self, present: Present, transcript: &Path) -> io::Result<()> {
        self.waiting.clear();
        self.written = 0;
        let fact = Fact { seq: 0, body: FactBody::Present { present: Box::new(present) } };
        frame::encode(&fact, &mut self.waiting).map_err(io::Error::other)?;
        for kept in &self.kept {
            self.waiting.extend_from_slice(&kept.frame);
        }
        if self.unheard.take().is_some() {
            drop(std::fs::remove_file(transcript.join(UNHEARD)));
        }
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
            let latest = self.kept.back().and_then(|kept| kept.command()).cloned();
            let oldest = self.kept.iter().position(|kept| {
                kept.about != About::Session
                    && (latest.is_none() || kept.command() != latest.as_ref())
            });
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

    fn write_down(&mut self, frame: &[u8]) {
        let Some(file) = &mut self.unheard else { return };
        let mut line = Vec::with_capacity(frame.len());
        push_line(&mut line, frame);
        if file.write_all(&line).is_err() {
            self.unheard = None;
        }
    }
}

impl Kept {
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
        FactBody::Answered { .. } => About::Passing,
    })
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
