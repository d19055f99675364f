//! What a holder tells a coordinator that adopts it, and what it remembers so that asking twice does
//! no harm.

use std::io;

use crate::domain::session::CommandSpec;
use crate::session::wire::{KnownCommand, LINK_VERSION, Present};

use super::super::identity;
use super::session::Session;
use super::shell::Doing;

/// How many ended commands are remembered. Only one that was asked for right before a coordinator
/// was lost can be asked for again.
const KNOWN_MAX: usize = 128;
/// Bytes of their texts. Beyond it the oldest ended ones are known by their names alone: what they
/// were is on record long since.
const KNOWN_BYTES_MAX: usize = 1024 * 1024;

impl Session {
    /// Who and how we are, for a coordinator that adopts the session.
    ///
    /// # Errors
    /// When `/proc` does not tell who this process is.
    pub(super) fn present(&self) -> io::Result<Present> {
        let is_there = !matches!(self.shell.doing, Doing::Starting | Doing::Gone(_));
        Ok(Present {
            version: LINK_VERSION,
            spec: self.spec.clone(),
            holder: identity::own()?,
            shell: is_there.then_some(self.shell.pid),
            commands: self.known.iter().cloned().collect(),
            end: self.capture.raw_end(),
            ports: self.ports.known().to_vec(),
            closing: self.closing.is_some(),
            told_to_close: self.told_to_close,
        })
    }

    /// Remembers a command. False for one that was given before.
    pub(super) fn is_news(&mut self, spec: &CommandSpec) -> bool {
        if self.known.iter().rev().any(|known| known.command == spec.id) {
            return false;
        }
        self.forget_known();
        let (command, text, ticket) = (spec.id.clone(), spec.text.clone(), spec.ticket.clone());
        self.known.push_back(KnownCommand { command, text, ticket });
        true
    }

    /// Keeps what is remembered within its bounds. What runs or waits is never forgotten.
    fn forget_known(&mut self) {
        let is_open = |known: &KnownCommand| {
            let mut open = self.active.iter().map(|active| active.command.spec());
            open.any(|spec| spec.id == known.command)
                || self.queue.iter().any(|queued| queued.spec().id == known.command)
        };
        let ended = self.known.iter().position(is_open).unwrap_or(self.known.len());
        let gone = ended.saturating_sub(KNOWN_MAX - 1);
        self.known.drain(..gone);
        let mut bytes: usize = self.known.iter().map(|known| known.text.len()).sum();
        for known in self.known.iter_mut().take(ended - gone) {
            if bytes <= KNOWN_BYTES_MAX {
                return;
            }
            bytes -= std::mem::take(&mut known.text).len();
        }
    }
}
