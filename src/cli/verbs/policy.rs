//! `callboard policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::failure::{Failure, Kind};
use crate::cli::sources::{self, PlanArgs};
use crate::cli::{coordinator, exit, output};
use crate::domain::permission::{Permissions, Verdict};
use crate::domain::plan::Plan;
use crate::domain::result::SCHEMA_VERSION;
use crate::policy::{self, Judgement};

/// Ask what the policy says
///
/// The policy is the `[policy]` of agents.toml, and what `policy` says of an agent or a task:
/// lists of rules, each a program with its first arguments. `deny` beats `ask` beats `allow`. It is
/// a guard against accidents, and no boundary: what a program does once it runs is out of its
/// sight.
#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Check(Check),
}

/// Say whether a script may run; runs nothing
///
/// Exits with 0 for allow, 126 for ask and deny.
#[derive(Debug, Args)]
struct Check {
    /// The script
    #[arg(short = 'c', value_name = "SCRIPT")]
    script: String,
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
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    judgement: &'a Judgement,
}

impl Policy {
    /// Whether it prints JSON.
    pub(in crate::cli) fn json(&self) -> bool {
        let What::Check(check) = &self.what;
        check.json
    }

    /// Says it.
    ///
    /// # Errors
    /// When a file is wrong, or names no such agent or task.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let What::Check(check) = self.what;
        check.run()
    }
}

impl Check {
    fn run(self) -> Result<u8, Failure> {
        let layers = self.layers()?;
        let script = self.script;
        let judgement = judge(layers, script)?;
        if self.json {
            let document = Document { schema_version: SCHEMA_VERSION, judgement: &judgement };
            output::print_json(&document)?;
        } else {
            let verdict = match judgement.verdict {
                Verdict::Allow => "allow",
                Verdict::Ask => "ask",
                Verdict::Deny => "deny",
            };
            output::print(format!("{verdict}: {}\n", judgement.reason))?;
        }
        Ok(match judgement.verdict {
            Verdict::Allow => exit::SUCCEEDED,
            Verdict::Ask | Verdict::Deny => exit::EXEC_DENIED,
        })
    }

    fn layers(&self) -> Result<Vec<Permissions>, Failure> {
        if let Some(manifest) = &self.manifest {
            let plan = sources::load_to_show(manifest, &self.sources)?;
            let task = self.task.as_deref().map(|name| of_task(&plan, name)).transpose()?;
            let agent =
                self.agent.as_deref().map(|name| of_agent(&plan.agents, name)).transpose()?;
            return Ok([Some(plan.policy), agent, task].into_iter().flatten().collect());
        }
        let here = sources::current_folder()?;
        let root = match &self.sources.workspace {
            Some(root) => sources::real_folder(root)?,
            None => coordinator::root_around(&here)?.unwrap_or(here),
        };
        let agents = sources::load_agents(self.sources.agents.as_deref(), &root)?;
        let agent = self.agent.as_deref().map(|name| of_agent(&agents.agents, name)).transpose()?;
        Ok([Some(agents.policy), agent].into_iter().flatten().collect())
    }
}

fn of_agent(agents: &[crate::domain::plan::Agent], name: &str) -> Result<Permissions, Failure> {
    let agent = agents.iter().find(|agent| agent.name.as_str() == name);
    agent.map(|agent| agent.policy.clone()).ok_or_else(|| {
        let known: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        Failure::new(Kind::NotFound, format!("no agent `{name}`"))
            .hint(format!("there is {}", known.join(", ")))
    })
}

fn of_task(plan: &Plan, name: &str) -> Result<Permissions, Failure> {
    let task = plan.tasks.iter().find(|task| task.id.as_str() == name);
    task.map(|task| task.policy.clone())
        .ok_or_else(|| Failure::new(Kind::NotFound, format!("no task `{name}` in the manifest")))
}

/// A script that is not certain to be read in no time is read by a thread that may take long: it
/// is given up on, and ends with this process.
fn judge(layers: Vec<Permissions>, script: String) -> Result<Judgement, Failure> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
    const STACK_BYTES: usize = 512 * 1024 * 1024;
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let layers: Vec<_> = layers.iter().collect();
            let _gone = told.send(policy::judge(&layers, &script));
        })
        .map_err(|error| Failure::new(Kind::Machine, format!("cannot start a thread: {error}")))?;
    Ok(heard.recv_timeout(PATIENCE).unwrap_or_else(|_| Judgement {
        verdict: Verdict::Ask,
        rule: None,
        reason: "what it would run cannot be told beforehand: it takes too long to read".to_owned(),
    }))
}
