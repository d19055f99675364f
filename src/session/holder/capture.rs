//! The transcript: every byte that the terminals gave, and the index that says when, where and in
//! which command. Nothing that goes wrong here stops the session.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use crate::transcript::index::{Record, Stream};

/// What is kept of the end of the output, for prompts.
const TAIL_BYTES: usize = 1024;
/// What comes so soon after a record's beginning came at the same time.
const SAME_MICROS: u64 = 2_000;

/// The two files of a session's transcript.
pub(super) struct Capture {
    raw: File,
    idx: File,
    raw_end: u64,
    idx_end: u64,
    /// The last record, as long as it speaks for what comes next.
    open: Option<Record>,
    tail: Vec<u8>,
    /// What the system said when bytes were lost since the last `take_fault`.
    fault: Option<String>,
}

impl Capture {
    /// Opens the files in the session's folder.
    ///
    /// # Errors
    /// When they cannot be made.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let open = |name: &str| {
            let path = folder.join(name);
            OpenOptions::new().create(true).append(true).open(&path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        let (raw, idx) = (open("out.raw")?, open("out.idx")?);
        let (raw_end, idx_end) = (raw.metadata()?.len(), idx.metadata()?.len());
        Ok(Self { raw, idx, raw_end, idx_end, open: None, tail: Vec::new(), fault: None })
    }

    /// Appends bytes of one stream.
    pub(super) fn append(&mut self, stream: Stream, command: u32, micros: u64, bytes: &[u8]) {
        self.keep_tail(bytes);
        let record = Record { offset: self.raw_end, micros, command, stream };
        let (written, result) = write_out(&mut self.raw, bytes);
        self.raw_end += written;
        let continues = self.open.is_some_and(|open| {
            (open.stream, open.command) == (stream, command) && micros - open.micros < SAME_MICROS
        });
        if written > 0 && !continues {
            // A torn record would shift every one after it, so the file is cut back to whole ones.
            let (told, indexed) = write_out(&mut self.idx, &record.to_bytes());
            match indexed {
                Ok(()) => {
                    self.idx_end += told;
                    self.open = Some(record);
                }
                Err(error) => {
                    self.open = None;
                    drop(self.idx.set_len(self.idx_end));
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

    /// What comes next has a record of its own.
    pub(super) fn cut(&mut self) {
        self.open = None;
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

fn write_out(file: &mut File, bytes: &[u8]) -> (u64, io::Result<()>) {
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
