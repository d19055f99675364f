//! What a record concerns, and a line about it for people.

use std::collections::HashMap;

use crate::domain::conflict::{Conflict, Party};
use crate::domain::event::Event;
use crate::domain::ids::{AttemptId, RunId, SessionId, TaskId};
use crate::domain::session::SessionOwner;
use crate::domain::worktree::Returned;
use crate::journal::Line;
use crate::report::words::state_words;

/// How much of a text is shown, in characters.
const TEXT_MAX: usize = 100;

/// What a record concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) run: Option<RunId>,
    pub(super) task: Option<TaskId>,
    pub(super) session: Option<SessionId>,
}

/// What earlier records have said of names.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    /// The tasks of each run, by index.
    tasks: HashMap<RunId, Vec<TaskId>>,
    /// The runs in the order that they were submitted in.
    runs: Vec<RunId>,
    /// Whose a session is.
    sessions: HashMap<SessionId, (RunId, TaskId)>,
}

impl Subjects {
    /// What a record concerns. They have to come in order.
    pub(super) fn of(&mut self, line: &Line) -> Subject {
        match &line.event {
            Event::RunSubmitted { run, plan, .. } => {
                let tasks = plan.tasks.iter().map(|task| task.id.clone()).collect();
                self.tasks.insert(run.clone(), tasks);
                self.runs.push(run.clone());
                of_run(run)
            }
            Event::TaskAdded { run, task, .. } => {
                self.tasks.entry(run.clone()).or_default().push(task.id.clone());
                Subject { task: Some(task.id.clone()), ..of_run(run) }
            }
            Event::RunResumed { run, .. }
            | Event::RunSealed { run }
            | Event::RunCancelled { run, .. }
            | Event::EscalationResolved { run, .. }
            | Event::RunEnded { run, .. } => of_run(run),
            Event::EscalationRaised { run, task, .. }
            | Event::TaskSettled { run, task, .. }
            | Event::TaskCancelled { run, task }
            | Event::TaskRetried { run, task } => {
                let id = self.tasks.get(run).and_then(|tasks| tasks.get(*task)).cloned();
                Subject { task: id, ..of_run(run) }
            }
            Event::AttemptStarted { attempt, session, .. } => {
                let whose = (attempt.run.clone(), attempt.task.clone());
                self.sessions.insert(session.clone(), whose);
                Subject { session: Some(session.clone()), ..of_attempt(attempt) }
            }
            Event::ConflictSeen { party: Party::Command { session, .. }, .. } => {
                self.of_session(session)
            }
            Event::ConflictSeen { party: Party::Attempt { attempt }, .. }
            | Event::AttemptReady { attempt }
            | Event::AttemptReturning { attempt }
            | Event::AttemptReturned { attempt, .. }
            | Event::ContractChanged { attempt, .. }
            | Event::AttemptEnded { attempt, .. } => of_attempt(attempt),
            Event::SessionOpened { session, owner, .. } => {
                if let SessionOwner::Attempt { attempt } | SessionOwner::Upcoming { attempt } =
                    owner
                {
                    let whose = (attempt.run.clone(), attempt.task.clone());
                    self.sessions.entry(session.clone()).or_insert(whose);
                }
                self.of_session(session)
            }
            Event::SessionClosed { session }
            | Event::Touched { session, .. }
            | Event::CommandStarted { session, .. }
            | Event::CommandEnded { session, .. } => self.of_session(session),
            Event::Board { entry } => {
                let writer = entry.writer.task.as_deref().and_then(|task| task.split_once('/'));
                let (run, task) = writer.unzip();
                Subject { run: run.map(RunId::new), task: task.map(TaskId::new), session: None }
            }
            Event::CoordinatorStarted { .. }
            | Event::ConflictSeen { party: Party::Commit { .. }, .. } => Subject::default(),
        }
    }

    /// The newest run that has a task of that name.
    pub(super) fn newest_with(&self, task: &TaskId) -> Option<RunId> {
        let has = |run: &&RunId| self.tasks.get(*run).is_some_and(|tasks| tasks.contains(task));
        self.runs.iter().rev().find(has).cloned()
    }

    fn of_session(&self, session: &SessionId) -> Subject {
        let (run, task) = self.sessions.get(session).cloned().unzip();
        Subject { run, task, session: Some(session.clone()) }
    }
}

fn of_run(run: &RunId) -> Subject {
    Subject { run: Some(run.clone()), ..Subject::default() }
}

fn of_attempt(attempt: &AttemptId) -> Subject {
    Subject { task: Some(attempt.task.clone()), ..of_run(&attempt.run) }
}

/// A record as a line for people.
pub(super) fn words(line: &Line, subject: &Subject) -> String {
    let whose = match (&subject.run, &subject.task, &subject.session) {
        (Some(run), Some(task), _) => format!("{run}/{task}"),
        (Some(run), None, _) => run.to_string(),
        (None, _, Some(session)) => session.to_string(),
        (None, _, None) => "-".to_owned(),
    };
    format!("{:>7}  {}  {whose}  {}\n", line.seq, line.at, what(&line.event))
}

fn returned_words(attempt: &AttemptId, returned: &Returned) -> String {
    let branch = &returned.branch;
    let what = match (&returned.into, &returned.held, &returned.commit) {
        (Some(into), ..) => format!("was merged into `{into}`"),
        (None, Some(why), _) => format!("stays on `{branch}`: {why}"),
        (None, None, Some(_)) => format!("stays on `{branch}`"),
        (None, None, None) => "had changed nothing".to_owned(),
    };
    format!("attempt {} {what}", attempt.attempt)
}

fn what(event: &Event) -> String {
    match event {
        Event::CoordinatorStarted { pid, version } => {
            format!("coordinator {pid} (callboard {version}) began")
        }
        Event::RunSubmitted { plan, detached, .. } => {
            let how = if *detached { ", detached" } else { "" };
            format!("submitted with {} tasks{how}", plan.tasks.len())
        }
        Event::RunResumed { .. } => "resumed".to_owned(),
        Event::TaskAdded { .. } => "added".to_owned(),
        Event::RunSealed { .. } => "sealed: no task joins it any more".to_owned(),
        Event::AttemptStarted { attempt, agent, session } => {
            format!("attempt {} began on {agent} in {session}", attempt.attempt)
        }
        Event::AttemptReady { attempt } => format!("attempt {} is ready", attempt.attempt),
        Event::AttemptReturning { attempt } => {
            format!("attempt {} has done its work, which is being merged", attempt.attempt)
        }
        Event::AttemptReturned { attempt, returned } => returned_words(attempt, returned),
        Event::AttemptEnded { attempt, end } => {
            format!("attempt {} ended: {}", attempt.attempt, tag(end, "end"))
        }
        Event::CommandStarted { command, text, .. } => format!("{command} began: {}", brief(text)),
        Event::CommandEnded { command, state, exit_code, duration_ms, .. } => {
            let code = exit_code.map_or_else(String::new, |code| format!(" with {code}"));
            format!("{command} ended: {}{code} after {duration_ms} ms", tag(state, ""))
        }
        Event::SessionOpened { session, holder, .. } => {
            format!("{session} opened, holder {}", holder.pid)
        }
        Event::SessionClosed { session } => format!("{session} closed"),
        Event::TaskSettled { state, .. } => state_words(*state).to_owned(),
        Event::RunCancelled { why, .. } => format!("asked to be cancelled: {}", tag(why, "")),
        Event::TaskCancelled { .. } => "asked to be cancelled".to_owned(),
        Event::TaskRetried { .. } => "asked to be tried again".to_owned(),
        Event::Touched { touches, .. } => {
            let touched = touches.touched.iter();
            let touched: Vec<_> =
                touched.map(|touched| format!("{} {}", touched.mode, touched.resource)).collect();
            format!("touched: {}", brief(&touched.join(", ")))
        }
        Event::ContractChanged { key, .. } => format!("{key} changed while it ran"),
        Event::ConflictSeen { conflict, .. } => {
            let Conflict { resource, mode, holder, .. } = &**conflict;
            format!("stopped: {mode} {resource}, which {holder} holds")
        }
        Event::EscalationRaised { escalation, cause, to, .. } => {
            format!("{escalation} put to {to}: {cause}")
        }
        Event::EscalationResolved { escalation, answer, by, .. } => {
            format!("{escalation} answered by {by}: {}", tag(answer, "answer"))
        }
        Event::RunEnded { outcome, exit_code, .. } => {
            format!("ended: {} with {exit_code}", tag(outcome, ""))
        }
        Event::Board { entry } => match &entry.value {
            Some(value) => format!("board {} = {}", entry.key, brief(&value.to_string())),
            None => format!("board {} removed", entry.key),
        },
    }
}

/// The word that a document has for it.
fn tag(what: &impl serde::Serialize, key: &str) -> String {
    let value = serde_json::to_value(what).unwrap_or_default();
    let word = if key.is_empty() { &value } else { &value[key] };
    word.as_str().unwrap_or_default().replace('_', " ")
}

/// A text on one line, without anything that a terminal obeys.
fn brief(text: &str) -> String {
    let line: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    match line.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
