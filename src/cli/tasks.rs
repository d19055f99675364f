//! Which task is meant: `RUN/ID`, or a bare id, which is that of the newest run that has it. Runs
//! that go on are asked of the coordinator; what the others came to stands in their reports.

use std::path::Path;

use super::client::{Connection, WireError};
use super::coordinator::{self, Place};
use super::failure::{Failure, Kind};
use super::{exit, records, starter};
use crate::control::{Answer, Call, RunLine, TaskAnswer, TaskCall, TaskLine, TaskRef};
use crate::domain::ids::RunId;
use crate::domain::outcome::TaskState;
use crate::report::record::{RunReport, TaskReport};
use crate::report::words::{state_words, words};

/// A bare id is looked for in so many ended runs, newest first.
const RUNS_SEARCHED_MAX: usize = 1_000;
/// How like an id has to be to be suggested.
const NEAR: f64 = 0.8;

/// The tasks of a workspace.
pub(super) struct Tasks {
    /// The workspace.
    pub(super) place: Place,
    /// To its coordinator, where one runs.
    pub(super) connection: Option<Connection>,
    /// Those of runs that go on, as the coordinator tells them.
    pub(super) live: Vec<TaskLine>,
    /// All runs, newest first.
    pub(super) runs: Vec<RunLine>,
}

/// A task that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Which.
    pub(super) task: TaskRef,
    /// As it stands.
    pub(super) line: TaskLine,
    /// Its record, where its run has ended.
    pub(super) past: Option<Box<TaskReport>>,
}

impl Tasks {
    /// Looks at what there is in the workspace that was told, or else around here.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn around(workspace: Option<&Path>) -> Result<Option<Self>, Failure> {
        coordinator::look(workspace)?.place.map(Self::of).transpose()
    }

    /// Looks at what there is in a workspace.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn of(place: Place) -> Result<Self, Failure> {
        if let Some(mut connection) = place.connect()? {
            // The tasks first: a run that ends in between has its report by the time it is asked
            // for among the past ones.
            match asked(&mut connection) {
                Ok((live, runs)) => {
                    return Ok(Self { place, connection: Some(connection), live, runs });
                }
                Err(error) if starter::is_absence(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let runs = records::runs(&place.state)?;
        Ok(Self { place, connection: None, live: Vec::new(), runs })
    }

    /// Finds all tasks of these names; every one that is not there is told.
    ///
    /// # Errors
    /// When one is not known, or a report cannot be read.
    pub(super) fn find_all(&self, names: &[String]) -> Result<Vec<Found>, Failure> {
        let mut found = Vec::with_capacity(names.len());
        let mut unknown = Vec::new();
        for name in names {
            match self.find(name)? {
                Some(task) => found.push(task),
                None => unknown.push(name.as_str()),
            }
        }
        if unknown.is_empty() { Ok(found) } else { Err(self.unknown(&unknown)) }
    }

    /// Finds all tasks of these names where something is to come of them: a coordinator is started
    /// for runs that were lost with theirs.
    ///
    /// # Errors
    /// As `find_all`, and when none can be started.
    pub(super) fn find_to_change(self, names: &[String]) -> Result<(Self, Vec<Found>), Failure> {
        let found = self.find_all(names)?;
        if self.connection.is_none() {
            for one in &found {
                if records::is_open(&self.place.state, &one.task.run)? {
                    drop(self.place.connect_or_start()?);
                    let again = Self::of(self.place)?;
                    let found = again.find_all(names)?;
                    return Ok((again, found));
                }
            }
        }
        Ok((self, found))
    }

    /// Finds one.
    ///
    /// # Errors
    /// As `find_all`.
    pub(super) fn find_one(&self, name: &str) -> Result<Found, Failure> {
        self.find(name)?.ok_or_else(|| self.unknown(&[name]))
    }

    /// The tasks of one run, in its order; `None` where there is no such run.
    ///
    /// # Errors
    /// When its report cannot be read.
    pub(super) fn of_run(&self, run: &RunId) -> Result<Option<Vec<Found>>, Failure> {
        let live: Vec<_> = self.live_of(run).collect();
        if !live.is_empty() {
            return Ok(Some(live));
        }
        Ok(records::report(&self.place.state, run)?.map(|report| past_of(&report).collect()))
    }

    fn find(&self, name: &str) -> Result<Option<Found>, Failure> {
        if let Ok(task) = name.parse::<TaskRef>() {
            let tasks = self.of_run(&task.run)?.unwrap_or_default();
            return Ok(tasks.into_iter().find(|found| found.task == task));
        }
        for run in self.runs.iter().take(RUNS_SEARCHED_MAX) {
            // A report that cannot be read is some other run's trouble.
            let Ok(Some(tasks)) = self.of_run(&run.run_id) else { continue };
            if let Some(found) = tasks.into_iter().find(|found| found.task.task.as_str() == name) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn live_of(&self, run: &RunId) -> impl Iterator<Item = Found> {
        self.live.iter().filter_map(|line| {
            let task: TaskRef = line.task_id.parse().ok()?;
            (task.run == *run).then(|| Found { task, line: line.clone(), past: None })
        })
    }

    fn unknown(&self, names: &[&str]) -> Failure {
        let listed: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let noun = if names.len() == 1 { "task" } else { "tasks" };
        let message = format!("no {noun} {} in this workspace", listed.join(", "));
        let failure = Failure::new(Kind::NotFound, message);
        let near = names.first().and_then(|name| {
            let ids = self.live.iter().flat_map(|line| {
                let bare = line.task_id.split_once('/').map(|(_, id)| id);
                [Some(line.task_id.as_str()), bare].into_iter().flatten()
            });
            ids.map(|id| (strsim::jaro_winkler(id, name), id))
                .filter(|(likeness, _)| *likeness >= NEAR)
                .max_by(|(a, _), (b, _)| a.total_cmp(b))
        });
        match near {
            Some((_, near)) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`callboard task ls --all` lists the tasks"),
        }
    }
}

/// No workspace is here, and so none of these tasks.
pub(super) fn nowhere(names: &[String]) -> Failure {
    let listed: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    Failure::new(Kind::NotFound, format!("no {}: there is no workspace here", listed.join(", ")))
        .hint("`--workspace` names another one")
}

/// Asks something of the tasks.
///
/// # Errors
/// When the coordinator refuses, or is gone.
pub(super) fn ask(connection: &mut Connection, call: TaskCall) -> Result<TaskAnswer, WireError> {
    match connection.ask(Call::Task { task: Box::new(call) })? {
        Answer::Task { task } => Ok(*task),
        _ => Err(WireError::Unexpected { call: "task" }),
    }
}

fn asked(connection: &mut Connection) -> Result<(Vec<TaskLine>, Vec<RunLine>), WireError> {
    let TaskAnswer::Tasks { tasks } = ask(connection, TaskCall::List)? else {
        return Err(WireError::Unexpected { call: "task" });
    };
    match connection.ask(Call::ListRuns)? {
        Answer::Runs { runs } => Ok((tasks, runs)),
        _ => Err(WireError::Unexpected { call: "list_runs" }),
    }
}

/// The tasks of a run that has ended.
fn past_of(report: &RunReport) -> impl Iterator<Item = Found> {
    report.tasks.iter().map(|task| {
        let named = TaskRef { run: report.run_id.clone(), task: task.id.clone() };
        let since = match task.started_at {
            Some(started) => started.plus_ms(task.duration_ms),
            None => report.started_at.plus_ms(report.duration_ms),
        };
        let line = TaskLine {
            task_id: named.to_string(),
            state: task.state,
            agent: task.agent.clone(),
            attempt: task.attempts,
            since,
            session_id: task.session_id.clone(),
            reason: task.reason.clone(),
            class: task.class.clone(),
        };
        Found { task: named, line, past: Some(Box::new(task.clone())) }
    })
}

/// The exit code that a task by itself asks for.
pub(super) fn code_of(line: &TaskLine) -> u8 {
    match line.state {
        TaskState::Succeeded => exit::SUCCEEDED,
        TaskState::Failed if line.class.as_deref() == Some("environment") => exit::ENVIRONMENT,
        TaskState::Failed | TaskState::TimedOut => exit::FAILED,
        TaskState::Escalated => exit::ESCALATED,
        _ => exit::ENVIRONMENT,
    }
}

/// The codes of several, as one.
pub(super) fn code_of_all<'a>(lines: impl IntoIterator<Item = &'a TaskLine>) -> u8 {
    lines.into_iter().fold(exit::SUCCEEDED, |code, line| exit::combine(code, code_of(line)))
}

/// Settled, or waiting for a decision.
pub(super) fn is_settled(line: &TaskLine) -> bool {
    line.state.is_terminal() || line.state == TaskState::Escalated
}

/// How a task stands, in words: `failed (exit code 3)`.
pub(super) fn standing(line: &TaskLine) -> String {
    let state = state_words(line.state);
    match &line.reason {
        Some(reason) => format!("{state} ({})", words(reason)),
        None => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    fn line(state: TaskState, class: Option<&str>) -> TaskLine {
        TaskLine {
            task_id: "r/t".to_owned(),
            state,
            agent: None,
            attempt: 1,
            since: Timestamp(0),
            session_id: None,
            reason: None,
            class: class.map(str::to_owned),
        }
    }

    #[test]
    fn the_worst_task_decides() {
        for (states, code) in [
            (&[TaskState::Succeeded][..], 0),
            (&[TaskState::Succeeded, TaskState::TimedOut], 1),
            (&[TaskState::Cancelled, TaskState::Succeeded], 3),
            (&[TaskState::Skipped, TaskState::Failed], 1),
            (&[TaskState::Escalated, TaskState::Failed], 4),
            (&[], 0),
        ] {
            let lines: Vec<_> = states.iter().map(|state| line(*state, None)).collect();
            assert_eq!(code_of_all(&lines), code, "{states:?}");
        }
        assert_eq!(code_of(&line(TaskState::Failed, Some("environment"))), 3);
    }
}
