//! `callboard plan`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::sources::{self, PlanArgs};
use crate::cli::table::table;
use crate::cli::waves::{Clash, Takers, clashes, waves};
use crate::cli::words::count;
use crate::cli::{exit, output};
use crate::domain::ids::{AgentName, Tag, TaskId};
use crate::domain::plan as domain;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::shown_path;

/// Check a manifest and show how it would run; runs nothing.
///
/// Shows the waves (what could run side by side if nothing held it up), which agents could take
/// each task, and which tasks would reach for the same port at the same time.
#[derive(Debug, Args)]
pub(in crate::cli) struct Plan {
    /// The manifest; `-` reads it from stdin
    manifest: PathBuf,
    #[command(flatten)]
    sources: PlanArgs,
    /// Print one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    workspace_id: String,
    root: String,
    jobs: u32,
    agents: Vec<AgentLine<'a>>,
    waves: Vec<Vec<&'a TaskId>>,
    tasks: Vec<TaskLine<'a>>,
    conflicts: Vec<Conflict<'a>>,
}

#[derive(Serialize)]
struct AgentLine<'a> {
    name: &'a AgentName,
    tags: &'a [Tag],
    capacity: u32,
}

#[derive(Serialize)]
struct TaskLine<'a> {
    id: &'a TaskId,
    wave: usize,
    needs: &'a [Tag],
    after: Vec<After<'a>>,
    agents: Vec<&'a AgentName>,
}

#[derive(Serialize)]
struct After<'a> {
    id: &'a TaskId,
    when: domain::When,
}

#[derive(Serialize)]
struct Conflict<'a> {
    resource: String,
    tasks: Vec<&'a TaskId>,
}

impl Plan {
    /// Checks and shows.
    ///
    /// # Errors
    /// When the manifest or the agents are wrong.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let plan = sources::load(&self.manifest, &self.sources)?;
        let document = document(&plan);
        if self.json {
            output::print_json(&document)?;
        } else {
            output::print(words(&document))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

fn document(plan: &domain::Plan) -> Document<'_> {
    let wave_of = waves(plan);
    let mut waves = vec![Vec::new(); wave_of.iter().max().map_or(0, |last| last + 1)];
    let mut takers = Takers::of(plan);
    let mut tasks = Vec::with_capacity(plan.tasks.len());
    for (task, &wave) in plan.tasks.iter().zip(&wave_of) {
        waves[wave].push(&task.id);
        let after = task
            .after
            .iter()
            .map(|dependency| After { id: &plan.tasks[dependency.task].id, when: dependency.when });
        tasks.push(TaskLine {
            id: &task.id,
            wave,
            needs: &task.needs,
            after: after.collect(),
            agents: takers.of_needs(&task.needs).to_vec(),
        });
    }
    let agents = plan.agents.iter().map(|agent| AgentLine {
        name: &agent.name,
        tags: &agent.tags,
        capacity: agent.capacity,
    });
    Document {
        schema_version: SCHEMA_VERSION,
        workspace_id: workspace_id(plan),
        root: shown_path::show(&plan.root),
        jobs: super::run::default_jobs(plan),
        agents: agents.collect(),
        waves,
        tasks,
        conflicts: clashes(plan).into_iter().map(|clash| conflict(plan, &clash)).collect(),
    }
}

fn conflict<'a>(plan: &'a domain::Plan, clash: &Clash) -> Conflict<'a> {
    Conflict {
        resource: clash.resource.clone(),
        tasks: clash.tasks.iter().map(|&task| &plan.tasks[task].id).collect(),
    }
}

fn workspace_id(plan: &domain::Plan) -> String {
    let folder = || plan.root.file_name().map(|name| name.to_string_lossy().into_owned());
    let told = plan.workspace_id.as_ref().map(ToString::to_string);
    told.or_else(folder).unwrap_or_else(|| "/".to_owned())
}

fn words(document: &Document<'_>) -> String {
    let mut text = format!(
        "{} in {}, {} at a time, in {}\n\n",
        count(document.tasks.len(), "task"),
        count(document.waves.len(), "wave"),
        document.jobs,
        document.root
    );
    let mut tasks: Vec<_> = document.tasks.iter().collect();
    tasks.sort_by_key(|task| task.wave);
    let rows: Vec<_> = tasks.iter().map(|task| row(task)).collect();
    text.push_str(&table(&["WAVE", "TASK", "AGENTS", "AFTER"], &rows));
    for conflict in &document.conflicts {
        let _infallible = writeln!(
            text,
            "\nconflict: {} is wanted at the same time by {}",
            conflict.resource,
            listed(conflict.tasks.iter())
        );
    }
    text
}

fn row(task: &TaskLine<'_>) -> Vec<String> {
    let after = task.after.iter().map(|after| match after.when {
        domain::When::Success => after.id.to_string(),
        domain::When::Failure => format!("{} (failure)", after.id),
        domain::When::Done => format!("{} (done)", after.id),
    });
    vec![
        (task.wave + 1).to_string(),
        task.id.to_string(),
        listed(task.agents.iter()),
        listed(after),
    ]
}

fn listed(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
