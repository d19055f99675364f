//! A run's report on the terminal.

use std::io::{self, IsTerminal};

use super::table::table;
use crate::report::classify::FLAKY;
use crate::report::flaky::is_flaky;
use crate::report::record::{RunReport, TaskReport};
use crate::report::summary::{Telling, Tone, plain, summary};
use crate::report::words::{span, state_words, words};

/// How a run went, coloured where stdout is a terminal that wants it.
pub(super) fn for_stdout(report: &RunReport, telling: Telling) -> String {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match wanted && io::stdout().is_terminal() {
        true => summary(report, telling, paint),
        false => plain(report, telling),
    }
}

/// Every task of a run in a table, then how it went.
pub(super) fn overview(report: &RunReport) -> String {
    let rows: Vec<_> = report.tasks.iter().map(row).collect();
    let mut text = table(&["TASK", "STATE", "AGENT", "ATTEMPTS", "TIME", "REASON"], &rows);
    text.push('\n');
    text.push_str(&for_stdout(report, Telling::All));
    text
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
        if is_flaky(task) { FLAKY } else { state_words(task.state) }.to_owned(),
        task.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
        task.attempts.to_string(),
        span(task.duration_ms),
        task.reason.as_ref().map(words).unwrap_or_default(),
    ]
}
