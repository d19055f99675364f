//! The door: both files in, a plan or every problem out.

use std::collections::BTreeMap;
use std::path::Path;

use super::agents::Agents;
use super::findings::{Findings, Problem};
use super::keys;
use super::links::link;
use super::read::{entries, list, table};
use super::shape::Shape;
use super::source::{File, Text};
use super::spec::finish;
use super::syntax::{Item, parse};
use super::tags::Carriers;
use super::task::{Draft, Reader};
use super::variables::fill_in;
use super::workspace::Workspace;
use crate::domain::plan::Plan;

/// What is to be checked, and what the caller knows beside the files.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The manifest.
    pub manifest: File<'a>,
    /// The `agents.toml`, if there is one; without, the built-in agent `local` does the work.
    pub agents: Option<File<'a>>,
    /// The manifest's folder, absolute.
    pub base: &'a Path,
    /// The workspace's root when it was told (`--workspace`); absolute, or relative to `base`.
    pub root_override: Option<&'a Path>,
    /// What `${{NAME}}` stands for (`--var`).
    pub variables: &'a BTreeMap<String, String>,
    /// Whether the caller's environment has this variable, as UTF-8.
    pub passed: &'a dyn Fn(&str) -> bool,
    /// How many tasks the built-in agent takes at a time: the machine's cores.
    pub local_capacity: u32,
}

/// Checks both files and what lies between them.
///
/// # Errors
/// Every problem, the manifest's first, each file's in the order of its lines.
pub fn check(sources: &Sources<'_>) -> Result<Plan, Vec<Problem>> {
    let mut agent_problems = Vec::new();
    // `None` when the file is too broken to say who carries what.
    let agents = match sources.agents {
        None => Some(Agents::local(sources.local_capacity)),
        Some(file) => {
            let (agents, problems) = read_agents(file, sources.passed, sources.local_capacity);
            agent_problems = problems;
            agents
        }
    };
    let (plan, mut problems) = match Text::decode(sources.manifest) {
        Ok(text) => read_manifest(&text, sources, agents.as_ref()),
        Err(problem) => (None, vec![problem]),
    };
    problems.append(&mut agent_problems);
    match (plan, agents) {
        (Some(plan), Some(agents)) if problems.is_empty() => Ok(Plan {
            agents: agents.agents,
            default_env: agents.default_env,
            default_env_pass: agents.default_env_pass,
            session_defaults: agents.session_defaults,
            ..plan
        }),
        _ => Err(problems),
    }
}

/// Checks an `agents.toml` by itself; `passed` and `local_capacity` as in `Sources`.
///
/// # Errors
/// Every problem, in the order of the file.
pub fn check_agents(
    file: File<'_>,
    passed: &dyn Fn(&str) -> bool,
    local_capacity: u32,
) -> Result<Agents, Vec<Problem>> {
    match read_agents(file, passed, local_capacity) {
        (Some(agents), problems) if problems.is_empty() => Ok(agents),
        (_, problems) => Err(problems),
    }
}

fn read_agents(
    file: File<'_>,
    passed: &dyn Fn(&str) -> bool,
    local_capacity: u32,
) -> (Option<Agents>, Vec<Problem>) {
    let text = match Text::decode(file) {
        Ok(text) => text,
        Err(problem) => return (None, vec![problem]),
    };
    let mut findings = Findings::of(&text);
    let agents = Agents::read(passed, local_capacity, &mut findings);
    let whole = !findings.has_syntax_errors();
    (whole.then_some(agents), findings.into_problems())
}

/// The manifest's part of the plan. It may lack anything when there are problems.
fn read_manifest(
    text: &Text<'_>,
    sources: &Sources<'_>,
    agents: Option<&Agents>,
) -> (Option<Plan>, Vec<Problem>) {
    let mut findings = Findings::of(text);
    let mut tree = parse(text.content(), &mut findings);
    fill_in(&mut tree, sources.variables, &mut findings);

    let mut workspace = Workspace::default();
    let mut reader = Reader::new(sources.passed);
    let mut defaults = Draft::default();
    let mut tasks = None;
    for (key, item) in entries(&tree, keys::MANIFEST, &mut findings) {
        match key {
            "workspace" => {
                if let Some(table) = table(key, Shape::Table, item, &mut findings) {
                    workspace = Workspace::read(table, &mut findings);
                }
            }
            "defaults" => defaults = read_defaults(item, &mut reader, &mut findings),
            _ => tasks = Some(item),
        }
    }
    let drafts = read_tasks(tasks, &defaults, &mut reader, &mut findings);
    let empty = match tree.get("task").map(|item| item.get_ref().as_array()) {
        None => true,
        Some(array) => array.is_some_and(|array| array.is_empty()),
    };
    if empty {
        let span = tasks.map_or(0..0, |item| item.span());
        let hint = "add one: [[task]], id = \"hello\", run = \"echo hello\"".to_owned();
        findings.absent(span, "the manifest has no tasks", hint);
    }
    if let Some(agents) = agents {
        let mut carriers = Carriers::of(&agents.agents);
        for draft in &drafts {
            carriers.check(draft.needs.as_deref().unwrap_or_default(), &mut findings);
        }
    }
    let mut dependencies = link(&drafts, &mut findings);
    let specs = drafts
        .into_iter()
        .zip(dependencies.drain(..))
        .map(|(draft, after)| finish(draft, after, &mut findings))
        .collect();
    let plan = Plan {
        root: workspace.root(sources.base, sources.root_override),
        workspace_id: workspace.id,
        agents: Vec::new(),
        default_env: BTreeMap::new(),
        default_env_pass: Vec::new(),
        session_defaults: Default::default(),
        tasks: specs,
    };
    (Some(plan), findings.into_problems())
}

fn read_defaults(item: &Item<'_>, reader: &mut Reader<'_>, findings: &mut Findings<'_>) -> Draft {
    let Some(table) = table("defaults", Shape::Table, item, findings) else {
        return Draft::default();
    };
    if let Some((name, _)) = table.get_key_value("id") {
        findings.wrong(name.span(), "`id` belongs in each [[task]], not in [defaults]");
    }
    let mut defaults = reader.read(table, item.span(), findings);
    defaults.id = None;
    defaults
}

fn read_tasks(
    tasks: Option<&Item<'_>>,
    defaults: &Draft,
    reader: &mut Reader<'_>,
    findings: &mut Findings<'_>,
) -> Vec<Draft> {
    let Some(item) = tasks else { return Vec::new() };
    let mut drafts = Vec::new();
    for item in list("task", Shape::Tables, item, findings) {
        if let Some(table) = table("task", Shape::Table, item, findings) {
            let header = item.span();
            if !table.contains_key("id") {
                let hint = "add id = \"…\"".to_owned();
                findings.absent(header.clone(), "the task has no `id`", hint);
            }
            drafts.push(reader.read(table, header, findings).or(defaults));
        }
    }
    drafts
}
