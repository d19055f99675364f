//! A folder with the named pipes and files through which a shell takes its commands.
//!
//! ```text
//! sh, zsh   the shell's script: the driver, then each command's lines      (named after the shell)
//! word      zsh: a line feed for each command; fish: number, merge, cwd
//! report    what the shell says of each command's end
//! file      a text that is too long for a line
//! ```
//!
//! The shell opens a pipe for as long as it reads or writes one line, so no command inherits it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::table::{Order, Pipes};

/// How the folder's name ends: after the session's private `TMPDIR`, beside which it lies, so that
/// a command that clears the one leaves the other.
const SUFFIX: &str = ".callboard-driver";

/// In the command line of a shell that is started so, and of its copies.
pub(in crate::session) const MARK: &str = ".callboard-driver/";

/// The folder of the session whose private `TMPDIR` is `tmp`. Present only for a shell that needs
/// one, until the session has closed.
#[must_use]
pub fn driver_folder(tmp: &Path) -> PathBuf {
    let mut name = tmp.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

/// The holder's end of such a folder.
pub(in crate::session) struct Folder {
    /// Where it is.
    pub path: PathBuf,
    pipes: &'static Pipes,
    /// The folder's name as the shell reads it.
    quoted: Vec<u8>,
    /// The shell's script, or what it reads for each command.
    script: OwnedFd,
    word: OwnedFd,
    /// The pipes by device and inode, to know a read of them by.
    inodes: Vec<(u64, u64)>,
    /// The lines of the last command.
    given: Vec<u8>,
    is_let_go: bool,
}

impl Folder {
    /// Makes it, and gives the end from which reports are read.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(in crate::session) fn create(
        tmp: &Path,
        shell: &str,
        pipes: &'static Pipes,
        cwd: &Path,
    ) -> io::Result<(Self, OwnedFd)> {
        let cwd = (pipes.quote)(cwd.as_os_str().as_bytes());
        let path = driver_folder(tmp);
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot set up {}: {error}", path.display()))
        };
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(named)?;
        let pipe = |name: &str| -> io::Result<OwnedFd> {
            let file = path.join(name);
            mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            // Both ends: opening never waits, and a shell that closes its own ends nothing.
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            Ok(options.open(&file)?.into())
        };
        let script = pipe(shell).map_err(named)?;
        let word = pipe("word").map_err(named)?;
        let report = pipe("report").map_err(named)?;
        let quoted = (pipes.quote)(path.as_os_str().as_bytes());
        for (name, text) in pipes.files {
            std::fs::write(path.join(name), filled(text, "@DIR@", &quoted)).map_err(named)?;
        }
        let inodes = [shell, "word"]
            .into_iter()
            .filter_map(|name| std::fs::metadata(path.join(name)).ok())
            .map(|file| (file.dev(), file.ino()))
            .collect();
        let opening: Vec<_> =
            pipes.opening.split("@CWD@").map(|part| filled(part, "@DIR@", &quoted)).collect();
        put(&script, &opening.join(&cwd[..])).map_err(named)?;
        let folder =
            Self { path, pipes, quoted, script, word, inodes, given: Vec::new(), is_let_go: false };
        Ok((folder, report))
    }

    /// Gives the shell a command.
    ///
    /// # Errors
    /// When the text cannot be written.
    pub(in crate::session) fn give(
        &mut self,
        nonce: u64,
        cwd: Option<&Path>,
        merge: bool,
        text: &str,
    ) -> io::Result<()> {
        let text = format!("{text}{}", self.pipes.trailer);
        let is_short = text.len() <= self.pipes.inline_max;
        if !is_short {
            std::fs::write(self.path.join("file"), &text)?;
        }
        let lines = (self.pipes.order)(&Order {
            nonce,
            cwd: cwd.map(|cwd| cwd.as_os_str().as_bytes()),
            merge,
            text: is_short.then_some(&text),
            folder: &self.quoted,
        });
        self.say(&lines)?;
        self.given = lines;
        Ok(())
    }

    /// Gives it the same command once more.
    ///
    /// # Errors
    /// When the lines cannot be written.
    pub(in crate::session) fn give_again(&self) -> io::Result<()> {
        self.say(&self.given)
    }

    /// Makes a shell that cannot have reported a command's end do it: an interrupt or an error took
    /// the rest of its lines from it, or a function has taken the place of what reports. One that
    /// never began the command says that none is open.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub(in crate::session) fn ask_again(&self) -> io::Result<()> {
        put(&self.script, self.pipes.repair)
    }

    /// Lets an idle shell end by itself.
    pub(in crate::session) fn let_go(&mut self) {
        if !std::mem::replace(&mut self.is_let_go, true) {
            // A shell that does not take it is made to go.
            drop(self.say(self.pipes.leave));
        }
    }

    fn say(&self, lines: &[u8]) -> io::Result<()> {
        if self.pipes.opening.is_empty() {
            return put(&self.word, lines);
        }
        put(&self.script, lines)?;
        if self.pipes.waits_for_word { put(&self.word, b"\n") } else { Ok(()) }
    }

    /// True when this descriptor of the process is a pipe on which the shell waits for a command.
    pub(in crate::session) fn is_wait(&self, pid: i32, descriptor: u64) -> bool {
        std::fs::metadata(format!("/proc/{pid}/fd/{descriptor}"))
            .is_ok_and(|file| self.inodes.contains(&(file.dev(), file.ino())))
    }

    /// True when the shell has taken all that it was given.
    pub(in crate::session) fn is_taken(&self) -> bool {
        [&self.script, &self.word]
            .into_iter()
            .all(|pipe| rustix::io::ioctl_fionread(pipe).is_ok_and(|unread| unread == 0))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Private to the session: what cannot be removed now nobody can use either.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// Writes all of it: the pipe is empty while the shell is idle, and holds 64 KiB.
fn put(pipe: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let taken = rustix::io::write(pipe, bytes)?;
        bytes = &bytes[taken..];
    }
    Ok(())
}

/// `text` in single quotes; `quote` stands for one inside.
pub(super) fn quoted(text: &[u8], quote: &[u8]) -> Vec<u8> {
    let parts: Vec<_> = text.split(|&byte| byte == b'\'').collect();
    [b"'", &*parts.join(quote), b"'"].concat()
}

/// `text` with `value` wherever `name` stands.
fn filled(text: &str, name: &str, value: &[u8]) -> Vec<u8> {
    let parts: Vec<_> = text.split(name).map(str::as_bytes).collect();
    parts.join(value)
}
