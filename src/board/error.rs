//! What can go wrong with the board.

use std::io;
use std::path::PathBuf;

use super::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Why the board cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The key is empty or too long.
    #[error("board key of {0} bytes: a key has 1 to {KEY_BYTES_MAX} bytes")]
    KeyLength(usize),
    /// The key holds a character that no key may have.
    #[error("board key {0:?} holds a control character")]
    KeyCharacter(String),
    /// The value is too long as JSON.
    #[error("value of {bytes} bytes for board key `{key}`: the limit is {VALUE_BYTES_MAX}")]
    ValueLength {
        /// The key.
        key: String,
        /// Length of the value as JSON.
        bytes: usize,
    },
    /// Another process has the board open. It is in order, and is not set aside.
    #[error("board `{}` is open in another process", dir.display())]
    Locked {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder or the disk refused.
    #[error("{doing} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// sled refused.
    #[error("{doing} the board: {source}")]
    Store {
        /// What was tried.
        doing: &'static str,
        /// What sled said.
        source: sled::Error,
    },
    /// What is stored is not what was written.
    #[error("board is damaged: {0}")]
    Damaged(String),
}

impl BoardError {
    pub(super) fn store(doing: &'static str) -> impl FnOnce(sled::Error) -> Self {
        move |source| Self::Store { doing, source }
    }

    /// True when it is the disk that refused.
    pub fn is_the_disks(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Store { source: sled::Error::Io(_), .. })
    }

    /// True when the caller asked for what no board takes: its fault, not ours or the disk's.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::KeyLength(_) | Self::KeyCharacter(_) | Self::ValueLength { .. })
    }
}
