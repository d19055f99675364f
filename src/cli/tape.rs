//! A session's transcript, read by offset straight from its files. What is not stored is told, not
//! skipped.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::transcript::gaps::{Gaps, Stretch};
use crate::transcript::index::{RECORD_BYTES, Resize, resizes};

/// How much of an index is read at a time.
const INDEX_CHUNK: usize = 2048 * RECORD_BYTES;

/// A transcript.
#[derive(Debug)]
pub(super) struct Tape {
    folder: PathBuf,
    raw: File,
}

/// A part of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes from `offset` on.
    Bytes {
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes that are not stored.
    Gap {
        /// The first.
        start: u64,
        /// Their end.
        end: u64,
    },
}

impl Tape {
    /// Opens the transcript in a session's folder; `None` where there is none (yet).
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub(super) fn open(folder: &Path) -> Result<Option<Self>, Failure> {
        let file = folder.join("out.raw");
        match File::open(&file) {
            Ok(raw) => Ok(Some(Self { folder: folder.to_owned(), raw })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::file(&file, "read", &error)),
        }
    }

    /// Where it ends by now.
    ///
    /// # Errors
    /// When that cannot be told.
    pub(super) fn end(&self) -> Result<u64, Failure> {
        let told = |error| Failure::file(&self.folder.join("out.raw"), "read", &error);
        Ok(self.raw.metadata().map_err(told)?.len())
    }

    /// Reads from `from` up to `to`, at most `most` bytes. The answer is what there is, and where
    /// to go on.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(
        &self,
        from: u64,
        to: u64,
        most: usize,
    ) -> Result<(Vec<Piece>, u64), Failure> {
        let told = |error| Failure::file(&self.folder.join("out.raw"), "read", &error);
        let length = usize::try_from(to.saturating_sub(from)).unwrap_or(most).min(most);
        let mut bytes = vec![0; length];
        let got = read_up_to(&self.raw, &mut bytes, from).map_err(told)?;
        bytes.truncate(got);
        // After the bytes: what was taken away while we read stands in it by now.
        let gaps = self.gaps().map_err(told)?;
        let end = from + got as u64;
        let mut pieces = Vec::new();
        let mut next = end;
        for stretch in gaps.cut(from..end) {
            match stretch {
                Stretch::Stored(range) => {
                    let place = |offset: u64| usize::try_from(offset - from).unwrap_or(got);
                    let bytes = bytes[place(range.start)..place(range.end)].to_vec();
                    pieces.push(Piece::Bytes { offset: range.start, bytes });
                }
                Stretch::Missing { range, gap } => {
                    let end = gap.end.min(to).max(range.end);
                    pieces.push(Piece::Gap { start: range.start, end });
                    next = next.max(end);
                }
            }
        }
        Ok((pieces, next))
    }

    /// Reads the index in whole entries, until `each` has enough.
    ///
    /// # Errors
    /// When it cannot be read, and what `each` says.
    pub(super) fn read_index(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let path = self.folder.join("out.idx");
        let told = |error| Failure::file(&path, "read", &error);
        let file = match File::open(&path) {
            Ok(file) => file,
            // It is made with its first entry.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(told(error)),
        };
        let mut chunk = vec![0; INDEX_CHUNK];
        let mut at = 0;
        loop {
            let got = read_up_to(&file, &mut chunk, at).map_err(told)?;
            if got == 0 || !each(&chunk[..got])? {
                return Ok(());
            }
            at += got as u64;
        }
    }

    /// The window's sizes, each where it changes.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(super) fn sizes(&self) -> Result<Vec<Resize>, Failure> {
        let mut all: Vec<Resize> = Vec::new();
        self.read_index(|chunk| {
            for resize in resizes(chunk) {
                if all.last().is_none_or(|last| last.size != resize.size) {
                    all.push(resize);
                }
            }
            Ok(true)
        })?;
        Ok(all)
    }

    fn gaps(&self) -> io::Result<Gaps> {
        match std::fs::read(self.folder.join("out.gap")) {
            Ok(bytes) => Ok(Gaps::read(&bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Gaps::default()),
            Err(error) => Err(error),
        }
    }
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::gaps::Gap;

    fn bytes(offset: u64, text: &str) -> Piece {
        Piece::Bytes { offset, bytes: text.into() }
    }

    #[test]
    fn it_is_read_by_offset_and_gaps_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Tape::open(folder.path()).unwrap().is_none());
        std::fs::write(folder.path().join("out.raw"), "0123456789").unwrap();
        let tape = Tape::open(folder.path()).unwrap().unwrap();
        assert!(tape.sizes().unwrap().is_empty(), "there is no index yet");
        assert_eq!(tape.end().unwrap(), 10);
        assert_eq!(tape.read(2, 10, 3).unwrap(), (vec![bytes(2, "234")], 5));
        assert_eq!(tape.read(8, 99, 100).unwrap(), (vec![bytes(8, "89")], 10));
        let mut gaps = Gaps::default();
        gaps.add(Gap { start: 3, end: 8, stderr: 0 });
        std::fs::write(folder.path().join("out.gap"), gaps.to_bytes()).unwrap();
        let gap = |start, end| Piece::Gap { start, end };
        assert_eq!(
            tape.read(2, 10, 100).unwrap(),
            (vec![bytes(2, "2"), gap(3, 8), bytes(8, "89")], 10)
        );
        // A gap costs nothing: reading goes on behind it.
        assert_eq!(tape.read(2, 10, 3).unwrap(), (vec![bytes(2, "2"), gap(3, 8)], 8));
        assert_eq!(tape.read(4, 6, 3).unwrap(), (vec![gap(4, 6)], 6));
    }
}
