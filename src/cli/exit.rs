//! Exit codes, every one of them (design, section 7.1). They are part of the contract: scripts and
//! CI jobs branch on them, so a number never changes its meaning.

use crate::domain::outcome::{CommandState, Reason, signal_name};
use crate::domain::result::CommandResult;

/// Everything succeeded.
pub const SUCCEEDED: u8 = 0;
/// A task really failed. For `exec`: a failure that has no status of its own, such as `stopped`
/// or `quota`.
pub const FAILED: u8 = 1;
/// The command line, the manifest or the configuration is wrong, or the client lacks a variable
/// that some `env_pass` names. Nothing was started.
pub const USAGE: u8 = 2;
/// Only the environment failed (a missing program, a full disk, a taken port), or the run is
/// incomplete. For `exec`: the command could not be started at all, or its folder is gone.
pub const ENVIRONMENT: u8 = 3;
/// A question is open and the run waits for its answer.
pub const ESCALATED: u8 = 4;
/// A defect of callboard's own, or the coordinator is gone.
pub const INTERNAL: u8 = 5;
/// `exec` only: a time limit ended the command.
pub const EXEC_TIMED_OUT: u8 = 124;
/// `exec` only: the command stopped at a prompt that no `--input` answers.
pub const EXEC_AWAITING_INPUT: u8 = 125;
/// `exec` only: policy denied the command. A question that nobody can answer is a denial.
pub const EXEC_DENIED: u8 = 126;
/// `exec` only: added to the number of the signal that ended the command.
pub const EXEC_SIGNAL_BASE: u8 = 128;
/// The run itself was interrupted or cancelled.
pub const INTERRUPTED: u8 = 130;

/// The codes of a run in the order in which they win over one another.
const PRECEDENCE: [u8; 7] =
    [INTERRUPTED, INTERNAL, USAGE, ESCALATED, FAILED, ENVIRONMENT, SUCCEEDED];

/// Of two codes that both apply, the one to exit with.
#[must_use]
pub fn combine(left: u8, right: u8) -> u8 {
    PRECEDENCE.into_iter().find(|&code| code == left || code == right).unwrap_or(INTERNAL)
}

/// The code that `exec` ends with: the command's own where it has one.
#[must_use]
pub fn of_command(result: &CommandResult) -> u8 {
    match (result.state, &result.reason) {
        (CommandState::Completed, _) => SUCCEEDED,
        (CommandState::AwaitingInput, _) => EXEC_AWAITING_INPUT,
        (CommandState::Timeout, _) => EXEC_TIMED_OUT,
        (_, Some(reason)) => of_reason(reason, result.exit_code),
        (_, None) => own_status(result.exit_code),
    }
}

fn of_reason(reason: &Reason, exit_code: Option<i32>) -> u8 {
    match reason {
        Reason::Exit { code } => own_status(Some(*code)),
        Reason::Signal { signal, .. } => {
            signal_number(signal).map_or_else(|| own_status(exit_code), |n| EXEC_SIGNAL_BASE + n)
        }
        Reason::Interrupted { .. } => INTERRUPTED,
        Reason::Policy { .. } => EXEC_DENIED,
        Reason::AwaitingInput { .. } => EXEC_AWAITING_INPUT,
        Reason::Silent { .. } | Reason::Total { .. } => EXEC_TIMED_OUT,
        Reason::StartFailed { .. } | Reason::WorkspaceMissing => ENVIRONMENT,
        Reason::Quota { .. }
        | Reason::Incomplete { .. }
        | Reason::ShellEnded
        | Reason::ShellReplaced
        | Reason::Stopped { .. }
        | Reason::Conflict { .. }
        | Reason::SessionClosed
        | Reason::Lost => FAILED,
    }
}

/// A status as it is, unless it is missing or would read as success.
fn own_status(status: Option<i32>) -> u8 {
    status.and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0).unwrap_or(FAILED)
}

fn signal_number(name: &str) -> Option<u8> {
    (1..=64_u8).find(|&number| signal_name(i32::from(number)) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_applies_wins() {
        for (left, right, code) in [
            (SUCCEEDED, ENVIRONMENT, ENVIRONMENT),
            (FAILED, ENVIRONMENT, FAILED),
            (ENVIRONMENT, ESCALATED, ESCALATED),
            (USAGE, ESCALATED, USAGE),
            (INTERNAL, USAGE, INTERNAL),
            (INTERRUPTED, INTERNAL, INTERRUPTED),
            (77, 78, INTERNAL),
        ] {
            assert_eq!(combine(left, right), code, "{left} and {right}");
            assert_eq!(combine(right, left), code, "{right} and {left}");
        }
    }

    #[test]
    fn exec_ends_with_the_commands_own_code_where_it_has_one() {
        let signal = |name: &str| Reason::Signal { signal: name.to_owned(), inferred: true };
        let stopped = Reason::Stopped { pattern: "ERROR".to_owned(), reason: None };
        let quota = Reason::Quota { resource: "output".to_owned(), limit: 1 };
        let awaiting = Reason::AwaitingInput { prompt: "Go on?".to_owned() };
        for (reason, exit_code, code) in [
            (Reason::Exit { code: 3 }, Some(3), 3),
            (Reason::Exit { code: 127 }, Some(127), 127),
            (Reason::Exit { code: 255 }, Some(255), 255),
            (signal("KILL"), Some(137), 137),
            (signal("SEGV"), None, 139),
            (signal("RTMIN+3"), Some(165), 165),
            (signal("RTMIN+3"), None, FAILED),
            (Reason::INTERRUPT, Some(130), 130),
            (Reason::INTERRUPT, None, 130),
            (Reason::Policy { rule: "deny rm".to_owned() }, None, 126),
            (awaiting, None, 125),
            (Reason::Total { limit_ms: 1 }, None, 124),
            (Reason::Silent { limit_ms: 1, last_output_ms: 1 }, None, 124),
            (stopped, Some(0), FAILED),
            (quota, None, FAILED),
            (Reason::StartFailed { message: String::new() }, None, ENVIRONMENT),
            (Reason::WorkspaceMissing, None, ENVIRONMENT),
            (Reason::Lost, None, FAILED),
        ] {
            assert_eq!(of_reason(&reason, exit_code), code, "{reason:?} with {exit_code:?}");
        }
    }
}
