//! What is counted of the coordinator and logged of its records.

use std::collections::BTreeMap;

use super::desk::Desk;
use crate::domain::event::Event;
use crate::report::metrics::{Snapshot, Tally};

impl Desk {
    /// How things stand, beside what the loop has counted and knows of itself.
    pub(super) fn snapshot(&self, tally: Tally, board_entries: u64, inbox: (u64, u64)) -> Snapshot {
        let mut tasks = BTreeMap::new();
        for run in self.runs.values() {
            for (state, count) in run.schedule.counts() {
                *tasks.entry(state).or_default() += count as u64;
            }
        }
        let mut sessions = BTreeMap::new();
        for session in self.sessions.values() {
            *sessions.entry(session.state.as_str()).or_default() += 1;
        }
        Snapshot {
            workspace: self.workspace.to_string(),
            version: env!("CARGO_PKG_VERSION"),
            since: self.since,
            tally,
            runs_open: self.runs.values().filter(|run| run.ended.is_none()).count() as u64,
            tasks,
            sessions,
            board_entries,
            inbox,
            clients: self.clients.len() as u64,
        }
    }
}

/// Logs a record. Neither texts of commands nor what terminals say are in it: they may hold
/// secrets, and the log is read by more people than the transcripts are.
pub(super) fn log(event: &Event) {
    match event {
        Event::RunSubmitted { run, plan, detached, .. } => {
            tracing::info!(%run, tasks = plan.tasks.len(), detached, "run submitted");
        }
        Event::RunResumed { run, .. } => tracing::info!(%run, "run resumed"),
        Event::RunCancelled { run, why } => tracing::info!(%run, ?why, "run cancelled"),
        Event::RunEnded { run, outcome, exit_code, .. } => {
            tracing::info!(%run, ?outcome, exit_code, "run ended");
        }
        Event::AttemptStarted { attempt, agent, session } => {
            let (run, task, number) = (&attempt.run, &attempt.task, attempt.attempt);
            tracing::info!(%run, %task, attempt = number, %session, %agent, "attempt started");
        }
        Event::AttemptEnded { attempt, end } => {
            let (run, task, number) = (&attempt.run, &attempt.task, attempt.attempt);
            let end = crate::report::metrics::end_word(end);
            tracing::info!(%run, %task, attempt = number, end, "attempt ended");
        }
        Event::TaskSettled { run, task, state, .. } => {
            tracing::info!(%run, task, state = state.as_str(), "task settled");
        }
        Event::SessionOpened { session, holder, .. } => {
            tracing::info!(%session, holder = holder.pid, "session opened");
        }
        Event::SessionClosed { session } => tracing::info!(%session, "session closed"),
        Event::CommandStarted { session, command, .. } => {
            tracing::debug!(%session, %command, "command started");
        }
        Event::CommandEnded { session, command, state, exit_code, duration_ms, .. } => {
            tracing::debug!(%session, %command, ?state, exit_code, duration_ms, "command ended");
        }
        _ => {}
    }
}
