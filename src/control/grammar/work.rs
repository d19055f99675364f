//! Work to be done: a run, a command.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::session::EnvSources;
use crate::domain::event::{ClientEnv, RunOptions};
use crate::domain::ids::RunId;
use crate::domain::permission::Permissions;
use crate::domain::plan::{Class, Plan};
use crate::domain::raw_path;
use crate::domain::session::{SessionDefaults, Shell};

/// A run to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    /// The checked manifest with its agents.
    pub plan: Plan,
    /// Only these tasks (indices into the plan), when set.
    pub selected: Option<Vec<usize>>,
    /// Options.
    pub options: RunOptions,
    /// The caller's environment, filtered.
    pub env: ClientEnv,
    /// The id that the client has chosen for it, unguessable: with it the run is found again when
    /// the answer was lost with its coordinator. Asked again, it is answered again: there is never
    /// a second run.
    #[serde(default)]
    pub run: Option<RunId>,
    /// True when the run outlives its client (`--detach`); otherwise the run is cancelled once the
    /// connection that submitted it is gone.
    pub detach: bool,
}

/// One command to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// The text for the shell.
    pub text: String,
    /// Where a new session starts, absolute.
    #[serde(with = "raw_path")]
    pub cwd: PathBuf,
    /// True when the cwd was asked for: a session that is kept changes to it as well.
    pub cwd_given: bool,
    /// Which shell a session has that has to be made.
    pub shell: Shell,
    /// True when the shell was asked for: a session that is kept has to be one of that shell.
    pub shell_given: bool,
    /// What the environment of a session that has to be made is put together from.
    pub env: EnvSources,
    /// Exact time limit in ms.
    pub timeout_ms: Option<u64>,
    /// Tier, if told.
    pub class: Option<Class>,
    /// Answers, in order.
    pub inputs: Vec<String>,
    /// Patterns that end it early.
    pub stop_on: Vec<String>,
    /// One terminal for both streams.
    pub merge: bool,
    /// What may be run in a session that has to be made.
    pub policy: Permissions,
    /// Keep the session afterwards and reuse it next time under this name. The id of an open
    /// session will do as well; another one's is refused.
    pub session: Option<String>,
    /// What holds for a session that has to be made, and for sessions at large.
    pub defaults: SessionDefaults,
    /// The client's own, unguessable name for this call: with it the call is found again after its
    /// coordinator was lost (`Reclaim`).
    #[serde(default)]
    pub ticket: Option<String>,
}
