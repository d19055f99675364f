//! `callboard task ls`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::table::table;
use crate::cli::tasks::{Found, Tasks, is_settled, standing};
use crate::cli::{exit, output, records};
use crate::control::TaskLine;
use crate::domain::ids::RunId;
use crate::domain::outcome::{RunOutcome, TaskState};
use crate::domain::result::SCHEMA_VERSION;

/// How much of a cell is shown to people, in characters.
const CELL_MAX: usize = 60;

/// List tasks: of the runs that go on those that are not settled, or all of one run
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Those of this run alone, settled ones too
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Only those in this state (repeatable): blocked, ready, running, backing_off, retrying,
    /// escalated, succeeded, failed, timed_out, cancelled, skipped
    #[arg(long, value_name = "S", value_parser = state)]
    state: Vec<TaskState>,
    /// Settled ones and those of runs that have ended, too
    #[arg(long)]
    all: bool,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl List {
    /// Lists them.
    ///
    /// # Errors
    /// When the workspace cannot be read, or has no such run.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            tasks: &'a [TaskLine],
        }
        let tasks = match Tasks::around(self.workspace.as_deref())? {
            Some(tasks) => self.tasks(&tasks)?,
            None => match &self.run {
                Some(run) => return Err(records::unknown_run(&RunId::new(run.as_str()))),
                None => Vec::new(),
            },
        };
        if self.json {
            let schema_version = SCHEMA_VERSION;
            output::print_json(&Document { schema_version, tasks: &tasks })?;
        } else if tasks.is_empty() {
            output::note("no such tasks: --all lists settled ones, too\n");
        } else {
            output::print(words(&tasks))?;
        }
        Ok(exit::SUCCEEDED)
    }

    fn tasks(&self, tasks: &Tasks) -> Result<Vec<TaskLine>, Failure> {
        let found: Vec<Found> = match &self.run {
            Some(run) => {
                let run = RunId::new(run.as_str());
                tasks.of_run(&run)?.ok_or_else(|| records::unknown_run(&run))?
            }
            None => {
                let mut all = Vec::new();
                for run in &tasks.runs {
                    // One that was cut off, or waits for a decision, has tasks that are not settled.
                    let may_have_some = matches!(
                        run.outcome,
                        None | Some(RunOutcome::Incomplete | RunOutcome::Escalated)
                    );
                    if self.all || may_have_some {
                        all.extend(tasks.of_run(&run.run_id)?.unwrap_or_default());
                    }
                }
                all
            }
        };
        let told = self.all || self.run.is_some() || !self.state.is_empty();
        let wanted = |line: &TaskLine| {
            let state = self.state.is_empty() || self.state.contains(&line.state);
            state && (told || !line.state.is_terminal())
        };
        Ok(found.into_iter().map(|found| found.line).filter(wanted).collect())
    }
}

/// A state by the name that documents have.
fn state(text: &str) -> Result<TaskState, String> {
    let known = |state: &&TaskState| state.as_str() == text.replace('-', "_");
    ALL.iter().find(known).copied().ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|state| state.as_str()).collect();
        format!("there are {}", names.join(", "))
    })
}

const ALL: [TaskState; 11] = [
    TaskState::Blocked,
    TaskState::Ready,
    TaskState::Running,
    TaskState::BackingOff,
    TaskState::Retrying,
    TaskState::Escalated,
    TaskState::Succeeded,
    TaskState::Failed,
    TaskState::TimedOut,
    TaskState::Cancelled,
    TaskState::Skipped,
];

/// Tasks for people.
pub(super) fn words(tasks: &[TaskLine]) -> String {
    let rows: Vec<_> = tasks
        .iter()
        .map(|line| {
            let settled = is_settled(line) && line.reason.is_some();
            let state = if settled { standing(line) } else { word(line.state) };
            vec![
                line.task_id.clone(),
                line.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
                line.attempt.to_string(),
                short(&state),
            ]
        })
        .collect();
    table(&["TASK", "AGENT", "ATTEMPT", "STATE"], &rows)
}

fn word(state: TaskState) -> String {
    crate::report::words::state_words(state).to_owned()
}

fn short(text: &str) -> String {
    match text.char_indices().nth(CELL_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_names_of_documents() {
        for known in ALL {
            assert_eq!(state(known.as_str()), Ok(known));
            assert_eq!(serde_json::to_value(known).unwrap(), known.as_str());
        }
        assert_eq!(state("timed-out"), Ok(TaskState::TimedOut));
        assert!(state("done").unwrap_err().contains("succeeded"));
    }
}
