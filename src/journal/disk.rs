//! The few things the writer does to the disk, behind a trait so that tests can make them fail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use super::segment;

/// The segment being written.
pub(super) trait Disk: Send + 'static {
    /// Turns to a new, empty segment with so much room kept for it, and lets go of the room kept
    /// behind the one before. Until the first success there is none; after a failure that one is as
    /// it was.
    fn start_segment(&mut self, first_seq: u64, reserve: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`. On failure some of them may be there.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts the segment.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    /// Keeps room on the disk for the `bytes` behind `offset`, which nobody else can take. Cutting
    /// lets go of it. `ErrorKind::Unsupported` where the file system does not do that.
    fn reserve(&mut self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Returns once everything written has reached the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// Segments as files of a folder.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    current: Option<File>,
}

impl Files {
    /// Goes on in `last`, the last segment's file, if there is one.
    pub(super) fn open(dir: &Path, last: Option<&Path>) -> io::Result<Self> {
        let current =
            last.map(|path| OpenOptions::new().read(true).write(true).open(path)).transpose()?;
        Ok(Self { dir: dir.to_owned(), current })
    }

    fn current(&self) -> io::Result<&File> {
        self.current.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Files {
    fn start_segment(&mut self, first_seq: u64, reserve: u64) -> io::Result<()> {
        let path = segment::path_of(&self.dir, first_seq);
        // Not `create_new`: an earlier try may have made the file and then failed.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        if file.metadata()?.len() > 0 {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if reserve > 0
            && let Err(error) = keep(&file, 0, reserve)
            && is_full(&error)
        {
            drop(std::fs::remove_file(&path));
            return Err(error);
        }
        sync_folder(&self.dir)?;
        if let Some(before) = self.current.replace(file) {
            // Room that stays kept behind it is no fault.
            drop(before.metadata().and_then(|found| before.set_len(found.len())));
        }
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.current()?.write_all_at(bytes, offset)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.current()?.set_len(length)
    }

    fn reserve(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        keep(self.current()?, offset, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.current()?.sync_data()
    }
}

fn keep(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes)?)
}

/// True when a disk or a quota is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes names in a folder durable.
pub(super) fn sync_folder(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
