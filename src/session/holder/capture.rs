//! The transcript: every byte that the terminals gave, and the index that says when, where and in
//! which command. Nothing that goes wrong here stops the session.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::transcript::index::{Record, Stream};

/// What is kept of the end of the output, for prompts.
const TAIL_BYTES: usize = 1024;
/// What comes so soon after a record's beginning came at the same time.
const SAME_MICROS: u64 = 2_000;

/// The two files of a session's transcript.
pub(super) struct Capture {
    raw: Output,
    idx: Output,
    raw_end: u64,
    idx_end: u64,
    /// The last record, as long as it speaks for what comes next.
    open: Option<Record>,
    tail: Vec<u8>,
    /// What the system said when bytes were lost since the last `take_fault`.
    fault: Option<String>,
}

impl Capture {
    /// Goes on at the end of the files in the session's folder; those that are not there are made
    /// with their first bytes, since making files costs more than most sessions ever say.
    ///
    /// # Errors
    /// When they cannot be opened, or there is no such folder.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let ((raw, raw_end), (idx, idx_end)) =
            (Output::open(folder, "out.raw")?, Output::open(folder, "out.idx")?);
        Ok(Self { raw, idx, raw_end, idx_end, open: None, tail: Vec::new(), fault: None })
    }

    /// Appends bytes of one stream.
    pub(super) fn append(&mut self, stream: Stream, command: u32, micros: u64, bytes: &[u8]) {
        self.keep_tail(bytes);
        let record = Record { offset: self.raw_end, micros, command, stream };
        let (written, result) = self.raw.write(bytes);
        self.raw_end += written;
        let continues = self.open.is_some_and(|open| {
            (open.stream, open.command) == (stream, command) && micros - open.micros < SAME_MICROS
        });
        if written > 0 && !continues {
            // A torn record would shift every one after it, so the file is cut back to whole ones.
            let (told, indexed) = self.idx.write(&record.to_bytes());
            match indexed {
                Ok(()) => {
                    self.idx_end += told;
                    self.open = Some(record);
                }
                Err(error) => {
                    self.open = None;
                    self.idx.cut(self.idx_end);
                    self.fault.get_or_insert_with(|| format!("out.idx: {error}"));
                }
            }
        }
        if let Err(error) = result {
            self.fault.get_or_insert_with(|| format!("out.raw: {error}"));
        }
    }

    /// End of the raw file.
    pub(super) fn raw_end(&self) -> u64 {
        self.raw_end
    }

    /// End of the index.
    pub(super) fn idx_end(&self) -> u64 {
        self.idx_end
    }

    /// The last bytes of the merged output.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// A command begins: prompts and records begin anew.
    pub(super) fn begin(&mut self) {
        self.open = None;
        self.tail.clear();
    }

    /// What went wrong since the last call.
    pub(super) fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let surplus = (self.tail.len() + last.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend_from_slice(last);
    }
}

/// A file that is appended to.
struct Output {
    path: PathBuf,
    /// `None` until it has a first byte.
    file: Option<File>,
}

impl Output {
    /// The file, and where it ends.
    fn open(folder: &Path, name: &str) -> io::Result<(Self, u64)> {
        let path = folder.join(name);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let found = match OpenOptions::new().append(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder.is_dir() => None,
            found => Some(found.map_err(named)?),
        };
        let end = found.as_ref().map_or(Ok(0), |file| file.metadata().map(|meta| meta.len()))?;
        Ok((Self { path, file: found }, end))
    }

    /// Appends; how much was written, whatever went wrong then.
    fn write(&mut self, bytes: &[u8]) -> (u64, io::Result<()>) {
        if self.file.is_none() && !bytes.is_empty() {
            match OpenOptions::new().create(true).append(true).open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) => return (0, Err(error)),
            }
        }
        let Some(file) = &mut self.file else { return (0, Ok(())) };
        let mut written = 0;
        while written < bytes.len() {
            match file.write(&bytes[written..]) {
                Ok(0) => return (written as u64, Err(io::ErrorKind::WriteZero.into())),
                Ok(taken) => written += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written as u64, Err(error)),
            }
        }
        (written as u64, Ok(()))
    }

    /// Takes away what lies past `end`, if that can be done.
    fn cut(&self, end: u64) {
        if let Some(file) = &self.file {
            drop(file.set_len(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_remarked_on_and_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("out.raw")).unwrap();
        let mut capture = Capture::open(folder.path()).unwrap();
        capture.append(Stream::Main, 1, 5, b"hello\r\n");
        assert!(capture.take_fault().is_some_and(|fault| fault.contains("No space left")));
        assert_eq!((capture.raw_end(), capture.idx_end()), (0, 0));
        assert_eq!(capture.tail(), b"hello\r\n");
    }

    #[test]
    fn the_tail_is_the_end_of_the_output() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::open(folder.path()).unwrap();
        for part in [&b"x".repeat(3000)[..], b"abc", b"? "] {
            capture.append(Stream::Main, 1, 0, part);
        }
        assert_eq!(capture.tail().len(), TAIL_BYTES);
        assert!(capture.tail().ends_with(b"xabc? "));
        assert_eq!((capture.raw_end(), capture.idx_end()), (3005, 24));
    }
}
