//! Plans in few words.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::domain::plan::{AdapterKind, Agent, Dependency, Plan, Ready, Service, TaskSpec, When};

/// A task with its dependencies by name.
pub(super) struct Draft {
    pub(super) spec: TaskSpec,
    after: Vec<(&'static str, When)>,
}

/// A task that runs `true`.
pub(super) fn task(id: &'static str) -> Draft {
    Draft { spec: spec(id), after: Vec::new() }
}

/// The bare record of such a task.
pub(super) fn spec(id: &str) -> TaskSpec {
    TaskSpec::new(id, &["true"])
}

impl Draft {
    pub(super) fn after(self, id: &'static str) -> Self {
        self.when(id, When::Success)
    }

    pub(super) fn when(mut self, id: &'static str, when: When) -> Self {
        self.after.push((id, when));
        self
    }

    pub(super) fn needs(mut self, tags: &[&str]) -> Self {
        self.spec.needs = tags.iter().map(|tag| (*tag).into()).collect();
        self
    }

    pub(super) fn priority(mut self, priority: i64) -> Self {
        self.spec.priority = priority;
        self
    }

    pub(super) fn retries(mut self, retries: u32) -> Self {
        self.spec.retries = retries;
        self
    }

    pub(super) fn service(mut self) -> Self {
        self.spec.service = Some(Service { ready: Ready::Log("ready".to_owned()) });
        self
    }
}

pub(super) fn agent(name: &str, tags: &[&str], capacity: u32) -> Agent {
    Agent {
        name: name.into(),
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
        adapter: AdapterKind::Shell,
        capacity,
        env: BTreeMap::new(),
        env_pass: Vec::new(),
    }
}

/// A plan of these tasks with one roomy agent `local`.
pub(super) fn plan(drafts: Vec<Draft>) -> Plan {
    plan_with(vec![agent("local", &[], 1_000)], drafts)
}

pub(super) fn plan_with(agents: Vec<Agent>, drafts: Vec<Draft>) -> Plan {
    let ids: Vec<String> = drafts.iter().map(|draft| draft.spec.id.to_string()).collect();
    let place = |id: &str| ids.iter().position(|known| known == id).unwrap();
    let tasks = drafts
        .into_iter()
        .map(|draft| {
            let mut spec = draft.spec;
            spec.after = draft
                .after
                .iter()
                .map(|(id, when)| Dependency { task: place(id), when: *when })
                .collect();
            spec
        })
        .collect();
    of_specs(agents, tasks)
}

pub(super) fn of_specs(agents: Vec<Agent>, tasks: Vec<TaskSpec>) -> Plan {
    Plan {
        workspace_id: None,
        root: PathBuf::from("/"),
        agents,
        default_env: BTreeMap::new(),
        default_env_pass: Vec::new(),
        session_defaults: Default::default(),
        tasks,
    }
}
