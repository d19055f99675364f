//! Opening sled so that neither an error nor a panic of its own stops a workspace.

use std::any::Any;
use std::fs::{DirBuilder, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use super::error::BoardError;
use super::store::Board;

/// How many broken folders are kept for whoever wants to look into them.
const ASIDE_MAX: usize = 3;
/// A database that was just closed may keep its lock for a moment: in a worker of sled's, or in a
/// child between fork and exec.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const LOCK_RETRY: Duration = Duration::from_millis(10);
/// How long opening may take. A board is small, and whoever has started us waits.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// How many in a row may have died while they opened it.
const DEATHS_MAX: u32 = 2;
const THREAD: &str = "board-opening";
/// sled's own default is a gigabyte; a board is small.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// A board that had to be begun anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Where the broken one is now.
    pub aside: PathBuf,
    /// What was wrong with it.
    pub cause: String,
}

/// What makes a board of an open database.
pub(super) type Load = Arc<dyn Fn(sled::Db) -> Result<Board, BoardError> + Send + Sync>;

/// Why a folder did not open.
enum Trouble {
    /// Not the folder's fault.
    Error(BoardError),
    /// The folder is broken: in these words.
    Broken(String),
}

pub(super) fn open(dir: &Path, load: &Load) -> Result<(Board, Option<Recovered>), BoardError> {
    let tries = Tries::begin(dir);
    let first = match tries.deaths {
        0..DEATHS_MAX => attempt(dir, load),
        _ => Err(Trouble::Broken("whoever opened it last died of it, more than once".to_owned())),
    };
    let cause = match first {
        Ok(board) => return Ok((board, None)),
        Err(Trouble::Error(error)) => return Err(error),
        Err(Trouble::Broken(cause)) => cause,
    };
    let aside = set_aside(dir).map_err(|source| BoardError::Io {
        doing: "setting aside",
        path: dir.to_owned(),
        source,
    })?;
    match attempt(dir, load) {
        Ok(board) => Ok((board, Some(Recovered { aside, cause }))),
        Err(Trouble::Error(error)) => Err(error),
        Err(Trouble::Broken(cause)) => Err(BoardError::Damaged(cause)),
    }
}

pub(super) fn examine(dir: &Path, scratch: &Path, load: &Load) -> Result<(), BoardError> {
    let io = |source| BoardError::Io { doing: "copying", path: dir.to_owned(), source };
    copy(dir, scratch).map_err(io)?;
    match attempt(scratch, load) {
        Ok(_) => Ok(()),
        Err(Trouble::Error(error)) => Err(error),
        Err(Trouble::Broken(cause)) => Err(BoardError::Damaged(cause)),
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy(&entry.path(), &target)?,
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), target)?),
            _ => {}
        }
    }
    Ok(())
}

fn attempt(dir: &Path, load: &Load) -> Result<Board, Trouble> {
    make(dir)?;
    wait_for_lock(dir)?;
    let started = Instant::now();
    loop {
        let error = match open_apart(dir, load)? {
            Ok(board) => return Ok(board),
            Err(error) => error,
        };
        if !is_lock(&error) {
            return Err(blame(error));
        }
        if started.elapsed() > LOCK_PATIENCE {
            return Err(Trouble::Error(BoardError::Locked { dir: dir.to_owned() }));
        }
        std::thread::sleep(LOCK_RETRY);
    }
}

/// Opens sled on a thread of its own, so that one that never comes back is left behind, with a folder
/// that nobody looks for any more.
fn open_apart(dir: &Path, load: &Load) -> Result<Result<Board, BoardError>, Trouble> {
    quiet_panics();
    let (load, path) = (Arc::clone(load), dir.to_owned());
    let (sender, opened) = mpsc::channel();
    let work = move || {
        // sled's state is all behind the handle that a panic loses.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let config = sled::Config::new()
                .path(path)
                .cache_capacity(CACHE_BYTES)
                // The caller flushes; a sled that does it by itself keeps a thread awake.
                .flush_every_ms(None);
            load(config.open().map_err(BoardError::store("opening"))?)
        }));
        // Who has given up does not need it.
        drop(sender.send(opened));
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(work);
    thread.map_err(|source| {
        let path = dir.to_owned();
        Trouble::Error(BoardError::Io { doing: "starting a thread to open", path, source })
    })?;
    match opened.recv_timeout(OPEN_MAX) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(panic)) => Err(Trouble::Broken(words_of(panic.as_ref()))),
        Err(RecvTimeoutError::Timeout) => {
            Err(Trouble::Broken(format!("sled did not open it within {} s", OPEN_MAX.as_secs())))
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err(Trouble::Broken("sled ended without an answer".to_owned()))
        }
    }
}

/// What sled panics about while a folder is opened is told in the folder's story. It is no panic of
/// ours, and does not look like one in the log.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(THREAD) {
                before(panic);
            }
        }));
    });
}

/// How often in a row whoever opened the folder has died of it: of what no panic tells, such as a
/// length in a damaged file that asks for more memory than there is.
#[derive(Debug)]
struct Tries {
    file: PathBuf,
    deaths: u32,
}

impl Tries {
    fn begin(dir: &Path) -> Self {
        let mut name = dir.file_name().unwrap_or_default().to_os_string();
        name.push(".opening");
        let file = dir.with_file_name(name);
        let deaths = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        let deaths = deaths.unwrap_or(0);
        // Without it the next one has to find out by itself.
        drop(std::fs::write(&file, (deaths + 1).to_string()));
        Self { file, deaths }
    }
}

impl Drop for Tries {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.file));
    }
}

fn make(dir: &Path) -> Result<(), Trouble> {
    // A file in its place is something broken, and `wait_for_lock` says so.
    if dir.symlink_metadata().is_ok() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| {
        Trouble::Error(BoardError::Io { doing: "making", path: dir.to_owned(), source })
    })
}

/// Waits until nobody has sled's lock. Asked here, since sled tells a lock only in words.
fn wait_for_lock(dir: &Path) -> Result<(), Trouble> {
    let path = dir.join("db");
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            let error = BoardError::Io { doing: "opening", path, source };
            return Err(blame(error));
        }
    };
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_RETRY);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Trouble::Error(BoardError::Locked { dir: dir.to_owned() }));
            }
            Err(TryLockError::Error(source)) => {
                let path = path.clone();
                return Err(Trouble::Error(BoardError::Io { doing: "locking", path, source }));
            }
        }
    }
}

fn is_lock(error: &BoardError) -> bool {
    let BoardError::Store { source: sled::Error::Io(error), .. } = error else { return false };
    error.kind() == io::ErrorKind::Other && error.to_string().contains("could not acquire lock")
}

/// Whether the folder is broken or the machine around it is: a new folder mends only the former.
fn blame(error: BoardError) -> Trouble {
    let kind = match &error {
        BoardError::Io { source, .. } => Some(source.kind()),
        BoardError::Store { source: sled::Error::Io(source), .. } => Some(source.kind()),
        _ => None,
    };
    let machine = matches!(
        kind,
        Some(
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::OutOfMemory
        )
    );
    // EMFILE and ENFILE have no kind of their own.
    let files = match &error {
        BoardError::Io { source, .. } => source.raw_os_error(),
        BoardError::Store { source: sled::Error::Io(source), .. } => source.raw_os_error(),
        _ => None,
    };
    if machine || matches!(files, Some(libc::EMFILE | libc::ENFILE)) {
        Trouble::Error(error)
    } else {
        Trouble::Broken(error.to_string())
    }
}

/// Renames `board` to `board.bak-<n>` and lets go of the oldest beyond the limit.
fn set_aside(dir: &Path) -> io::Result<PathBuf> {
    let parent = dir.parent().unwrap_or(Path::new("."));
    let mut prefix = dir.file_name().unwrap_or_default().to_os_string();
    prefix.push(".bak-");
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        let name = entry?.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let number = rest.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    let at = |number: u32| {
        let mut name = prefix.clone();
        name.push(number.to_string());
        parent.join(name)
    };
    let aside = at(numbers.last().map_or(1, |last| last.saturating_add(1)));
    std::fs::rename(dir, &aside)?;
    let surplus = (numbers.len() + 1).saturating_sub(ASIDE_MAX);
    for oldest in &numbers[..surplus] {
        let path = at(*oldest);
        // One that stays costs a little room and no more.
        drop(std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path)));
    }
    Ok(aside)
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no words");
    format!("sled panicked: {words}")
}
