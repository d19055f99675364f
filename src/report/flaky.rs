//! Flaky tasks: those that succeeded only after a failure. A try that was merely cut off is none,
//! so that the class, which knows, decides and not the number of attempts.

use super::classify::{ENVIRONMENT, FLAKY};
use super::record::{RunReport, TaskReport};
use crate::domain::outcome::{RunOutcome, TaskState};

/// True for a task that succeeded only after a failure.
pub fn is_flaky(task: &TaskReport) -> bool {
    task.state == TaskState::Succeeded && task.class.as_deref() == Some(FLAKY)
}

/// How many of a run's tasks are flaky.
pub fn count(report: &RunReport) -> usize {
    report.tasks.iter().filter(|task| is_flaky(task)).count()
}

/// A flaky task's state in words.
pub(super) fn flaky_words(task: &TaskReport) -> String {
    format!("{FLAKY}: succeeded on attempt {}", task.attempts)
}

/// Why a run failed that did so for its flaky tasks alone (`--fail-on-flaky`).
pub(super) fn verdict_words(report: &RunReport) -> Option<String> {
    let plural = if count(report) == 1 { "" } else { "s" };
    decided(report).then(|| format!("{} flaky task{plural}, --fail-on-flaky", count(report)))
}

/// True for such a run.
pub(super) fn decided(report: &RunReport) -> bool {
    let really_failed = |task: &TaskReport| match task.state {
        TaskState::Failed => task.class.as_deref() != Some(ENVIRONMENT),
        TaskState::TimedOut => true,
        _ => false,
    };
    report.outcome == Some(RunOutcome::Failed)
        && count(report) > 0
        && !report.tasks.iter().any(really_failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn task(state: TaskState, class: Option<&str>) -> TaskReport {
        TaskReport { class: class.map(str::to_owned), ..sample::task("t", state, None) }
    }

    #[test]
    fn a_success_after_a_failure() {
        let cut_off = TaskReport { attempts: 2, ..task(TaskState::Succeeded, None) };
        for (task, flaky) in [
            (task(TaskState::Succeeded, None), false),
            (cut_off, false),
            (task(TaskState::Succeeded, Some(FLAKY)), true),
            (task(TaskState::Failed, Some(FLAKY)), false),
        ] {
            assert_eq!(is_flaky(&task), flaky, "{task:?}");
        }
    }

    #[test]
    fn what_decided() {
        let flaky = || task(TaskState::Succeeded, Some(FLAKY));
        for (tasks, outcome, by_flaky) in [
            (vec![flaky()], RunOutcome::Failed, true),
            (vec![flaky()], RunOutcome::Succeeded, false),
            (vec![flaky(), task(TaskState::Failed, None)], RunOutcome::Failed, false),
            (vec![flaky(), task(TaskState::TimedOut, None)], RunOutcome::Failed, false),
            (vec![flaky(), task(TaskState::Failed, Some(ENVIRONMENT))], RunOutcome::Failed, true),
            (vec![task(TaskState::Failed, None)], RunOutcome::Failed, false),
        ] {
            let run = sample::run_of(tasks, outcome, 1);
            let why = by_flaky.then_some("1 flaky task, --fail-on-flaky");
            assert_eq!(verdict_words(&run).as_deref(), why, "{run:?}");
        }
    }
}
