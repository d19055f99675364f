//! What a coordinator reads off the journal when it starts: past runs, durations, and the board's
//! entries that its store lacks.

use std::collections::{BTreeMap, HashMap};

use super::adoption::Expected;
use super::board::publishing::Stale;
use super::dispatched::PastDispatches;
use super::durations::Durations;
use super::touches::Past;
use crate::control::RunLine;
use crate::domain::board::BoardEntry;
use crate::domain::event::Event;
use crate::domain::ids::{AttemptId, CommandId, RunId, SessionId};
use crate::domain::outcome::{CommandState, RunOutcome, TaskState};
use crate::domain::session::SessionOwner;
use crate::domain::time::Timestamp;
use crate::journal::Line;
use crate::scheduler::recall::Recall;

/// The fold of a journal, as far as a coordinator needs it.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Runs, oldest first. One whose coordinator was lost is `incomplete`.
    pub runs: Vec<RunLine>,
    /// How long commands took.
    pub durations: Durations,
    /// Runs that have not ended, and those that can be resumed.
    pub recall: Recall,
    /// Sessions that have no end.
    pub open: BTreeMap<SessionId, Expected>,
    /// Tasks that were added to runs which have no end.
    pub dispatches: PastDispatches,
    /// Board entries with the numbers of their lines, oldest first.
    pub board: Vec<(u64, BoardEntry)>,
    /// What sessions that have no end were seen to touch, oldest first.
    pub touched: Past,
    /// Contracts that changed while attempts ran.
    pub stale: Stale,
    /// The time of the last line.
    pub last_at: Timestamp,
    places: HashMap<RunId, usize>,
    texts: HashMap<CommandId, String>,
}

impl History {
    /// Takes one line in, in order.
    pub(super) fn fold(&mut self, line: Line) {
        self.last_at = self.last_at.max(line.at);
        self.recall.fold(line.at, &line.event);
        self.dispatches.fold(&line.event);
        self.stale.fold(&line.event);
        self.touched.fold(line.at, &line.event);
        match line.event {
            Event::CoordinatorStarted { .. } => self.texts.clear(),
            Event::RunSubmitted { run, plan, selected, .. } => {
                let tasks = selected.map_or(plan.tasks.len(), |selected| selected.len());
                self.submitted(run, tasks, line.at);
            }
            Event::RunResumed { run, .. } => {
                if let Some(known) = self.places.get(&run).and_then(|at| self.runs.get_mut(*at)) {
                    known.outcome = Some(RunOutcome::Incomplete);
                    known.exit_code = Some(3);
                    known.cancelled = None;
                }
            }
            Event::SessionOpened { session, owner, holder } => {
                self.open.insert(session, Expected { owner, holder: Some(holder) });
            }
            Event::SessionClosed { session } => {
                self.open.remove(&session);
            }
            Event::RunCancelled { run, why } => {
                if let Some(known) = self.places.get(&run).and_then(|at| self.runs.get_mut(*at)) {
                    known.cancelled.get_or_insert(why);
                }
            }
            Event::RunEnded { run, outcome, exit_code, counts } => {
                if let Some(known) = self.places.get(&run).and_then(|at| self.runs.get_mut(*at)) {
                    known.cancelled.take_if(|_| outcome != RunOutcome::Cancelled);
                    known.outcome = Some(outcome);
                    known.exit_code = Some(exit_code);
                    known.counts = counts;
                }
            }
            Event::CommandStarted { command, text, .. } => {
                self.texts.insert(command, text);
            }
            Event::CommandEnded { command, state, duration_ms, .. } => {
                if let Some(text) = self.texts.remove(&command)
                    && state == CommandState::Completed
                {
                    self.durations.record(&text, duration_ms);
                }
            }
            Event::Board { entry } => self.board.push((line.seq, entry)),
            Event::AttemptStarted { .. }
            | Event::AttemptReady { .. }
            | Event::AttemptReturning { .. }
            | Event::AttemptReturned { .. }
            | Event::AttemptEnded { .. }
            | Event::TaskSettled { .. }
            | Event::TaskAdded { .. }
            | Event::RunSealed { .. }
            | Event::TaskCancelled { .. }
            | Event::TaskRetried { .. }
            | Event::ConflictSeen { .. }
            | Event::Touched { .. }
            | Event::ContractChanged { .. }
            | Event::EscalationRaised { .. }
            | Event::EscalationResolved { .. } => {}
        }
    }
}

impl History {
    fn submitted(&mut self, run: RunId, tasks: usize, at: Timestamp) {
        self.places.insert(run.clone(), self.runs.len());
        self.runs.push(RunLine {
            run_id: run,
            outcome: Some(RunOutcome::Incomplete),
            exit_code: Some(3),
            started_at: at,
            counts: [(TaskState::Blocked, tasks)].into(),
            cancelled: None,
        });
    }

    /// The sessions that may still be there: those that were open, and those of attempts that run.
    pub(super) fn expected(&mut self) -> BTreeMap<SessionId, Expected> {
        let mut expected = std::mem::take(&mut self.open);
        for (run, recalled) in self.recall.open() {
            for (task, attempt, session) in recalled.running() {
                let task = recalled.plan.tasks[task].id.clone();
                let attempt = AttemptId { run: run.clone(), task, attempt };
                let owner = SessionOwner::Attempt { attempt };
                // A session that was opened ahead is its attempt's from the start of that on.
                expected
                    .entry(session)
                    .and_modify(|known| known.owner = owner.clone())
                    .or_insert(Expected { owner, holder: None });
            }
        }
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64, event: Event) -> Line {
        Line { seq, at: Timestamp(i64::try_from(seq).unwrap()), event }
    }

    #[test]
    fn a_run_without_an_end_is_incomplete() {
        let plan = crate::domain::plan::Plan {
            workspace_id: None,
            root: "/".into(),
            agents: Vec::new(),
            default_env: Default::default(),
            default_env_pass: Vec::new(),
            session_defaults: Default::default(),
            policy: Default::default(),
            default_shell: Default::default(),
            tasks: Vec::new(),
        };
        let submitted = |run: &str| Event::RunSubmitted {
            run: run.into(),
            plan: Box::new(plan.clone()),
            options: Default::default(),
            selected: None,
            allowed: Default::default(),
            detached: false,
            parent: None,
            open_ended: false,
            origin: None,
        };
        let ended = Event::RunEnded {
            run: "a".into(),
            outcome: RunOutcome::Succeeded,
            exit_code: 0,
            counts: Default::default(),
        };
        let mut history = History::default();
        for (seq, event) in (1..).zip([submitted("a"), submitted("b"), ended]) {
            history.fold(line(seq, event));
        }
        let seen: Vec<_> =
            history.runs.iter().map(|run| (run.run_id.as_str(), run.exit_code)).collect();
        assert_eq!(seen, [("a", Some(0)), ("b", Some(3))]);
        assert_eq!(history.last_at, Timestamp(3));
    }
}
