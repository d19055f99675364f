//! Whether there is room on the disk for more than what is under way already.
//!
//! The writer keeps a reserve behind the last line, which nobody else can fill. Once it cannot be
//! kept whole, or next to nothing else is free, there is no room: then nothing new is to be begun, and
//! what is under way can still be told to its end. A batch that the reserve does not hold is refused before
//! a byte of it is written, so that the reserve stays for a smaller one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much is kept behind the last line: some thousand lines.
pub(super) const RESERVE_BYTES: u64 = 1024 * 1024;
/// With less than this free the disk is as good as full: what is begun writes transcripts, too.
const FREE_MIN: u64 = 4 * 1024 * 1024;
/// How old the answer may be.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the writer knows of its reserve, and what the system says of the rest.
#[derive(Debug)]
pub(super) struct Room {
    dir: PathBuf,
    /// False while the reserve is not whole.
    reserve: AtomicBool,
    looked: Mutex<Option<(Instant, bool)>>,
}

impl Room {
    /// Room until the contrary is known.
    pub(super) fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), reserve: AtomicBool::new(true), looked: Mutex::new(None) }
    }

    /// The writer's word.
    pub(super) fn set_reserve(&self, whole: bool) {
        self.reserve.store(whole, Ordering::Relaxed);
    }

    /// False while the reserve is not whole.
    pub(super) fn has_reserve(&self) -> bool {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Whether there is room; looked at anew from time to time, and then `again` is called where
    /// there was none.
    pub(super) fn is_there(&self, again: impl FnOnce()) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = *looked
            && at.elapsed() < LOOK_EVERY
        {
            return found && self.has_reserve();
        }
        let free = is_free(&self.dir);
        let before = looked.replace((Instant::now(), free));
        let found = free && self.has_reserve();
        if !found || before.is_some_and(|(_, free)| !free) {
            again();
        }
        found
    }
}

/// True where enough is free, or nobody says how much.
fn is_free(dir: &Path) -> bool {
    rustix::fs::statvfs(dir)
        .map_or(true, |found| found.f_bavail.saturating_mul(found.f_frsize) >= FREE_MIN)
}
