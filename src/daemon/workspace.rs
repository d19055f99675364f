//! Where everything of a workspace lies, and how it is found again (design, section 5).
//!
//! ```text
//! ROOT/.callboard/            pointer, lock, .gitignore
//! STATE/callboard/NAME-KEY/   record, journal/, board/, sessions/SESSION/, runs/RUN/
//! RUNTIME/KEY.sock            the coordinator's socket
//! RUNTIME/KEY/t/SESSION/      a session's TMPDIR
//! RUNTIME/KEY/s/SESSION/      its board and inputs files
//! ```
//!
//! `STATE` is `$XDG_STATE_HOME` or `~/.local/state`; `RUNTIME` is `$XDG_RUNTIME_DIR/callboard` or
//! `/tmp/callboard-UID`. `KEY` is 12 hex digits of the root's path, device and inode.
//!
//! The pointer beats `$XDG_STATE_HOME`: a workspace keeps its state whatever the caller's
//! environment. It also says which folder it was written for. A copy of a workspace carries the
//! pointer of the original, is told from it by that, and gets a state of its own. The folder is
//! the same when its inode is and either its path (device numbers change over a reboot) or its
//! device (it was moved). The state's record points back, so a pointer that came with foreign
//! files leads nowhere.

mod places;
mod pointer;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use crate::domain::ids::{RunId, SessionId};
pub use places::Places;
use pointer::{Identity, Pointer, Record};

/// The folder in a workspace's root that makes it one.
pub const MARK: &str = ".callboard";
const POINTER: &str = "pointer";
const LOCK: &str = "lock";
const RECORD: &str = "record";

/// A workspace on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
    state: PathBuf,
    runtime: PathBuf,
    key: String,
    origin: Origin,
}

/// How the workspace's state was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was there.
    Known,
    /// There was none.
    New,
    /// The folder is a copy, or stands in for one that was deleted: the state of the other is left
    /// alone, and this one begins anew.
    Copied {
        /// The folder that the pointer was written for.
        from: PathBuf,
    },
    /// The state that the pointer names is gone, or is another workspace's; a new one was begun.
    StateGone {
        /// Where it was.
        state: PathBuf,
    },
}

/// Why a workspace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Neither `HOME` nor `XDG_STATE_HOME` says where state may lie.
    #[error(
        "neither HOME nor XDG_STATE_HOME is set to an absolute path: set one, so that there is a \
         place for the state"
    )]
    NoHome,
    /// The root is not a folder that can be entered.
    #[error("workspace `{}` is not a folder that can be used: {source}", root.display())]
    NoRoot {
        /// As it was given.
        root: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing can be written in the root.
    #[error(
        "workspace `{}` cannot be written to: make it writable, or work in a copy that is, and \
         name it with --workspace",
        root.display()
    )]
    ReadOnly {
        /// The root.
        root: PathBuf,
    },
    /// A folder of ours is a symlink, a file, or somebody else's.
    #[error("`{}` {what}: move it away, or work as the user it belongs to", path.display())]
    Strange {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// A name that would lead out of its folder.
    #[error("{0:?} is not a name of a session or run")]
    BadName(String),
    /// The disk or the folder refused.
    #[error("{doing} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl WorkspaceError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

impl Workspace {
    /// The workspace in `root`, made one if it is not yet. `name` is the manifest's id or nothing;
    /// it is part of a new state folder's name, for people.
    ///
    /// # Errors
    /// When something of it cannot be made or is not ours.
    pub fn open(places: &Places, root: &Path, name: Option<&str>) -> Result<Self, WorkspaceError> {
        let (root, identity) = identify(root)?;
        let mark = places.make_mark(&root)?;
        // Of two that come at once, one makes the state and the other finds it.
        let turn = std::fs::File::open(&mark).map_err(WorkspaceError::io("opening", &mark))?;
        turn.lock().map_err(WorkspaceError::io("locking", &mark))?;
        let pointer = Pointer::read(&mark.join(POINTER));
        let (state, key, origin) = match pointer {
            None => places.begin(&root, &identity, name, Origin::New),
            Some(old) if !old.identity.is_same(&identity) => {
                let from = old.identity.path;
                places.begin(&root, &identity, name, Origin::Copied { from })
            }
            Some(old) if !places.is_state_of(&old.state, &old.key) => {
                places.begin(&root, &identity, name, Origin::StateGone { state: old.state })
            }
            Some(old) => (old.state, old.key, Origin::Known),
        };
        for name in ["", "journal", "board", "sessions", "runs"] {
            let folder = state.join(name);
            // Whatever is in the board's place the board itself sees to.
            if name == "board" && folder.symlink_metadata().is_ok_and(|found| found.is_file()) {
                continue;
            }
            places.make_private(&folder)?;
        }
        let runtime = places.runtime(Record::read(&state.join(RECORD)).map(|old| old.runtime))?;
        places.make_private(&runtime.join(&key))?;
        let record =
            Record { key: key.clone(), root: identity.path.clone(), runtime: runtime.clone() };
        record.keep(&state.join(RECORD))?;
        let pointer = Pointer { identity, state: state.clone(), key: key.clone() };
        pointer.keep(&mark.join(POINTER)).map_err(|error| read_only(error, &root))?;
        // Closing the file is not enough: a child between fork and exec still has it open.
        turn.unlock().map_err(WorkspaceError::io("unlocking", &mark))?;
        Ok(Self { root, state, runtime, key, origin })
    }

    /// The workspace in `root` if it is one already. Makes and changes nothing.
    ///
    /// # Errors
    /// When the root cannot be looked at.
    pub fn look(places: &Places, root: &Path) -> Result<Option<Self>, WorkspaceError> {
        let (root, identity) = identify(root)?;
        let mark = root.join(MARK);
        if !places.owns_folder(&mark) {
            return Ok(None);
        }
        let pointer = Pointer::read(&mark.join(POINTER))
            .filter(|pointer| pointer.identity.is_same(&identity))
            .filter(|pointer| places.is_state_of(&pointer.state, &pointer.key));
        let known = pointer.map(|Pointer { state, key, .. }| (state, key));
        // As `open` would: a broken pointer is no loss.
        let own = || Some((places.find(&identity.key())?, identity.key()));
        let Some((state, key)) = known.or_else(own) else { return Ok(None) };
        let Some(Record { runtime, .. }) = Record::read(&state.join(RECORD)) else {
            return Ok(None);
        };
        Ok(Some(Self { root, state, runtime, key, origin: Origin::Known }))
    }

    /// The workspace's root, absolute and without symlinks.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its state folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// How its state was come by.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// 12 hex digits that no other workspace of this user has.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The journal's folder.
    pub fn journal(&self) -> PathBuf {
        self.state.join("journal")
    }

    /// The board's folder.
    pub fn board(&self) -> PathBuf {
        self.state.join("board")
    }

    /// The file whose lock is the ownership of the workspace.
    pub fn lock(&self) -> PathBuf {
        lock_of(&self.root)
    }

    /// Where holders wait that have no coordinator.
    pub fn doors(&self) -> PathBuf {
        self.runtime().join("h")
    }

    /// The coordinator's socket; at most 100 bytes.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join(format!("{}.sock", self.key))
    }

    /// The folder whose files are resources; none in the workspace that all commands outside any other
    /// share.
    pub fn resources(&self) -> Option<PathBuf> {
        let shared = self.state.parent().map(|states| states.join("private"));
        (shared.as_ref() != Some(&self.root)).then(|| self.root.clone())
    }

    /// A private folder for sockets and files that sessions may reach; gone after a reboot.
    pub fn runtime(&self) -> PathBuf {
        self.runtime.join(&self.key)
    }

    /// A session's folder in the state: its transcript.
    ///
    /// # Errors
    /// When the id is not a plain name.
    pub fn session(&self, session: &SessionId) -> Result<PathBuf, WorkspaceError> {
        Ok(self.state.join("sessions").join(plain(session.as_str())?))
    }

    /// A run's folder in the state.
    ///
    /// # Errors
    /// When the id is not a plain name.
    pub fn run(&self, run: &RunId) -> Result<PathBuf, WorkspaceError> {
        Ok(self.state.join("runs").join(plain(run.as_str())?))
    }

    /// A session's `TMPDIR`.
    ///
    /// # Errors
    /// When the id is not a plain name.
    pub fn session_tmp(&self, session: &SessionId) -> Result<PathBuf, WorkspaceError> {
        Ok(self.runtime().join("t").join(plain(session.as_str())?))
    }

    /// The folder of the files that a session may read: board, inputs.
    ///
    /// # Errors
    /// When the id is not a plain name.
    pub fn session_files(&self, session: &SessionId) -> Result<PathBuf, WorkspaceError> {
        Ok(self.runtime().join("s").join(plain(session.as_str())?))
    }

    /// Makes a session's three folders.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn make_session(&self, session: &SessionId) -> Result<(), WorkspaceError> {
        let folders =
            [self.session(session)?, self.session_tmp(session)?, self.session_files(session)?];
        folders.iter().try_for_each(|folder| places::make_folder(folder))
    }

    /// Makes a run's folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_run(&self, run: &RunId) -> Result<PathBuf, WorkspaceError> {
        let folder = self.run(run)?;
        places::make_folder(&folder)?;
        Ok(folder)
    }
}

/// The lock file of the workspace in `root`.
pub fn lock_of(root: &Path) -> PathBuf {
    root.join(MARK).join(LOCK)
}

/// The root's real path and what tells it from a copy.
fn identify(root: &Path) -> Result<(PathBuf, Identity), WorkspaceError> {
    let identity = Identity::of(root)
        .map_err(|source| WorkspaceError::NoRoot { root: root.to_owned(), source })?;
    Ok((identity.path.clone(), identity))
}

/// Ids become names of folders, and some come from a command line.
fn plain(name: &str) -> Result<&str, WorkspaceError> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.bytes().all(good) {
        Ok(name)
    } else {
        Err(WorkspaceError::BadName(name.to_owned()))
    }
}

/// Says of a failure to write in the root what to do about it.
fn read_only(error: WorkspaceError, root: &Path) -> WorkspaceError {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match &error {
        WorkspaceError::Io { source, .. }
            if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) =>
        {
            WorkspaceError::ReadOnly { root: root.to_owned() }
        }
        _ => error,
    }
}
