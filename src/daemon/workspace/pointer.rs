//! The two small files that tie a root and its state to each other.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::WorkspaceError;
use crate::domain::raw_path;

/// More than either file has.
const BYTES_MAX: u64 = 64 * 1024;

/// What tells a folder from a copy of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    #[serde(rename = "root", with = "raw_path")]
    pub(super) path: PathBuf,
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// In the root: where its state is, and which folder that was written for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pointer {
    pub(super) identity: Identity,
    #[serde(with = "raw_path")]
    pub(super) state: PathBuf,
    pub(super) key: String,
}

/// In the state: whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) key: String,
    /// Where the root was last.
    #[serde(with = "raw_path")]
    pub(super) root: PathBuf,
    /// The runtime folder, kept to while it is there: its path is in the environment of sessions.
    #[serde(with = "raw_path")]
    pub(super) runtime: PathBuf,
}

impl Identity {
    pub(super) fn of(root: &Path) -> io::Result<Self> {
        let path = root.canonicalize()?;
        let metadata = path.metadata()?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path, device: metadata.dev(), inode: metadata.ino() })
    }

    /// Whether both are the same folder: see the module's words.
    pub(super) fn is_same(&self, now: &Self) -> bool {
        self.inode == now.inode && (self.path == now.path || self.device == now.device)
    }

    pub(super) fn key(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        let mut hash = Sha256::new();
        hash.update(self.path.as_os_str().as_bytes());
        hash.update([0]);
        hash.update(self.device.to_be_bytes());
        hash.update(self.inode.to_be_bytes());
        hash.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Pointer {
    /// The pointer, if there is one that can be read. One that cannot is no use, and is written
    /// anew.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let pointer: Self = read(path)?;
        let key_is_ours =
            pointer.key.len() == 12 && pointer.key.bytes().all(|byte| byte.is_ascii_hexdigit());
        (key_is_ours && pointer.state.is_absolute()).then_some(pointer)
    }

    /// Writes it unless it is there already.
    pub(super) fn keep(&self, path: &Path) -> Result<(), WorkspaceError> {
        keep(path, self)
    }
}

impl Record {
    pub(super) fn read(path: &Path) -> Option<Self> {
        read(path)
    }

    /// Writes it unless it is there already.
    pub(super) fn keep(&self, path: &Path) -> Result<(), WorkspaceError> {
        keep(path, self)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut bytes = Vec::new();
    open_plain(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// A file that may have come with somebody else's folder: no symlink, and no pipe to hang on.
fn open_plain(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn keep<T: Serialize + DeserializeOwned + PartialEq>(
    path: &Path,
    what: &T,
) -> Result<(), WorkspaceError> {
    if read::<T>(path).as_ref() == Some(what) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.{:?}", std::process::id(), std::thread::current().id()));
    let new = path.with_file_name(name);
    let written = write_synced(&new, what).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // It may not even be there.
        drop(std::fs::remove_file(&new));
    }
    written.map_err(WorkspaceError::io("writing", path))
}

fn write_synced<T: Serialize>(path: &Path, what: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(what)?;
    bytes.push(b'\n');
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&bytes)?;
    // A pointer of no bytes after a power loss would leave the state behind.
    file.sync_all()
}
