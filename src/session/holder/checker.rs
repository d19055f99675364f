//! The shell's own parser reads a text before it runs: `bash -n`, beside the loop.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};

use crate::command::completeness::{ends_in_backslash, incomplete_in};

use super::super::os::spawn::{self, Program};

/// A text that takes longer to parse is left to the shell itself.
pub(super) const CHECK_MS_MAX: u64 = 5_000;
/// More than this the parser does not say of one fault.
const WORDS_BYTES_MAX: usize = 16 * 1024;

/// One run of the parser.
pub(super) struct Checker {
    pub pid: i32,
    pub said: OwnedFd,
    words: Vec<u8>,
    asks: Asks,
    pub due_ms: u64,
}

/// What this run is to find out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Is the text whole?
    Whole,
    /// It ends in a backslash: is that one live? Then `{` on a line of its own is no group.
    Backslash,
    /// A here-document was ended by the end of something: of the text, or of a substitution in it?
    HereDocument(&'static str),
}

/// What comes after a run.
pub(super) enum Verdict {
    Complete,
    Incomplete(String),
    /// The parser has to be asked once more.
    Again(Checker),
}

impl Checker {
    /// Starts the parser on the text.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(shell: &CString, text: &str, now_ms: u64) -> io::Result<Self> {
        Self::ask(shell, text, Asks::Whole, now_ms)
    }

    fn ask(shell: &CString, text: &str, asks: Asks, now_ms: u64) -> io::Result<Self> {
        let suffix = match asks {
            Asks::Whole => "",
            Asks::Backslash => "\n{",
            Asks::HereDocument(_) => "\n}",
        };
        let input = memfd_create(c"text", MemfdFlags::CLOEXEC)?;
        write_whole(&input, text.as_bytes())?;
        write_whole(&input, suffix.as_bytes())?;
        seek(&input, SeekFrom::Start(0))?;
        let (said, saying) = std::io::pipe()?;
        let null = std::fs::File::open("/dev/null")?;
        let pid = spawn::start(&Program {
            path: shell.clone(),
            argv: vec![c"bash".to_owned(), c"-n".to_owned()],
            env: vec![c"LC_ALL=C".to_owned()],
            cwd: None,
            descriptors: vec![(input.as_fd(), 0), (null.as_fd(), 1), (saying.as_fd(), 2)],
            terminal: false,
        })?;
        let said = OwnedFd::from(said);
        rustix::io::ioctl_fionbio(&said, true)?;
        Ok(Self { pid, said, words: Vec::new(), asks, due_ms: now_ms + CHECK_MS_MAX })
    }

    /// Reads what it says; true once it has said all.
    pub(super) fn listen(&mut self) -> bool {
        let mut buffer = [0; 1024];
        loop {
            match rustix::io::read(&self.said, &mut buffer) {
                Ok(0) => return true,
                Ok(got) => {
                    let room = WORDS_BYTES_MAX.saturating_sub(self.words.len());
                    self.words.extend_from_slice(&buffer[..got.min(room)]);
                }
                Err(rustix::io::Errno::AGAIN) => return false,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    /// What it found.
    pub(super) fn verdict(&self, shell: &CString, text: &str, now_ms: u64) -> Verdict {
        let words = String::from_utf8_lossy(&self.words);
        let again = |asks| match Self::ask(shell, text, asks, now_ms) {
            Ok(checker) => Verdict::Again(checker),
            Err(_) => Verdict::Complete,
        };
        match self.asks {
            Asks::Whole => match incomplete_in(&words) {
                Some(message) if message.contains("here-document") => {
                    again(Asks::HereDocument("a here-document has no end"))
                }
                Some(message) => Verdict::Incomplete(message),
                None if ends_in_backslash(text) => again(Asks::Backslash),
                None => Verdict::Complete,
            },
            Asks::Backslash if incomplete_in(&words).is_none() => {
                Verdict::Incomplete("the text ends in a backslash".to_owned())
            }
            Asks::HereDocument(message) if !words.contains("syntax error near") => {
                Verdict::Incomplete(message.to_owned())
            }
            Asks::Backslash | Asks::HereDocument(_) => Verdict::Complete,
        }
    }
}

/// Writes all of it; a memory file takes whatever fits.
pub(super) fn write_whole(file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let taken = rustix::io::write(file, bytes)?;
        bytes = &bytes[taken..];
    }
    Ok(())
}
