//! How a command ended and why: the six states of the founding text, and reasons as data.

use serde::{Deserialize, Serialize};

use super::ids::TaskId;
use super::permission::Verdict;

/// Where a command stands. An interruption is `Failed` with that reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// Queued in its session.
    Pending,
    /// Running.
    Running,
    /// Running, and blocked on input from its terminal.
    AwaitingInput,
    /// Ended with status 0.
    Completed,
    /// Ended otherwise; the reason says how.
    Failed,
    /// Ended by a time limit.
    Timeout,
}

impl CommandState {
    /// True once nothing more can happen to the command.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Timeout)
    }
}

/// Why a command did not complete. The kinds are closed (design, section 3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// The shell's status was not 0.
    Exit {
        /// The status, 1 to 255.
        code: i32,
    },
    /// Ended by a signal.
    Signal {
        /// Its name without `SIG`, as in `KILL`.
        signal: String,
        /// True when read off a status of 129 to 192 rather than seen by `waitpid`.
        inferred: bool,
    },
    /// A person's or an agent's interrupt, or a cancellation.
    Interrupted {
        /// The signal after which its tree was gone: `INT`, `TERM` or `KILL`; `None` where nothing
        /// had to be ended, and when asking for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
    },
    /// A limit on a resource was reached.
    Quota {
        /// `memory`, `processes`, `output`, `cpu` …
        resource: String,
        /// The limit, in the resource's own unit.
        limit: u64,
    },
    /// Policy refused it.
    Policy {
        /// `deny`, or `ask` where nobody could answer.
        verdict: Verdict,
        /// The rule that did; `None` where it was none.
        rule: Option<String>,
        /// The policy's own words.
        message: String,
    },
    /// The shell cannot parse the text to an end; nothing was run.
    Incomplete {
        /// The shell's own words.
        message: String,
    },
    /// The session's shell ended and no status of the command is known.
    ShellEnded,
    /// The session's shell became another program and no status is known.
    ShellReplaced,
    /// It waited for input that nothing answered.
    AwaitingInput {
        /// What the terminal asked.
        prompt: String,
    },
    /// A `stop_on` pattern matched its output.
    Stopped {
        /// The pattern.
        pattern: String,
        /// The manifest's own words for it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Another live attempt held the resource.
    Conflict {
        /// The board key.
        resource: String,
        /// Who holds it.
        holder: String,
    },
    /// The session was closed before or while it ran.
    SessionClosed,
    /// The workspace or its cwd is gone.
    WorkspaceMissing,
    /// Its holder died; what became of it is not known.
    Lost,
    /// It could not be started at all.
    StartFailed {
        /// What happened, and where.
        message: String,
    },
    /// `timeout`: neither output nor CPU use in the last 10 s of its tier.
    Silent {
        /// The tier's limit in ms.
        limit_ms: u64,
        /// Age of the last output in ms, from its start when there was none.
        last_output_ms: u64,
    },
    /// `timeout`: the explicit or the hard limit.
    Total {
        /// The limit in ms.
        limit_ms: u64,
    },
}

impl Reason {
    /// An interrupt, as it is asked for.
    pub const INTERRUPT: Self = Self::Interrupted { signal: None };
}

/// Why a task is where it is: a command's reason, or one that only tasks have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TaskReason {
    /// What ended its last command.
    Command(Reason),
    /// Something above commands.
    Task(TaskCause),
}

/// Reasons that only tasks have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskCause {
    /// The condition on a dependency can no longer hold.
    Dependency {
        /// The task it depended on.
        task: TaskId,
        /// Where that one ended.
        state: TaskState,
    },
    /// `--fail-fast` ended the run.
    FailFast,
    /// Cancelled on request.
    Cancelled,
    /// A question nobody could answer.
    Input {
        /// What the terminal asked.
        prompt: String,
        /// True when the terminal's echo was off.
        secret: bool,
    },
    /// The `verify` script failed.
    Verify {
        /// Its status, where it had one.
        code: Option<i32>,
    },
    /// The service's program ended before or after it was ready.
    ServiceEnded {
        /// Its status, where known.
        code: Option<i32>,
        /// Whether it had been ready before.
        ready: bool,
    },
    /// What it left in its worktree could not be merged; it is all still there.
    Merge {
        /// What was in the way.
        message: String,
    },
    /// What it was to publish could not be put on the board.
    Publish {
        /// The board key.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// The coordinator was gone while the attempt ran.
    CoordinatorLost,
    /// The client that the run lived as long as was gone.
    ClientLost,
    /// The coordinator was told to end.
    ShuttingDown,
    /// Somebody answered its escalation so.
    Decided,
}

/// Where a task stands (design, section 3), by name alone; the scheduler's own type carries each
/// state's facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Waits for its `after` tasks.
    Blocked,
    /// Could start; waits for an agent.
    Ready,
    /// An attempt runs.
    Running,
    /// A conflict: waits its time out.
    BackingOff,
    /// Failed with retries left: waits its time out.
    Retrying,
    /// Waits for a decision.
    Escalated,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended by a time limit.
    TimedOut,
    /// Ended on request.
    Cancelled,
    /// Never started: a condition can no longer hold.
    Skipped,
}

impl TaskState {
    /// True for the five states that a task never leaves by itself. `Escalated` is not among
    /// them: an answer leads out of it.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::TimedOut | Self::Cancelled | Self::Skipped
        )
    }

    /// The name as reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::BackingOff => "backing_off",
            Self::Retrying => "retrying",
            Self::Escalated => "escalated",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

/// How a whole run ended (`outcome` in its report).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every task succeeded, or was skipped because its condition asked for it.
    Succeeded,
    /// A task really failed.
    Failed,
    /// Only the environment failed: a missing program, a full disk, a taken port.
    Environment,
    /// A question is open.
    Escalated,
    /// The run itself was interrupted or cancelled.
    Cancelled,
    /// Some task was cancelled by itself.
    Incomplete,
}

/// A name for a signal as POSIX writes it, without `SIG`; `None` where the number has none.
pub fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        5 => "TRAP",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        10 => "USR1",
        11 => "SEGV",
        12 => "USR2",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        16 => "STKFLT",
        17 => "CHLD",
        18 => "CONT",
        19 => "STOP",
        20 => "TSTP",
        21 => "TTIN",
        22 => "TTOU",
        23 => "URG",
        24 => "XCPU",
        25 => "XFSZ",
        26 => "VTALRM",
        27 => "PROF",
        28 => "WINCH",
        29 => "IO",
        30 => "PWR",
        31 => "SYS",
        _ => return None,
    })
}
