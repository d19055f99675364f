//! The socket at which a holder waits that has no coordinator: `ID.sock` in the workspace's folder
//! of doors.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::domain::ids::SessionId;

/// Adopters that may wait to be heard.
const BACKLOG: i32 = 4;
/// The longest path of a socket (`unix(7)`), its closing NUL left out.
const PATH_BYTES_MAX: usize = 107;
const EXTENSION: &str = "sock";
/// While nobody listens yet. Not longer than the other, so that it fits wherever that fits.
const UNREADY: &str = "new";

/// A socket's place: a path that may be too long for the kernel is gone round by way of its
/// folder's descriptor.
struct Place {
    path: PathBuf,
    _folder: Option<File>,
}

impl Place {
    fn of(door: &Path, session: &SessionId) -> io::Result<Self> {
        let path = file(door, session);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self { path, _folder: None });
        }
        let folder =
            File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_PATH).open(door)?;
        let short = file(Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())), session);
        Ok(Self { path: short, _folder: Some(folder) })
    }
}

/// The socket's file.
pub fn file(door: &Path, session: &SessionId) -> PathBuf {
    door.join(format!("{session}.{EXTENSION}"))
}

/// Listens at a session's door, for our user alone, in place of what an earlier wait has left.
///
/// # Errors
/// When the folder or the socket cannot be made.
pub(super) fn listen(door: &Path, session: &SessionId) -> io::Result<UnixListener> {
    DirBuilder::new().recursive(true).mode(0o700).create(door)?;
    remove(door, session);
    let place = Place::of(door, session)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // On Linux the file gets the mode that the socket has when it is bound.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    // Whoever sees the file can connect: it has its name only once somebody listens.
    let unready = place.path.with_extension(UNREADY);
    drop(std::fs::remove_file(&unready));
    rustix::net::bind(&socket, &SocketAddrUnix::new(unready.as_path())?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    std::fs::rename(&unready, &place.path)?;
    Ok(UnixListener::from(socket))
}

/// Connects to the holder behind a door, without blocking.
///
/// # Errors
/// When nobody listens there, or too many wait there already.
pub fn connect(door: &Path, session: &SessionId) -> io::Result<UnixStream> {
    let place = Place::of(door, session)?;
    // A holder that is stopped may have more callers waiting than its door has room for.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(place.path.as_path())?)?;
    Ok(UnixStream::from(socket))
}

/// Takes a door's file away. Only its holder does so, or whoever owns the workspace and has found
/// that nobody listens.
pub fn remove(door: &Path, session: &SessionId) {
    // Whatever is not there, or cannot be removed, the next to listen runs into.
    drop(std::fs::remove_file(file(door, session)));
}

/// The sessions that have a door, whether or not anybody listens behind it.
///
/// # Errors
/// When the folder cannot be read; one that is not there has none.
pub fn waiting(door: &Path) -> io::Result<Vec<SessionId>> {
    let entries = match std::fs::read_dir(door) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut sessions = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let is_socket = entry.file_type()?.is_socket();
        if is_socket && path.extension().is_some_and(|extension| extension == EXTENSION) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            sessions.push(SessionId::new(name));
        }
    }
    sessions.sort();
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_of_any_length_can_be_found_and_knocked_at() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(120));
        for door in [folder.path().join("h"), long] {
            let session = SessionId::new("s-1");
            assert!(waiting(&door).unwrap().is_empty());
            let listener = listen(&door, &session).unwrap();
            let stream = connect(&door, &session).unwrap();
            assert_eq!(waiting(&door).unwrap(), std::slice::from_ref(&session));
            drop((listener, stream));
            assert!(connect(&door, &session).is_err());
            // What is left over is in nobody's way.
            drop(listen(&door, &session).unwrap());
            remove(&door, &session);
            assert!(waiting(&door).unwrap().is_empty());
        }
    }
}
