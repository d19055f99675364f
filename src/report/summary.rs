//! The summary at the end of a run, for a terminal. One paragraph for each task that is not a
//! plain success, then the counts, then the outcome.

use super::classify::FLAKY;
use super::flaky::{decided, is_flaky};
use super::record::{RunReport, TaskReport};
use super::words::{
    last_lines, one_line, outcome_words, span, state_words, verdict, words, worktree_words,
};
use crate::domain::outcome::{CommandState, RunOutcome, TaskCause, TaskReason, TaskState};
use crate::domain::result::CommandResult;

/// Lines of output shown for a failed task.
const LINES: usize = 10;
const WIDEST_ID: usize = 30;

/// What a part of the summary is, for whoever colours it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A success.
    Good,
    /// A failure.
    Bad,
    /// Neither: skipped, waiting, flaky.
    Doubtful,
    /// Less important.
    Quiet,
    /// A name.
    Name,
    /// Anything else.
    Plain,
}

/// The tone of a state.
pub fn tone(state: TaskState) -> Tone {
    match state {
        TaskState::Succeeded => Tone::Good,
        TaskState::Failed | TaskState::TimedOut => Tone::Bad,
        TaskState::Cancelled
        | TaskState::Skipped
        | TaskState::Escalated
        | TaskState::BackingOff
        | TaskState::Retrying => Tone::Doubtful,
        TaskState::Blocked | TaskState::Ready | TaskState::Running => Tone::Plain,
    }
}

/// How much a summary tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Every task that is not a plain success.
    All,
    /// What a run failed for, and nothing of one that succeeded (`--quiet`).
    Failures,
}

/// The summary without colours.
pub fn plain(report: &RunReport, telling: Telling) -> String {
    summary(report, telling, |_, text| text.to_owned())
}

/// The summary; `paint` gets each part of a line with its tone.
pub fn summary(
    report: &RunReport,
    telling: Telling,
    paint: impl Fn(Tone, &str) -> String,
) -> String {
    let quiet = telling == Telling::Failures;
    if quiet && report.outcome == Some(RunOutcome::Succeeded) {
        return String::new();
    }
    let is_told = |task: &&TaskReport| match telling {
        Telling::All => !is_plain_success(task),
        Telling::Failures => is_failure(task) || (is_flaky(task) && decided(report)),
    };
    let told: Vec<_> = report.tasks.iter().filter(is_told).collect();
    let wide = told.iter().map(|task| task.id.as_str().chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for task in &told {
        lines.push(headline(task, wide.min(WIDEST_ID), &paint));
        if matches!(tone(task.state), Tone::Bad) || task.state == TaskState::Escalated {
            lines.extend(evidence(task, &paint));
        }
    }
    if !told.is_empty() {
        lines.push(String::new());
    }
    lines.push(counts(report, &paint));
    lines.push(ending(report, &paint));
    if !told.is_empty() {
        let hint = format!("more: callboard report {}", report.run_id);
        lines.push(paint(Tone::Quiet, &hint));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn is_plain_success(task: &TaskReport) -> bool {
    let has_left = task.worktree.as_ref().is_some_and(|it| !worktree_words(it).is_empty());
    task.state == TaskState::Succeeded && task.class.is_none() && task.attempts <= 1 && !has_left
}

fn is_failure(task: &TaskReport) -> bool {
    let fail_fast = matches!(task.reason, Some(TaskReason::Task(TaskCause::FailFast)));
    match task.state {
        TaskState::Failed | TaskState::TimedOut | TaskState::Escalated => true,
        TaskState::Cancelled => !fail_fast,
        _ => false,
    }
}

fn headline(task: &TaskReport, wide: usize, paint: &impl Fn(Tone, &str) -> String) -> String {
    let mut facts = Vec::new();
    if is_flaky(task) {
        facts.push(format!("succeeded on attempt {}", task.attempts));
    }
    facts.extend(task.reason.as_ref().map(words));
    facts.extend(task.worktree.iter().flat_map(worktree_words));
    facts.extend(task.class.as_deref().filter(|class| *class != FLAKY).map(str::to_owned));
    if task.attempts > 0 {
        facts.push(span(task.duration_ms));
    }
    if task.attempts > 1 && !is_flaky(task) {
        facts.push(format!("{} attempts", task.attempts));
    }
    if task.conflicts > 0 {
        let plural = if task.conflicts == 1 { "" } else { "s" };
        facts.push(format!("{} conflict{plural}", task.conflicts));
    }
    let (tone, state) = match is_flaky(task) {
        true => (Tone::Doubtful, FLAKY),
        false => (tone(task.state), state_words(task.state)),
    };
    let state = paint(tone, &format!("{state:<11}"));
    let id = paint(Tone::Name, &format!("{:<wide$}", task.id));
    format!("{state} {id}  {}", facts.join(", ")).trim_end().to_owned()
}

/// The command that failed and what it said last.
fn evidence(task: &TaskReport, paint: &impl Fn(Tone, &str) -> String) -> Vec<String> {
    let Some(command) = culprit(task) else { return Vec::new() };
    let mut lines = vec![paint(Tone::Quiet, &format!("    $ {}", one_line(&command.command)))];
    // Results are clean; a report that came from elsewhere need not be.
    let safe = |line: &str| line.replace(|ch: char| ch.is_control() && ch != '\t', "");
    lines.extend(last_words(command).into_iter().map(|line| format!("    {}", safe(line))));
    lines
}

/// The command that a task's failure comes from: the last that did not complete.
pub(super) fn culprit(task: &TaskReport) -> Option<&CommandResult> {
    task.commands.iter().rfind(|command| command.state != CommandState::Completed)
}

/// The last lines of what it said, on both streams: a warning on the one must not hide the reason
/// on the other.
pub(super) fn last_words(command: &CommandResult) -> Vec<&str> {
    match last_lines(&command.output, LINES) {
        lines if lines.is_empty() => last_lines(&command.stderr, LINES),
        lines => lines,
    }
}

fn counts(report: &RunReport, paint: &impl Fn(Tone, &str) -> String) -> String {
    let counts = report.counts.iter().filter(|(_, count)| **count > 0);
    let parts: Vec<_> = counts
        .map(|(state, count)| paint(tone(*state), &format!("{count} {}", state_words(*state))))
        .collect();
    match parts.is_empty() {
        true => "no tasks".to_owned(),
        false => format!("{} in {}", parts.join(", "), span(report.duration_ms)),
    }
}

fn ending(report: &RunReport, paint: &impl Fn(Tone, &str) -> String) -> String {
    let Some(outcome) = report.outcome else { return format!("run {} goes on", report.run_id) };
    let tone = match outcome {
        RunOutcome::Succeeded => Tone::Good,
        RunOutcome::Failed => Tone::Bad,
        _ => Tone::Doubtful,
    };
    let words = paint(tone, outcome_words(outcome));
    let why = verdict(report).map(|why| format!(": {why}")).unwrap_or_default();
    match report.exit_code {
        None | Some(0) => format!("run {} {words}{why}", report.run_id),
        Some(code) => format!("run {} {words}{why} (exit code {code})", report.run_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outcome::Reason;
    use crate::report::sample;

    #[test]
    fn a_failed_run() {
        let expected = "\
failed      build   exit code 2, 1.2 s
    $ make <all> && echo \"x\"
    compiling
    \terror: `a` < b\u{fffe} & | c
skipped     deploy  build failed

1 succeeded, 1 failed, 1 skipped in 4.1 s
run r-1 failed (exit code 1)
more: callboard report r-1
";
        assert_eq!(plain(&sample::run(), Telling::All), expected);
    }

    #[test]
    fn a_good_run_is_short() {
        let lint = sample::task("lint", TaskState::Succeeded, None);
        let run = sample::run_of(vec![lint], RunOutcome::Succeeded, 0);
        assert_eq!(plain(&run, Telling::All), "1 succeeded in 4.1 s\nrun r-1 succeeded\n");
    }

    #[test]
    fn other_endings() {
        let mut flaky = sample::task("flaky", TaskState::Succeeded, None);
        flaky.class = Some(FLAKY.to_owned());
        flaky.attempts = 3;
        flaky.conflicts = 1;
        let limit = TaskReason::Command(Reason::Total { limit_ms: 1000 });
        let mut slow = sample::task("slow", TaskState::TimedOut, Some(limit));
        slow.class = Some("environment".to_owned());
        let mut run = sample::run_of(vec![flaky, slow], RunOutcome::Environment, 3);
        let expected = "\
flaky       flaky  succeeded on attempt 3, 1.2 s, 1 conflict
timed out   slow   over its time limit of 1 s, environment, 1.2 s

1 succeeded, 1 timed out in 4.1 s
run r-1 could not succeed in this environment (exit code 3)
more: callboard report r-1
";
        assert_eq!(plain(&run, Telling::All), expected);
        run.outcome = None;
        run.tasks.clear();
        run.counts.clear();
        assert_eq!(plain(&run, Telling::All), "no tasks\nrun r-1 goes on\n");
    }

    #[test]
    fn a_run_that_failed_for_its_flaky_tasks_says_so() {
        let mut task = sample::task("t", TaskState::Succeeded, None);
        task.class = Some(FLAKY.to_owned());
        let run = sample::run_of(vec![task], RunOutcome::Failed, 1);
        let ending = "run r-1 failed: 1 flaky task, --fail-on-flaky (exit code 1)\n";
        assert!(plain(&run, Telling::All).contains(ending), "{}", plain(&run, Telling::All));
    }

    #[test]
    fn quiet_tells_what_failed_and_no_more() {
        let quiet = |run: &RunReport| plain(run, Telling::Failures);
        let told = quiet(&sample::run());
        assert!(told.starts_with("failed      build  exit code 2, 1.2 s\n"), "{told}");
        assert!(told.contains("run r-1 failed (exit code 1)\n"), "{told}");
        assert!(!told.contains("deploy") && !told.contains("lint"), "{told}");
        let mut task = sample::task("t", TaskState::Succeeded, None);
        task.class = Some(FLAKY.to_owned());
        let mut run = sample::run_of(vec![task], RunOutcome::Succeeded, 0);
        assert_eq!(quiet(&run), "");
        run.outcome = Some(RunOutcome::Failed);
        assert!(quiet(&run).starts_with("flaky       t  "), "{}", quiet(&run));
    }

    #[test]
    fn a_warning_does_not_hide_the_reason() {
        let mut command = sample::command("x", CommandState::Failed, None);
        command.stderr = "warning: old\n".to_owned();
        assert_eq!(last_words(&command), ["warning: old"]);
        command.output = format!("{}warning: old\nassertion failed\n", "fine\n".repeat(20));
        assert_eq!(last_words(&command).len(), LINES);
        assert!(last_words(&command).ends_with(&["warning: old", "assertion failed"]));
    }

    #[test]
    fn painting() {
        let painted = summary(&sample::run(), Telling::All, |tone, text| {
            format!("<{tone:?} {}>", text.trim())
        });
        assert!(painted.starts_with("<Bad failed> <Name build>  exit code 2"), "{painted}");
        assert!(painted.contains("<Good 1 succeeded>, <Bad 1 failed>"), "{painted}");
    }
}
