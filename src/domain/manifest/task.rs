//! One task, or the `[defaults]` of all: read value by value, then made whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use toml::de::DeTable;

use super::answers::{Patterns, ReadyWhen};
use super::findings::Findings;
use super::keys::{DEPENDENCY, TASK};
use super::permissions::permissions;
use super::publish::publish;
use super::read::{At, duration, entries, env, env_pass, filled, globs, list, name, tags, word};
use super::read::{flag, limits, number, shell, table, tracing};
use super::shape::{Shape, noun_of};
use super::syntax::Item;
use super::words::shown;
use crate::domain::conflict::Tracing;
use crate::domain::permission::Permissions;
use crate::domain::plan::{Class, OnInput, Publication, ResourceLimits, StopRule, When};
use crate::domain::session::Shell;
use crate::domain::worktree::{Isolation, MergeWay};

/// What a task or `[defaults]` says, each value by itself; `None` where it says nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) header: Range<usize>,
    pub(super) id: Option<At<String>>,
    pub(super) needs: Option<Vec<At<String>>>,
    pub(super) after: Option<Vec<Link>>,
    pub(super) work: Work,
    pub(super) cwd: Option<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) env_pass: Option<Vec<String>>,
    pub(super) ports: Option<BTreeMap<String, u16>>,
    pub(super) shell: Option<Shell>,
    pub(super) shell_profile: Option<bool>,
    pub(super) tracing: Option<Tracing>,
    pub(super) priority: Option<i64>,
    pub(super) class: Option<Class>,
    pub(super) timeout: Option<At<u64>>,
    pub(super) hard_timeout: Option<At<u64>>,
    pub(super) input_timeout: Option<At<u64>>,
    pub(super) resources: Option<ResourceLimits>,
    pub(super) retries: Option<u32>,
    pub(super) on_input: Option<OnInput>,
    pub(super) stop_on: Option<Vec<StopRule>>,
    pub(super) service: Option<At<ReadyWhen>>,
    pub(super) verify: Option<String>,
    pub(super) writes: Option<Vec<String>>,
    pub(super) artifacts: Option<Vec<String>>,
    pub(super) policy: Option<Permissions>,
    pub(super) publish: Option<BTreeMap<String, Publication>>,
    pub(super) isolation: Option<Isolation>,
    pub(super) merge: Option<At<MergeWay>>,
}

/// `run`, `prompt` and `shard`, of which a task has exactly one.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// The keys that are there.
    pub(super) given: Vec<(&'static str, Range<usize>)>,
    /// The commands of `run`, as far as they are in order.
    pub(super) run: Vec<String>,
}

/// An entry of `after`.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) task: At<String>,
    pub(super) when: When,
}

/// Reads tables of tasks one after the other.
pub(super) struct Reader<'a> {
    patterns: Patterns,
    passed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(passed: &'a dyn Fn(&str) -> bool) -> Self {
        Self { patterns: Patterns::default(), passed }
    }

    /// Reads `[defaults]` or a task.
    pub(super) fn read(
        &mut self,
        table: &DeTable<'_>,
        header: Range<usize>,
        findings: &mut Findings<'_>,
    ) -> Draft {
        let mut draft = Draft { header, ..Draft::default() };
        for key in ["run", "prompt", "shard"] {
            if let Some((name, _)) = table.get_key_value(key) {
                draft.work.given.push((key, name.span()));
            }
        }
        for (key, item) in entries(table, TASK, findings) {
            self.take(&mut draft, key, item, findings);
        }
        draft
    }

    fn take(
        &mut self,
        draft: &mut Draft,
        key: &'static str,
        item: &Item<'_>,
        findings: &mut Findings<'_>,
    ) {
        match key {
            "id" => draft.id = name(key, item, findings),
            "needs" => draft.needs = Some(tags(key, item, findings)),
            "after" => draft.after = Some(after(item, findings)),
            "run" => draft.work.run = run(item, findings),
            "cwd" => draft.cwd = filled(key, item, findings).map(|cwd| cwd.value.into()),
            "env" => draft.env = env(key, item, findings),
            "env_pass" => draft.env_pass = Some(env_pass(key, item, self.passed, findings)),
            "ports" => draft.ports = Some(ports(item, findings)),
            "shell" => draft.shell = shell(item, findings),
            "shell_profile" => draft.shell_profile = flag(key, item, findings),
            "tracing" => draft.tracing = tracing(item, findings),
            "priority" => draft.priority = number(key, (i64::MIN, i64::MAX), item, findings),
            "class" => draft.class = class(item, findings),
            "timeout" => draft.timeout = duration(key, item, findings),
            "hard_timeout" => draft.hard_timeout = duration(key, item, findings),
            "input_timeout" => draft.input_timeout = duration(key, item, findings),
            "limits" => draft.resources = Some(limits(item, findings)),
            "retries" => {
                draft.retries = number(key, (0, i64::from(u32::MAX)), item, findings)
                    .and_then(|retries| u32::try_from(retries).ok());
            }
            "on_input" => draft.on_input = Some(self.patterns.on_input(item, findings)),
            "stop_on" => draft.stop_on = Some(self.patterns.stop_on(item, findings)),
            "service" => draft.service = self.patterns.service(item, findings),
            "verify" => draft.verify = filled(key, item, findings).map(|verify| verify.value),
            "writes" => draft.writes = Some(globs(key, item, findings)),
            "artifacts" => draft.artifacts = Some(globs(key, item, findings)),
            "policy" => draft.policy = permissions(key, item, findings),
            "publish" => draft.publish = Some(publish(item, findings)),
            "isolation" => draft.isolation = isolation(item, findings),
            "merge" => draft.merge = merge(item, findings),
            // The rest are keys whose only accepted value is what happens anyway.
            _ => {}
        }
    }
}

impl Draft {
    /// What the task does not say is as `defaults` says; `env` is both, the task's over the other.
    #[must_use]
    pub(super) fn or(mut self, defaults: &Self) -> Self {
        fn fill<T: Clone>(own: &mut Option<T>, default: Option<&T>) {
            if own.is_none() {
                *own = default.cloned();
            }
        }
        fill(&mut self.needs, defaults.needs.as_ref());
        fill(&mut self.after, defaults.after.as_ref());
        if self.work.given.is_empty() {
            self.work.clone_from(&defaults.work);
        }
        fill(&mut self.cwd, defaults.cwd.as_ref());
        for (name, value) in &defaults.env {
            self.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        fill(&mut self.env_pass, defaults.env_pass.as_ref());
        fill(&mut self.ports, defaults.ports.as_ref());
        fill(&mut self.shell, defaults.shell.as_ref());
        fill(&mut self.shell_profile, defaults.shell_profile.as_ref());
        fill(&mut self.tracing, defaults.tracing.as_ref());
        fill(&mut self.priority, defaults.priority.as_ref());
        fill(&mut self.class, defaults.class.as_ref());
        fill(&mut self.timeout, defaults.timeout.as_ref());
        fill(&mut self.hard_timeout, defaults.hard_timeout.as_ref());
        fill(&mut self.input_timeout, defaults.input_timeout.as_ref());
        fill(&mut self.resources, defaults.resources.as_ref());
        fill(&mut self.retries, defaults.retries.as_ref());
        fill(&mut self.on_input, defaults.on_input.as_ref());
        fill(&mut self.stop_on, defaults.stop_on.as_ref());
        fill(&mut self.service, defaults.service.as_ref());
        fill(&mut self.verify, defaults.verify.as_ref());
        fill(&mut self.writes, defaults.writes.as_ref());
        fill(&mut self.artifacts, defaults.artifacts.as_ref());
        fill(&mut self.policy, defaults.policy.as_ref());
        fill(&mut self.publish, defaults.publish.as_ref());
        fill(&mut self.isolation, defaults.isolation.as_ref());
        fill(&mut self.merge, defaults.merge.as_ref());
        self
    }
}

fn after(item: &Item<'_>, findings: &mut Findings<'_>) -> Vec<Link> {
    let mut links = Vec::new();
    for item in list("after", Shape::Dependencies, item, findings) {
        let value = item.get_ref();
        if value.is_str() {
            if let Some(task) = name("after", item, findings) {
                links.push(Link { task, when: When::Success });
            }
        } else if let Some(table) = value.as_table() {
            links.extend(link(table, item.span(), findings));
        } else {
            let found = noun_of(value);
            let message = format!("`after` takes task ids or `{{task, when}}` tables, not {found}");
            findings.wrong(item.span(), message);
        }
    }
    links
}

fn link(table: &DeTable<'_>, span: Range<usize>, findings: &mut Findings<'_>) -> Option<Link> {
    let (mut task, mut when) = (None, Some(When::Success));
    for (key, item) in entries(table, DEPENDENCY, findings) {
        match key {
            "task" => task = name("after", item, findings),
            _ => {
                let word = word("when", &["success", "done", "failure"], item, findings);
                when = word.map(|word| match word {
                    "done" => When::Done,
                    "failure" => When::Failure,
                    _ => When::Success,
                });
            }
        }
    }
    if !table.contains_key("task") {
        let hint = "write it as in { task = \"build\", when = \"failure\" }".to_owned();
        findings.absent(span, "the entry of `after` has no `task`", hint);
    }
    Some(Link { task: task?, when: when? })
}

fn run(item: &Item<'_>, findings: &mut Findings<'_>) -> Vec<String> {
    if item.get_ref().is_str() {
        return filled("run", item, findings).into_iter().map(|script| script.value).collect();
    }
    let scripts = list("run", Shape::Script, item, findings);
    if scripts.is_empty() {
        findings.wrong(item.span(), "`run` is empty");
    }
    scripts.iter().filter_map(|item| filled("run", item, findings)).map(|it| it.value).collect()
}

fn class(item: &Item<'_>, findings: &mut Findings<'_>) -> Option<Class> {
    Some(match word("class", &["quick", "build", "test"], item, findings)? {
        "quick" => Class::Quick,
        "build" => Class::Build,
        _ => Class::Test,
    })
}

fn isolation(item: &Item<'_>, findings: &mut Findings<'_>) -> Option<Isolation> {
    Some(match word("isolation", &["shared", "worktree"], item, findings)? {
        "worktree" => Isolation::Worktree,
        _ => Isolation::Shared,
    })
}

fn merge(item: &Item<'_>, findings: &mut Findings<'_>) -> Option<At<MergeWay>> {
    let value = match word("merge", &["auto", "keep"], item, findings)? {
        "keep" => MergeWay::Keep,
        _ => MergeWay::Auto,
    };
    Some(At { value, span: item.span() })
}

fn ports(item: &Item<'_>, findings: &mut Findings<'_>) -> BTreeMap<String, u16> {
    let mut ports = BTreeMap::new();
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let Some(table) = table("ports", Shape::Ports, item, findings) else { return ports };
    for (name, item) in table {
        let port = name.get_ref();
        if port.is_empty() || !port.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            let message = format!("`ports`: `{}` is not a name for a port", shown(port));
            let hint = "use letters, digits, `-` and `_`".to_owned();
            findings.wrong_hinted(name.span(), message, hint);
            continue;
        }
        let variable = crate::domain::environment::port_variable(port);
        if let Some(other) = variables.insert(variable.clone(), port.to_string()) {
            let message = format!("`ports`: `{port}` and `{other}` would both be `{variable}`");
            findings.wrong(name.span(), message);
        }
        let Some(number) = number(&format!("ports.{port}"), (0, 65535), item, findings) else {
            continue;
        };
        match u16::try_from(number) {
            Ok(0) => {
                let message = format!("`ports.{port} = 0` (any free port) is not supported yet");
                findings.wrong_hinted(item.span(), message, "give it a number".to_owned());
            }
            Ok(number) => {
                ports.insert(port.to_string(), number);
            }
            Err(_) => {}
        }
    }
    ports
}
