//! What a coordinator has counted, and how it is read by Prometheus.
//!
//! Counters begin at zero with each coordinator, as Prometheus expects of a process (`rate` and
//! `increase` bridge the reset, and `process_start_time_seconds` tells it); what lasts is in the
//! journal. Gauges are looked up when they are asked for.

use std::collections::BTreeMap;

use crate::domain::event::{AttemptEnd, Event, Stamped};
use crate::domain::ids::{AttemptId, RunId};
use crate::domain::outcome::{CommandState, Reason, RunOutcome, TaskState};
use crate::domain::time::Timestamp;

mod text;

pub use text::{CONTENT_TYPE, render};

/// Upper bounds of the buckets of what tasks and commands take, in seconds.
const WORK_SECONDS: &[f64] =
    &[0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 7200.0];
/// The same for the journal.
const DISK_SECONDS: &[f64] =
    &[0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];
/// Beginnings remembered until their ends come. More are open only where ends are never told.
const OPEN_MAX: usize = 100_000;

/// How often what took how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and what is beyond all of them; not cumulative.
    counts: Vec<u64>,
    /// All of it together, in microseconds.
    sum_us: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum_us: 0 }
    }

    /// Takes in one, in microseconds.
    pub fn observe_us(&mut self, us: u64) {
        // Exact up to 2^53 µs, which is 285 years.
        let seconds = seconds_of(us);
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound);
        self.counts[bucket.unwrap_or(self.bounds.len())] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    fn observe_ms(&mut self, ms: u64) {
        self.observe_us(ms.saturating_mul(1000));
    }

    /// How many were taken in.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum of durations is no account of money")]
fn seconds_of(us: u64) -> f64 {
    us as f64 / 1e6
}

/// What has been counted since the coordinator began: a fold of what it records.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    runs: BTreeMap<&'static str, u64>,
    attempts: u64,
    retries: u64,
    attempts_ended: BTreeMap<&'static str, u64>,
    sessions_opened: u64,
    sessions_closed: u64,
    commands_started: u64,
    /// By state and kind of reason; an empty kind for none.
    commands: BTreeMap<(&'static str, String), u64>,
    run_time: Histogram,
    attempt_time: Histogram,
    command_time: Histogram,
    events: u64,
    commits: u64,
    commit_time: Histogram,
    running: BTreeMap<RunId, Timestamp>,
    trying: BTreeMap<AttemptId, Timestamp>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            // What has not happened yet is there as a zero, so that its first time is an increase.
            runs: OUTCOMES.iter().map(|outcome| (outcome_word(*outcome), 0)).collect(),
            attempts: 0,
            retries: 0,
            attempts_ended: ENDS.iter().map(|end| (*end, 0)).collect(),
            sessions_opened: 0,
            sessions_closed: 0,
            commands_started: 0,
            commands: BTreeMap::from([(("completed", String::new()), 0)]),
            run_time: Histogram::new(WORK_SECONDS),
            attempt_time: Histogram::new(WORK_SECONDS),
            command_time: Histogram::new(WORK_SECONDS),
            events: 0,
            commits: 0,
            commit_time: Histogram::new(DISK_SECONDS),
            running: BTreeMap::new(),
            trying: BTreeMap::new(),
        }
    }
}

impl Tally {
    /// Takes in what is recorded.
    pub fn note(&mut self, record: &Stamped) {
        match &record.event {
            Event::RunSubmitted { run, .. } | Event::RunResumed { run, .. } => {
                begin(&mut self.running, run.clone(), record.at);
            }
            Event::RunEnded { run, outcome, .. } => {
                *self.runs.entry(outcome_word(*outcome)).or_default() += 1;
                if let Some(since) = self.running.remove(run) {
                    self.run_time.observe_ms(record.at.ms_since(since));
                }
            }
            Event::AttemptStarted { attempt, .. } => {
                self.attempts += 1;
                self.retries += u64::from(attempt.attempt > 1);
                begin(&mut self.trying, attempt.clone(), record.at);
            }
            Event::AttemptEnded { attempt, end } => {
                *self.attempts_ended.entry(end_word(end)).or_default() += 1;
                if let Some(since) = self.trying.remove(attempt) {
                    self.attempt_time.observe_ms(record.at.ms_since(since));
                }
            }
            Event::SessionOpened { .. } => self.sessions_opened += 1,
            Event::SessionClosed { .. } => self.sessions_closed += 1,
            Event::CommandStarted { .. } => self.commands_started += 1,
            Event::CommandEnded { state, reason, duration_ms, .. } => {
                let kind = reason.as_ref().map(kind_word).unwrap_or_default();
                *self.commands.entry((state_word(*state), kind)).or_default() += 1;
                self.command_time.observe_ms(*duration_ms);
            }
            _ => {}
        }
    }

    /// A group of so many events is on its way to the disk.
    pub fn note_commit(&mut self, events: usize) {
        self.events += events as u64;
        self.commits += 1;
    }

    /// So long a commit was waited for.
    pub fn note_commit_time(&mut self, us: u64) {
        self.commit_time.observe_us(us);
    }
}

fn begin<K: Ord>(open: &mut BTreeMap<K, Timestamp>, key: K, at: Timestamp) {
    if open.len() < OPEN_MAX {
        open.insert(key, at);
    }
}

/// How things stand at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Which workspace.
    pub workspace: String,
    /// The coordinator's version.
    pub version: &'static str,
    /// When the coordinator began.
    pub since: Timestamp,
    /// What it has counted.
    pub tally: Tally,
    /// Runs that go on.
    pub runs_open: u64,
    /// Tasks of those runs, by state.
    pub tasks: BTreeMap<TaskState, u64>,
    /// Open sessions, by state.
    pub sessions: BTreeMap<&'static str, u64>,
    /// Keys on the board, removed ones included.
    pub board_entries: u64,
    /// Events that wait to be heard, and how many may.
    pub inbox: (u64, u64),
    /// Clients at the Unix socket.
    pub clients: u64,
}

const OUTCOMES: [RunOutcome; 6] = [
    RunOutcome::Succeeded,
    RunOutcome::Failed,
    RunOutcome::Environment,
    RunOutcome::Escalated,
    RunOutcome::Cancelled,
    RunOutcome::Incomplete,
];

const TASK_STATES: [TaskState; 11] = [
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

const ENDS: [&str; 7] = [
    "succeeded",
    "failed",
    "timed_out",
    "needs_input",
    "verify_failed",
    "policy_asks",
    "cancelled",
];

fn outcome_word(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Succeeded => "succeeded",
        RunOutcome::Failed => "failed",
        RunOutcome::Environment => "environment",
        RunOutcome::Escalated => "escalated",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Incomplete => "incomplete",
    }
}

/// The word for how an attempt ended.
pub fn end_word(end: &AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Succeeded => "succeeded",
        AttemptEnd::Failed { .. } => "failed",
        AttemptEnd::TimedOut { .. } => "timed_out",
        AttemptEnd::Conflict { .. } => "conflict",
        AttemptEnd::NeedsInput { .. } => "needs_input",
        AttemptEnd::VerifyFailed { .. } => "verify_failed",
        AttemptEnd::PolicyAsks { .. } => "policy_asks",
        AttemptEnd::Cancelled => "cancelled",
    }
}

fn state_word(state: CommandState) -> &'static str {
    match state {
        CommandState::Pending => "pending",
        CommandState::Running => "running",
        CommandState::AwaitingInput => "awaiting_input",
        CommandState::Completed => "completed",
        CommandState::Failed => "failed",
        CommandState::Timeout => "timeout",
    }
}

/// The kind as the contract calls it: a closed list, so its values are few.
fn kind_word(reason: &Reason) -> String {
    let document = serde_json::to_value(reason).unwrap_or_default();
    document.get("kind").and_then(|kind| kind.as_str()).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests;
