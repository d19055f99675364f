//! What a call is about to do, as touches of resources, and the sign by which each is known to have
//! happened.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::super::ports::is_listened_at;
use super::calls::{Change, Name};
use super::noise::{self, Kind};
use super::place::{self, Identity, Place, identity, look, resolve};
use crate::domain::raw_path;
use crate::session::os::notify::bound_to;

/// A touch that may come.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The board key.
    pub resource: String,
    /// `write`, `rename`, `remove` or `bind`.
    pub mode: &'static str,
    /// Relative to the root, and whether it is a folder; `None` for what is no file.
    pub file: Option<(PathBuf, bool)>,
    /// By what it is known to have happened.
    pub sign: Sign,
}

/// By what a touch is known to have happened. A call that fails leaves none of these.
#[derive(Clone, Debug)]
pub(super) enum Sign {
    /// The file is there, it is a regular one, and whoever opens it may write to it.
    Certain,
    /// It was not there: now it is.
    Made(PathBuf),
    /// It was this file: now it is not.
    Gone(PathBuf, Identity),
    /// It was this file or none: now it is another.
    Replaced(PathBuf, Option<Identity>),
    /// The socket has the address, or somebody listens at it who did not before.
    Bound {
        pid: i32,
        socket: i32,
        address: SocketAddr,
        /// Nobody listened there before.
        was_free: bool,
    },
}

impl Sign {
    /// True once it is there.
    pub(super) fn is_there(&self) -> bool {
        let now = |path: &Path| look(path).as_ref().map(identity);
        match self {
            Self::Certain => true,
            Self::Made(path) => look(path).is_some_and(|found| {
                let kind = FileType::from_raw_mode(found.st_mode);
                matches!(kind, FileType::RegularFile | FileType::Symlink)
            }),
            Self::Gone(path, was) => now(path) != Some(*was),
            Self::Replaced(path, was) => now(path).is_some_and(|is| Some(is) != *was),
            Self::Bound { pid, socket, address, was_free } => {
                bound_to(*pid, *socket) == Some(*address) || (*was_free && is_listened_at(*address))
            }
        }
    }
}

/// The touches of a call that process `pid` is about to make.
pub(super) fn seen(root: &Path, pid: i32, change: &Change) -> Vec<Seen> {
    let around = Around { root, pid };
    match change {
        Change::Open { name, flags } => around.open(name, *flags).into_iter().collect(),
        Change::Truncate { name } => around.truncate(name).into_iter().collect(),
        Change::Make { name } => {
            let place = resolve(pid, name, false).filter(|place| place.is.is_none());
            place.and_then(|place| around.made(&place)).into_iter().collect()
        }
        Change::Remove { name } => {
            let place = resolve(pid, name, false);
            place.and_then(|place| around.gone(&place, "remove")).into_iter().collect()
        }
        Change::Rename { from, to, is_exchange } => around.rename(from, to, *is_exchange),
        Change::Bind { socket, address } => around.bind(*socket, *address).into_iter().collect(),
    }
}

struct Around<'a> {
    root: &'a Path,
    pid: i32,
}

impl Around<'_> {
    fn open(&self, name: &Name, flags: u32) -> Option<Seen> {
        // A handle on nothing but the name, and a file that never gets one (`__O_TMPFILE`).
        const NAMELESS: u32 = libc::O_PATH.cast_unsigned() | 0o20_000_000;
        let has = |flag: i32| flags & flag.cast_unsigned() != 0;
        if flags & NAMELESS != 0 {
            return None;
        }
        let must_be_new = has(libc::O_CREAT) && has(libc::O_EXCL);
        let place = resolve(self.pid, name, !must_be_new && !has(libc::O_NOFOLLOW))?;
        match &place.is {
            None => has(libc::O_CREAT).then(|| self.made(&place)).flatten(),
            Some(_) if must_be_new => None,
            // O_RDONLY | O_CREAT of what is there.
            Some(_) if !has(libc::O_ACCMODE) && !has(libc::O_TRUNC) => None,
            Some(_) => self.written(&place),
        }
    }

    fn truncate(&self, name: &Name) -> Option<Seen> {
        self.written(&resolve(self.pid, name, true)?)
    }

    fn written(&self, place: &Place) -> Option<Seen> {
        let is = place.is.as_ref()?;
        let is_regular = FileType::from_raw_mode(is.st_mode) == FileType::RegularFile;
        // One without a name is on its way out of the world.
        (is_regular && place.may_write && is.st_nlink > 0)
            .then(|| self.file(place, "write", Sign::Certain))
            .flatten()
    }

    fn made(&self, place: &Place) -> Option<Seen> {
        self.file(place, "write", Sign::Made(place.path.clone()))
    }

    fn gone(&self, place: &Place, mode: &'static str) -> Option<Seen> {
        let was = identity(place.is.as_ref()?);
        self.file(place, mode, Sign::Gone(place.path.clone(), was))
    }

    fn rename(&self, from: &Name, to: &Name, is_exchange: bool) -> Vec<Seen> {
        let ends = resolve(self.pid, from, false).zip(resolve(self.pid, to, false));
        let Some((from, mut to)) = ends.filter(|(from, _)| from.is.is_some()) else {
            return Vec::new();
        };
        let was = to.is.as_ref().map(identity);
        // What it is to become decides whether it is a folder.
        to.is = from.is;
        let sign = Sign::Replaced(to.path.clone(), was);
        let from_seen = if is_exchange {
            let was = from.is.as_ref().map(identity);
            self.file(&from, "rename", Sign::Replaced(from.path.clone(), was))
        } else {
            self.gone(&from, "rename")
        };
        let to_seen = self.file(&to, "rename", sign.clone()).or_else(|| self.git(&to, sign));
        from_seen.into_iter().chain(to_seen).collect()
    }

    fn file(&self, place: &Place, mode: &'static str, sign: Sign) -> Option<Seen> {
        let relative = place.path.strip_prefix(self.root).ok()?;
        let is_folder = place
            .is
            .as_ref()
            .is_some_and(|is| FileType::from_raw_mode(is.st_mode) == FileType::Directory);
        (noise::kind(relative, is_folder) == Kind::File).then(|| Seen {
            resource: file_key(relative),
            mode,
            file: Some((relative.to_owned(), is_folder)),
            sign,
        })
    }

    fn git(&self, place: &Place, sign: Sign) -> Option<Seen> {
        let relative = place.path.strip_prefix(self.root).ok()?;
        match noise::kind(relative, false) {
            Kind::Git(repository) => {
                Some(Seen { resource: git_key(&repository), mode: "write", file: None, sign })
            }
            Kind::File | Kind::Noise => None,
        }
    }

    fn bind(&self, socket: i32, address: SocketAddr) -> Option<Seen> {
        if !place::shares_network(self.pid) {
            return None;
        }
        let resource = port_key(address);
        let was_free = !is_listened_at(address);
        let sign = Sign::Bound { pid: self.pid, socket, address, was_free };
        Some(Seen { resource, mode: "bind", file: None, sign })
    }
}

/// The board key of a file, given relative to the root. Bytes that are not UTF-8 are `%XX`, and `%`
/// is `%25`.
pub(super) fn file_key(relative: &Path) -> String {
    format!("file/{}", raw_path::encode(relative))
}

/// The board key of a repository; that of the root is `.`.
pub(super) fn git_key(repository: &Path) -> String {
    let name = if repository.as_os_str().is_empty() { Path::new(".") } else { repository };
    format!("git/{}", raw_path::encode(name))
}

/// The board key of a port.
pub(super) fn port_key(address: SocketAddr) -> String {
    format!("port/{}/{}", address.ip(), address.port())
}
