//! What a holder has to know of a shell: where it is, how it is started, how it takes a command,
//! and what its parser says.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};

use crate::domain::session::Shell;

use super::folder::quoted;
use super::{bash, fish, sh, zsh};

/// One shell.
pub(in crate::session) struct Table {
    /// As people call it, and its first argument.
    pub name: &'static str,
    /// Where it is looked for first.
    pub places: &'static [&'static str],
    /// What it is called in a folder of `PATH`.
    pub names: &'static [&'static str],
    /// Programs under these names that cannot be driven as this shell.
    pub never: &'static [&'static str],
    /// Its arguments, given its driver's folder.
    pub argv: fn(&Path) -> Vec<CString>,
    /// How it takes its commands.
    pub takes: Takes,
    /// What brings it back into the driver's loop, typed at a prompt of its own.
    pub nudge: &'static [u8],
    /// How its parser is run on standard input.
    pub check: &'static [&'static CStr],
    /// What the parser's words mean: the text is incomplete. `None`: whole, or wrong in a way that
    /// running it will tell.
    pub incomplete: fn(&str) -> Option<String>,
    /// What closes a block, where the parser says nothing of a here-document without an end, nor of
    /// a backslash at the end: either swallows it.
    pub closer: Option<&'static str>,
    /// A last line that its parser stumbles over, by name, where the text is incomplete, and does
    /// not reach where the text is wrong: for a parser that says the same of both.
    pub last_line: Option<&'static str>,
    /// How the user's profile is captured.
    pub profile: Capture,
}

/// How a shell tells what its user's profile leaves.
pub(in crate::session) struct Capture {
    /// Relative to the home: what it consists of, to know a change by.
    pub files: &'static [&'static str],
    /// The shell's arguments before the script.
    pub argv: &'static [&'static CStr],
    /// Writes the files `env` (as `env -0` does) and `text` (functions, aliases) into the folder
    /// that is its argument.
    pub script: &'static str,
    /// Its first argument is an argument, and not its name.
    pub script_has_no_name: bool,
}

/// How a shell takes a command.
pub(in crate::session) enum Takes {
    /// Over descriptors that it keeps from its commands.
    Descriptors,
    /// Through named pipes in a folder.
    Pipes(Pipes),
}

/// What goes through the pipes.
pub(in crate::session) struct Pipes {
    /// The driver's files, as (name, text). `@DIR@` stands for the folder, quoted.
    pub files: &'static [(&'static str, &'static str)],
    /// The first lines of its script, which comes through the pipe.
    pub opening: &'static str,
    /// It starts in the folder and goes to the session's (`@CWD@`) by itself: the name of its
    /// script, which it puts before each of its messages, is then a short one.
    pub starts_in_folder: bool,
    /// How a name is quoted for it.
    pub quote: fn(&[u8]) -> Vec<u8>,
    /// The lines that make it run a command.
    pub order: fn(&Order<'_>) -> Vec<u8>,
    /// After the text of a command: what catches its statuses.
    pub trailer: &'static str,
    /// The longest text that is put into the lines themselves.
    pub inline_max: usize,
    /// What makes it report once more how the open command ended, whatever has kept it from that.
    pub repair: &'static [u8],
    /// What makes an idle one leave by itself.
    pub leave: &'static [u8],
    /// It waits for a byte of its own before each command.
    pub waits_for_word: bool,
}

/// A command for a shell that takes it through pipes.
pub(in crate::session) struct Order<'a> {
    /// The command's number.
    pub nonce: u64,
    /// Where to go first.
    pub cwd: Option<&'a [u8]>,
    /// Both streams to the first terminal.
    pub merge: bool,
    /// The text with its trailer; `None`: it lies in `file`.
    pub text: Option<&'a str>,
    /// The driver's folder, quoted.
    pub folder: &'a [u8],
}

/// The table of a shell.
pub(in crate::session) fn of(shell: Shell) -> &'static Table {
    match shell {
        Shell::Bash => &bash::TABLE,
        Shell::Zsh => &zsh::TABLE,
        Shell::Fish => &fish::TABLE,
        Shell::Sh => &sh::TABLE,
    }
}

/// Where a shell is: in its own places, or else in a folder of this `PATH`.
pub(in crate::session) fn file_of(table: &Table, path: &str) -> Option<PathBuf> {
    let named = std::env::split_paths(path)
        .flat_map(|folder| table.names.iter().map(move |name| folder.join(name)));
    let places = table.places.iter().map(PathBuf::from);
    places.chain(named).find(|file| file.is_file() && !leads_to(file, table.never))
}

/// True when the file is, in the end, a program of one of these names.
pub(super) fn leads_to(file: &Path, names: &[&str]) -> bool {
    !names.is_empty()
        && std::fs::canonicalize(file).is_ok_and(|program| {
            program.file_name().is_some_and(|name| names.iter().any(|&other| name == other))
        })
}

#[cfg(test)]
pub(in crate::session) fn fish() -> Table {
    fish::TABLE
}

/// Single quotes as every POSIX shell reads them.
pub(super) fn posix_quoted(text: &[u8]) -> Vec<u8> {
    quoted(text, b"'\\''")
}

/// A path as an argument.
pub(super) fn argument(path: &Path) -> CString {
    use std::os::unix::ffi::OsStrExt as _;
    // The folder was made, so its name holds no NUL byte.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// The first line of the parser's words that holds one of `signs`, without what stands before it.
pub(super) fn line_with(words: &str, signs: &[&str]) -> Option<String> {
    words
        .lines()
        .find(|line| signs.iter().any(|sign| line.contains(sign)))
        .map(|line| line.split_once(": ").map_or(line, |(_, said)| said).to_owned())
}
