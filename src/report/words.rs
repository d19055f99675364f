//! Reasons, states and spans of time in words. Everything that speaks to a person uses these.

use super::flaky::verdict_words;
use super::record::RunReport;
use crate::domain::event::CancelWhy;
use crate::domain::outcome::{Reason, RunOutcome, TaskCause, TaskReason, TaskState};
use crate::domain::permission::Verdict;
use crate::domain::worktree::{Returned, WorktreeReport};

/// Longest part of a foreign text that is quoted, in characters.
const QUOTED: usize = 120;

/// Why a task is where it is, as a phrase that can follow its state.
pub fn words(reason: &TaskReason) -> String {
    match reason {
        TaskReason::Command(reason) => reason_words(reason),
        TaskReason::Task(cause) => cause_words(cause),
    }
}

/// Why a command did not complete.
pub fn reason_words(reason: &Reason) -> String {
    match reason {
        Reason::Exit { code } => format!("exit code {code}"),
        Reason::Signal { signal, inferred: false } => format!("ended by signal {signal}"),
        Reason::Signal { signal, inferred: true } => {
            format!("ended by signal {signal}, judging by its exit code")
        }
        Reason::Interrupted { signal } => match signal.as_deref() {
            Some(signal) if signal != "INT" => format!("interrupted (it took SIG{signal})"),
            _ => "interrupted".to_owned(),
        },
        Reason::Quota { resource, limit } => {
            format!("over its {resource} limit of {}", amount(resource, *limit))
        }
        Reason::Policy { verdict: Verdict::Ask, message, .. } => {
            format!("the policy asks for a person's word: {}", one_line(message))
        }
        Reason::Policy { message, .. } => format!("refused by the policy: {}", one_line(message)),
        Reason::Incomplete { message } => {
            format!("the shell cannot read it to an end: {}", one_line(message))
        }
        Reason::ShellEnded => "its shell ended and left no status".to_owned(),
        Reason::ShellReplaced => "its shell became another program and left no status".to_owned(),
        Reason::AwaitingInput { prompt } => {
            format!("waited for input that nothing answered{}", asked(prompt))
        }
        Reason::Stopped { reason: Some(reason), .. } => format!("stopped: {}", one_line(reason)),
        Reason::Stopped { pattern, reason: None } => {
            format!("stopped: its output matches {}", quote(pattern))
        }
        Reason::Conflict { resource, holder } => format!("{resource} is held by {holder}"),
        Reason::SessionClosed => "its session was closed".to_owned(),
        Reason::WorkspaceMissing => "its working directory is gone".to_owned(),
        Reason::Lost => "its session died; what became of it is not known".to_owned(),
        Reason::StartFailed { message } => format!("could not start: {}", one_line(message)),
        Reason::Silent { limit_ms, last_output_ms } => format!(
            "no output for {} and no CPU use at its limit of {}",
            span(*last_output_ms),
            span(*limit_ms)
        ),
        Reason::Total { limit_ms } => format!("over its time limit of {}", span(*limit_ms)),
    }
}

/// Why a task is where it is, of what befell it from outside its commands.
pub fn cause_words(cause: &TaskCause) -> String {
    match cause {
        TaskCause::Dependency { task, state } => format!("{task} {}", ended(*state)),
        TaskCause::FailFast => "another task failed (--fail-fast)".to_owned(),
        TaskCause::Cancelled => "cancelled on request".to_owned(),
        TaskCause::Input { prompt, secret } => {
            let what = if *secret { "a secret" } else { "input" };
            format!("waits for {what} that nobody could give{}", asked(prompt))
        }
        TaskCause::Verify { code: Some(code) } => {
            format!("its verify script gave exit code {code}")
        }
        TaskCause::Verify { code: None } => "its verify script failed".to_owned(),
        TaskCause::ServiceEnded { code, ready } => {
            let when = if *ready { "while it was needed" } else { "before it was ready" };
            match code {
                Some(code) => format!("the service ended {when}: exit code {code}"),
                None => format!("the service ended {when}"),
            }
        }
        TaskCause::Publish { key, message } => format!("`{key}` cannot be published: {message}"),
        TaskCause::Merge { message } => format!("its worktree could not be merged: {message}"),
        TaskCause::CoordinatorLost => "the coordinator was gone while it ran".to_owned(),
        TaskCause::ClientLost => "its client was gone".to_owned(),
        TaskCause::ShuttingDown => "the coordinator was told to end".to_owned(),
        TaskCause::Decided => "as somebody has decided".to_owned(),
    }
}

/// A state as people say it.
pub fn state_words(state: TaskState) -> &'static str {
    match state {
        TaskState::Blocked => "blocked",
        TaskState::Ready => "ready",
        TaskState::Running => "running",
        TaskState::BackingOff => "backing off",
        TaskState::Retrying => "retrying",
        TaskState::Escalated => "escalated",
        TaskState::Succeeded => "succeeded",
        TaskState::Failed => "failed",
        TaskState::TimedOut => "timed out",
        TaskState::Cancelled => "cancelled",
        TaskState::Skipped => "skipped",
    }
}

fn ended(state: TaskState) -> String {
    match state {
        TaskState::Cancelled | TaskState::Skipped | TaskState::Escalated => {
            format!("was {}", state_words(state))
        }
        TaskState::Succeeded | TaskState::Failed | TaskState::TimedOut => {
            state_words(state).to_owned()
        }
        _ => format!("is {}", state_words(state)),
    }
}

/// Why a run ended so, where its tasks do not show it.
pub(super) fn verdict(report: &RunReport) -> Option<String> {
    let from_outside = report.cancelled.filter(|why| *why != CancelWhy::Requested);
    verdict_words(report).or_else(|| from_outside.map(|why| cause_words(&why.cause())))
}

/// How a run ended, as a phrase that can follow `run R`.
pub fn outcome_words(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Succeeded => "succeeded",
        RunOutcome::Failed => "failed",
        RunOutcome::Environment => "could not succeed in this environment",
        RunOutcome::Escalated => "waits for a decision",
        RunOutcome::Cancelled => "was cancelled",
        RunOutcome::Incomplete => "is incomplete",
    }
}

/// A span of time: `850 ms`, `4.1 s`, `2 min 5 s`, `1 h 2 min`.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 if ms % 1000 < 100 => format!("{seconds} s"),
        1000..60_000 => format!("{seconds}.{} s", ms % 1000 / 100),
        60_000..3_600_000 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60_000..3_600_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if (seconds / 60).is_multiple_of(60) => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn amount(resource: &str, limit: u64) -> String {
    match resource {
        "memory" | "output" | "disk" => bytes(limit),
        "cpu" => span(limit),
        _ => limit.to_string(),
    }
}

fn bytes(count: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(size, _)| count >= *size && count.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{} {unit}", count / size),
        None => format!("{count} bytes"),
    }
}

/// A foreign text as part of a sentence: one line, shortened, in back-ticks.
fn quote(text: &str) -> String {
    format!("`{}`", one_line(text))
}

/// What a terminal asked, after a colon; nothing where it asked without a word.
pub fn asked(prompt: &str) -> String {
    match one_line(prompt) {
        prompt if prompt.is_empty() => String::new(),
        prompt => format!(": `{prompt}`"),
    }
}

/// One line of it, without controls, shortened.
pub(super) fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.retain(|ch| !ch.is_control());
    if let Some((end, _)) = line.char_indices().nth(QUOTED) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The last lines that are not blank, at most `count`.
pub(super) fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.lines().rev().skip_while(|line| line.trim().is_empty()).take(count).collect();
    lines.reverse();
    lines
}

/// What is to be known of a task's worktree: nothing, when all went the plain way.
pub(super) fn worktree_words(worktree: &WorktreeReport) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(Returned { branch, held: Some(why), .. }) = &worktree.returned {
        words.push(format!("its result stays on `{branch}`: {why}"));
    }
    words.extend(worktree.kept.iter().map(|folder| format!("its worktree is kept: {folder}")));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reason: Reason) -> String {
        words(&TaskReason::Command(reason))
    }

    #[test]
    fn commands() {
        let signal = |inferred| Reason::Signal { signal: "KILL".to_owned(), inferred };
        let quota = |resource: &str, limit| Reason::Quota { resource: resource.to_owned(), limit };
        let stopped = |reason: Option<&str>| Reason::Stopped {
            pattern: "^E:".to_owned(),
            reason: reason.map(str::to_owned),
        };
        let message = || "a\nb".to_owned();
        let policy = |verdict| Reason::Policy { verdict, rule: None, message: message() };
        for (reason, expected) in [
            (Reason::Exit { code: 2 }, "exit code 2"),
            (signal(false), "ended by signal KILL"),
            (signal(true), "ended by signal KILL, judging by its exit code"),
            (Reason::INTERRUPT, "interrupted"),
            (quota("memory", 256 << 20), "over its memory limit of 256 MiB"),
            (quota("processes", 64), "over its processes limit of 64"),
            (quota("output", 1000), "over its output limit of 1000 bytes"),
            (policy(Verdict::Deny), "refused by the policy: a b"),
            (policy(Verdict::Ask), "the policy asks for a person's word: a b"),
            (Reason::Incomplete { message: message() }, "the shell cannot read it to an end: a b"),
            (Reason::ShellEnded, "its shell ended and left no status"),
            (Reason::ShellReplaced, "its shell became another program and left no status"),
            (
                Reason::AwaitingInput { prompt: "Go on? ".to_owned() },
                "waited for input that nothing answered: `Go on?`",
            ),
            (
                Reason::AwaitingInput { prompt: " \n".to_owned() },
                "waited for input that nothing answered",
            ),
            (stopped(None), "stopped: its output matches `^E:`"),
            (stopped(Some("no network")), "stopped: no network"),
            (
                Reason::Conflict { resource: "port/::/80".to_owned(), holder: "r/web".to_owned() },
                "port/::/80 is held by r/web",
            ),
            (Reason::SessionClosed, "its session was closed"),
            (Reason::WorkspaceMissing, "its working directory is gone"),
            (Reason::Lost, "its session died; what became of it is not known"),
            (Reason::StartFailed { message: message() }, "could not start: a b"),
            (
                Reason::Silent { limit_ms: 30_000, last_output_ms: 12_340 },
                "no output for 12.3 s and no CPU use at its limit of 30 s",
            ),
            (Reason::Total { limit_ms: 1000 }, "over its time limit of 1 s"),
        ] {
            assert_eq!(of(reason), expected);
        }
    }

    #[test]
    fn tasks() {
        let input = |prompt: &str, secret| TaskCause::Input { prompt: prompt.to_owned(), secret };
        let dependency = |state| TaskCause::Dependency { task: "build".into(), state };
        let service = |code, ready| TaskCause::ServiceEnded { code, ready };
        for (cause, expected) in [
            (dependency(TaskState::Failed), "build failed"),
            (dependency(TaskState::TimedOut), "build timed out"),
            (dependency(TaskState::Skipped), "build was skipped"),
            (dependency(TaskState::Succeeded), "build succeeded"),
            (TaskCause::FailFast, "another task failed (--fail-fast)"),
            (TaskCause::Cancelled, "cancelled on request"),
            (input("Key: ", false), "waits for input that nobody could give: `Key:`"),
            (input("Key: ", true), "waits for a secret that nobody could give: `Key:`"),
            (input("", false), "waits for input that nobody could give"),
            (TaskCause::Verify { code: Some(1) }, "its verify script gave exit code 1"),
            (TaskCause::Verify { code: None }, "its verify script failed"),
            (service(Some(3), false), "the service ended before it was ready: exit code 3"),
            (service(None, true), "the service ended while it was needed"),
            (TaskCause::CoordinatorLost, "the coordinator was gone while it ran"),
            (TaskCause::ClientLost, "its client was gone"),
            (TaskCause::ShuttingDown, "the coordinator was told to end"),
            (TaskCause::Decided, "as somebody has decided"),
        ] {
            assert_eq!(words(&TaskReason::Task(cause)), expected);
        }
    }

    #[test]
    fn spans() {
        for (ms, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1 s"),
            (4150, "4.1 s"),
            (60_000, "1 min"),
            (125_900, "2 min 5 s"),
            (3_600_000, "1 h"),
            (3_725_000, "1 h 2 min"),
        ] {
            assert_eq!(span(ms), expected);
        }
    }

    #[test]
    fn foreign_texts() {
        assert_eq!(one_line(" a\tb\n\x1bc "), "a b c");
        assert_eq!(one_line(&"é".repeat(200)), format!("{}…", "é".repeat(120)));
        assert_eq!(last_lines("a\nb\n\nc\n \n", 2), ["", "c"]);
        assert_eq!(last_lines("", 2), Vec::<&str>::new());
    }
}
