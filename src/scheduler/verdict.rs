//! What the end of a command makes of its attempt: whether a retry could mend it, and whether the
//! environment is to blame (design, section 7.1).

use crate::domain::event::AttemptEnd;
use crate::domain::outcome::{CommandState, Reason, TaskCause, TaskReason};
use crate::domain::permission::Verdict;

use super::attempt::{Cause, Command, Question, Role};
use super::event::EndWhy;

/// The status by which a shell says that there is no such program.
const NOT_FOUND: i32 = 127;
/// `EX_UNAVAILABLE` and `EX_TEMPFAIL` of `sysexits.h`: a program's own word for a missing service
/// and for trouble that passes.
const ENVIRONMENT_STATUSES: [i32; 2] = [69, 75];
/// What shells say with status 127. A program that ends with 127 by itself says none of these.
const NOT_FOUND_WORDS: [&str; 2] = ["not found", "No such file or directory"];
/// What the system calls a full disk and a taken port, in the words of libc and of runtimes that
/// print the error's name.
const ENVIRONMENT_WORDS: [&str; 5] = [
    "No space left on device",
    "ENOSPC",
    "Address already in use",
    "EADDRINUSE",
    "Disk quota exceeded",
];

/// What an attempt came to that was ended from above.
pub(super) fn of_ending(why: Cause, command: &Command) -> AttemptEnd {
    let why = match why {
        Cause::Asked(why) => why,
        Cause::Conflicted => return AttemptEnd::Cancelled,
        Cause::NotReady { limit_ms } => {
            return AttemptEnd::TimedOut {
                reason: TaskReason::Command(Reason::Total { limit_ms }),
            };
        }
        Cause::WorkspaceMissing => return of_missing(),
    };
    match (why, &command.question) {
        (EndWhy::ServiceDone, _) if command.ready => AttemptEnd::Succeeded,
        (EndWhy::Unanswered, Some(Question { prompt, secret })) => {
            let cause = TaskCause::Input { prompt: prompt.clone(), secret: *secret };
            AttemptEnd::NeedsInput { reason: TaskReason::Task(cause) }
        }
        _ => AttemptEnd::Cancelled,
    }
}

/// What an attempt comes to whose own folder is gone. Another one gets another folder.
pub(super) fn of_missing() -> AttemptEnd {
    let reason = TaskReason::Command(Reason::WorkspaceMissing);
    AttemptEnd::Failed { reason, permanent: false, environment: true }
}

/// How a command ended, as far as its attempt has to know.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandEnded {
    /// Which: as in `Effect::RunCommand`.
    pub index: usize,
    /// `completed`, `failed` or `timeout`.
    pub state: CommandState,
    /// Why it did not complete.
    pub reason: Option<Reason>,
    /// The shell's status, where known.
    pub exit_code: Option<i32>,
    /// Whether the session ended with it (note `session_ended`).
    pub session_ended: bool,
    /// The end of its clean standard error; of its output, where one terminal carried both.
    pub stderr_tail: String,
}

impl CommandEnded {
    /// A command of which nothing is known but why it is over.
    pub(super) fn without_status(index: usize, reason: Reason) -> Self {
        Self {
            index,
            state: CommandState::Failed,
            reason: Some(reason),
            exit_code: None,
            session_ended: true,
            stderr_tail: String::new(),
        }
    }

    /// Whether it did what it was to do.
    pub(super) fn completed(&self) -> bool {
        self.state == CommandState::Completed
    }

    /// Whether it failed with a status of its own, rather than for a reason that it was given.
    pub(super) fn has_own_status(&self) -> bool {
        matches!(self.reason, Some(Reason::Exit { .. }))
    }

    fn reason(&self) -> Reason {
        let by_status = || match self.exit_code {
            Some(code) if code != 0 => Reason::Exit { code },
            _ => Reason::ShellEnded,
        };
        self.reason.clone().unwrap_or_else(by_status)
    }

    /// A status of 127 that is the shell's own.
    fn program_is_missing(&self) -> bool {
        matches!(self.reason(), Reason::Exit { code: NOT_FOUND })
            && NOT_FOUND_WORDS.iter().any(|words| self.stderr_tail.contains(words))
    }

    fn environment_is_to_blame(&self) -> bool {
        match self.reason() {
            Reason::StartFailed { .. } | Reason::WorkspaceMissing => true,
            Reason::Exit { code } => {
                self.program_is_missing()
                    || ENVIRONMENT_STATUSES.contains(&code)
                    || ENVIRONMENT_WORDS.iter().any(|words| self.stderr_tail.contains(words))
            }
            _ => false,
        }
    }

    /// Whether the same attempt would fail the same way for ever.
    fn is_permanent(&self) -> bool {
        match self.reason() {
            Reason::StartFailed { .. }
            | Reason::WorkspaceMissing
            | Reason::Incomplete { .. }
            | Reason::Policy { .. } => true,
            _ => self.program_is_missing(),
        }
    }
}

/// What an attempt comes to whose command ended by itself and was not to, or not so.
pub(super) fn of(ended: &CommandEnded, role: Role, ready: bool) -> AttemptEnd {
    let reason = ended.reason();
    if let Reason::Policy { verdict: Verdict::Ask, .. } = reason {
        return AttemptEnd::PolicyAsks { reason: TaskReason::Command(reason) };
    }
    if role == Role::Verify {
        let reason = match reason {
            Reason::Exit { .. } | Reason::Signal { .. } | Reason::ShellEnded => {
                TaskReason::Task(TaskCause::Verify { code: ended.exit_code })
            }
            other => TaskReason::Command(other),
        };
        return AttemptEnd::VerifyFailed { reason };
    }
    if ended.state == CommandState::Timeout {
        return AttemptEnd::TimedOut { reason: TaskReason::Command(reason) };
    }
    let program_ended = ended.completed()
        || matches!(
            reason,
            Reason::Exit { .. }
                | Reason::Signal { .. }
                | Reason::ShellEnded
                | Reason::ShellReplaced
        );
    let reason = if role == Role::Service && program_ended {
        TaskReason::Task(TaskCause::ServiceEnded { code: ended.exit_code, ready })
    } else {
        TaskReason::Command(reason)
    };
    AttemptEnd::Failed {
        reason,
        permanent: ended.is_permanent(),
        environment: ended.environment_is_to_blame(),
    }
}

/// What an attempt comes to that is cut short for `reason`.
pub(super) fn of_step(reason: Reason) -> AttemptEnd {
    of(&CommandEnded::without_status(0, reason), Role::Step, false)
}
