//! What the machines and whoever runs their commands say to one another.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One call of git. No shell reads any of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Git {
    /// The folder that it is about.
    pub at: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// True for what writes out whole trees, and may take as long as those are large.
    pub is_long: bool,
    /// True where the repository may lie around the folder; otherwise the folder is its top.
    pub searches: bool,
}

impl Git {
    /// A call about the folder `at`.
    pub(super) fn new<A: AsRef<OsStr>>(at: &Path, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        Self { at: at.to_owned(), args, is_long: false, searches: false }
    }

    /// The same, which may take long.
    pub(super) fn long(self) -> Self {
        Self { is_long: true, ..self }
    }
}

/// What a call came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its status; `None` where it had none: it could not be started, or took too long.
    pub code: Option<i32>,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it said.
    pub stderr: String,
}

impl Output {
    pub(super) fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// What it wrote, without the newline behind it.
    pub(super) fn line(&self) -> String {
        String::from_utf8_lossy(self.stdout.strip_suffix(b"\n").unwrap_or(&self.stdout))
            .into_owned()
    }

    /// The same as a path, byte for byte.
    pub(super) fn path(&self) -> PathBuf {
        let bytes = self.stdout.strip_suffix(b"\n").unwrap_or(&self.stdout);
        PathBuf::from(OsStr::from_bytes(bytes))
    }

    /// What it wrote, cut at NULs.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty())
    }

    /// What it said of its failure, on one line.
    pub(super) fn trouble(&self) -> String {
        const CHARACTERS_MAX: usize = 400;
        let lines: Vec<&str> =
            self.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let words: String = lines.join("; ").chars().take(CHARACTERS_MAX).collect();
        match (words.is_empty(), self.code) {
            (false, _) => words,
            (true, Some(code)) => format!("git ended with status {code}"),
            (true, None) => "git ended without a status".to_owned(),
        }
    }
}

/// What a machine wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<E> {
    /// Run this, and tell it.
    Git(Git),
    /// It is over.
    Done(E),
}

/// One undertaking.
pub trait Machine {
    /// What it comes to.
    type End;

    /// The first step.
    fn begin(&mut self) -> Step<Self::End>;

    /// The step after this came of the last one.
    fn hears(&mut self, output: &Output) -> Step<Self::End>;
}
