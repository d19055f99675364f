//! Runs as the journal alone tells them: what is known of a run whose coordinator was lost before
//! it could write a report. Folded from events, in order.

use std::collections::BTreeMap;

use crate::domain::board::BoardView;
use crate::domain::event::{AttemptEnd, Event};
use crate::domain::ids::{AgentName, AttemptId, RunId, SessionId, WorkspaceId};
use crate::domain::outcome::{RunOutcome, TaskCause, TaskReason, TaskState};
use crate::domain::plan::Plan;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::Timestamp;

use super::record::{RunReport, TaskReport};

/// The exit code of a run that was cut off: it is incomplete (design, section 7.1).
const EXIT_INCOMPLETE: u8 = 3;

/// The runs of a journal that have begun and not ended.
#[derive(Debug, Default)]
pub struct Ledger {
    open: BTreeMap<RunId, Open>,
}

#[derive(Debug)]
struct Open {
    plan: Box<Plan>,
    /// The tasks that take part, as indices into the plan.
    members: Vec<usize>,
    started_at: Timestamp,
    last_at: Timestamp,
    tasks: BTreeMap<usize, Known>,
}

/// What is known of a task that has moved.
#[derive(Debug, Default)]
struct Known {
    attempts: u32,
    agent: Option<AgentName>,
    session: Option<SessionId>,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    runs: bool,
    settled: Option<(TaskState, Option<TaskReason>)>,
}

impl Ledger {
    /// Takes one event in, with its time.
    pub fn fold(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::RunSubmitted { run, plan, selected, .. } => {
                let members = selected.clone().unwrap_or_else(|| (0..plan.tasks.len()).collect());
                let open = Open {
                    plan: plan.clone(),
                    members,
                    started_at: at,
                    last_at: at,
                    tasks: BTreeMap::new(),
                };
                self.open.insert(run.clone(), open);
            }
            Event::AttemptStarted { attempt, agent, session } => {
                if let Some(known) = self.known(attempt, at) {
                    known.attempts = attempt.attempt;
                    known.agent = Some(agent.clone());
                    known.session = Some(session.clone());
                    known.started_at.get_or_insert(at);
                    known.runs = true;
                }
            }
            Event::AttemptEnded { attempt, end } => {
                if let Some(known) = self.known(attempt, at) {
                    known.ended_at = Some(at);
                    known.runs = false;
                    // Durable, where the task's own record may have been lost with the rest.
                    if *end == AttemptEnd::Succeeded {
                        known.settled = Some((TaskState::Succeeded, None));
                    }
                }
            }
            Event::TaskSettled { run, task, state, reason } => {
                if let Some(open) = self.open.get_mut(run) {
                    open.last_at = at;
                    let known = open.tasks.entry(*task).or_default();
                    known.settled = Some((*state, reason.clone()));
                }
            }
            Event::TaskAdded { run, task, .. } => {
                if let Some(open) = self.open.get_mut(run) {
                    open.last_at = at;
                    open.members.push(open.plan.tasks.len());
                    open.plan.tasks.push((**task).clone());
                }
            }
            Event::RunEnded { run, .. } => {
                self.open.remove(run);
            }
            _ => {}
        }
    }

    /// The runs that have not ended, oldest first by name.
    pub fn open(&self) -> impl Iterator<Item = &RunId> {
        self.open.keys()
    }

    /// The record of a run that was cut off; `None` when it has ended, or is not known. What ran
    /// has failed with its coordinator, what had not started was cancelled with it.
    pub fn cut_off(&self, run: &RunId, workspace: &WorkspaceId) -> Option<RunReport> {
        let open = self.open.get(run)?;
        let tasks: Vec<TaskReport> = open.members.iter().map(|task| open.task(*task)).collect();
        let mut counts = BTreeMap::new();
        for task in &tasks {
            *counts.entry(task.state).or_insert(0) += 1;
        }
        Some(RunReport {
            schema_version: SCHEMA_VERSION,
            run_id: run.clone(),
            workspace_id: open.plan.workspace_id.clone().unwrap_or_else(|| workspace.clone()),
            outcome: Some(RunOutcome::Incomplete),
            exit_code: Some(EXIT_INCOMPLETE),
            started_at: open.started_at,
            duration_ms: open.last_at.ms_since(open.started_at),
            counts,
            tasks,
            board: BoardView::of(workspace.clone(), Vec::new()),
            escalations: Vec::new(),
        })
    }

    fn known(&mut self, attempt: &AttemptId, at: Timestamp) -> Option<&mut Known> {
        let open = self.open.get_mut(&attempt.run)?;
        open.last_at = at;
        let task = open.plan.tasks.iter().position(|task| task.id == attempt.task)?;
        Some(open.tasks.entry(task).or_default())
    }
}

impl Open {
    fn task(&self, index: usize) -> TaskReport {
        let spec = &self.plan.tasks[index];
        let none = Known::default();
        let known = self.tasks.get(&index).unwrap_or(&none);
        let lost = Some(TaskReason::Task(TaskCause::CoordinatorLost));
        let (state, reason) = match &known.settled {
            Some((state, reason)) => (*state, reason.clone()),
            None if known.runs || known.attempts > 0 => (TaskState::Failed, lost),
            None => (TaskState::Cancelled, lost),
        };
        let until = known.ended_at.unwrap_or(self.last_at);
        TaskReport {
            id: spec.id.clone(),
            state,
            agent: known.agent.clone(),
            needs: spec.needs.clone(),
            attempts: known.attempts,
            conflicts: 0,
            session_id: known.session.clone(),
            started_at: known.started_at,
            duration_ms: known.started_at.map_or(0, |started| until.ms_since(started)),
            reason,
            class: None,
            waited_on: spec
                .after
                .iter()
                .map(|edge| self.plan.tasks[edge.task].id.clone())
                .collect(),
            commands: Vec::new(),
            backoffs: Vec::new(),
            published: Vec::new(),
            artifacts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plan::TaskSpec;

    fn plan(ids: &[&str]) -> Box<Plan> {
        Box::new(Plan {
            workspace_id: None,
            root: "/".into(),
            agents: Vec::new(),
            default_env: BTreeMap::new(),
            default_env_pass: Vec::new(),
            session_defaults: Default::default(),
            policy: Default::default(),
            default_shell: Default::default(),
            tasks: ids.iter().map(|id| TaskSpec::new(id, &["true"])).collect(),
        })
    }

    #[test]
    fn a_run_that_was_cut_off_is_told_as_far_as_it_went() {
        let attempt = |task: &str| AttemptId { run: "r".into(), task: task.into(), attempt: 1 };
        let started = |task: &str| Event::AttemptStarted {
            attempt: attempt(task),
            agent: "local".into(),
            session: "s".into(),
        };
        let events = [
            Event::RunSubmitted {
                run: "r".into(),
                plan: plan(&["done", "ran", "never"]),
                options: Default::default(),
                selected: None,
                allowed: Default::default(),
                detached: false,
                open_ended: false,
            },
            started("done"),
            started("ran"),
            Event::AttemptEnded { attempt: attempt("done"), end: AttemptEnd::Succeeded },
        ];
        let mut ledger = Ledger::default();
        for (at, event) in (0..).zip(&events) {
            ledger.fold(Timestamp(at), event);
        }
        assert_eq!(ledger.open().count(), 1);
        let report = ledger.cut_off(&"r".into(), &"w".into()).unwrap();
        assert_eq!((report.outcome, report.exit_code), (Some(RunOutcome::Incomplete), Some(3)));
        let states: Vec<TaskState> = report.tasks.iter().map(|task| task.state).collect();
        assert_eq!(states, [TaskState::Succeeded, TaskState::Failed, TaskState::Cancelled]);
        assert_eq!(report.tasks[1].reason, Some(TaskReason::Task(TaskCause::CoordinatorLost)));
        assert_eq!(report.duration_ms, 3);
        ledger.fold(
            Timestamp(9),
            &Event::RunEnded {
                run: "r".into(),
                outcome: RunOutcome::Succeeded,
                exit_code: 0,
                counts: BTreeMap::new(),
            },
        );
        assert!(ledger.cut_off(&"r".into(), &"w".into()).is_none());
    }
}
