//! Events: the facts that the journal holds and a workspace's state is a fold of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::board::BoardEntry;
use super::conflict::{Answer, Conflict, Party, Touches};
use super::ids::{AgentName, AttemptId, CommandId, EscalationId, RunId, SessionId};
use super::outcome::{CommandState, Reason, RunOutcome, TaskCause, TaskReason, TaskState};
use super::plan::{Plan, TaskSpec};
use super::process::ProcessIdentity;
use super::session::SessionOwner;
use super::time::Timestamp;
use super::worktree::{Origin, Returned};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A coordinator took the workspace over.
    CoordinatorStarted {
        /// Its process id.
        pid: u32,
        /// Its version.
        version: String,
    },
    /// A run was accepted.
    RunSubmitted {
        /// Its id.
        run: RunId,
        /// What it works from. Values of `env_pass` are not in it.
        plan: Box<Plan>,
        /// Its options.
        options: RunOptions,
        /// Only these tasks, when set (`--only`, `--from`).
        selected: Option<Vec<usize>>,
        /// The allow-listed part of the client's environment, so that another coordinator can go
        /// on with the run.
        #[serde(default)]
        allowed: BTreeMap<String, String>,
        /// True when the run outlives its client.
        #[serde(default)]
        detached: bool,
        /// The session from inside of which it was submitted: it ends with that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<SessionId>,
        /// True when tasks can be added to it, up to `RunSealed`.
        #[serde(default)]
        open_ended: bool,
        /// Where it began, when it has tasks with worktrees.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Box<Origin>>,
    },
    /// A run that was cut off, cancelled or escalated goes on: what has succeeded stays so.
    RunResumed {
        /// The run.
        run: RunId,
        /// Its options from now on.
        options: RunOptions,
        /// True when it outlives its client.
        detached: bool,
    },
    /// A task joined a run that is open for more (`task dispatch`).
    TaskAdded {
        /// The run.
        run: RunId,
        /// The task; its `after` are indices into the run's plan.
        task: Box<TaskSpec>,
        /// Tasks of other runs that have to succeed before, as `RUN/ID`: those that had not by
        /// then.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        after_others: Vec<String>,
        /// The client's own name for its call, so that the same one adds nothing twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ticket: Option<String>,
    },
    /// Nothing is added to an open run any more: it ends with its tasks.
    RunSealed {
        /// The run.
        run: RunId,
    },
    /// An attempt is about to start; durable before it does.
    AttemptStarted {
        /// Which.
        attempt: AttemptId,
        /// On which agent.
        agent: AgentName,
        /// In which session.
        session: SessionId,
    },
    /// A service's attempt is ready.
    AttemptReady {
        /// Which.
        attempt: AttemptId,
    },
    /// A command began.
    CommandStarted {
        /// The session.
        session: SessionId,
        /// The command.
        command: CommandId,
        /// Its text. Secrets typed in are never part of it.
        text: String,
    },
    /// A command ended.
    CommandEnded {
        /// The session.
        session: SessionId,
        /// The command.
        command: CommandId,
        /// How.
        state: CommandState,
        /// Why.
        reason: Option<Reason>,
        /// Its status.
        exit_code: Option<i32>,
        /// How long it took.
        duration_ms: u64,
    },
    /// A session's shell is there.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// Whose it is.
        owner: SessionOwner,
        /// The process that is the session.
        holder: ProcessIdentity,
    },
    /// A session is over and its tree gone.
    SessionClosed {
        /// The session.
        session: SessionId,
    },
    /// An attempt with a worktree has done all that it was to do, and its process tree is gone: what it
    /// left is about to be merged. Durable before that.
    AttemptReturning {
        /// Which.
        attempt: AttemptId,
    },
    /// What became of it; its end comes right behind.
    AttemptReturned {
        /// Which.
        attempt: AttemptId,
        /// What.
        returned: Returned,
    },
    /// An attempt is over and its process tree gone.
    AttemptEnded {
        /// Which.
        attempt: AttemptId,
        /// How it ended.
        end: AttemptEnd,
    },
    /// A task moved without an attempt: skipped, cancelled, escalated …
    TaskSettled {
        /// The run.
        run: RunId,
        /// Index in its plan.
        task: usize,
        /// Where it is now.
        state: TaskState,
        /// Why.
        reason: Option<TaskReason>,
    },
    /// Somebody asked for the run's end.
    RunCancelled {
        /// The run.
        run: RunId,
        /// Why.
        #[serde(default)]
        why: CancelWhy,
    },
    /// Somebody asked for one task's end.
    TaskCancelled {
        /// The run.
        run: RunId,
        /// Index in its plan.
        task: usize,
    },
    /// Somebody asked for another attempt of a task that is settled.
    TaskRetried {
        /// The run.
        run: RunId,
        /// Index in its plan.
        task: usize,
    },
    /// What a session's processes were seen to change. In batches, and not durable at once.
    Touched {
        /// The session.
        session: SessionId,
        /// What.
        touches: Touches,
    },
    /// A contract changed that a running attempt depends on.
    ContractChanged {
        /// Which attempt.
        attempt: AttemptId,
        /// The contract's board key.
        key: String,
    },
    /// Somebody touched what another one holds; durable before it is stopped for it.
    ConflictSeen {
        /// Who.
        party: Party,
        /// What, and whose.
        conflict: Box<Conflict>,
    },
    /// A task waits for somebody's decision; durable before anybody is asked.
    EscalationRaised {
        /// Its id, `e-…`.
        escalation: EscalationId,
        /// The run.
        run: RunId,
        /// Index in its plan.
        task: usize,
        /// `conflict`, `input`, `policy`, `verify`, `budget`.
        cause: String,
        /// Whom it is put to: a task of the run (`[workspace] orchestrator`), or `person`.
        to: String,
        /// What has happened, for reading.
        story: String,
        /// The question of its terminal, where it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        /// Until when that one has time; then it is put to the next, or stays open.
        deadline: Option<Timestamp>,
    },
    /// Somebody has decided; durable before it is done.
    EscalationResolved {
        /// Which.
        escalation: EscalationId,
        /// Its run.
        run: RunId,
        /// How.
        answer: Answer,
        /// Who: `person`, or a task as `RUN/ID`.
        by: String,
    },
    /// All tasks of the run are settled.
    RunEnded {
        /// The run.
        run: RunId,
        /// How it ended.
        outcome: RunOutcome,
        /// Its exit code.
        exit_code: u8,
        /// How many tasks are in each state.
        counts: BTreeMap<TaskState, usize>,
    },
    /// The board changed.
    Board {
        /// The entry as it is now.
        entry: BoardEntry,
    },
}

impl Event {
    /// Its name, as the journal has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CoordinatorStarted { .. } => "coordinator_started",
            Self::RunSubmitted { .. } => "run_submitted",
            Self::RunResumed { .. } => "run_resumed",
            Self::TaskAdded { .. } => "task_added",
            Self::RunSealed { .. } => "run_sealed",
            Self::AttemptStarted { .. } => "attempt_started",
            Self::AttemptReady { .. } => "attempt_ready",
            Self::CommandStarted { .. } => "command_started",
            Self::CommandEnded { .. } => "command_ended",
            Self::SessionOpened { .. } => "session_opened",
            Self::SessionClosed { .. } => "session_closed",
            Self::AttemptReturning { .. } => "attempt_returning",
            Self::AttemptReturned { .. } => "attempt_returned",
            Self::AttemptEnded { .. } => "attempt_ended",
            Self::TaskSettled { .. } => "task_settled",
            Self::RunCancelled { .. } => "run_cancelled",
            Self::TaskCancelled { .. } => "task_cancelled",
            Self::TaskRetried { .. } => "task_retried",
            Self::Touched { .. } => "touched",
            Self::ConflictSeen { .. } => "conflict_seen",
            Self::ContractChanged { .. } => "contract_changed",
            Self::EscalationRaised { .. } => "escalation_raised",
            Self::EscalationResolved { .. } => "escalation_resolved",
            Self::RunEnded { .. } => "run_ended",
            Self::Board { .. } => "board",
        }
    }
}

/// Why a run was cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelWhy {
    /// Somebody asked for it.
    #[default]
    Requested,
    /// The client that it lived as long as is gone.
    ClientLost,
    /// The coordinator was told to end.
    ShuttingDown,
}

impl CancelWhy {
    /// The same as the reason of a task that it has ended.
    pub fn cause(self) -> TaskCause {
        match self {
            Self::Requested => TaskCause::Cancelled,
            Self::ClientLost => TaskCause::ClientLost,
            Self::ShuttingDown => TaskCause::ShuttingDown,
        }
    }
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum AttemptEnd {
    /// All commands completed (a service: ended by us after it was ready).
    Succeeded,
    /// Some command failed.
    Failed {
        /// Why.
        reason: TaskReason,
        /// True for what no retry can mend: a missing agent program, a bad cwd.
        permanent: bool,
        /// True when the environment is to blame (design, section 7.1).
        environment: bool,
    },
    /// A time limit ended it.
    TimedOut {
        /// `silent` or `total`.
        reason: TaskReason,
    },
    /// It touched what another live party holds: it backs off.
    Conflict {
        /// What, and whose it is.
        conflict: Box<Conflict>,
    },
    /// It waited for input that nobody could give.
    NeedsInput {
        /// The question.
        reason: TaskReason,
    },
    /// Its `verify` script failed.
    VerifyFailed {
        /// How.
        reason: TaskReason,
    },
    /// The policy asks for a person's word on one of its commands, and nobody was there.
    PolicyAsks {
        /// On what.
        reason: TaskReason,
    },
    /// It was ended on request.
    Cancelled,
}

/// Options of a run (design, section 7.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOptions {
    /// How many tasks at a time; at least 1.
    pub jobs: u32,
    /// End the run at the first failure.
    pub fail_fast: bool,
    /// True when somebody can be asked: a person at the terminal or an orchestrator. Without,
    /// a question that nobody answers ends its task once nothing else can proceed.
    pub attended: bool,
    /// Seeds the jitter of retries, so that a replay waits as the run did.
    pub seed: u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { jobs: 1, fail_fast: false, attended: false, seed: 0 }
    }
}

/// The caller's environment as the client captured it, filtered: the allow-list, and the names in
/// `env_pass` with their values. Never written to disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientEnv {
    /// Allow-listed variables.
    pub allowed: BTreeMap<String, String>,
    /// Variables named in some `env_pass`.
    pub passed: BTreeMap<String, String>,
}

/// A journal line's point in time is the line's own (`journal::Line`); it is repeated here so that
/// a replay hands the machines the same `now`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}
