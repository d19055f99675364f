//! `callboard agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::sources::load_agents;
use crate::cli::table::table;
use crate::cli::tasks::Tasks;
use crate::cli::{coordinator, exit, output};
use crate::domain::ids::{AgentName, Tag};
use crate::domain::outcome::TaskState;
use crate::domain::plan::AdapterKind;
use crate::domain::result::SCHEMA_VERSION;

/// List the agents.
///
/// Exit codes: 0, 2 the agents' file is wrong, 5 internal.
#[derive(Debug, Args)]
pub(in crate::cli) struct Agent {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Ls(List),
}

/// List the agents, what they carry, and how many tasks each has now
///
/// With no agents.toml there is one, `local`.
#[derive(Debug, Args)]
struct List {
    /// Read the agents from FILE [default: agents.toml in the workspace's root, or here]
    #[arg(long, value_name = "FILE")]
    agents: Option<PathBuf>,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct AgentLine<'a> {
    name: &'a AgentName,
    tags: &'a [Tag],
    adapter: AdapterKind,
    capacity: u32,
    running: usize,
}

impl Agent {
    /// Whether documents are wanted.
    pub(in crate::cli) fn json(&self) -> bool {
        let Action::Ls(list) = &self.action;
        list.json
    }

    /// Does it.
    ///
    /// # Errors
    /// When the agents' file is wrong.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let Action::Ls(list) = self.action;
        list.run()
    }
}

impl List {
    fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            agents: Vec<AgentLine<'a>>,
        }
        let around = coordinator::look(self.workspace.as_deref())?;
        let agents = load_agents(self.agents.as_deref(), &around.root)?;
        let tasks = around.place.map(Tasks::of).transpose()?;
        let running = |name: &AgentName| {
            let live = tasks.iter().flat_map(|tasks| &tasks.live);
            live.filter(|line| {
                line.state == TaskState::Running && line.agent.as_ref() == Some(name)
            })
            .count()
        };
        let lines: Vec<AgentLine<'_>> = agents
            .agents
            .iter()
            .map(|agent| AgentLine {
                name: &agent.name,
                tags: &agent.tags,
                adapter: agent.adapter,
                capacity: agent.capacity,
                running: running(&agent.name),
            })
            .collect();
        if self.json {
            output::print_json(&Document { schema_version: SCHEMA_VERSION, agents: lines })?;
        } else {
            output::print(words(&lines))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

fn words(lines: &[AgentLine<'_>]) -> String {
    let rows: Vec<_> = lines
        .iter()
        .map(|line| {
            let tags: Vec<_> = line.tags.iter().map(Tag::as_str).collect();
            let adapter = match line.adapter {
                AdapterKind::Shell => "shell",
            };
            vec![
                line.name.to_string(),
                adapter.to_owned(),
                format!("{} of {}", line.running, line.capacity),
                tags.join(", "),
            ]
        })
        .collect();
    table(&["AGENT", "ADAPTER", "BUSY", "TAGS"], &rows)
}
