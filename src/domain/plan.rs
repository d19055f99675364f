//! A checked manifest together with its agents: what a run works from. Everything that could be
//! wrong with the two files has been said by then (`domain::manifest`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::conflict::Tracing;
use super::ids::{AgentName, Tag, TaskId, WorkspaceId};
use super::permission::Permissions;
use super::raw_path;
use super::session::{SessionDefaults, Shell};
use super::shown_path;
use super::worktree::{Isolation, MergeWay};

/// What a run works from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `[workspace] id`, if given; the folder's name stands in otherwise.
    pub workspace_id: Option<WorkspaceId>,
    /// The workspace's root, absolute.
    #[serde(with = "raw_path")]
    pub root: PathBuf,
    /// The workers. Never empty: without an `agents.toml` there is the built-in `local`.
    pub agents: Vec<Agent>,
    /// `[defaults] env` of `agents.toml`.
    pub default_env: BTreeMap<String, String>,
    /// `[defaults] env_pass` of `agents.toml`.
    pub default_env_pass: Vec<String>,
    /// What `[defaults]` of `agents.toml` says of sessions.
    #[serde(default)]
    pub session_defaults: SessionDefaults,
    /// `[policy]` of `agents.toml`.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub policy: Permissions,
    /// `[defaults] shell` of `agents.toml`.
    #[serde(default)]
    pub default_shell: Shell,
    /// The tasks, in the manifest's order.
    pub tasks: Vec<TaskSpec>,
}

impl Plan {
    /// Whether some task has a worktree of its own.
    #[must_use]
    pub fn has_worktrees(&self) -> bool {
        self.tasks.iter().any(|task| !task.isolation.is_shared())
    }

    /// Whether two plans are of the same agents, with the same defaults around them, whatever their
    /// tasks.
    #[must_use]
    pub fn is_of_the_same_agents(&self, other: &Self) -> bool {
        let Self {
            workspace_id: _,
            root,
            agents,
            default_env,
            default_env_pass,
            session_defaults,
            policy,
            default_shell,
            tasks: _,
        } = self;
        *root == other.root
            && *agents == other.agents
            && *default_env == other.default_env
            && *default_env_pass == other.default_env_pass
            && *session_defaults == other.session_defaults
            && *policy == other.policy
            && *default_shell == other.default_shell
    }
}

/// A worker in `agents.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// What it can do.
    pub tags: Vec<Tag>,
    /// How it is started.
    pub adapter: AdapterKind,
    /// How many tasks it takes at a time; at least 1.
    pub capacity: u32,
    /// Added to the environment of its sessions.
    pub env: BTreeMap<String, String>,
    /// Names taken from the client's environment.
    pub env_pass: Vec<String>,
    /// What it may run.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub policy: Permissions,
    /// What each command of its sessions may take.
    #[serde(default)]
    pub resources: ResourceLimits,
}

/// How an agent's program is started and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterKind {
    /// The task's `run` in a shell session.
    Shell,
}

/// One task of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Unique in the manifest.
    pub id: TaskId,
    /// Tags that an agent must all carry.
    pub needs: Vec<Tag>,
    /// What has to end before.
    pub after: Vec<Dependency>,
    /// The commands, one after the other in one session; never empty.
    pub run: Vec<String>,
    /// Relative to the root, or absolute.
    #[serde(default, with = "shown_path::optional")]
    pub cwd: Option<PathBuf>,
    /// Added to the environment.
    pub env: BTreeMap<String, String>,
    /// Names taken from the client's environment.
    pub env_pass: Vec<String>,
    /// Named ports with their numbers, given as `PORT_<NAME>`.
    pub ports: BTreeMap<String, u16>,
    /// Globs of the files that it means to write, relative to the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// Greater goes first among ready tasks.
    pub priority: i64,
    /// The class that was told; recognised from the program otherwise.
    pub class: Option<Class>,
    /// Time limits of each command.
    pub limits: TimeLimits,
    /// What each command may take.
    #[serde(default)]
    pub resources: ResourceLimits,
    /// Attempts beyond the first that failures, time-outs and interruptions may spend.
    pub retries: u32,
    /// What to do when a command waits for input.
    pub on_input: OnInput,
    /// Patterns that end a command early.
    pub stop_on: Vec<StopRule>,
    /// Present when the last command is a service.
    pub service: Option<Service>,
    /// A script that has to succeed after `run`, in the same session.
    pub verify: Option<String>,
    /// Its sessions' shell; that of `agents.toml` if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<Shell>,
    /// Whether its sessions have what the user's own shell has.
    #[serde(default)]
    pub shell_profile: bool,
    /// Whether the kernel tells what its processes change.
    #[serde(default)]
    pub tracing: Tracing,
    /// Globs of files to list in the report, relative to the root.
    pub artifacts: Vec<String>,
    /// What it may run.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub policy: Permissions,
    /// What it puts on the board once it has succeeded, by board key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub publish: BTreeMap<String, Publication>,
    /// Where its files are.
    #[serde(default, skip_serializing_if = "Isolation::is_shared")]
    pub isolation: Isolation,
    /// How what it did in a worktree comes back.
    #[serde(default, skip_serializing_if = "MergeWay::is_auto")]
    pub merge: MergeWay,
}

/// What a task publishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Publication {
    /// What is in this file then, relative to the task's folder.
    File(PathBuf),
    /// This.
    Value(serde_json::Value),
}

impl TaskSpec {
    /// A task that has commands and nothing else.
    pub fn new(id: &str, run: &[&str]) -> Self {
        Self {
            id: id.into(),
            needs: Vec::new(),
            after: Vec::new(),
            run: run.iter().map(|&text| text.to_owned()).collect(),
            cwd: None,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            ports: BTreeMap::new(),
            writes: Vec::new(),
            priority: 0,
            class: None,
            limits: TimeLimits::default(),
            resources: ResourceLimits::default(),
            retries: 0,
            on_input: OnInput::default(),
            stop_on: Vec::new(),
            service: None,
            verify: None,
            shell: None,
            shell_profile: false,
            tracing: Tracing::Auto,
            artifacts: Vec::new(),
            policy: Permissions::default(),
            publish: BTreeMap::new(),
            isolation: Isolation::default(),
            merge: MergeWay::default(),
        }
    }
}

/// One entry of `after`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// Index into `Plan::tasks`.
    pub task: usize,
    /// Which end it has to come to.
    pub when: When,
}

/// The condition on a dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// It succeeded; a service: it is ready.
    #[default]
    Success,
    /// It failed, timed out or was cancelled.
    Failure,
    /// Any terminal state, skipped included.
    Done,
}

/// Time-limit tier of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// 30 s.
    Quick,
    /// 5 min.
    Build,
    /// 10 min.
    Test,
}

/// Time limits as the manifest or a flag gives them, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimits {
    /// Exact, chatty or not, unless there is a hard limit as well.
    pub timeout_ms: Option<u64>,
    /// With it the heartbeat applies to `timeout_ms`, and this one is exact.
    pub hard_timeout_ms: Option<u64>,
    /// How long a command may wait for input; 10 min when not set.
    pub input_timeout_ms: Option<u64>,
}

/// What a command may take: `limits` of a task or an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes that it may print over both streams together; whoever prints more is ended.
    pub output: Option<u64>,
    /// Bytes of memory that all of its session may have while it runs.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Processes and threads that may be in its session beside the shell.
    #[serde(default)]
    pub processes: Option<u64>,
    /// Processor time of its tree, in ms.
    #[serde(default)]
    pub cpu_ms: Option<u64>,
}

impl ResourceLimits {
    /// Both hold: of two limits the lesser.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let lesser = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            output: lesser(self.output, other.output),
            memory: lesser(self.memory, other.memory),
            processes: lesser(self.processes, other.processes),
            cpu_ms: lesser(self.cpu_ms, other.cpu_ms),
        }
    }
}

/// What to do when a command waits for input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnInput {
    /// Tried in order against the prompt; the first match is sent.
    pub rules: Vec<InputRule>,
    /// What to do when none matches.
    pub otherwise: Unanswered,
}

/// `{match, send}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRule {
    /// A regular expression, searched in the prompt.
    pub pattern: String,
    /// Sent byte for byte.
    pub send: String,
}

/// What becomes of a question that no rule answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// Ask the orchestrator or a person.
    #[default]
    Escalate,
    /// The task fails.
    Fail,
}

/// `{match, reason}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRule {
    /// A regular expression, searched in each line of the output.
    pub pattern: String,
    /// The manifest's own words for it.
    pub reason: Option<String>,
}

/// A task whose last command is a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// What shows that it is ready.
    pub ready: Ready,
}

/// What shows that a service is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// A process of its tree listens on this port.
    Port(u16),
    /// A GET of this URL is answered with a status below 400.
    Http(String),
    /// A line of its output matches.
    Log(String),
}
