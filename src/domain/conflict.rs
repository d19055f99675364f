//! Who holds what, and what happens when another one wants it (design, section 6).
//!
//! A resource is named by its board key: `file/<path>`, `port/<host>/<n>`, `dep/<ecosystem>/<name>`,
//! `git/<repo>`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ids::{AttemptId, CommandId, SessionId};
use super::machine::Means;
use super::outcome::Reason;
use super::result::{How, Touched};
use super::time::Timestamp;

/// Who can hold a resource: whoever lives as long as a process tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "party", rename_all = "snake_case")]
pub enum Party {
    /// An attempt of a task. As the later one it backs off and is tried again.
    Attempt {
        /// Which.
        attempt: AttemptId,
    },
    /// A command outside of any run, while it runs. As the later one it ends `failed{conflict}`.
    Command {
        /// Its session.
        session: SessionId,
        /// Which.
        command: CommandId,
    },
    /// A commit that is no task's, in the branch that a worktree was to be merged into.
    Commit {
        /// Its name.
        commit: String,
    },
}

impl fmt::Display for Party {
    /// `RUN/TASK`, `session ID` or `commit NAME`, as reports and board entries name it.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt { attempt } => write!(to, "{}/{}", attempt.run, attempt.task),
            Self::Command { session, .. } => write!(to, "session {session}"),
            Self::Commit { commit } => write!(to, "commit {commit:.12}"),
        }
    }
}

/// A touch of something that another live party holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The board key.
    pub resource: String,
    /// What was about to be done, or was done, to it: `write`, `remove`, `rename`, `bind` …
    pub mode: String,
    /// How it was seen.
    pub how: How,
    /// When.
    pub at: Timestamp,
    /// Who holds it.
    pub holder: Party,
    /// Since when.
    pub since: Timestamp,
    /// True when the call was refused before it did anything.
    pub prevented: bool,
    /// Where it was not: what the file was when its holder had last been seen to write it, and what
    /// it is now. The holder's content may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hashes: Option<Hashes>,
}

impl Conflict {
    /// The same as the reason of a command that it has ended.
    #[must_use]
    pub fn reason(&self) -> Reason {
        Reason::Conflict { resource: self.resource.clone(), holder: self.holder.to_string() }
    }
}

/// A file's content before and after it was touched a second time, as lower-case hexadecimal SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashes {
    /// As the holder left it; `None` where nobody looked.
    pub holder: Option<String>,
    /// As it is now; `None` when it is gone.
    pub now: Option<String>,
}

/// One wait after a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Which conflict of the task, from 1.
    pub n: u32,
    /// The board key.
    pub resource: String,
    /// Who held it.
    pub holder: String,
    /// How long it waited.
    pub wait_ms: u64,
}

/// An answer to an escalation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Another attempt at once; counters stay.
    Retry,
    /// Another attempt once the resource is free.
    Wait,
    /// The task is skipped.
    Skip,
    /// The task has failed.
    Fail,
    /// Another attempt for which that resource is nobody's.
    Force,
    /// What was asked for at the terminal.
    Input {
        /// What to send, byte for byte.
        text: String,
    },
}

/// Longest text of an `input:` answer, in bytes.
pub const INPUT_ANSWER_MAX: usize = 4096;

impl Answer {
    /// Its name alone: what was typed in is nobody else's.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Skip => "skip",
            Self::Fail => "fail",
            Self::Force => "force",
            Self::Input { .. } => "input",
        }
    }
}

impl FromStr for Answer {
    type Err = String;

    /// As the command line has it: `input:TEXT`, the others by name.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "retry" => Ok(Self::Retry),
            "wait" => Ok(Self::Wait),
            "skip" => Ok(Self::Skip),
            "fail" => Ok(Self::Fail),
            "force" => Ok(Self::Force),
            _ => match text.strip_prefix("input:") {
                Some(text) if text.len() > INPUT_ANSWER_MAX => {
                    Err(format!("{} bytes of input: {INPUT_ANSWER_MAX} are the most", text.len()))
                }
                Some(text) => Ok(Self::Input { text: text.to_owned() }),
                None => Err("there are retry, wait, skip, fail, force, input:TEXT".to_owned()),
            },
        }
    }
}

/// Whether a session's writes are told by the kernel as they happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tracing {
    /// Where it costs no rights: as root.
    #[default]
    Auto,
    /// Yes, although sudo loses its effect for a plain user.
    On,
    /// No: what was written is inferred afterwards.
    Off,
}

impl Tracing {
    /// Whether a session is to be traced where it takes `means`. `On` is tried anyway, so that it is
    /// told why it cannot be.
    #[must_use]
    pub fn is_due(self, means: Means) -> bool {
        match self {
            Self::Auto => means == Means::Free,
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// Touches of one command, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touches {
    /// The command; `None` for what the session's processes do between commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandId>,
    /// What was touched.
    pub touched: Vec<Touched>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_name() {
        for name in ["retry", "wait", "skip", "fail", "force"] {
            assert_eq!(name.parse::<Answer>().unwrap().name(), name);
        }
        assert_eq!("input:y\n".parse(), Ok(Answer::Input { text: "y\n".to_owned() }));
        assert_eq!("input:".parse(), Ok(Answer::Input { text: String::new() }));
        assert!("Retry".parse::<Answer>().unwrap_err().contains("skip"));
        let long = format!("input:{}", "x".repeat(INPUT_ANSWER_MAX + 1));
        assert!(long.parse::<Answer>().unwrap_err().contains("most"));
    }
}
