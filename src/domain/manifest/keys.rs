//! Every key of both files (design, sections 7.3 and 7.4): what it takes and whether its machinery
//! is there. A key that nothing acts on yet is refused, never ignored.

use super::shape::Shape::{self, *};

/// A key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) support: Support,
    /// For the schema.
    #[cfg_attr(not(test), expect(dead_code, reason = "the schemas are made by a test"))]
    pub(super) about: &'static str,
}

/// Whether a key's machinery is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// Yes.
    Full,
    /// For this value only, which asks for what happens anyway.
    Only(&'static str),
    /// No.
    None,
}

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, support: Support::Full, about }
}

const fn only(name: &'static str, shape: Shape, value: &'static str, about: &'static str) -> Key {
    Key { name, shape, support: Support::Only(value), about }
}

const fn later(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, support: Support::None, about }
}

/// The shells that there are drivers for.
pub(super) const SHELLS: &[&str] = &["bash", "zsh", "fish", "sh"];

/// The words of `tracing`.
pub(super) const TRACING: &[&str] = &["auto", "on", "off"];

/// The top of a manifest.
pub(super) const MANIFEST: &[Key] = &[
    key("workspace", Table, "The folder that the tasks share."),
    key(
        "defaults",
        Table,
        "Values for every task that does not give its own; any task key but `id`.",
    ),
    key("task", Tables, "The tasks, each a `[[task]]`."),
];

/// `[workspace]`.
pub(super) const WORKSPACE: &[Key] = &[
    key("id", Name, "The workspace's name; the folder's, if not given."),
    key("root", Text, "The folder, relative to the manifest."),
    later("shared", Globs, "Files that may be written by several tasks at once."),
    later("caches", Tags, "Package caches that every sandbox may write: npm, pip, cargo …"),
    later("orchestrator", Name, "The agent that answers escalations."),
    later("budget", Any, "What the run may spend."),
];

/// `[[task]]`, and `[defaults]` but for `id`.
pub(super) const TASK: &[Key] = &[
    key("id", Name, "The task's name, unique in the manifest."),
    key("needs", Tags, "Tags; an agent has to carry all of them."),
    key("after", Dependencies, "Tasks that have to end first, and how (success, if not said)."),
    key(
        "run",
        Script,
        "The script; a list is one command each in the same session, stopping at the first that does not complete.",
    ),
    later("prompt", Text, "What an agent is told to do."),
    later("shard", Shard, "Splits a test suite."),
    key("cwd", Text, "Where to run, relative to the root."),
    key("env", Env, "Environment variables; those of `[defaults]` stay unless named here."),
    key("env_pass", Variables, "Variables taken from the caller's environment."),
    key("shell", Word(SHELLS), "The session's shell; bash, if not given."),
    key(
        "shell_profile",
        Flag,
        "Whether the session has the variables, aliases and functions of the user's own shell.",
    ),
    key("writes", Globs, "Files that the task means to write, relative to the root."),
    key("ports", Ports, "Ports by name, given to the task as `PORT_<NAME>`."),
    key("priority", Number(i64::MIN, i64::MAX), "Greater goes first among ready tasks."),
    key("class", Word(&["quick", "build", "test"]), "The time-limit tier: 30 s, 5 min or 10 min."),
    key("timeout", Duration, "Exact time limit of each command."),
    key(
        "hard_timeout",
        Duration,
        "With it, a command that shows signs of life outlives `timeout` up to this limit.",
    ),
    key("input_timeout", Duration, "How long a command may wait for input; 10 min, if not given."),
    key("retries", Number(0, u32::MAX as i64), "Attempts beyond the first."),
    key(
        "on_input",
        OnInput,
        "Answers to prompts, or what to do about them; a list may end with \"escalate\" or \"fail\".",
    ),
    key("stop_on", StopRules, "Output that ends a command early."),
    key("service", Service, "The last command is a service, ready when this holds."),
    key("verify", Text, "A script that has to succeed after `run`."),
    key(
        "publish",
        Published,
        "What goes on the board once the task has succeeded, each a value or \"@file\"; a bare name stands for `contract/NAME`.",
    ),
    key("artifacts", Globs, "Files to list in the report, relative to the root."),
    key(
        "isolation",
        Word(&["shared", "worktree"]),
        "Where the task's files are: in the root with all others, or in a git worktree of its own.",
    ),
    key(
        "merge",
        Word(&["auto", "keep"]),
        "How a worktree comes back: merged into the run's branch, or kept on its own.",
    ),
    key(
        "tracing",
        Word(TRACING),
        "Whether the kernel tells what the task changes: where that costs no rights, if not given.",
    ),
    later("sandbox", Any, "What the task may reach."),
    key("policy", Permissions, "What the task may run, beside what `[policy]` says."),
    key("limits", Limits, "What each command may take."),
    later("budget", Any, "What the task may spend."),
];

/// An entry of `after`.
pub(super) const DEPENDENCY: &[Key] = &[
    key("task", Name, "The task's id."),
    key("when", Word(&["success", "done", "failure"]), "How it has to end."),
];

/// An entry of `on_input`.
pub(super) const INPUT_RULE: &[Key] = &[
    key("match", Text, "A regular expression, searched in the prompt."),
    key("send", Text, "What is typed, byte for byte; no newline is added."),
];

/// An entry of `stop_on`.
pub(super) const STOP_RULE: &[Key] = &[
    key("match", Text, "A regular expression, searched in each line of the output."),
    key("reason", Text, "Said of the command that it ended."),
];

/// `service`.
pub(super) const SERVICE: &[Key] = &[
    key("ready", Text, "\"port:NAME\", \"http:URL\" or \"log:PATTERN\"."),
    only("keep", Word(&["run", "workspace"]), "run", "How long the service stays."),
];

/// `limits`.
pub(super) const LIMITS: &[Key] = &[
    key("output", Size, "How much it may print, both streams together."),
    key("memory", Size, "How much memory it may use, with all that runs in its session."),
    key(
        "processes",
        Number(1, u32::MAX as i64),
        "How many processes and threads may be in its session, besides the shell.",
    ),
    key("cpu", Duration, "How much processor time it may use, over all processors."),
];

/// `shard`.
pub(super) const SHARD: &[Key] = &[
    key("runner", Text, "The test runner."),
    key("count", Number(1, u32::MAX as i64), "How many parts."),
];

/// The top of an `agents.toml`.
pub(super) const AGENTS: &[Key] = &[
    key("defaults", Table, "What holds for every session."),
    key("policy", Permissions, "What may be run: allow, ask, deny."),
    key("agent", Tables, "The agents, each an `[[agent]]`."),
];

/// `[defaults]` of `agents.toml`.
pub(super) const AGENT_DEFAULTS: &[Key] = &[
    key("shell", Word(SHELLS), "The sessions' shell; bash, if not given."),
    key("env", Env, "Environment variables of every session."),
    key("env_pass", Variables, "Variables taken from the caller's environment."),
    key(
        "max_sessions",
        Number(1, u32::MAX as i64),
        "How many sessions may be open, those of tasks left out; 256, if not given.",
    ),
    key("session_ttl", Duration, "How long an unused session stays; 30m, if not given."),
    key(
        "retention",
        Duration,
        "How long what a session said stays readable after its end; 7 days (168h), if not given.",
    ),
];

/// `[policy]` of `agents.toml`.
pub(super) const POLICY: &[Key] = &[
    key("allow", Texts, "What may be run."),
    key("ask", Texts, "What needs a person's word."),
    key("deny", Texts, "What may not be run."),
];

/// `[[agent]]`.
pub(super) const AGENT: &[Key] = &[
    key("name", Name, "The agent's name, unique in the file."),
    key("tags", Tags, "What it can do."),
    only(
        "adapter",
        Word(&["shell", "cli", "acp"]),
        "shell",
        "How its program is started and read.",
    ),
    later("command", Texts, "The program and its arguments."),
    key(
        "capacity",
        Number(1, u32::MAX as i64),
        "How many tasks it takes at a time; 1, if not given.",
    ),
    key("env", Env, "Environment variables of its sessions."),
    key("env_pass", Variables, "Variables taken from the caller's environment."),
    key("limits", Limits, "What each command may take; of a task's limit and this one the lesser."),
    key("policy", Permissions, "What it may run, beside what `[policy]` says."),
    later("sandbox", Any, "What it may reach."),
];

/// Every table with its name, for "that key belongs elsewhere".
pub(super) const TABLES: &[(&str, &[Key])] = &[
    ("[[task]]", TASK),
    ("[workspace]", WORKSPACE),
    ("[[agent]] of agents.toml", AGENT),
    ("[defaults] of agents.toml", AGENT_DEFAULTS),
];

/// What people write who know other tools.
pub(super) const SYNONYMS: &[(&str, &str)] = &[
    ("depend_on", "after"),
    ("depends_on", "after"),
    ("depends", "after"),
    ("dependencies", "after"),
    ("deps", "after"),
    ("requires", "after"),
    ("cmd", "run"),
    ("command", "run"),
    ("commands", "run"),
    ("script", "run"),
    ("steps", "run"),
    ("name", "id"),
    ("id", "name"),
    ("needs", "tags"),
    ("tags", "needs"),
    ("capabilities", "tags"),
    ("dir", "cwd"),
    ("workdir", "cwd"),
    ("working_dir", "cwd"),
    ("working_directory", "cwd"),
    ("environment", "env"),
    ("pass_env", "env_pass"),
    ("passenv", "env_pass"),
    ("forward", "env_pass"),
    ("tasks", "task"),
    ("agents", "agent"),
];
