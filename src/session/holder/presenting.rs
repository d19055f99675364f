//! What a holder tells a coordinator that adopts it, and what it remembers so that asking twice does
//! no harm.

use std::io;

use crate::domain::session::CommandSpec;
use crate::session::wire::{KnownCommand, LINK_VERSION, Present};

use super::super::identity;
use super::session::Session;
use super::shell::Doing;

/// How many commands are remembered. Only one that was asked for right before a coordinator was
/// lost can be asked for again.
const KNOWN_MAX: usize = 128;

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
        if self.known.len() == KNOWN_MAX {
            self.known.pop_front();
        }
        let (command, text, ticket) = (spec.id.clone(), spec.text.clone(), spec.ticket.clone());
        self.known.push_back(KnownCommand { command, text, ticket });
        true
    }
}
