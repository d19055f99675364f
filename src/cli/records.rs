//! What the state folder says of runs while no coordinator runs: `runs/<run>/report.json`, and the
//! journal for runs whose coordinator was lost before it wrote one.

use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use serde::de::DeserializeOwned;

use super::failure::{Failure, Kind};
use super::{coordinator, exit, output};
use crate::control::{RunLine, TaskLine, Waiting};
use crate::domain::board::BoardView;
use crate::domain::board::replica::Replica;
use crate::domain::event::{Event, RunOptions};
use crate::domain::ids::{RunId, WorkspaceId};
use crate::domain::outcome::{RunOutcome, TaskCause, TaskReason, TaskState};
use crate::domain::plan::Plan;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::worktree::WorktreeReport;
use crate::journal::{self, JournalError};
use crate::report::record::{RunReport, TaskReport};
use crate::scheduler::recall::{Recall, Recalled};

/// The report of a run, if it has one.
///
/// # Errors
/// When there is one that cannot be read.
pub(super) fn report(state: &Path, run: &RunId) -> Result<Option<RunReport>, Failure> {
    // The id comes from a command line and becomes part of a path.
    if run.as_str().is_empty() || run.as_str().starts_with('.') || run.as_str().contains('/') {
        return Ok(None);
    }
    let written = read(&state.join("runs").join(run.as_str()).join("report.json"));
    if let Ok(Some(report)) = written {
        return Ok(Some(report));
    }
    // One that is not there, or is damaged, is made of the journal, as long as that knows the run.
    match recall(state)?.run(run) {
        Some(recalled) => Ok(Some(cut_off(run, recalled, state))),
        None => written,
    }
}

/// Every run that has a report, newest first. Reports of another version are left out.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn runs(state: &Path) -> Result<Vec<RunLine>, Failure> {
    let folder = state.join("runs");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::file(&folder, "read", &error)),
    };
    // A line has a part of the report's keys, and the others are skipped.
    let line = |folder: &PathBuf| read::<RunLine>(&folder.join("report.json")).ok().flatten();
    let mut runs: Vec<_> = entries.iter().filter_map(line).collect();
    let recall = recall(state)?;
    // Some have ended, too: right before their coordinator did.
    let ended = recall.ended().filter_map(|run| Some((run, recall.run(run)?)));
    let cut_off: Vec<_> = recall
        .open()
        .chain(ended)
        .filter(|(run, _)| runs.iter().all(|line| line.run_id != **run))
        .map(|(run, recalled)| {
            let (outcome, exit_code) = end_of(recalled);
            RunLine {
                run_id: run.clone(),
                outcome: Some(outcome),
                exit_code: Some(exit_code),
                started_at: recalled.started_at,
                counts: recalled.schedule.counts(),
                cancelled: recalled.schedule.cancelled_why(),
            }
        })
        .collect();
    runs.extend(cut_off);
    runs.sort_by(|a, b| (b.started_at, &b.run_id).cmp(&(a.started_at, &a.run_id)));
    Ok(runs)
}

/// The board as the journal has it.
///
/// # Errors
/// When the journal cannot be read.
pub(super) fn board(state: &Path) -> Result<BoardView, Failure> {
    let mut board = Replica::default();
    let read = journal::read(&state.join("journal"), &mut |line| {
        if let Event::Board { entry } = line.event {
            board.merge(entry);
        }
        ControlFlow::Continue(())
    });
    match read {
        Ok(_) | Err(JournalError::Missing { .. }) => {}
        // What comes before the damage is still worth telling.
        Err(error) => {
            let message = Failure::from(error).message;
            output::note(format!("warning: {message}: what follows is not known\n"));
        }
    }
    let entries = board.beginning("").cloned().collect();
    Ok(BoardView::of(workspace_of(state), entries))
}

/// A run that was lost with its coordinator, and goes on with the next.
pub(super) struct Lost {
    /// Its tasks that are not settled.
    pub(super) tasks: Vec<TaskLine>,
    /// What it waits for.
    pub(super) waiting: Waiting,
}

/// The runs that were lost with their coordinator.
///
/// # Errors
/// When the journal cannot be read.
pub(super) fn lost(state: &Path) -> Result<Vec<Lost>, Failure> {
    let recall = recall(state)?;
    let lost = recall.open().map(|(run, recalled)| Lost {
        tasks: recalled
            .schedule
            .members()
            .iter()
            .filter_map(|t| lost_task(run, recalled, *t))
            .collect(),
        waiting: Waiting {
            what: run.to_string(),
            on: "a coordinator, which goes on with it".to_owned(),
            since: recalled.last_at,
            deadline: None,
        },
    });
    Ok(lost.collect())
}

fn lost_task(run: &RunId, recalled: &Recalled, task: usize) -> Option<TaskLine> {
    let view = recalled.schedule.task(task).filter(|view| !view.state.is_terminal())?;
    Some(TaskLine {
        task_id: format!("{run}/{}", recalled.plan.tasks[task].id),
        state: view.state,
        agent: view.agent.map(|agent| recalled.plan.agents[agent].name.clone()),
        attempt: view.attempts,
        since: view.since,
        session_id: recalled.sessions.get(&task).cloned(),
        reason: view.reason.cloned(),
        class: view.class.map(str::to_owned),
    })
}

/// Whether the journal has no end of a run: another coordinator may go on with it.
///
/// # Errors
/// When the journal cannot be read.
pub(super) fn is_open(state: &Path, run: &RunId) -> Result<bool, Failure> {
    Ok(recall(state)?.run(run).is_some_and(|recalled| recalled.ended.is_none()))
}

/// The runs that the journal has no end of, or that can be resumed.
pub(super) fn recall(state: &Path) -> Result<Recall, Failure> {
    let mut recall = Recall::default();
    let read = journal::read(&state.join("journal"), &mut |line| {
        recall.fold(line.at, &line.event);
        ControlFlow::Continue(())
    });
    match read {
        Ok(_) | Err(JournalError::Missing { .. }) => Ok(recall),
        Err(error) => {
            // What comes before the damage is still worth telling.
            static ONCE: Once = Once::new();
            let failure = Failure::from(error);
            ONCE.call_once(|| {
                output::note(format!("warning: {}: what follows is not known\n", failure.message));
            });
            Ok(recall)
        }
    }
}

/// What is needed to go on with a run: its plan and its options.
///
/// # Errors
/// When it is not known, has succeeded, or ended too long ago.
pub(super) fn to_resume(state: &Path, run: &RunId) -> Result<(Arc<Plan>, RunOptions), Failure> {
    let recall = recall(state)?;
    let Some(recalled) = recall.run(run) else {
        return Err(match report(state, run)? {
            Some(report) if report.outcome == Some(RunOutcome::Succeeded) => has_succeeded(run),
            Some(_) => {
                let message = format!("run `{run}` ended too long ago to be resumed");
                Failure::usage(message).hint("run its manifest again")
            }
            None => unknown_run(run),
        });
    };
    if matches!(recalled.ended, Some((RunOutcome::Succeeded, _))) {
        return Err(has_succeeded(run));
    }
    Ok((Arc::clone(&recalled.plan), recalled.options.clone()))
}

fn has_succeeded(run: &RunId) -> Failure {
    Failure::usage(format!("run `{run}` has succeeded: nothing of it is left to do"))
}

/// How a run ended; one that has not, and has no coordinator, is incomplete.
fn end_of(recalled: &Recalled) -> (RunOutcome, u8) {
    recalled.ended.unwrap_or((RunOutcome::Incomplete, exit::ENVIRONMENT))
}

/// The record of a run whose coordinator was lost: it goes on with the next one. What it has
/// started may still run.
fn cut_off(run: &RunId, recalled: &Recalled, state: &Path) -> RunReport {
    let workspace = workspace_of(state);
    let (outcome, exit_code) = end_of(recalled);
    let schedule = &recalled.schedule;
    let tasks = schedule.members().iter();
    RunReport {
        schema_version: SCHEMA_VERSION,
        run_id: run.clone(),
        workspace_id: recalled.plan.workspace_id.clone().unwrap_or_else(|| workspace.clone()),
        outcome: Some(outcome),
        exit_code: Some(exit_code),
        started_at: recalled.started_at,
        duration_ms: recalled.last_at.ms_since(recalled.started_at),
        counts: schedule.counts(),
        cancelled: schedule.cancelled_why(),
        tasks: tasks.map(|task| cut_off_task(recalled, *task, state)).collect(),
        board: BoardView::of(workspace, Vec::new()),
        escalations: Vec::new(),
    }
}

fn cut_off_task(recalled: &Recalled, task: usize, state: &Path) -> TaskReport {
    let spec = &recalled.plan.tasks[task];
    let view = recalled.schedule.task(task);
    let lost = Some(TaskReason::Task(TaskCause::CoordinatorLost));
    let session = recalled.sessions.get(&task);
    let agent = view.and_then(|view| view.agent);
    TaskReport {
        id: spec.id.clone(),
        state: view.map_or(TaskState::Blocked, |view| view.state),
        agent: agent.map(|agent| recalled.plan.agents[agent].name.clone()),
        needs: spec.needs.clone(),
        attempts: view.map_or(0, |view| view.attempts),
        conflicts: view.map_or(0, |view| view.conflicts),
        session_id: session.cloned(),
        started_at: view.and_then(|view| view.started_at),
        duration_ms: view.map_or(0, |view| {
            let until = view.ended_at.unwrap_or(recalled.last_at);
            view.started_at.map_or(0, |started| until.ms_since(started))
        }),
        reason: match view {
            Some(view) if view.state.is_terminal() => view.reason.cloned(),
            // Escalated, for one.
            Some(view) if recalled.ended.is_some() => view.reason.cloned(),
            _ => lost,
        },
        class: view.and_then(|view| view.class).map(str::to_owned),
        waited_on: spec
            .after
            .iter()
            .map(|edge| recalled.plan.tasks[edge.task].id.clone())
            .collect(),
        commands: session.map_or_else(Vec::new, |session| {
            coordinator::results(&state.join("sessions"), session, recalled.last_at)
        }),
        backoffs: recalled.schedule.backoffs(task),
        published: match view.map(|view| view.state) {
            Some(TaskState::Succeeded) => spec.publish.keys().cloned().collect(),
            _ => Vec::new(),
        },
        artifacts: Vec::new(),
        remarks: Vec::new(),
        worktree: recalled
            .returned
            .get(&task)
            .map(|returned| WorktreeReport { returned: Some(returned.clone()), kept: Vec::new() }),
    }
}

/// The state folder is named after the workspace, with a key behind it.
fn workspace_of(state: &Path) -> WorkspaceId {
    let name = state.file_name().unwrap_or_default().to_string_lossy();
    WorkspaceId::new(name.rsplit_once('-').map_or(&*name, |(id, _)| id))
}

/// No such run.
pub(super) fn unknown_run(run: &RunId) -> Failure {
    Failure::new(Kind::NotFound, format!("no run `{run}` in this workspace"))
        .hint("`callboard run ls` lists the runs")
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, Failure> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file(file, "read", &error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let message = format!("`{}` is not a report of this version: {error}", file.display());
        Failure::new(Kind::Version, message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::ended_report;
    use super::*;
    use crate::domain::time::Timestamp;

    fn keep(state: &Path, run: &str, started_at: i64) {
        let report =
            RunReport { run_id: run.into(), started_at: Timestamp(started_at), ..ended_report(0) };
        let folder = state.join("runs").join(run);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("report.json"), serde_json::to_vec(&report).unwrap()).unwrap();
    }

    #[test]
    fn runs_are_listed_newest_first() {
        let state = tempfile::tempdir().unwrap();
        assert!(runs(state.path()).unwrap().is_empty());
        for (run, started_at) in [("b", 1000), ("a", 3000), ("c", 2000)] {
            keep(state.path(), run, started_at);
        }
        fs::create_dir(state.path().join("runs/unfinished")).unwrap();
        let runs = runs(state.path()).unwrap();
        let ids: Vec<_> = runs.iter().map(|line| line.run_id.as_str()).collect();
        assert_eq!(ids, ["a", "c", "b"]);
    }

    #[test]
    fn a_report_is_found_by_its_run_alone() {
        let state = tempfile::tempdir().unwrap();
        keep(state.path(), "R1", 1000);
        let find = |run: &str| report(state.path(), &run.into()).unwrap();
        assert_eq!(find("R1").unwrap().run_id.as_str(), "R1");
        for run in ["R2", "", "..", "../runs/R1", "R1/../R1"] {
            assert!(find(run).is_none(), "{run}");
        }
        fs::write(state.path().join("runs/R1/report.json"), "{}").unwrap();
        assert_eq!(report(state.path(), &"R1".into()).unwrap_err().kind, Kind::Version);
    }
}
