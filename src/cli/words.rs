//! Numbers, spans and reasons in words.

use crate::domain::outcome::{Reason, TaskCause, TaskReason};

/// `1 problem`, `2 problems`.
pub(super) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A span as people say it: `0.4 s`, `12.3 s`, `4 min 05 s`, `1 h 02 min`.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Why a task is where it is.
pub(super) fn task_reason(reason: &TaskReason) -> String {
    match reason {
        TaskReason::Command(reason) => command_reason(reason),
        TaskReason::Task(cause) => task_cause(cause),
    }
}

fn task_cause(cause: &TaskCause) -> String {
    match cause {
        TaskCause::Dependency { task, state } => {
            format!("`{task}` {}", state.as_str().replace('_', " "))
        }
        TaskCause::FailFast => "another task failed (--fail-fast)".to_owned(),
        TaskCause::Cancelled => "cancelled".to_owned(),
        TaskCause::Input { prompt, secret } => {
            let what = if *secret { "a secret" } else { "input" };
            format!("waits for {what} that nobody can give: `{}`", prompt.trim())
        }
        TaskCause::Verify { code: Some(code) } => format!("`verify` failed with status {code}"),
        TaskCause::Verify { code: None } => "`verify` failed".to_owned(),
        TaskCause::ServiceEnded { code, ready } => {
            let status = code.map(|code| format!(" with status {code}")).unwrap_or_default();
            let when = if *ready { "while it was needed" } else { "before it was ready" };
            format!("the service ended {when}{status}")
        }
        TaskCause::CoordinatorLost => "the coordinator was gone meanwhile".to_owned(),
    }
}

/// Why a command did not complete.
pub(super) fn command_reason(reason: &Reason) -> String {
    match reason {
        Reason::Exit { code } => format!("exit status {code}"),
        Reason::Signal { signal, .. } => format!("ended by SIG{signal}"),
        Reason::Interrupted => "interrupted".to_owned(),
        Reason::Quota { resource, limit } => format!("over its limit of {limit} on {resource}"),
        Reason::Policy { rule } => format!("denied by policy: {rule}"),
        Reason::Incomplete { message } => {
            format!("the shell cannot read it to an end: {}", message.trim())
        }
        Reason::ShellEnded => "its shell ended".to_owned(),
        Reason::ShellReplaced => "its shell became another program".to_owned(),
        Reason::AwaitingInput { prompt } => {
            format!("waited for input that nothing answers: `{}`", prompt.trim())
        }
        Reason::Stopped { pattern, reason: None } => {
            format!("stopped: its output matched `{pattern}`")
        }
        Reason::Stopped { reason: Some(reason), .. } => format!("stopped: {reason}"),
        Reason::Conflict { resource, holder } => format!("{resource} is held by {holder}"),
        Reason::SessionClosed => "its session was closed".to_owned(),
        Reason::WorkspaceMissing => "its folder is gone".to_owned(),
        Reason::Lost => "its session died, and what became of it is not known".to_owned(),
        Reason::StartFailed { message } => format!("could not be started: {message}"),
        Reason::Silent { limit_ms, last_output_ms } => format!(
            "timed out after {}, its last output {} ago",
            span(*limit_ms),
            span(*last_output_ms)
        ),
        Reason::Total { limit_ms } => format!("timed out after {}", span(*limit_ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_keep_two_places() {
        for (ms, words) in [
            (0, "0.0 s"),
            (449, "0.4 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min 00 s"),
            (245_000, "4 min 05 s"),
            (3_720_000, "1 h 02 min"),
        ] {
            assert_eq!(span(ms), words);
        }
    }

    #[test]
    fn reasons_are_fragments() {
        let stopped = |reason: Option<&str>| Reason::Stopped {
            pattern: "E\\d+".to_owned(),
            reason: reason.map(str::to_owned),
        };
        for (reason, words) in [
            (Reason::Exit { code: 2 }, "exit status 2"),
            (Reason::Signal { signal: "KILL".to_owned(), inferred: false }, "ended by SIGKILL"),
            (stopped(None), "stopped: its output matched `E\\d+`"),
            (stopped(Some("a compiler error")), "stopped: a compiler error"),
            (Reason::Total { limit_ms: 1500 }, "timed out after 1.5 s"),
        ] {
            assert_eq!(task_reason(&TaskReason::Command(reason)), words);
        }
    }
}
