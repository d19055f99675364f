//! `callboard task dispatch`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::super::run::default_jobs;
use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Place};
use crate::cli::failure::{Failure, Kind};
use crate::cli::sources::{client_env, current_folder, parse_pair, plan_of_task, real_folder};
use crate::cli::tasks::{Tasks, ask};
use crate::cli::{exit, output, starter};
use crate::control::{Dispatch as Call, EndedTask, FailureKind, TaskAnswer, TaskCall, TaskRef};
use crate::domain::plan::Plan;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::parse_duration_ms;

/// How often a task is offered again when a coordinator was on its way out, or a run that it waits
/// for ended in between.
const TRIES: usize = 8;

/// Hand a single task to an agent
///
/// Returns once the task is accepted. It joins the workspace's standing run, which begins with the
/// first such task, and ends some 10 s after the last one is settled and nobody has added more.
/// Each set of agents and each environment has a standing run of its own. A coordinator is started
/// where none runs.
///
/// Exit codes: 0 accepted, 2 usage, a tag that nobody carries, or no such task to wait for, 3 the
/// machine cannot, 5 internal.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("work").required(true).args(["run", "prompt"])))]
pub(in crate::cli) struct Dispatch {
    /// A tag that the agent has to carry (repeatable)
    #[arg(long, value_name = "TAG")]
    needs: Vec<String>,
    /// A task that has to succeed before: RUN/ID, or an id (repeatable)
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// Greater goes first among ready tasks
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// The time-limit tier: 30 s, 5 min or 10 min
    #[arg(long, value_name = "C", value_parser = ["quick", "build", "test"])]
    class: Option<String>,
    /// Exact time limit
    #[arg(long, value_name = "D", value_parser = duration)]
    timeout: Option<String>,
    /// Attempts beyond the first
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Set a variable (repeatable)
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    env: Vec<(String, String)>,
    /// Run in DIR [default: the workspace's root; outside any workspace, here]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Files that the task means to write (repeatable)
    #[arg(long, value_name = "GLOB")]
    writes: Vec<String>,
    /// The script
    #[arg(long, value_name = "SCRIPT")]
    run: Option<String>,
    /// What an agent is told to do; needs an agent that takes prompts
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Read the agents from FILE [default: agents.toml in the workspace's root, or here]
    #[arg(long, value_name = "FILE")]
    agents: Option<PathBuf>,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Dispatch {
    /// Hands it over.
    ///
    /// # Errors
    /// When it cannot be accepted.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            task_id: &'a str,
        }
        let place = self.place()?;
        let plan = self.plan(&place)?;
        let task_id = self.hand_over(&place, plan)?.to_string();
        if self.json {
            output::print_json(&Document { schema_version: SCHEMA_VERSION, task_id: &task_id })?;
        } else {
            output::print(format!("{task_id}\n"))?;
        }
        Ok(exit::SUCCEEDED)
    }

    fn place(&self) -> Result<Place, Failure> {
        match &self.workspace {
            Some(root) => coordinator::open(&real_folder(root)?, None),
            None => coordinator::for_command(&current_folder()?),
        }
    }

    /// The agents with this one task, checked as a manifest is.
    fn plan(&self, place: &Place) -> Result<Plan, Failure> {
        if self.prompt.is_some() {
            let failure = Failure::new(Kind::Usage, "--prompt: no agent here takes prompts");
            return Err(failure
                .hint("the `shell` adapter runs scripts, and is the only one yet: use --run"));
        }
        let mut plan = plan_of_task(&self.manifest(), self.agents.as_deref(), &place.root)?;
        let here = current_folder()?;
        let cwd = match &self.cwd {
            Some(cwd) => Some(real_folder(&here.join(cwd))?),
            // The private workspace is nobody's place to work in.
            None if self.workspace.is_none() && !here.starts_with(&place.root) => {
                Some(real_folder(&here)?)
            }
            None => None,
        };
        if let Some(task) = plan.tasks.first_mut() {
            task.cwd = cwd;
        }
        Ok(plan)
    }

    /// The task as a manifest has it.
    fn manifest(&self) -> String {
        let mut text = "[[task]]\nid = \"task\"\n".to_owned();
        let mut key = |name: &str, value: String| {
            let _infallible = writeln!(text, "{name} = {value}");
        };
        key("run", quoted(self.run.as_deref().unwrap_or_default()));
        if !self.needs.is_empty() {
            key("needs", list(&self.needs));
        }
        if !self.writes.is_empty() {
            key("writes", list(&self.writes));
        }
        if let Some(priority) = self.priority {
            key("priority", priority.to_string());
        }
        if let Some(class) = &self.class {
            key("class", quoted(class));
        }
        if let Some(timeout) = &self.timeout {
            key("timeout", quoted(timeout));
        }
        if let Some(retries) = self.retries {
            key("retries", retries.to_string());
        }
        if !self.env.is_empty() {
            let pairs = self.env.iter();
            let pairs: Vec<_> = pairs
                .map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)))
                .collect();
            key("env", format!("{{ {} }}", pairs.join(", ")));
        }
        text
    }

    /// Offers the task until a coordinator has it. The ticket keeps it from being added twice when
    /// the answer was lost.
    fn hand_over(&self, place: &Place, plan: Plan) -> Result<TaskRef, Failure> {
        let jobs = default_jobs(&plan);
        let env = client_env(&plan);
        let ticket = format!("{:032x}", rand::random::<u128>());
        let mut tries = 1..=TRIES;
        loop {
            let last = tries.next().is_none_or(|number| number == TRIES);
            let (after, after_ended) = self.after(place)?;
            let dispatch = Box::new(Call {
                plan: plan.clone(),
                jobs,
                env: env.clone(),
                after,
                after_ended,
                ticket: ticket.clone(),
            });
            match ask(&mut place.connect_or_start()?, TaskCall::Dispatch { dispatch }) {
                Ok(TaskAnswer::Dispatched { task }) => return Ok(task),
                Ok(_) => return Err(WireError::Unexpected { call: "dispatch" }.into()),
                Err(error) if !last && starter::is_absence(&error) => {}
                // A run that it waits for has ended since.
                Err(WireError::Refused(refusal))
                    if !last && refusal.kind == FailureKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What it waits for: in runs that go on, and in those that have ended.
    fn after(&self, place: &Place) -> Result<(Vec<TaskRef>, Vec<EndedTask>), Failure> {
        let (mut going, mut ended) = (Vec::new(), Vec::new());
        if !self.after.is_empty() {
            let (_tasks, found) = Tasks::of(place.clone())?.find_to_change(&self.after)?;
            for found in found {
                match found.past {
                    None => going.push(found.task),
                    Some(_) => ended.push(EndedTask { task: found.task, state: found.line.state }),
                }
            }
        }
        Ok((going, ended))
    }
}

/// A duration that is one, as it was written.
fn duration(text: &str) -> Result<String, String> {
    parse_duration_ms(text).map(|_| text.to_owned())
}

fn list(items: &[String]) -> String {
    let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

/// A TOML string. JSON's are TOML's, but for one character that TOML wants escaped.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was() {
        for text in ["", "a\"b\\c", "one\ntwo\t\u{1b}[1m\u{7f}\0", "häuser 🏠", "'''\"\"\"${{x}}"]
        {
            let line = format!("k = {}", quoted(text));
            let table: toml::Table = line.parse().unwrap();
            assert_eq!(table["k"].as_str(), Some(text), "{line}");
        }
    }
}
