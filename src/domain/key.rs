//! What can be sent to a terminal, and the receipt for it.
//!
//! `name` says which keys there are, `bytes` what a terminal sends for each.

mod bytes;
mod name;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::permission::Verdict;

pub use bytes::{KeyModes, PASTE_END, PASTE_START, pasted};
pub use name::{Key, KeyError};

/// Input for the program that runs in a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub enum Input {
    /// Sent byte for byte; no line end is added.
    Text {
        /// The bytes.
        text: String,
    },
    /// Keys, as a terminal would send them in the modes that the program has asked for.
    Keys {
        /// In order.
        keys: Vec<Key>,
    },
    /// Text that is marked as pasted, where the program asked for such marks; else sent as it is.
    Paste {
        /// The pasted text.
        text: String,
    },
    /// Text that nobody may see: sent only while the terminal shows nothing of it, and never
    /// written down.
    Secret {
        /// The secret, with the line end that it needs.
        text: String,
    },
}

// Written by hand so that no log, panic or error message can have the secret in it.
impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { text } => f.debug_struct("Text").field("text", text).finish(),
            Self::Keys { keys } => f.debug_struct("Keys").field("keys", keys).finish(),
            Self::Paste { text } => f.debug_struct("Paste").field("text", text).finish(),
            Self::Secret { .. } => f.write_str("Secret { .. }"),
        }
    }
}

/// The receipt: how much of an input is in the terminal's queue, and why the rest is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// In bytes, as they were encoded for the terminal.
    pub written: u64,
    /// Why nothing more was written; `None`: all was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

/// Why an input, or the rest of it, was not written. The kinds are closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refused {
    /// No command runs: what is typed now would be eaten by the next one.
    Idle,
    /// The command that it was meant for does not run: it has ended, or has not begun.
    NotRunning,
    /// The program reads in line mode, in which a terminal takes no longer line.
    LineTooLong {
        /// Where in the input that line begins, in bytes.
        offset: u64,
        /// The longest line, in bytes without its end.
        limit: u64,
    },
    /// The program does not read, and no more is kept for it.
    QueueFull {
        /// How long input may wait for it, in ms.
        waited_ms: u64,
    },
    /// More at once than is taken.
    TooLong {
        /// The most, in bytes.
        limit: u64,
    },
    /// A secret, and the terminal would show it.
    EchoOn,
    /// A secret, and the program has the terminal in raw mode: it may show it itself.
    RawMode,
    /// Someone else holds the terminal.
    Claimed,
    /// A command to a shell that the policy does not allow.
    Policy {
        /// `deny`, or `ask` where nobody could answer.
        verdict: Verdict,
        /// The rule that decided; `None` where it was none.
        rule: Option<String>,
        /// The policy's own words.
        message: String,
    },
    /// The command was ended before the program took it.
    Ended,
    /// An interrupt came after it, and threw it away.
    Interrupted,
    /// The session is closed.
    Closed,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("no command runs that could read it"),
            Self::NotRunning => f.write_str("the command it was meant for does not run"),
            Self::LineTooLong { offset, limit } => write!(
                f,
                "the line that begins at byte {offset} is longer than the {limit} bytes that a \
                 terminal in line mode takes"
            ),
            Self::QueueFull { waited_ms } => {
                write!(f, "the program has not read for {waited_ms} ms and its queue is full")
            }
            Self::TooLong { limit } => write!(f, "more than {limit} bytes at once"),
            Self::Policy { message, .. } => write!(f, "the policy does not allow it: {message}"),
            Self::EchoOn => f.write_str("the terminal's echo is on: it would show the secret"),
            Self::RawMode => f.write_str(
                "the program has the terminal in raw mode, so that it may show the secret itself",
            ),
            Self::Claimed => f.write_str("someone else holds the terminal"),
            Self::Interrupted => f.write_str("an interrupt that came after it threw it away"),
            Self::Ended => f.write_str("the command was ended before it was read"),
            Self::Closed => f.write_str("the session is closed"),
        }
    }
}
