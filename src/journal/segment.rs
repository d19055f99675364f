//! Segments: their names, their order, and the lines in one of them.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::error::JournalError;
use super::line::LINE_BYTES_MAX;

const SUFFIX: &str = ".jsonl";
const DIGITS: usize = 20;
const READ_BYTES: usize = 256 * 1024;

/// One file of the journal.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) first_seq: u64,
    pub(super) path: PathBuf,
}

/// The file of the segment that begins with line `first_seq`.
pub(super) fn path_of(dir: &Path, first_seq: u64) -> PathBuf {
    dir.join(format!("{first_seq:0DIGITS$}{SUFFIX}"))
}

/// All segments in order. Files with other names are not the journal's and are left alone.
pub(super) fn list(dir: &Path) -> Result<Vec<Segment>, JournalError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(JournalError::Missing { dir: dir.to_owned() });
        }
        Err(error) => return Err(JournalError::io("listing", dir)(error)),
    };
    let mut segments = Vec::new();
    for entry in entries {
        let entry = entry.map_err(JournalError::io("listing", dir))?;
        if let Some(first_seq) = entry.file_name().to_str().and_then(first_seq_of) {
            segments.push(Segment { first_seq, path: entry.path() });
        }
    }
    segments.sort_by_key(|segment| segment.first_seq);
    Ok(segments)
}

fn first_seq_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let whole = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole.then(|| digits.parse().ok()).flatten()
}

/// What comes next in a segment.
#[derive(Debug)]
pub(super) enum Next {
    /// A line; its newline is not in the range.
    Line(Range<usize>),
    /// Bytes up to the end without a newline.
    Unterminated(Range<usize>),
    /// More bytes without a newline than any line has.
    TooLong,
    /// Nothing.
    End,
}

/// Cuts a file into lines, holding little more than one of them.
pub(super) struct Lines {
    file: File,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    unread: Range<usize>,
    /// Where `unread` begins in the file.
    offset: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(JournalError::io("opening", path))?;
        Ok(Self { file, buffer: vec![0; READ_BYTES], unread: 0..0, offset: 0 })
    }

    /// Where the next line begins in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn bytes(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.buffer[range]
    }

    pub(super) fn next(&mut self) -> io::Result<Next> {
        let mut searched = 0;
        loop {
            let from = self.unread.start + searched;
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[from..self.unread.end]) {
                let line = self.unread.start..from + at;
                self.unread.start = line.end + 1;
                self.offset += line.len() as u64 + 1;
                return Ok(Next::Line(line));
            }
            searched = self.unread.len();
            if searched > LINE_BYTES_MAX {
                return Ok(Next::TooLong);
            }
            if !self.fill()? {
                let rest = self.unread.clone();
                return Ok(if rest.is_empty() { Next::End } else { Next::Unterminated(rest) });
            }
        }
    }

    /// True when no byte follows what was read. Ranges handed out before may no longer hold.
    pub(super) fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.unread.is_empty() && !self.fill()?)
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let read = loop {
            match self.file.read(&mut self.buffer[self.unread.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.unread.end += read;
        Ok(read > 0)
    }
}
