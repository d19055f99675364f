//! `agents.toml`: the workers, and what holds for every session.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use toml::de::DeTable;

use super::findings::Findings;
use super::keys::{AGENT, AGENT_DEFAULTS, AGENTS};
use super::read::{duration, entries, env, env_pass, list, name, number, table, tags};
use super::shape::Shape;
use super::syntax::{Item, parse};
use super::words::shown;
use crate::domain::ids::{AgentName, Tag};
use crate::domain::plan::{AdapterKind, Agent};
use crate::domain::session::SessionDefaults;

/// Who can work, and what their sessions have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Agents {
    /// Never empty.
    pub agents: Vec<Agent>,
    /// `[defaults] env`.
    pub default_env: BTreeMap<String, String>,
    /// `[defaults] env_pass`.
    pub default_env_pass: Vec<String>,
    /// What `[defaults]` says of sessions.
    pub session_defaults: SessionDefaults,
}

impl Agents {
    /// The built-in agent `local`, without tags, that takes `capacity` tasks at a time (at least
    /// one): who works when nobody was named.
    pub fn local(capacity: u32) -> Self {
        let local = Agent {
            name: AgentName::from("local"),
            tags: Vec::new(),
            adapter: AdapterKind::Shell,
            capacity: capacity.max(1),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
        };
        Self {
            agents: vec![local],
            default_env: BTreeMap::new(),
            default_env_pass: Vec::new(),
            session_defaults: SessionDefaults::default(),
        }
    }

    /// Reads the file's text. A file that names no agent leaves the built-in one.
    pub(super) fn read(
        passed: &dyn Fn(&str) -> bool,
        capacity: u32,
        findings: &mut Findings<'_>,
    ) -> Self {
        let tree = parse(findings.text.content(), findings);
        let mut answer = Self::local(capacity);
        for (key, item) in entries(&tree, AGENTS, findings) {
            match key {
                "defaults" => answer.read_defaults(item, passed, findings),
                _ => answer.read_agents(item, passed, findings),
            }
        }
        answer
    }

    fn read_defaults(
        &mut self,
        item: &Item<'_>,
        passed: &dyn Fn(&str) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let Some(table) = table("defaults", Shape::Table, item, findings) else { return };
        for (key, item) in entries(table, AGENT_DEFAULTS, findings) {
            match key {
                "env" => self.default_env = env(key, item, findings),
                "env_pass" => self.default_env_pass = env_pass(key, item, passed, findings),
                "max_sessions" => {
                    self.session_defaults.max_sessions =
                        number(key, (1, i64::from(u32::MAX)), item, findings)
                            .and_then(|most| u32::try_from(most).ok());
                }
                "session_ttl" => {
                    self.session_defaults.ttl_ms =
                        duration(key, item, findings).map(|ttl| ttl.value);
                }
                "retention" => {
                    self.session_defaults.retention_ms =
                        duration(key, item, findings).map(|ttl| ttl.value);
                }
                _ => {}
            }
        }
    }

    fn read_agents(
        &mut self,
        item: &Item<'_>,
        passed: &dyn Fn(&str) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let mut first: HashMap<String, usize> = HashMap::new();
        let mut agents = Vec::new();
        for item in list("agent", Shape::Tables, item, findings) {
            let Some(table) = table("agent", Shape::Table, item, findings) else { continue };
            let (agent, span) = agent(table, item.span(), passed, findings);
            let line = findings.text.line(span.start);
            match first.get(agent.name.as_str()) {
                Some(line) if !agent.name.as_str().is_empty() => {
                    let name = shown(agent.name.as_str());
                    findings
                        .wrong(span, format!("agent `{name}` is there already, on line {line}"));
                }
                _ => {
                    first.insert(agent.name.as_str().to_owned(), line);
                }
            }
            agents.push(agent);
        }
        if !agents.is_empty() {
            self.agents = agents;
        }
    }
}

/// An agent and where its name stands; the name is empty when there is none.
fn agent(
    table: &DeTable<'_>,
    header: Range<usize>,
    passed: &dyn Fn(&str) -> bool,
    findings: &mut Findings<'_>,
) -> (Agent, Range<usize>) {
    let mut agent = Agent {
        name: AgentName::from(""),
        tags: Vec::new(),
        adapter: AdapterKind::Shell,
        capacity: 1,
        env: BTreeMap::new(),
        env_pass: Vec::new(),
    };
    let mut span = header.clone();
    for (key, item) in entries(table, AGENT, findings) {
        match key {
            "name" => {
                span = item.span();
                agent.name = AgentName::new(
                    name(key, item, findings).map(|name| name.value).unwrap_or_default(),
                );
            }
            "tags" => {
                let tags = tags(key, item, findings);
                agent.tags = tags.into_iter().map(|tag| Tag::new(tag.value)).collect();
            }
            "capacity" => {
                agent.capacity = number(key, (1, i64::from(u32::MAX)), item, findings)
                    .and_then(|capacity| u32::try_from(capacity).ok())
                    .unwrap_or(1);
            }
            "env" => agent.env = env(key, item, findings),
            "env_pass" => agent.env_pass = env_pass(key, item, passed, findings),
            _ => {}
        }
    }
    if !table.contains_key("name") {
        findings.absent(header, "the agent has no `name`", "add name = \"…\"".to_owned());
    }
    (agent, span)
}
