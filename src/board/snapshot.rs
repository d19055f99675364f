//! The board as a file: what a session finds at `CALLBOARD_BOARD`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Distinguishes files that are written at the same time; the process's id does it between
/// processes.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes a document, such as the view, to `path`, readable by the user alone. A reader finds the old file or the new
/// one, whole, never anything between. It is not synced: after a power loss there is no session
/// to read it.
///
/// # Errors
/// When the folder or the disk refuses; the old file is then still there.
pub fn write<T: Serialize>(path: &Path, view: &T) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_os_string();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{number}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = write_new(&new, view).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // It may not even be there.
        drop(std::fs::remove_file(&new));
    }
    written
}

fn write_new<T: Serialize>(path: &Path, view: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(view)?;
    bytes.push(b'\n');
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&bytes)
}
