//! Whose sessions a verb speaks of: an agent's, a task's, or the workspace's at large.

use std::path::PathBuf;

use clap::Args;

use crate::cli::coordinator;
use crate::cli::failure::{Failure, Kind};
use crate::cli::sources::{self, PlanArgs};
use crate::domain::plan::{Agent, Plan, TaskSpec};

/// The agent and the task that are meant, and where they are said.
#[derive(Debug, Args)]
pub(super) struct Whose {
    /// As this agent's sessions have it
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// As this task's sessions have it
    #[arg(long, value_name = "T", requires = "manifest")]
    task: Option<String>,
    /// The task's manifest
    #[arg(long, value_name = "MANIFEST")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    sources: PlanArgs,
}

impl Whose {
    /// The manifest's plan; without a manifest, one of the agents alone.
    ///
    /// # Errors
    /// When a file is wrong.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        if let Some(manifest) = &self.manifest {
            return sources::load_to_show(manifest, &self.sources);
        }
        let here = sources::current_folder()?;
        let root = match &self.sources.workspace {
            Some(root) => sources::real_folder(root)?,
            None => coordinator::root_around(&here)?.unwrap_or(here),
        };
        let agents = sources::load_agents(self.sources.agents.as_deref(), &root)?;
        Ok(Plan {
            workspace_id: None,
            root,
            agents: agents.agents,
            default_env: agents.default_env,
            default_env_pass: agents.default_env_pass,
            session_defaults: agents.session_defaults,
            policy: agents.policy,
            default_shell: agents.default_shell,
            tasks: Vec::new(),
        })
    }

    /// The task that is meant, if one is.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(super) fn task<'a>(&self, plan: &'a Plan) -> Result<Option<&'a TaskSpec>, Failure> {
        self.task.as_deref().map(|name| find_task(plan, name)).transpose()
    }

    /// The agent that is meant; else the first that can take the task, if one is meant.
    ///
    /// # Errors
    /// When there is none of that name.
    pub(super) fn agent<'a>(&self, plan: &'a Plan) -> Result<Option<&'a Agent>, Failure> {
        match &self.agent {
            Some(name) => find_agent(plan, name).map(Some),
            None => Ok(self.task(plan)?.and_then(|task| first_taker(plan, task))),
        }
    }
}

fn find_agent<'a>(plan: &'a Plan, name: &str) -> Result<&'a Agent, Failure> {
    plan.agents.iter().find(|agent| agent.name.as_str() == name).ok_or_else(|| {
        let known: Vec<_> = plan.agents.iter().map(|agent| agent.name.as_str()).collect();
        Failure::new(Kind::NotFound, format!("no agent `{name}`"))
            .hint(format!("there is {}", known.join(", ")))
    })
}

fn find_task<'a>(plan: &'a Plan, name: &str) -> Result<&'a TaskSpec, Failure> {
    plan.tasks.iter().find(|task| task.id.as_str() == name).ok_or_else(|| {
        Failure::new(Kind::NotFound, format!("the manifest has no task `{name}`"))
            .hint("`callboard plan` lists the tasks")
    })
}

fn first_taker<'a>(plan: &'a Plan, task: &TaskSpec) -> Option<&'a Agent> {
    plan.agents.iter().find(|agent| task.needs.iter().all(|tag| agent.tags.contains(tag)))
}
