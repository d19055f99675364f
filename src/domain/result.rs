//! `CommandResult`: what every surface says of a command (design, section 7.2).

use serde::{Deserialize, Serialize};

use super::ids::{CommandId, SessionId};
use super::key::Refused;
use super::outcome::{CommandState, Reason};
use super::time::Timestamp;

/// Version of every JSON document that callboard writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The structured result of one command: what an agent needs and a terminal hides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandResult {
    /// The command's id, for reading back later.
    pub command_id: CommandId,
    /// The session it ran in.
    pub session_id: SessionId,
    /// The text as it was given.
    pub command: String,
    /// Where it stands.
    pub state: CommandState,
    /// Why it did not complete; null when it did, or has not ended.
    pub reason: Option<Reason>,
    /// The shell's status; null where none is known.
    pub exit_code: Option<i32>,
    /// The statuses of its last pipeline; null where the shell cannot tell.
    pub pipe_status: Option<Vec<i32>>,
    /// Clean standard output, head and tail within the limit.
    pub stdout: String,
    /// Clean standard error, likewise.
    pub stderr: String,
    /// Both, in order of arrival.
    pub output: String,
    /// How far the order in `output` can be trusted between the two streams.
    pub order: Order,
    /// What was left out of the three texts; null when nothing was.
    pub truncated: Option<Truncation>,
    /// The encoding the texts were decoded from.
    pub encoding: String,
    /// Working directory of the session after it: as `shown_path` writes it.
    pub cwd: String,
    /// When it started; null while pending or refused.
    pub started_at: Option<Timestamp>,
    /// How long it took, or has run so far.
    pub duration_ms: u64,
    /// Processes of its tree that it left behind, or that were ended with it.
    pub children: Vec<Child>,
    /// What else a reader should know.
    pub notes: Vec<Note>,
    /// What it waits for; null unless it does.
    pub awaiting: Option<Awaiting>,
    /// Resources it was seen to change.
    pub touched: Vec<Touched>,
    /// Output as data, where it was recognised.
    pub parsed: Option<serde_json::Value>,
}

/// How far the order between the two streams can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One terminal carried both (`--merge`).
    Exact,
    /// Exact within a stream, by arrival between the two.
    Approximate,
}

/// What was left out of a result's texts. The raw bytes stay readable by `reference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncation {
    /// Of `stdout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Omitted>,
    /// Of `stderr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Omitted>,
    /// Of `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Omitted>,
    /// `SESSION@OFFSET`: where the command's bytes begin in the session's transcript.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// A count of what lies between head and tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Bytes of raw output between the kept head and the kept tail.
    pub omitted_bytes: u64,
}

/// A process that was still there when the command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Its pid.
    pub pid: i32,
    /// Its command line, shortened.
    pub command: String,
    /// True when it was ended with the command; false when it was left running.
    pub ended: bool,
}

/// A remark on a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Note {
    /// The session ended with this command; the next one needs another.
    SessionEnded,
    /// The session's working directory no longer exists.
    CwdMissing {
        /// The last known path.
        path: String,
    },
    /// The transcript could not be written in full.
    CaptureDegraded {
        /// What the system said.
        message: String,
    },
    /// The encoding was guessed from few bytes.
    EncodingGuess,
    /// Text typed before the boundary was never read, and is gone.
    InputDiscarded {
        /// How much; at least, where a program left more unread than a terminal's queue holds.
        bytes: u64,
        /// Why an answer of the command's own was not sent, if that is so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Refused>,
    },
    /// A member of the pipeline failed and the last one hid it.
    MaskedFailure {
        /// The statuses.
        pipe_status: Vec<i32>,
    },
    /// The user's shell profile was to be used, and there is something to know of it.
    Profile {
        /// What.
        message: String,
    },
    /// A full-screen program drew on the alternate screen.
    FullScreen,
    /// More was touched than is listed.
    TouchesOmitted {
        /// How many touches; at least, where they were not counted.
        count: u64,
    },
    /// A call was refused with `EBUSY`, because somebody else holds what it would have changed.
    Refused {
        /// The board key.
        resource: String,
        /// Who holds it.
        holder: String,
    },
    /// The kernel was to tell what the session changes and does not; it is inferred instead.
    Untraced {
        /// Why.
        message: String,
    },
    /// A person had the session while it ran or waited: its clock stood still meanwhile.
    TakenOver {
        /// Who.
        by: String,
    },
}

/// What a command waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaiting {
    /// The last line of its output.
    pub prompt: String,
    /// True when the terminal's echo is off in line mode: a password.
    pub secret: bool,
    /// What shows it.
    pub evidence: Evidence,
    /// How sure that is.
    pub certainty: Certainty,
    /// How long it has waited.
    pub idle_ms: u64,
}

/// What shows that a command waits for input, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A process of the foreground group is blocked in a read on the terminal.
    TtyRead,
    /// The terminal is in line mode with its echo off, as for a password, and who has done that
    /// waits in a poll on it or cannot be examined.
    EchoOff,
    /// It waits in poll, select or epoll with the terminal among its descriptors.
    TtyPoll,
    /// The named fallback of the founding text, where the process cannot be examined: no output
    /// for a while, and the last line looks like a prompt.
    QuietPrompt,
}

/// How sure the evidence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It waits, and will until it is answered.
    Certain,
    /// It looks like it.
    Possible,
}

/// A resource that a command was seen to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// The board key, as in `port/127.0.0.1/8080`.
    pub resource: String,
    /// `write`, `remove`, `rename`, `bind`, `install` …
    pub mode: String,
    /// How it was seen.
    pub how: How,
}

/// How a touch was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By the kernel, as it happened.
    Traced,
    /// From its traces afterwards.
    Inferred,
}
