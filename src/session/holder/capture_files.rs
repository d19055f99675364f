//! The files of a transcript: what is written where, what is punched out again, and the list of
//! what is missing, which is always written first.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::transcript::gaps::{Gap, Gaps};

/// The unit in which a file system gives room back.
const PAGE: u64 = 4096;
/// Where no file is so long: punching there shows whether the file system can.
const BEYOND: u64 = 1 << 42;
/// So many gaps are told apart; beyond, those nearest to each other become one.
const GAPS_MAX: usize = 512;

/// The files, and how far each has come.
pub(super) struct Files {
    raw: Grown,
    idx: Grown,
    folder: PathBuf,
    pub idx_end: u64,
    gaps: Gaps,
    /// `out.gap`, once something is missing.
    gap: Option<File>,
    /// `out.gap` says less than `gaps`.
    gaps_unsaid: bool,
    gap_len: u64,
    /// Whether the file system can punch holes, once that was tried.
    punches: Option<bool>,
    /// The newest hole in the index.
    idx_hole: Range<u64>,
}

impl Files {
    /// Opens or makes `out.raw`, and opens `out.idx` if it is there: it is made with its first
    /// entry, since many a session has none. Answers with the end of `out.raw`, too.
    ///
    /// # Errors
    /// When they cannot be opened or made.
    pub(super) fn open(folder: &Path) -> io::Result<(Self, u64)> {
        let (mut raw, idx) = (Grown::open(folder, "out.raw")?, Grown::open(folder, "out.idx")?);
        // Whoever follows a session watches this one from the start.
        raw.file()?;
        let (raw_end, idx_end) = (raw.len()?, idx.len()?);
        let files = Self {
            raw,
            idx,
            folder: folder.to_owned(),
            idx_end,
            gaps: Gaps::default(),
            gap: None,
            gaps_unsaid: false,
            gap_len: 0,
            punches: None,
            idx_hole: 0..0,
        };
        Ok((files, raw_end))
    }

    /// Writes output at its place; answers with how much of it is stored.
    pub(super) fn write_raw(&mut self, at: u64, bytes: &[u8]) -> (usize, io::Result<()>) {
        let (written, result) = self.raw.write(at, bytes);
        (written, result.map_err(|error| named("out.raw", &error)))
    }

    /// Writes whole entries at the index's end, all or none: a torn one is written over.
    pub(super) fn write_idx(&mut self, entries: &[u8]) -> io::Result<()> {
        let (_, result) = self.idx.write(self.idx_end, entries);
        result.map_err(|error| named("out.idx", &error))?;
        self.idx_end += entries.len() as u64;
        Ok(())
    }

    /// Notes that something is missing. It is written down before anything else is.
    pub(super) fn note_gap(&mut self, gap: Gap) {
        self.gaps.add(gap);
        self.gaps_unsaid = true;
        if self.gaps.all().len() > GAPS_MAX {
            let pairs = self.gaps.all().windows(2);
            let nearest = pairs.min_by_key(|pair| pair[1].start - pair[0].end);
            let nearest =
                nearest.map(|pair| Gap { start: pair[0].end, end: pair[1].start, stderr: 0 });
            nearest.into_iter().for_each(|between| self.gaps.add(between));
        }
    }

    /// Writes the list of what is missing, if it says less than is known.
    pub(super) fn tell_gaps(&mut self) -> io::Result<()> {
        if !self.gaps_unsaid {
            return Ok(());
        }
        let bytes = self.gaps.to_bytes();
        let gap = match &self.gap {
            Some(gap) => gap,
            None => self.gap.insert(open(&self.folder, "out.gap")?),
        };
        let (_, result) = write_out(gap, 0, &bytes);
        result.map_err(|error| named("out.gap", &error))?;
        // Gaps become fewer where two meet. Entries that stay behind for a moment lie in others.
        let len = bytes.len() as u64;
        if len < self.gap_len {
            gap.set_len(len).map_err(|error| named("out.gap", &error))?;
        }
        self.gap_len = len;
        self.gaps_unsaid = false;
        Ok(())
    }

    /// True when room can be given back.
    pub(super) fn can_punch(&mut self) -> bool {
        let raw = &mut self.raw;
        *self.punches.get_or_insert_with(|| {
            raw.file().and_then(|raw| punch(raw, &(BEYOND..BEYOND + PAGE))).is_ok()
        })
    }

    /// Gives the room of a stretch back, and that of the records which speak for it.
    pub(super) fn give_up(
        &mut self,
        raw: &Range<u64>,
        idx: &Range<u64>,
        stderr: u64,
    ) -> io::Result<()> {
        self.note_gap(Gap { start: raw.start, end: raw.end, stderr });
        self.tell_gaps()?;
        // The page in which the gap before this one ended is free as a whole now.
        let before = self.gaps.before(raw.end).map_or(raw.start, |gap| gap.start);
        let start = (raw.start / PAGE * PAGE).max(before);
        self.raw.punch(&(start..raw.end)).map_err(|error| named("out.raw", &error))?;
        let touches = self.idx_hole.end == idx.start && !self.idx_hole.is_empty();
        let before = if touches { self.idx_hole.start } else { idx.start };
        let start = (idx.start / PAGE * PAGE).max(before);
        self.idx.punch(&(start..idx.end)).map_err(|error| named("out.idx", &error))?;
        self.idx_hole = before..idx.end;
        Ok(())
    }

    /// Reads stored output.
    pub(super) fn read(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes =
            vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)];
        let Some(raw) = &self.raw.file else { return Vec::new() };
        let mut filled = 0;
        while filled < bytes.len() {
            match raw.read_at(&mut bytes[filled..], range.start + filled as u64) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        bytes.truncate(filled);
        bytes
    }

    /// As on a file system that cannot punch holes.
    #[cfg(test)]
    pub(super) fn forbid_punching(&mut self) {
        self.punches = Some(false);
    }
}

/// A file that can be made with its first bytes.
struct Grown {
    folder: PathBuf,
    name: &'static str,
    file: Option<File>,
}

impl Grown {
    fn open(folder: &Path, name: &'static str) -> io::Result<Self> {
        let path = folder.join(name);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder.is_dir() => None,
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
            }
            Ok(file) => Some(file),
        };
        Ok(Self { folder: folder.to_owned(), name, file })
    }

    fn len(&self) -> io::Result<u64> {
        self.file.as_ref().map_or(Ok(0), |file| file.metadata().map(|metadata| metadata.len()))
    }

    fn file(&mut self) -> io::Result<&File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open(&self.folder, self.name)?,
        };
        Ok(self.file.insert(file))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> (usize, io::Result<()>) {
        if bytes.is_empty() {
            return (0, Ok(()));
        }
        match self.file() {
            Ok(file) => write_out(file, at, bytes),
            Err(error) => (0, Err(error)),
        }
    }

    fn punch(&self, range: &Range<u64>) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| punch(file, range))
    }
}

fn open(folder: &Path, name: &str) -> io::Result<File> {
    let path = folder.join(name);
    let opened = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn named(file: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{file}: {error}"))
}

fn write_out(file: &File, at: u64, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], at + written as u64) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(taken) => written += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

fn punch(file: &File, range: &Range<u64>) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    loop {
        match fallocate(file, flags, range.start, range.end.saturating_sub(range.start)) {
            Err(Errno::INTR) => {}
            // No bytes, no hole.
            Err(Errno::INVAL) if range.is_empty() => return Ok(()),
            other => return Ok(other?),
        }
    }
}
