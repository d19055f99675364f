//! The one edge type: whatever went wrong becomes words, hints and an exit code here and nowhere
//! else.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::{exit, output};
use crate::control::{Failure as Refusal, FailureKind};
use crate::domain::result::SCHEMA_VERSION;

/// Why a verb failed, told the same way whatever the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    /// A word for programs.
    pub(super) kind: Kind,
    /// What happened, and where: a lowercase fragment without a full stop.
    pub(super) message: String,
    /// What to do next.
    pub(super) hint: Option<String>,
    /// Every place that is wrong, where files are to blame.
    pub(super) problems: Vec<Problem>,
}

/// Whose fault it is. The word is part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// The command line is wrong.
    Usage,
    /// The manifest or `agents.toml` is wrong, or names a variable in `env_pass` that is not set.
    Manifest,
    /// No such run, task, agent or session.
    NotFound,
    /// The session has ended.
    SessionClosed,
    /// The session has ended because nobody used it, or what it said is kept no longer.
    SessionExpired,
    /// As many sessions are open as may be.
    SessionLimit,
    /// Somebody else holds the session's terminal.
    Claimed,
    /// A process inside a session asks for what only a person may have.
    NotAllowed,
    /// The machine cannot: a full disk, a folder that may not be written.
    Machine,
    /// Client and coordinator are of different versions.
    Version,
    /// The coordinator could not be started, or is gone.
    Coordinator,
    /// Interrupted before there was anything to report.
    Interrupted,
    /// A defect of callboard's own.
    Internal,
}

/// A place in a file that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    /// The file, as it was given.
    pub(super) file: String,
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 1.
    pub(super) column: usize,
    /// What stands there.
    pub(super) text: String,
    /// What is wrong with it.
    pub(super) message: String,
    /// What to do about it.
    pub(super) hint: Option<String>,
}

impl Failure {
    /// A failure of a kind.
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, problems: Vec::new() }
    }

    /// The command line is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// The file at `path` cannot be used: its absence is the caller's fault, the rest the
    /// machine's.
    pub(super) fn file(path: &Path, doing: &str, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidInput => Kind::Usage,
            _ => Kind::Machine,
        };
        Self::new(kind, format!("cannot {doing} `{}`: {}", path.display(), reason(error)))
    }

    /// Adds what to do next.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The code to exit with.
    #[must_use]
    pub(super) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage
            | Kind::Manifest
            | Kind::NotFound
            | Kind::Claimed
            | Kind::NotAllowed
            | Kind::SessionClosed
            | Kind::SessionExpired => exit::USAGE,
            Kind::Machine | Kind::SessionLimit => exit::ENVIRONMENT,
            Kind::Version | Kind::Coordinator | Kind::Internal => exit::INTERNAL,
            Kind::Interrupted => exit::INTERRUPTED,
        }
    }

    /// Tells it: to programs on stdout, to people on stderr. The answer is the exit code.
    pub(super) fn tell(&self, json: bool) -> u8 {
        if json {
            // The reader being gone is forgiven already; a full disk leaves stderr to say so.
            if let Err(error) = output::print_json(&self.document()) {
                output::note(format!("error: cannot write to stdout: {}\n", reason(&error)));
            }
        } else {
            output::note(self.words());
        }
        self.exit_code()
    }

    /// The document for programs.
    fn document(&self) -> impl Serialize {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            error: &'a Failure,
        }
        Document { schema_version: SCHEMA_VERSION, error: self }
    }

    /// The words for people.
    fn words(&self) -> String {
        let mut words = format!("error: {}\n", self.message);
        for problem in &self.problems {
            problem.push_words(&mut words);
        }
        if let Some(hint) = &self.hint {
            push_line(&mut words, "hint: ", hint);
        }
        words
    }
}

impl Problem {
    fn push_words(&self, words: &mut String) {
        push_line(
            words,
            "  --> ",
            &format!("{}:{}:{}: {}", self.file, self.line, self.column, self.message),
        );
        if !self.text.is_empty() {
            push_line(words, "      | ", &self.text);
        }
        if let Some(hint) = &self.hint {
            push_line(words, "      hint: ", hint);
        }
    }
}

fn push_line(words: &mut String, lead: &str, text: &str) {
    let _infallible = writeln!(words, "{lead}{text}");
}

/// An error of the system in its own words, without Rust's `(os error N)`.
pub(super) fn reason(error: &io::Error) -> String {
    let words = error.to_string();
    let words = words.split_once(" (os error ").map_or(words.as_str(), |(words, _)| words);
    let mut letters = words.chars();
    // "No such file" becomes "no such file"; an acronym stays.
    match (letters.next(), words.chars().nth(1)) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => words.to_owned(),
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.kind {
            FailureKind::Usage => Kind::Usage,
            FailureKind::NotFound => Kind::NotFound,
            FailureKind::SessionClosed => Kind::SessionClosed,
            FailureKind::SessionLimit => Kind::SessionLimit,
            FailureKind::Claimed => Kind::Claimed,
            FailureKind::NotAllowed => Kind::NotAllowed,
            FailureKind::Unknown => Kind::Coordinator,
            FailureKind::Version => Kind::Version,
            FailureKind::Environment => Kind::Machine,
            FailureKind::ShuttingDown => Kind::Coordinator,
            FailureKind::Internal => Kind::Internal,
        };
        Self { kind, message: refusal.message, hint: refusal.hint, problems: Vec::new() }
    }
}

/// Only output fails without naming a file.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Kind::Machine, format!("cannot write to stdout: {}", reason(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_problems() -> Failure {
        let problem = |line, text: &str, hint: Option<&str>| Problem {
            file: "job.toml".to_owned(),
            line,
            column: 3,
            text: text.to_owned(),
            message: "unknown key `afer`".to_owned(),
            hint: hint.map(str::to_owned),
        };
        Failure {
            kind: Kind::Manifest,
            message: "`job.toml` has 2 problems".to_owned(),
            hint: Some("nothing was started".to_owned()),
            problems: vec![problem(4, "afer", Some("did you mean `after`?")), problem(9, "", None)],
        }
    }

    #[test]
    fn words_name_every_place() {
        assert_eq!(
            with_problems().words(),
            "error: `job.toml` has 2 problems\n  \
               --> job.toml:4:3: unknown key `afer`\n      \
                   | afer\n      \
                   hint: did you mean `after`?\n  \
               --> job.toml:9:3: unknown key `afer`\n\
             hint: nothing was started\n"
        );
    }

    #[test]
    fn the_document_has_the_keys_of_the_contract() {
        let document = serde_json::to_value(with_problems().document()).unwrap();
        assert_eq!(document["schema_version"], 1);
        assert_eq!(document["error"]["kind"], "manifest");
        assert_eq!(document["error"]["message"], "`job.toml` has 2 problems");
        assert_eq!(document["error"]["hint"], "nothing was started");
        let problem = &document["error"]["problems"][0];
        assert_eq!((&problem["file"], &problem["text"]), (&"job.toml".into(), &"afer".into()));
        assert_eq!((&problem["line"], &problem["column"]), (&4.into(), &3.into()));
        let plain = serde_json::to_value(Failure::usage("no").document()).unwrap();
        assert_eq!(plain["error"]["hint"], serde_json::Value::Null);
        assert_eq!(plain["error"]["problems"], serde_json::json!([]));
    }

    #[test]
    fn kinds_and_their_codes() {
        for (kind, code) in [
            (Kind::Usage, 2),
            (Kind::Manifest, 2),
            (Kind::NotAllowed, 2),
            (Kind::NotFound, 2),
            (Kind::SessionClosed, 2),
            (Kind::SessionExpired, 2),
            (Kind::SessionLimit, 3),
            (Kind::Claimed, 2),
            (Kind::Machine, 3),
            (Kind::Version, 5),
            (Kind::Coordinator, 5),
            (Kind::Internal, 5),
            (Kind::Interrupted, 130),
        ] {
            assert_eq!(Failure::new(kind, "x").exit_code(), code, "{kind:?}");
        }
    }

    #[test]
    fn system_errors_read_as_fragments() {
        for (number, words) in [(2, "no such file or directory"), (28, "no space left on device")] {
            assert_eq!(reason(&io::Error::from_raw_os_error(number)), words);
        }
    }

    #[test]
    fn a_missing_file_is_the_callers_fault() {
        let path = Path::new("job.toml");
        let missing = Failure::file(path, "read", &io::ErrorKind::NotFound.into());
        assert_eq!(missing.exit_code(), exit::USAGE);
        let full = Failure::file(path, "write", &io::ErrorKind::StorageFull.into());
        assert_eq!(full.exit_code(), exit::ENVIRONMENT);
    }
}
