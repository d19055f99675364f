//! What a run's machine hears and what it asks for.

use crate::domain::conflict::Answer;
use crate::domain::event::{AttemptEnd, CancelWhy, RunOptions};
use crate::domain::ids::TaskId;
use crate::domain::outcome::{RunOutcome, TaskReason, TaskState};
use crate::domain::plan::TaskSpec;

/// What a run's machine hears. Tasks and agents are indices into the run's `Plan`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The run may begin.
    Begin,
    /// A service's attempt is ready: it counts as success for `after`.
    ServiceReady {
        /// The task.
        task: usize,
        /// Its attempt.
        attempt: u32,
    },
    /// The attempt's command waits for input that no rule answered.
    InputAwaited {
        /// The task.
        task: usize,
        /// Its attempt.
        attempt: u32,
    },
    /// It goes on.
    InputAnswered {
        /// The task.
        task: usize,
        /// Its attempt.
        attempt: u32,
    },
    /// An attempt is over and its tree gone. Those of another attempt than the present one are
    /// stragglers and change nothing.
    AttemptEnded {
        /// The task.
        task: usize,
        /// Its attempt.
        attempt: u32,
        /// How it ended.
        end: AttemptEnd,
    },
    /// Somebody wants one task to end.
    CancelTask {
        /// The task.
        task: usize,
    },
    /// Somebody wants the whole run to end.
    CancelRun {
        /// Why. The first that is told holds.
        why: CancelWhy,
    },
    /// Time has passed: `Schedule::next_deadline` has come.
    Tick,
    /// In recall: an attempt was started then. What was decided is not decided again.
    Recalled {
        /// The task.
        task: usize,
        /// The attempt.
        attempt: u32,
        /// Who has it.
        agent: usize,
    },
    /// In recall: the run had ended so.
    RecalledEnd {
        /// How.
        outcome: RunOutcome,
    },
    /// In recall: the task was settled so. Where the machine has come to the same, nothing changes.
    RecalledSettled {
        /// The task.
        task: usize,
        /// Where it was then.
        state: TaskState,
        /// Why.
        reason: Option<TaskReason>,
    },
    /// The recall is over: from here on the machine decides.
    GoOn,
    /// These tasks cannot start: the values of their `env_pass` are not known.
    Withhold {
        /// The tasks.
        tasks: Vec<usize>,
    },
    /// A client has brought them.
    Release,
    /// A run that has ended goes on. What has succeeded, failed or waits for a decision stays so;
    /// what was cancelled or never started goes again.
    Reopen {
        /// Its options from now on.
        options: RunOptions,
    },
    /// Somebody wants another attempt of a task that is settled. Those that were skipped because of
    /// it wait for it again.
    RetryTask {
        /// The task.
        task: usize,
    },
    /// Somebody has decided about a task that waits for a decision. In a run that has ended the
    /// task stands as decided, and goes on with the run.
    Answered {
        /// The task.
        task: usize,
        /// How.
        answer: Answer,
    },
    /// One more task, at the end of the plan. `Schedule::may_add` has been asked before.
    Add {
        /// The task.
        task: Box<TaskSpec>,
        /// On how many tasks of other runs it waits.
        outside: usize,
    },
    /// A task of another run that one waits for has succeeded.
    OutsideMet {
        /// The task that waits.
        task: usize,
    },
    /// A task of another run that one waits for has ended, and not well.
    OutsideFailed {
        /// The task that waits.
        task: usize,
        /// What it waited for, as `RUN/ID`.
        on: TaskId,
        /// Where that one ended.
        state: TaskState,
    },
    /// Somebody has let go of a resource that a task backs off for, or has taken it again.
    Resource {
        /// The board key.
        resource: String,
        /// Whether it is nobody's now.
        free: bool,
    },
    /// Nothing is added any more: the run ends with its tasks.
    Seal,
}

impl Event {
    /// Whether it means something to a run that has ended.
    pub(super) fn is_for_the_ended(&self) -> bool {
        matches!(
            self,
            Self::Reopen { .. } | Self::RetryTask { .. } | Self::Answered { .. } | Self::GoOn
        )
    }
}

/// What a run's machine asks for, in order. Each is carried out after the journal has it.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Effect {
    /// Start an attempt on an agent. To be durable before it is done.
    Start {
        /// The task.
        task: usize,
        /// The attempt's number, from 1.
        attempt: u32,
        /// The agent.
        agent: usize,
    },
    /// End an attempt; it answers with `AttemptEnded`.
    End {
        /// The task.
        task: usize,
        /// Its attempt.
        attempt: u32,
        /// Why.
        why: EndWhy,
    },
    /// A task moved: for the journal and for those who watch.
    Moved {
        /// The task.
        task: usize,
        /// Where it is now.
        state: TaskState,
        /// Why.
        reason: Option<TaskReason>,
    },
    /// Every task is settled and no attempt is left; nothing follows.
    RunEnded {
        /// How.
        outcome: RunOutcome,
        /// With which exit code (design, section 7.1).
        exit_code: u8,
    },
}

/// Why an attempt is ended from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndWhy {
    /// On request, for the task or the run.
    Cancelled,
    /// Another task failed under `--fail-fast`.
    FailFast,
    /// A service whose run has nothing else left: it has succeeded.
    ServiceDone,
    /// It waits for input and nothing else can proceed.
    Unanswered,
}
