//! The user's folders that workspaces are spread over, and the making of private ones.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::pointer::{Identity, Record};
use super::{MARK, Origin, RECORD, WorkspaceError, read_only};

/// The longest path that a socket may have (`sun_path` is 108 bytes; some room for suffixes).
const SOCKET_BYTES_MAX: usize = 100;
/// `/`, the key, `.sock`.
const SOCKET_NAME_BYTES: usize = 1 + 12 + 5;
const NAME_MAX: usize = 40;

/// Where a user's state and runtime folders lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// `$XDG_STATE_HOME`, or `~/.local/state`.
    pub state_home: PathBuf,
    /// `$XDG_RUNTIME_DIR`, if set.
    pub runtime_home: Option<PathBuf>,
    /// Where the runtime folder lies without one: `/tmp`.
    pub tmp: PathBuf,
    /// The user; folders have to be theirs.
    pub uid: u32,
}

impl Places {
    /// From the caller's environment, for the calling user. Relative paths count as not set, as
    /// the XDG specification wants it.
    ///
    /// # Errors
    /// When nothing says where state may lie.
    pub fn from_env(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, WorkspaceError> {
        let absolute = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state_home = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .ok_or(WorkspaceError::NoHome)?;
        Ok(Self {
            state_home,
            runtime_home: absolute("XDG_RUNTIME_DIR"),
            tmp: PathBuf::from("/tmp"),
            uid: rustix::process::geteuid().as_raw(),
        })
    }

    /// The root of the workspace that `from` lies in: the nearest folder upwards that carries our
    /// mark. A mark of another user's is none: whoever can write to `/tmp` would otherwise have
    /// everything below it.
    pub fn discover(&self, from: &Path) -> Option<PathBuf> {
        let from = from.canonicalize().ok()?;
        from.ancestors().find(|folder| self.owns_folder(&folder.join(MARK))).map(Path::to_owned)
    }

    /// The root of the workspace that the user's commands outside any other share; made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn private_root(&self) -> Result<PathBuf, WorkspaceError> {
        let root = self.state_home.join("callboard/private");
        self.make_private(&root)?;
        Ok(root)
    }

    /// Whether there is a folder there, no symlink, and it is the user's.
    pub(super) fn owns_folder(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == self.uid)
    }

    /// Whether the folder is the user's and its record says it is the state of `key`.
    pub(super) fn is_state_of(&self, state: &Path, key: &str) -> bool {
        self.owns_folder(state)
            && Record::read(&state.join(RECORD)).is_some_and(|record| record.key == key)
    }

    /// Where a new state goes. Its name's second half is the root's own, so a pointer that was
    /// deleted is found again.
    pub(super) fn begin(
        &self,
        root: &Path,
        identity: &Identity,
        name: Option<&str>,
        origin: Origin,
    ) -> (PathBuf, String, Origin) {
        let folder = root.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let key = identity.key();
        if let Some(state) = self.find(&key) {
            return (state, key, Origin::Known);
        }
        let name = format!("{}-{key}", tame(name.unwrap_or(&folder)));
        (self.state_home.join("callboard").join(name), key, origin)
    }

    /// The state of the workspace with this key, whatever its name begins with.
    pub(super) fn find(&self, key: &str) -> Option<PathBuf> {
        let states = std::fs::read_dir(self.state_home.join("callboard")).ok()?;
        let mut states = states.flatten().map(|entry| entry.path()).filter(|state| {
            let name = state.file_name().and_then(|name| name.to_str());
            let stem = name.and_then(|name| name.strip_suffix(key));
            stem.is_some_and(|stem| stem.ends_with('-')) && self.is_state_of(state, key)
        });
        states.next()
    }

    /// The root's `.callboard` with its `.gitignore`.
    pub(super) fn make_mark(&self, root: &Path) -> Result<PathBuf, WorkspaceError> {
        let mark = root.join(MARK);
        let writable = |error| read_only(error, root);
        self.make_private(&mark).map_err(writable)?;
        let ignore = mark.join(".gitignore");
        if ignore.symlink_metadata().is_err() {
            let made = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&ignore);
            made.and_then(|mut file| file.write_all(b"*\n"))
                .map_err(WorkspaceError::io("writing", &ignore))
                .map_err(writable)?;
        }
        Ok(mark)
    }

    /// The runtime folder: `recorded` if it is still good, else the first that is.
    pub(super) fn runtime(&self, recorded: Option<PathBuf>) -> Result<PathBuf, WorkspaceError> {
        // Sessions are told of it in variables, which are text.
        let fits = |path: &Path| {
            path.to_str().is_some_and(|text| text.len() + SOCKET_NAME_BYTES <= SOCKET_BYTES_MAX)
        };
        if let Some(path) = recorded.filter(|path| fits(path) && self.is_private(path).is_ok()) {
            return Ok(path);
        }
        // After `su` the variable still names the other user's folder.
        if let Some(home) = self.runtime_home.as_ref().filter(|home| self.owns_folder(home)) {
            let path = home.join("callboard");
            if fits(&path) {
                self.make_private(&path)?;
                return Ok(path);
            }
        }
        let path = self.tmp.join(format!("callboard-{}", self.uid));
        self.make_private(&path)?;
        Ok(path)
    }

    /// Makes a folder, and what leads to it, for the user alone; one that is there has to be so.
    pub(super) fn make_private(&self, path: &Path) -> Result<(), WorkspaceError> {
        if path.symlink_metadata().is_err() {
            make_folder(path)?;
        }
        let found = self.is_ours(path)?;
        if found.mode() & 0o077 != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(0o700))
                .map_err(WorkspaceError::io("closing to others", path))?;
        }
        Ok(())
    }

    /// Whether the folder is the user's and closed to all others.
    pub(super) fn is_private(&self, path: &Path) -> Result<(), WorkspaceError> {
        if self.is_ours(path)?.mode() & 0o077 == 0 {
            return Ok(());
        }
        Err(strange(path, "is open to other users"))
    }

    fn is_ours(&self, path: &Path) -> Result<Metadata, WorkspaceError> {
        let found = path.symlink_metadata().map_err(WorkspaceError::io("looking at", path))?;
        if found.is_symlink() {
            return Err(strange(path, "is a symbolic link"));
        }
        if !found.is_dir() {
            return Err(strange(path, "is not a folder"));
        }
        if found.uid() != self.uid {
            return Err(strange(path, &format!("belongs to user {}", found.uid())));
        }
        Ok(found)
    }
}

/// A folder and what leads to it, closed to others; one that is there is left as it is.
pub(super) fn make_folder(path: &Path) -> Result<(), WorkspaceError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    match made {
        // Somebody's symlink to nowhere, or a file: whoever looks next says so.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(WorkspaceError::io("making", path)),
    }
}

fn strange(path: &Path, what: &str) -> WorkspaceError {
    WorkspaceError::Strange { path: path.to_owned(), what: what.to_owned() }
}

/// A name as part of a folder's name.
fn tame(name: &str) -> String {
    let tame = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().take(NAME_MAX).map(tame).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "workspace".to_owned() } else { name.to_owned() }
}
