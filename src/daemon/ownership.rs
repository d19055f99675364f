//! One coordinator a workspace: who it is, and its socket.
//!
//! The ownership is the lock (`flock`) on `.callboard/lock`; what is written in the file only says
//! who has it. The file is never removed: a lock on a file without a name excludes nobody. A
//! socket's file that is left over is replaced by whoever has the lock, and by nobody else.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::workspace::{Workspace, lock_of};
use crate::domain::raw_path;
use crate::domain::time::Timestamp;
use crate::session::identity::{self, boot_id};

/// More than the lock file has.
const BYTES_MAX: u64 = 64 * 1024;
/// Between taking the lock and saying so in the file an owner needs less than this; so does a
/// child between fork and exec that still has a lock open which its parent has left.
const PATIENCE: Duration = Duration::from_millis(300);
const RETRY: Duration = Duration::from_millis(5);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// The process that owns a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBy {
    /// Its id.
    pub pid: u32,
    /// When it started, in clock ticks since boot: tells it from a later process of that id.
    pub start_time: u64,
    /// The boot that it started in.
    pub boot_id: String,
    /// Its socket.
    #[serde(with = "raw_path")]
    pub socket: PathBuf,
    /// Its version.
    pub version: String,
    /// Since when it owns the workspace.
    pub since: Timestamp,
    /// The lock file itself: in a copied workspace it is another one.
    pub lock_inode: u64,
}

/// The ownership of a workspace; given back on drop.
#[derive(Debug)]
pub struct Owner {
    lock: File,
    me: HeldBy,
    /// The inode of the socket that was made.
    socket: Option<u64>,
}

/// Why a workspace cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Another process owns it: be its client.
    #[error("workspace is owned by process {}", .0.pid)]
    Held(Box<HeldBy>),
    /// The lock is held, but the file does not say by whom: a process that inherited it from a
    /// dead owner, or one in another pid namespace.
    #[error(
        "lock `{}` is held by a process that cannot be told: `fuser` may show it",
        lock.display()
    )]
    HeldUnknown {
        /// The lock file.
        lock: PathBuf,
    },
    /// The disk or the folder refused.
    #[error("taking lock `{}`: {source}", lock.display())]
    Io {
        /// The lock file.
        lock: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user, our own.
    pub uid: u32,
    /// Its id when it connected; `None` where our pid namespace has no number for it.
    pub pid: Option<u32>,
}

/// Why a connection is not admitted.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// Of another user.
    #[error("connection of user {0} refused")]
    Foreign(u32),
    /// The system does not say.
    #[error("connection of an unknown process refused: {0}")]
    Unknown(#[from] io::Error),
}

/// Takes the workspace for this process.
///
/// # Errors
/// When another has it, or the lock file cannot be used.
pub fn take(workspace: &Workspace, version: &str, now: Timestamp) -> Result<Owner, TakeError> {
    let path = workspace.lock();
    let io = |source| TakeError::Io { lock: path.clone(), source };
    let mut lock = open(&path, true).map_err(io)?;
    let started = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(source)) => return Err(io(source)),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(holder) = holder(&mut lock) {
            return Err(TakeError::Held(Box::new(holder)));
        }
        if started.elapsed() > PATIENCE {
            return Err(TakeError::HeldUnknown { lock: path });
        }
        std::thread::sleep(RETRY);
    }
    let pid = std::process::id();
    let me = HeldBy {
        pid,
        start_time: start_time(pid).ok_or_else(|| io(io::ErrorKind::NotFound.into()))?,
        boot_id: boot_id().map_err(io)?,
        socket: workspace.socket(),
        version: version.to_owned(),
        since: now,
        lock_inode: lock.metadata().map_err(io)?.ino(),
    };
    let text = serde_json::to_vec(&me).map_err(|error| io(error.into()))?;
    // Empty first: a reader between the two finds nobody, never half of two.
    lock.set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| lock.write_all(&text))
        .map_err(io)?;
    Ok(Owner { lock, me, socket: None })
}

/// Who owns the workspace in `root`; `None` when nobody does. Takes no lock and changes nothing.
pub fn held(root: &Path) -> Option<HeldBy> {
    holder(&mut open(&lock_of(root), false).ok()?)
}

/// When the process started, in clock ticks since boot; `None` when there is none or it is dead.
/// Together with `boot_id` it makes a pid good for ever.
pub fn start_time(pid: u32) -> Option<u64> {
    identity::start_time(i32::try_from(pid).ok()?)
}

/// Admits a connection of our own user.
///
/// # Errors
/// When it is another's.
pub fn admit(stream: &tokio::net::UnixStream) -> Result<Peer, AdmitError> {
    let peer = stream.peer_cred()?;
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
    let uid = peer.uid();
    if uid == rustix::process::geteuid().as_raw() {
        Ok(Peer { uid, pid })
    } else {
        Err(AdmitError::Foreign(uid))
    }
}

impl Owner {
    /// What the lock file says of us.
    pub fn me(&self) -> &HeldBy {
        &self.me
    }

    /// Opens the coordinator's socket, for our user alone, in place of one that a dead owner left.
    ///
    /// # Errors
    /// When it cannot be made, or something else is in its place.
    pub fn listen(&mut self) -> io::Result<UnixListener> {
        let path = &self.me.socket;
        match path.symlink_metadata() {
            Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // On Linux the file gets the mode that the socket has when it is bound, so there is no
        // moment at which it is open to others.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path.as_path())?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        self.socket = Some(path.symlink_metadata()?.ino());
        Ok(UnixListener::from(socket))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let path = &self.me.socket;
        let is_ours = |inode| path.symlink_metadata().is_ok_and(|found| found.ino() == inode);
        // Whatever fails here, the next owner puts right.
        if self.socket.is_some_and(is_ours) {
            drop(std::fs::remove_file(path));
        }
        drop(self.lock.set_len(0));
        // Closing the file is not enough: a child between fork and exec still has it open.
        drop(self.lock.unlock());
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(create)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// Who the file says has its lock, if that process lives.
fn holder(lock: &mut File) -> Option<HeldBy> {
    let mut bytes = Vec::new();
    lock.rewind().ok()?;
    lock.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let holder: HeldBy = serde_json::from_slice(&bytes).ok()?;
    let here = lock.metadata().ok()?.ino() == holder.lock_inode;
    let lives =
        boot_id().ok()? == holder.boot_id && start_time(holder.pid) == Some(holder.start_time);
    (here && lives).then_some(holder)
}

#[cfg(test)]
mod tests;
