//! The report as JUnit XML: one suite for the run, one case for each task.

use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestRerun, TestSuite,
};

use super::classify::ENVIRONMENT;
use super::flaky::{flaky_words, is_flaky};
use super::record::{RunReport, TaskReport};
use super::summary::{culprit, last_words};
use super::words::{state_words, words};
use crate::domain::outcome::{TaskCause, TaskReason, TaskState};
use crate::domain::result::CommandResult;
use crate::domain::time::Timestamp;

/// The document.
pub(super) fn junit(report: &RunReport) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new(xml(report.workspace_id.as_str()));
    suite.set_time(Duration::from_millis(report.duration_ms));
    // The field's type is of a crate that is not ours to name; it reads RFC 3339.
    suite.timestamp = report.started_at.to_string().parse().ok();
    suite.add_property(("run_id", xml(report.run_id.as_str()).as_str()));
    for task in &report.tasks {
        suite.add_test_case(case(report, task));
    }
    let mut document = Report::new("callboard");
    document.set_time(Duration::from_millis(report.duration_ms));
    document.timestamp = report.started_at.to_string().parse().ok();
    document.add_test_suite(suite);
    document.to_string()
}

fn case(report: &RunReport, task: &TaskReport) -> TestCase {
    let mut case = TestCase::new(xml(task.id.as_str()), status(task));
    case.set_classname(xml(report.workspace_id.as_str()));
    case.set_time(Duration::from_millis(task.duration_ms));
    case.timestamp = task.started_at.and_then(|at: Timestamp| at.to_string().parse().ok());
    if let Some(agent) = &task.agent {
        case.add_property(("agent", xml(agent.as_str()).as_str()));
    }
    let stdout = joined(task, |command| &command.stdout);
    let stderr = joined(task, |command| &command.stderr);
    if !stdout.is_empty() {
        case.set_system_out(xml(&stdout));
    }
    if !stderr.is_empty() {
        case.set_system_err(xml(&stderr));
    }
    case
}

fn status(task: &TaskReport) -> TestCaseStatus {
    let fail_fast = matches!(task.reason, Some(TaskReason::Task(TaskCause::FailFast)));
    let mut status = match task.state {
        TaskState::Succeeded => TestCaseStatus::success(),
        TaskState::Failed | TaskState::TimedOut => TestCaseStatus::non_success(kind(task)),
        TaskState::Cancelled if !fail_fast => TestCaseStatus::non_success(NonSuccessKind::Error),
        TaskState::Escalated => TestCaseStatus::non_success(NonSuccessKind::Error),
        // Not run, or not to its end.
        _ => TestCaseStatus::skipped(),
    };
    let why = task.reason.as_ref().map(words);
    status.set_message(xml(why.as_deref().unwrap_or(state_words(task.state))));
    status.set_type(xml(task.class.as_deref().unwrap_or(task.state.as_str())));
    if let Some(command) = culprit(task) {
        let told = last_words(command).join("\n");
        status.set_description(xml(&format!("$ {}\n{told}", command.command)));
    }
    status.add_reruns((0..failed_before(task)).map(|_| {
        let mut rerun = TestRerun::new(kind(task));
        rerun.set_message("an earlier attempt did not succeed");
        let outcome = match is_flaky(task) {
            true => flaky_words(task),
            false => format!("{} on attempt {} too", state_words(task.state), task.attempts),
        };
        rerun.set_description(format!("{outcome}; only the output of the last attempt is kept"));
        rerun
    }));
    status
}

/// Conflicts are waits, not failures, and a success without a failure before was only cut off.
/// Of earlier attempts no more is kept than that they were.
fn failed_before(task: &TaskReport) -> u32 {
    if task.state == TaskState::Succeeded && !is_flaky(task) {
        return 0;
    }
    task.attempts.saturating_sub(1).saturating_sub(task.conflicts)
}

fn kind(task: &TaskReport) -> NonSuccessKind {
    match task.class.as_deref() {
        Some(ENVIRONMENT) => NonSuccessKind::Error,
        _ => NonSuccessKind::Failure,
    }
}

fn joined(task: &TaskReport, stream: impl Fn(&CommandResult) -> &String) -> String {
    let texts = task.commands.iter().filter(|command| !stream(command).is_empty());
    texts.map(|command| format!("$ {}\n{}", command.command, stream(command))).collect()
}

/// Text that XML can carry. The writer itself drops control characters, tabs among them.
fn xml(text: &str) -> String {
    text.replace('\t', "    ").replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outcome::{Reason, RunOutcome};
    use crate::report::sample;

    #[test]
    fn a_failed_run() {
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="callboard" tests="3" skipped="1" failures="1" errors="0" timestamp="2025-11-30T23:00:00.000+00:00" time="4.150">
    <testsuite name="shop" tests="3" skipped="1" errors="0" failures="1" timestamp="2025-11-30T23:00:00.000+00:00" time="4.150">
        <properties>
            <property name="run_id" value="r-1"/>
        </properties>
        <testcase name="lint" classname="shop" timestamp="2025-11-30T23:00:00.000+00:00" time="1.250">
            <properties>
                <property name="agent" value="local"/>
            </properties>
        </testcase>
        <testcase name="build" classname="shop" timestamp="2025-11-30T23:00:00.000+00:00" time="1.250">
            <properties>
                <property name="agent" value="local"/>
            </properties>
            <failure message="exit code 2" type="failed">$ make &lt;all&gt; &amp;&amp; echo &quot;x&quot;
compiling
    error: `a` &lt; b� &amp; | c</failure>
            <system-out>$ make &lt;all&gt; &amp;&amp; echo &quot;x&quot;
compiling
</system-out>
            <system-err>$ make &lt;all&gt; &amp;&amp; echo &quot;x&quot;
    error: `a` &lt; b� &amp; | c
</system-err>
        </testcase>
        <testcase name="deploy" classname="shop" time="0.000">
            <skipped message="build failed" type="skipped"/>
        </testcase>
    </testsuite>
</testsuites>
"#;
        assert_eq!(junit(&sample::run()).unwrap(), expected);
    }

    #[test]
    fn states() {
        let command = |code| Some(TaskReason::Command(Reason::Exit { code }));
        let cause = |cause| Some(TaskReason::Task(cause));
        for (state, reason, class, attempts, expected) in [
            (
                TaskState::Succeeded,
                None,
                Some("flaky"),
                3,
                "did not succeed\">flaky: succeeded on attempt 3; only the output of the last",
            ),
            (TaskState::Succeeded, None, None, 3, "time=\"1.250\">\n            <properties>"),
            (
                TaskState::Failed,
                command(127),
                Some(ENVIRONMENT),
                1,
                "<error message=\"exit code 127\" type=\"environment\"",
            ),
            (TaskState::Failed, command(1), None, 2, "did not succeed\">failed on attempt 2 too;"),
            (
                TaskState::TimedOut,
                None,
                None,
                1,
                "<failure message=\"timed out\" type=\"timed_out\"",
            ),
            (
                TaskState::Cancelled,
                cause(TaskCause::Cancelled),
                None,
                1,
                "<error message=\"cancelled on request\"",
            ),
            (
                TaskState::Cancelled,
                cause(TaskCause::FailFast),
                None,
                1,
                "<skipped message=\"another task failed",
            ),
            (TaskState::Escalated, None, None, 1, "<error message=\"escalated\""),
            (TaskState::Running, None, None, 1, "<skipped message=\"running\""),
        ] {
            let mut task = sample::task("t\u{1b}[31m\u{0}", state, reason);
            task.class = class.map(str::to_owned);
            task.attempts = attempts;
            let text = junit(&sample::run_of(vec![task], RunOutcome::Failed, 1)).unwrap();
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains(|ch: char| ch.is_control() && ch != '\n'), "{text}");
        }
    }

    #[test]
    fn conflicts_are_not_failures() {
        let mut task = sample::task("t", TaskState::Succeeded, None);
        (task.attempts, task.conflicts) = (3, 2);
        let text = junit(&sample::run_of(vec![task], RunOutcome::Succeeded, 0)).unwrap();
        assert!(!text.contains("flaky"), "{text}");
    }
}
