//! The shell's own parser reads a text before it runs: `bash -n` and its like,
//! beside the loop.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};

use crate::command::completeness::ends_in_backslash;

use super::super::os::spawn::{self, Program};
use super::super::shells::table::Table;

/// A text that takes longer to parse is left to the shell itself.
pub(super) const CHECK_MS_MAX: u64 = 5_000;
/// More than this the parser does not say of one fault.
const WORDS_BYTES_MAX: usize = 16 * 1024;

/// One run of the parser.
pub(super) struct Checker {
    pub pid: i32,
    pub said: OwnedFd,
    words: Vec<u8>,
    table: &'static Table,
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
    /// The parser says nothing of what the text leaves open: is what closes a block refused after it?
    Closed,
    /// Something is wrong: is it the end of the text?
    AtEnd,
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
    pub(super) fn start(
        table: &'static Table,
        shell: &CString,
        text: &str,
        now_ms: u64,
    ) -> io::Result<Self> {
        Self::ask(table, shell, text, Asks::Whole, now_ms)
    }

    fn ask(
        table: &'static Table,
        shell: &CString,
        text: &str,
        asks: Asks,
        now_ms: u64,
    ) -> io::Result<Self> {
        let suffix = match asks {
            Asks::Whole => "",
            Asks::Backslash => "\n{",
            Asks::HereDocument(_) => "\n}",
            Asks::Closed => table.closer.unwrap_or(""),
            Asks::AtEnd => table.last_line.unwrap_or(""),
        };
        let input = memfd_create(c"text", MemfdFlags::CLOEXEC)?;
        write_whole(&input, text.as_bytes())?;
        if asks == Asks::AtEnd {
            write_whole(&input, b"\n")?;
        }
        write_whole(&input, suffix.as_bytes())?;
        seek(&input, SeekFrom::Start(0))?;
        let (said, saying) = std::io::pipe()?;
        let null = std::fs::File::open("/dev/null")?;
        let pid = spawn::start(&Program {
            path: shell.clone(),
            argv: table.check.iter().map(|&word| word.to_owned()).collect(),
            env: vec![c"LC_ALL=C".to_owned()],
            cwd: None,
            descriptors: vec![(input.as_fd(), 0), (null.as_fd(), 1), (saying.as_fd(), 2)],
            terminal: false,
            groups: &[],
            trace: None,
        })?;
        let said = OwnedFd::from(said);
        rustix::io::ioctl_fionbio(&said, true)?;
        Ok(Self { pid, said, words: Vec::new(), table, asks, due_ms: now_ms + CHECK_MS_MAX })
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
        let again = |asks| match Self::ask(self.table, shell, text, asks, now_ms) {
            Ok(checker) => Verdict::Again(checker),
            Err(_) => Verdict::Complete,
        };
        match self.asks {
            Asks::Whole => match (self.table.incomplete)(&words) {
                Some(message) if message.contains("here-document") => {
                    again(Asks::HereDocument("a here-document has no end"))
                }
                Some(message) => Verdict::Incomplete(message),
                None if self.table.last_line.is_some() && !words.is_empty() => again(Asks::AtEnd),
                None if owes_a_command(text) && self.table.last_line.is_some() => {
                    Verdict::Incomplete("a command is missing at the end".to_owned())
                }
                None if self.table.closer.is_some() => {
                    if ends_in_backslash(text) || text.contains("<<") {
                        again(Asks::Closed)
                    } else {
                        Verdict::Complete
                    }
                }
                None if ends_in_backslash(text) => again(Asks::Backslash),
                None => Verdict::Complete,
            },
            Asks::Backslash if (self.table.incomplete)(&words).is_none() => {
                Verdict::Incomplete("the text ends in a backslash".to_owned())
            }
            Asks::HereDocument(message) if !words.contains("syntax error near") => {
                Verdict::Incomplete(message.to_owned())
            }
            Asks::Closed if words.is_empty() => Verdict::Incomplete(if ends_in_backslash(text) {
                "the text ends in a backslash".to_owned()
            } else {
                "a here-document has no end".to_owned()
            }),
            Asks::AtEnd
                if words.is_empty()
                    || self.table.last_line.is_some_and(|line| words.contains(line)) =>
            {
                Verdict::Incomplete("something is open at the end of the text".to_owned())
            }
            Asks::Backslash | Asks::HereDocument(_) | Asks::Closed | Asks::AtEnd => {
                Verdict::Complete
            }
        }
    }
}

/// True when the last line ends in an operator, and not in a comment. Of this zsh says nothing.
fn owes_a_command(text: &str) -> bool {
    let last = text.trim_end().lines().next_back().unwrap_or("");
    (last.ends_with("&&") || last.ends_with('|')) && !last.contains('#')
}

/// Writes all of it; a memory file takes whatever fits.
pub(super) fn write_whole(file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let taken = rustix::io::write(file, bytes)?;
        bytes = &bytes[taken..];
    }
    Ok(())
}
