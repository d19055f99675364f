//! The clean environment of a session: every variable with where it comes from.
//!
//! A session inherits nothing. Its environment is put together from layers, the later over the
//! earlier:
//!
//! 1. the allow-list, taken from the client that submitted the work;
//! 2. built-in defaults, which keep editors and pagers from waiting for a person;
//! 3. `[defaults] env` of `agents.toml`, then the agent's `env`;
//! 4. the client's values of what some `env_pass` names;
//! 5. the task's `env` (that of the manifest's `[defaults]` is merged into it), or `--env`;
//! 6. `PORT_<NAME>` for the task's ports;
//! 7. callboard's own: `CALLBOARD_*` and a private `TMPDIR`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use super::event::ClientEnv;
use super::plan::{Agent, Plan, TaskSpec};

/// Taken from the client as they are; `LC_*` as well. `TERM` and `TMPDIR` are not among them: the
/// terminal is ours, and so is the private temp.
const ALLOWED: &[&str] = &["HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ"];

/// What programs may count on, whoever started us.
const BUILT_IN: &[(&str, &str)] = &[
    ("TERM", "xterm-256color"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// Where programs are looked for when the client does not say.
const FALLBACK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A variable of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
    /// True when the value is not to be shown.
    pub secret: bool,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The client's environment, by the allow-list.
    AllowList,
    /// callboard's defaults, or what stands in for a variable that the client lacks.
    BuiltIn,
    /// `[defaults] env` of `agents.toml`.
    AgentDefaults,
    /// The agent's `env`.
    Agent,
    /// The client's environment, by some `env_pass`.
    EnvPass,
    /// `env` in the manifest: the task's, or that of `[defaults]`.
    Manifest,
    /// `--env` on the command line.
    CommandLine,
    /// The task's `ports`.
    Port,
    /// callboard itself.
    Callboard,
}

/// What an environment is put together from.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// What the client captured.
    pub client: &'a ClientEnv,
    /// `[defaults] env` of `agents.toml`.
    pub default_env: &'a BTreeMap<String, String>,
    /// `[defaults] env_pass` of `agents.toml`.
    pub default_env_pass: &'a [String],
    /// Who works in the session, if anybody in particular.
    pub agent: Option<&'a Agent>,
    /// What for, if for a task.
    pub task: Option<&'a TaskSpec>,
    /// `--env`.
    pub command_line: &'a BTreeMap<String, String>,
    /// The session.
    pub session: &'a SessionFacts,
}

/// What only the session itself can say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// Its id, as `CALLBOARD_SESSION`.
    pub session: String,
    /// Its private temp, as `TMPDIR`.
    pub tmp: String,
    /// The coordinator's socket, as `CALLBOARD_SOCKET`.
    pub socket: Option<String>,
    /// The board's snapshot file, as `CALLBOARD_BOARD`.
    pub board: Option<String>,
    /// `RUN/ID`, as `CALLBOARD_TASK`.
    pub task: Option<String>,
    /// The attempt's number, as `CALLBOARD_ATTEMPT`.
    pub attempt: Option<u32>,
    /// The file with what earlier tasks published, as `CALLBOARD_INPUTS`.
    pub inputs: Option<String>,
}

/// The whole environment of a session, by name.
#[must_use]
pub fn snapshot(layers: &Layers<'_>) -> Vec<Variable> {
    let mut variables = Snapshot::default();
    variables.fallbacks(&layers.session.tmp);
    for (name, value) in &layers.client.allowed {
        // An empty PATH or HOME is as good as none.
        let stands = !value.is_empty() || !matches!(name.as_str(), "HOME" | "PATH");
        if is_allowed(name) && stands {
            variables.set(name, value, Origin::AllowList);
        }
    }
    for (name, value) in BUILT_IN {
        variables.set(name, value, Origin::BuiltIn);
    }
    variables.set_all(layers.default_env, Origin::AgentDefaults);
    if let Some(agent) = layers.agent {
        variables.set_all(&agent.env, Origin::Agent);
    }
    for name in passed_names(layers) {
        if let Some(value) = layers.client.passed.get(name) {
            variables.set(name, value, Origin::EnvPass);
        }
    }
    if let Some(task) = layers.task {
        variables.set_all(&task.env, Origin::Manifest);
    }
    variables.set_all(layers.command_line, Origin::CommandLine);
    for (name, port) in layers.task.iter().flat_map(|task| &task.ports) {
        variables.set(&port_variable(name), &port.to_string(), Origin::Port);
    }
    variables.own(layers.session);
    variables.0.into_values().collect()
}

/// Names that `env_pass` asks for and the client's capture lacks. A session that lacks one does
/// not start: its task would find out later, and worse.
#[must_use]
pub fn missing<'a>(layers: &Layers<'a>) -> Vec<&'a str> {
    let passed = &layers.client.passed;
    passed_names(layers).into_iter().filter(|name| !passed.contains_key(*name)).collect()
}

/// Every name that the plan takes from the client's environment beyond the allow-list.
#[must_use]
pub fn names_to_pass(plan: &Plan) -> BTreeSet<String> {
    let agents = plan.agents.iter().flat_map(|agent| &agent.env_pass);
    let tasks = plan.tasks.iter().flat_map(|task| &task.env_pass);
    plan.default_env_pass.iter().chain(agents).chain(tasks).cloned().collect()
}

/// What a client hands over of its environment: the allow-list, and what `pass` names.
///
/// Values that are not UTF-8 are left out, since the control grammar is JSON; a locale or a path
/// in another encoding is better absent than mangled. For names in `pass` the check of the
/// manifest says so beforehand, provided that it looks variables up as UTF-8.
#[must_use]
pub fn filter_client_env(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    pass: &BTreeSet<String>,
) -> ClientEnv {
    let mut client = ClientEnv::default();
    for (name, value) in variables {
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else { continue };
        if pass.contains(&name) {
            client.passed.insert(name.clone(), value.clone());
        }
        if is_allowed(&name) {
            client.allowed.insert(name, value);
        }
    }
    client
}

/// The variable that a port is given as: `web-1` is `PORT_WEB_1`.
#[must_use]
pub fn port_variable(name: &str) -> String {
    let upper =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    "PORT_".chars().chain(upper).collect()
}

/// Name and value of each, as a session's specification takes them.
#[must_use]
pub fn pairs(variables: Vec<Variable>) -> Vec<(String, String)> {
    variables.into_iter().map(|variable| (variable.name, variable.value)).collect()
}

#[derive(Default)]
struct Snapshot(BTreeMap<String, Variable>);

impl Snapshot {
    fn set(&mut self, name: &str, value: &str, origin: Origin) {
        let variable = Variable {
            name: name.to_owned(),
            value: value.to_owned(),
            origin,
            secret: is_secret(name, value, origin),
        };
        self.0.insert(variable.name.clone(), variable);
    }

    fn set_all(&mut self, env: &BTreeMap<String, String>, origin: Origin) {
        for (name, value) in env {
            self.set(name, value, origin);
        }
    }

    /// `HOME` falls back to the private temp: it can be written to, and what lands there is gone
    /// with the session.
    fn fallbacks(&mut self, tmp: &str) {
        self.set("PATH", FALLBACK_PATH, Origin::BuiltIn);
        if !tmp.is_empty() {
            self.set("HOME", tmp, Origin::BuiltIn);
        }
    }

    fn own(&mut self, facts: &SessionFacts) {
        // Only ours: no file or flag can set these, not even where we have nothing to say.
        self.0.retain(|name, _| !name.starts_with("CALLBOARD_") && name != "TMPDIR");
        let attempt = facts.attempt.map(|attempt| attempt.to_string());
        let own = [
            ("CALLBOARD_SESSION", Some(&facts.session)),
            ("TMPDIR", Some(&facts.tmp)),
            ("CALLBOARD_SOCKET", facts.socket.as_ref()),
            ("CALLBOARD_BOARD", facts.board.as_ref()),
            ("CALLBOARD_TASK", facts.task.as_ref()),
            ("CALLBOARD_ATTEMPT", attempt.as_ref()),
            ("CALLBOARD_INPUTS", facts.inputs.as_ref()),
        ];
        for (name, value) in own {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.set(name, value, Origin::Callboard);
            }
        }
    }
}

fn passed_names<'a>(layers: &Layers<'a>) -> BTreeSet<&'a str> {
    let agent = layers.agent.map_or(&[][..], |agent| &agent.env_pass);
    let task = layers.task.map_or(&[][..], |task| &task.env_pass);
    layers.default_env_pass.iter().chain(agent).chain(task).map(String::as_str).collect()
}

fn is_allowed(name: &str) -> bool {
    ALLOWED.contains(&name) || name.starts_with("LC_")
}

/// Whether a value is to be hidden. A value taken by `env_pass` is, unless its name is one that
/// never holds a secret: most of what is passed on purpose is a credential. Others are by the
/// words of their name, and by a password in what looks like a URL.
fn is_secret(name: &str, value: &str, origin: Origin) -> bool {
    match origin {
        Origin::BuiltIn | Origin::AllowList | Origin::Port | Origin::Callboard => false,
        Origin::EnvPass if !is_plain(name) => true,
        _ => looks_secret(name, value),
    }
}

/// Whether a variable of nobody's choosing looks like a secret: by the words of its name, or by a
/// password in what looks like a URL.
#[must_use]
pub fn looks_secret(name: &str, value: &str) -> bool {
    names_a_secret(name) || has_password(value)
}

/// Names that are passed on and never hold a secret.
fn is_plain(name: &str) -> bool {
    const PLAIN: &[&str] = &[
        "CI",
        "COLORTERM",
        "DISPLAY",
        "EDITOR",
        "FORCE_COLOR",
        "NO_COLOR",
        "TERM",
        "VISUAL",
        "WAYLAND_DISPLAY",
    ];
    is_allowed(name) || PLAIN.contains(&name) || name.starts_with("XDG_")
}

fn names_a_secret(name: &str) -> bool {
    /// Anywhere in the name.
    const PARTS: &[&str] =
        &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY"];
    /// As a whole word of it: `KEY` is in `MONKEY` too, and `AUTH` in `AUTHOR`.
    const WORDS: &[&str] =
        &["KEY", "KEYS", "AUTH", "PASS", "PAT", "PRIVATE", "COOKIE", "COOKIES", "JWT", "DSN"];
    let name = name.to_ascii_uppercase();
    PARTS.iter().any(|part| name.contains(part))
        || name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

/// `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

#[cfg(test)]
mod tests;
