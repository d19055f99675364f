//! A journal or a board that cannot be used, in words: what is wrong, where, and what to do next.

use std::io;

use super::failure::{Failure, Kind, reason};
use crate::journal::{AppendError, JournalError};

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let message = match &error {
            JournalError::Io { doing, path, source } => {
                format!("{doing} `{}`: {}", path.display(), reason(source))
            }
            other => other.to_string(),
        };
        match error {
            JournalError::Missing { .. } => Self::new(Kind::NotFound, message),
            JournalError::Locked { .. } => {
                Self::new(Kind::Coordinator, message).hint("let that process end first")
            }
            JournalError::Damaged { segment, .. }
            | JournalError::SegmentMissing { segment, .. } => {
                let folder = segment.parent().unwrap_or(&segment).display().to_string();
                Self::new(Kind::Machine, message).hint(format!(
                    "no coordinator begins with it, and what only reads goes as far as it can: \
                     `callboard audit verify` looks at all of it. Bring `{folder}` back from a copy, or \
                     move it away to begin anew, without what it knows"
                ))
            }
            JournalError::Newer { .. } => Self::new(Kind::Version, message)
                .hint("use that callboard, or a newer one: this one cannot go on with it"),
            JournalError::Io { source, .. } => {
                let hint = match source.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                        "the state folder has to be readable and writable for you: make it so, or set \
                         XDG_STATE_HOME to a folder that is"
                    }
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => MAKE_ROOM,
                    _ => "`callboard doctor` looks at the state folder",
                };
                Self::new(Kind::Machine, message).hint(hint)
            }
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let hint = match error.is_disk_full() {
            true => MAKE_ROOM,
            false => {
                "what is under way goes on without a coordinator for five minutes: once the disk \
                      can be written again, any verb that needs one starts it"
            }
        };
        Self::new(Kind::Machine, format!("cannot go on without a journal: {error}")).hint(hint)
    }
}

const MAKE_ROOM: &str = "make room on the disk of the state folder: `callboard gc` says what it could \
                         remove; what is under way goes on for five minutes";
