//! What can go wrong with a journal.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::line::LineFault;

/// Why a journal cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is none.
    #[error("no journal at `{}`", dir.display())]
    Missing {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// Another process writes it.
    #[error("journal `{}` is open in another process", dir.display())]
    Locked {
        /// The folder.
        dir: PathBuf,
    },
    /// A line is not what was written.
    #[error("journal is damaged: {} at byte {offset}: {fault}", segment.display())]
    Damaged {
        /// The segment's file.
        segment: PathBuf,
        /// Where the line begins in it.
        offset: u64,
        /// What is wrong.
        fault: LineFault,
    },
    /// A line is whole, and tells of something that this version does not know.
    #[error(
        "journal was written by a newer callboard: {} at byte {offset} tells of something unknown: {}",
        segment.display(), brief(source)
    )]
    Newer {
        /// The segment's file.
        segment: PathBuf,
        /// Where the line begins in it.
        offset: u64,
        /// What is unknown.
        source: serde_json::Error,
    },
    /// Segments do not follow each other.
    #[error(
        "journal is damaged: {} begins at line {found}, but line {expected} is due: a segment is missing",
        segment.display()
    )]
    SegmentMissing {
        /// The segment after the gap.
        segment: PathBuf,
        /// The line that is due.
        expected: u64,
        /// The line it begins with.
        found: u64,
    },
    /// The disk or the folder refused.
    #[error("{doing} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What serde says, without its list of all that would be known.
fn brief(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(", expected one of").map_or(text.clone(), |(words, _)| words.to_owned())
}

impl JournalError {
    /// For `map_err`: what was tried, and on what.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

/// Why events were not appended. None of the group is in the journal then.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// The disk refused. Later appends may succeed again.
    #[error("{doing} the journal: {source}")]
    Disk {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The event cannot be written as JSON (a path that is not UTF-8, say).
    #[error("event cannot be written as JSON: {0}")]
    Unwritable(Arc<serde_json::Error>),
    /// The event's line would be longer than any reader accepts.
    #[error("event of {0} bytes is too long for a journal line")]
    TooLong(usize),
    /// The journal has been closed.
    #[error("journal is closed")]
    Closed,
}

impl AppendError {
    /// True when there is no room: a full disk, a quota, a limit on file sizes.
    pub fn is_disk_full(&self) -> bool {
        let Self::Disk { source, .. } = self else { return false };
        matches!(
            source.kind(),
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::FileTooLarge
                | io::ErrorKind::WriteZero
        )
    }
}
