//! A run's report on the terminal.

use std::io::{self, IsTerminal};

use super::table::table;
use crate::domain::outcome::TaskState;
use crate::report::classify::FLAKY;
use crate::report::record::{RunReport, TaskReport};
use crate::report::summary::{Tone, plain, summary};
use crate::report::words::{span, state_words, words};

/// How a run went, coloured where stdout is a terminal that wants it.
pub(super) fn for_stdout(report: &RunReport) -> String {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && io::stdout().is_terminal() { summary(report, paint) } else { plain(report) }
}

/// Every task of a run in a table, then how it went.
pub(super) fn overview(report: &RunReport) -> String {
    let rows: Vec<_> = report.tasks.iter().map(row).collect();
    let mut text = table(&["TASK", "STATE", "AGENT", "ATTEMPTS", "TIME", "REASON"], &rows);
    text.push('\n');
    text.push_str(&for_stdout(report));
    text
}

/// A task that failed and then succeeded: with more starts than its conflicts account for.
pub(super) fn is_flaky(task: &TaskReport) -> bool {
    let retried = task.attempts.saturating_sub(task.conflicts) > 1;
    task.class.as_deref() == Some(FLAKY) || (task.state == TaskState::Succeeded && retried)
}

fn paint(tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Doubtful => "33",
        Tone::Quiet => "2",
        Tone::Name => "1",
        Tone::Plain => return text.to_owned(),
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn row(task: &TaskReport) -> Vec<String> {
    vec![
        task.id.to_string(),
        state_words(task.state).to_owned(),
        task.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        task.attempts.to_string(),
        span(task.duration_ms),
        task.reason.as_ref().map(words).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaky_is_a_success_after_a_failure() {
        let task = |state, attempts, conflicts, class: Option<&str>| TaskReport {
            id: "a".into(),
            state,
            agent: None,
            needs: Vec::new(),
            attempts,
            conflicts,
            session_id: None,
            started_at: None,
            duration_ms: 0,
            reason: None,
            class: class.map(str::to_owned),
            waited_on: Vec::new(),
            commands: Vec::new(),
            backoffs: Vec::new(),
            published: Vec::new(),
            artifacts: Vec::new(),
        };
        for (task, flaky) in [
            (task(TaskState::Succeeded, 1, 0, None), false),
            (task(TaskState::Succeeded, 2, 0, None), true),
            (task(TaskState::Succeeded, 2, 1, None), false),
            (task(TaskState::Failed, 2, 0, None), false),
            (task(TaskState::Succeeded, 1, 0, Some("flaky")), true),
        ] {
            assert_eq!(is_flaky(&task), flaky, "{task:?}");
        }
    }
}
