//! Sessions: what a new one is made of, and what an open one looks like from outside.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::domain::claim::Claim;
use crate::domain::event::ClientEnv;
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::permission::Permissions;
use crate::domain::raw_path;
use crate::domain::result::{Awaiting, Child};
use crate::domain::session::{SessionDefaults, Shell, Size};
use crate::domain::time::Timestamp;

/// A session to open and keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewSession {
    /// A name of its own in the workspace.
    pub name: Option<String>,
    /// Where it starts, absolute.
    #[serde(with = "raw_path")]
    pub cwd: PathBuf,
    /// Which shell.
    pub shell: Shell,
    /// Its window.
    pub size: Size,
    /// What its environment is put together from.
    pub env: EnvSources,
    /// What may be run in it.
    pub policy: Permissions,
    /// What holds for it, and for sessions at large.
    pub defaults: SessionDefaults,
}

/// What the environment of a session that belongs to no task is put together from. What comes later
/// wins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnvSources {
    /// The caller's environment, filtered: the allow-list, and what `pass` names.
    pub client: ClientEnv,
    /// `[defaults] env` of `agents.toml`.
    pub defaults: BTreeMap<String, String>,
    /// `[defaults] env_pass` of `agents.toml`.
    pub pass: Vec<String>,
    /// `--env`.
    pub told: BTreeMap<String, String>,
}

/// A session in lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionLine {
    /// The session.
    pub session_id: SessionId,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// `starting`, `idle`, `busy`, `closing`; of one that has ended, `closed` or `expired`.
    pub state: String,
    /// What it is for: for people and models, never in AHP state.
    pub origin: Origin,
    /// Who holds its terminal.
    pub claim: Claim,
    /// The shell's pid; null while starting, and after the end.
    pub pid: Option<i32>,
    /// Which shell.
    pub shell: Shell,
    /// Where it was opened: as `shown_path` writes it.
    pub cwd: String,
    /// Its window.
    pub size: Size,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it was last used: a command began or ended, input came, somebody read.
    pub used_at: Timestamp,
    /// How long it may stay unused, in ms; null for one that ends with its task or its command.
    pub ttl_ms: Option<u64>,
    /// How many commands it was given.
    pub command_count: u32,
    /// How it ended; null while it is open.
    pub closed: Option<Closed>,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub why: ClosedWhy,
    /// Processes that could not be ended.
    pub survivors: Vec<Child>,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedWhy {
    /// It was asked to: by a person, its task, its only command or its coordinator's end.
    Closed,
    /// Nobody used it for its `ttl_ms`.
    Unused,
    /// Its shell ended.
    ShellEnded,
    /// It could not be opened.
    NotOpened,
    /// Its holder or its coordinator was killed.
    Lost,
}

/// What a session is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// `task`, `exec`, `session`.
    pub purpose: String,
    /// The command it was opened for, or its latest.
    pub command: Option<String>,
    /// `RUN/ID`.
    pub task: Option<String>,
    /// True for a service.
    pub service: bool,
}

/// What somebody who looks has seen already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// `SessionView::changes`.
    pub changes: u64,
    /// `SessionView::end`.
    pub end: u64,
}

/// A session as somebody sees it who reads its transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// The session.
    pub session: SessionLine,
    /// Grows whenever anything but the transcript's end changes.
    pub changes: u64,
    /// The transcript's end, as it was last told. The file may be further by now.
    pub end: u64,
    /// For how long nothing was printed, in ms.
    pub quiet_ms: u64,
    /// The command that was asked for, or the latest; null where there is none.
    pub command: Option<CommandView>,
    /// What was lately typed and has been echoed by the terminal.
    pub echoes: Vec<Echo>,
}

/// A command as far as it has come, without its texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandView {
    /// Its id.
    pub command_id: CommandId,
    /// Its text.
    pub command: String,
    /// Where it stands.
    pub state: CommandState,
    /// Why it did not complete.
    pub reason: Option<Reason>,
    /// The shell's status.
    pub exit_code: Option<i32>,
    /// What it waits for.
    pub awaiting: Option<Awaiting>,
    /// Where its bytes begin in the transcript; null while it is queued.
    pub from: Option<u64>,
    /// Where they end; null until it has.
    pub end: Option<u64>,
    /// How many processes it left running, which may print on.
    pub left_running: usize,
}

/// Typed text that comes back in the transcript, from `offset` on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// The transcript's end when it was typed, or shortly before.
    pub offset: u64,
    /// The text, as it was typed.
    pub text: String,
}
