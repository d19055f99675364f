//! What a session and a command in it are asked for: plain records that the coordinator fills in
//! and the holder reads.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ids::{AttemptId, CommandId, SessionId};
use super::permission::Permissions;
use super::plan::{InputRule, Ready, ResourceLimits, StopRule};
use super::raw_path;
use super::shown_path;

/// What a new session is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpec {
    /// Its id.
    pub id: SessionId,
    /// Where its shell starts, absolute.
    #[serde(with = "raw_path")]
    pub cwd: PathBuf,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Which shell.
    pub shell: Shell,
    /// Present where the session is to have what the user's own shell has.
    #[serde(default)]
    pub profile: Option<ProfileSpec>,
    /// Window size.
    pub size: Size,
    /// An existing folder of its own; `out.raw` is made in it, and `out.idx` with its first entry.
    #[serde(with = "raw_path")]
    pub transcript: PathBuf,
    /// An existing private folder, the session's `TMPDIR`, removed when it has closed.
    #[serde(with = "raw_path")]
    pub tmp: PathBuf,
    /// What may be run in it: the strictest word of any layer counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<Permissions>,
    /// What it and each of its commands may take.
    #[serde(default)]
    pub limits: SessionLimits,
    /// Whether the kernel tells what its processes change.
    #[serde(default)]
    pub traced: bool,
    /// The folder whose files are resources; without it nothing in the session is a touch.
    #[serde(default, with = "raw_path::optional", skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Whose it is, for a coordinator that finds it without knowing of it.
    pub owner: SessionOwner,
    /// The session from inside of which it was asked for: it ends with that.
    #[serde(default)]
    pub parent: Option<SessionId>,
    /// The folder in which its holder listens while it has no coordinator, as `ID.sock`.
    #[serde(with = "raw_path")]
    pub door: PathBuf,
    /// How long the holder then waits before it ends everything, in ms.
    pub patience_ms: u64,
}

/// Whose a session is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "owner", rename_all = "snake_case")]
pub enum SessionOwner {
    /// An attempt's.
    Attempt {
        /// Which.
        attempt: AttemptId,
    },
    /// Opened ahead for an attempt that may come; whose it is then is in the journal.
    Upcoming {
        /// Which.
        attempt: AttemptId,
    },
    /// One `exec`'s.
    Call,
    /// Kept for the next command.
    Kept {
        /// Its name, if it has one.
        name: Option<String>,
        /// True when `exec` made it.
        by_exec: bool,
        /// How long it may stay unused, in ms.
        ttl_ms: u64,
    },
}

/// What a session and each of its commands may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLimits {
    /// How many bytes a command may print over both terminals together; whoever prints more is
    /// ended with `quota`. `None`: as many as it likes.
    pub output: Option<u64>,
    /// How many bytes of memory may be in use in it while a command runs; who goes beyond is ended
    /// with `quota`, as with the two that follow.
    #[serde(default)]
    pub memory: Option<u64>,
    /// How many processes and threads may be in it beside its shell.
    #[serde(default)]
    pub processes: Option<u64>,
    /// How much processor time a command's tree may use, in ms.
    #[serde(default)]
    pub cpu_ms: Option<u64>,
    /// How many bytes of transcript are kept on disk of a command: its beginning and its end. What
    /// goes beyond ends nothing.
    pub command_disk: u64,
    /// The same of the whole session, whose oldest output goes first.
    pub session_disk: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            output: None,
            memory: None,
            processes: None,
            cpu_ms: None,
            command_disk: 64 << 20,
            session_disk: 256 << 20,
        }
    }
}

impl SessionLimits {
    /// The same with what a command may take.
    #[must_use]
    pub fn with(self, resources: ResourceLimits) -> Self {
        let ResourceLimits { output, memory, processes, cpu_ms } = resources;
        Self { output, memory, processes, cpu_ms, ..self }
    }
}

/// How the user's profile is captured and used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileSpec {
    /// A folder in which what was captured is kept; made if it is not there.
    #[serde(with = "raw_path")]
    pub cache: PathBuf,
    /// Variables that it does not change.
    pub keep: Vec<String>,
    /// Variables that it may give although they look like secrets.
    pub pass: Vec<String>,
    /// How long it may take, in ms.
    pub limit_ms: u64,
}

/// A shell that a driver exists for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shell {
    /// GNU bash.
    #[default]
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
    /// dash, or whatever the machine calls sh.
    Sh,
}

impl Shell {
    /// Every shell by its name.
    pub const ALL: [(&'static str, Self); 4] =
        [("bash", Self::Bash), ("zsh", Self::Zsh), ("fish", Self::Fish), ("sh", Self::Sh)];

    /// Its name, as a manifest says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Sh => "sh",
        }
    }
}

impl std::str::FromStr for Shell {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, shell)| *shell).ok_or_else(
            || format!("no shell `{}`: there are bash, zsh, fish and sh", name.escape_debug()),
        )
    }
}

/// What `[defaults]` of `agents.toml` says of sessions; what it leaves open is the coordinator's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDefaults {
    /// `max_sessions`: how many may be open at a time, those of tasks left out.
    pub max_sessions: Option<u32>,
    /// `session_ttl`: how long an unused session stays, in ms.
    pub ttl_ms: Option<u64>,
    /// `retention`: how long what a session said stays readable after its end, in ms.
    pub retention_ms: Option<u64>,
}

/// Size of a terminal window in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { cols: 120, rows: 40 }
    }
}

/// One command, with every limit made out: the holder decides nothing about policy or class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Its id.
    pub id: CommandId,
    /// The text for the shell.
    pub text: String,
    /// Where to run it; the session's own cwd when not set.
    #[serde(default, with = "shown_path::optional")]
    pub cwd: Option<PathBuf>,
    /// Its time limit.
    pub limit: Limit,
    /// How long it may wait for input.
    pub input_timeout_ms: u64,
    /// Answers by pattern.
    pub on_input: Vec<InputRule>,
    /// Answers in order: each is sent when the command next waits and no rule matches.
    pub inputs: Vec<String>,
    /// What to do when it waits and nothing answers.
    pub unanswered: UnansweredInput,
    /// Patterns that end it early.
    pub stop_on: Vec<StopRule>,
    /// One terminal for both streams: exact order, `stderr` empty.
    pub merge: bool,
    /// Present for a service: watched until ready, and no tier.
    pub ready: Option<Ready>,
    /// The client's own name for its request, by which it finds the command again after its
    /// coordinator was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// What becomes of a command that waits for input which nothing answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnansweredInput {
    /// It goes on waiting until its input limit; the coordinator is told.
    Wait,
    /// Its tree is ended at once: `failed{awaiting_input}`.
    End,
}

/// A command's time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Ends exactly then: `timeout{total}`.
    Exact {
        /// In ms.
        ms: u64,
    },
    /// Heartbeat from `ms` on, up to `hard_ms`.
    Heartbeat {
        /// When the heartbeat is first looked at, in ms.
        ms: u64,
        /// When it ends all the same, in ms.
        hard_ms: u64,
    },
    /// None: a service.
    Unlimited,
}
