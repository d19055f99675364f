//! The report as Markdown: a table of the tasks, then what failed.

use super::flaky::{flaky_words, is_flaky};
use super::record::{RunReport, TaskReport};
use super::summary::{Tone, culprit, last_words, tone};
use super::words::{outcome_words, span, state_words, verdict, words};
use crate::domain::outcome::TaskState;

/// The document.
pub(super) fn markdown(report: &RunReport) -> String {
    let outcome = report.outcome.map_or("goes on", outcome_words);
    let why = verdict(report).map(|why| format!(": {why}")).unwrap_or_default();
    let mut lines = vec![
        format!("## {}: run {} {outcome}", inline(report.workspace_id.as_str()), report.run_id),
        String::new(),
        format!("{} in {}{why}", counts(report), span(report.duration_ms)),
        String::new(),
        "| task | state | why | agent | attempts | time |".to_owned(),
        "|------|-------|-----|-------|---------:|-----:|".to_owned(),
    ];
    lines.extend(report.tasks.iter().map(row));
    for task in &report.tasks {
        if tone(task.state) == Tone::Bad || task.state == TaskState::Escalated {
            lines.extend(failure(task));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn counts(report: &RunReport) -> String {
    let counts = report.counts.iter().filter(|(_, count)| **count > 0);
    let parts: Vec<_> =
        counts.map(|(state, count)| format!("{count} {}", state_words(*state))).collect();
    if parts.is_empty() { "no tasks".to_owned() } else { parts.join(", ") }
}

fn row(task: &TaskReport) -> String {
    let why = task.reason.as_ref().map(words).unwrap_or_default();
    let agent = task.agent.as_ref().map_or("", |agent| agent.as_str());
    let flaky = is_flaky(task).then(|| flaky_words(task));
    format!(
        "| {} | {} | {} | {} | {} | {} |",
        inline(task.id.as_str()),
        flaky.as_deref().unwrap_or(state_words(task.state)),
        inline(&why),
        inline(agent),
        task.attempts,
        span(task.duration_ms)
    )
}

fn failure(task: &TaskReport) -> Vec<String> {
    let mut lines = vec![String::new(), format!("### {}", inline(task.id.as_str())), String::new()];
    lines.push(task.reason.as_ref().map(words).map_or_else(String::new, |why| inline(&why)));
    if let Some(command) = culprit(task) {
        let told = format!("$ {}\n{}", command.command.trim_end(), last_words(command).join("\n"));
        let fence = fence(&told);
        lines.push(String::new());
        lines.push(format!("{fence}text\n{}\n{fence}", told.trim_end()));
    }
    lines
}

/// Longer than any run of back-ticks in the text.
fn fence(text: &str) -> String {
    let longest = text.split(|ch| ch != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Text that means nothing but itself, within one line.
fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '$' => safe.extend(['\\', ch]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            ch if ch.is_control() => safe.push(' '),
            ch => safe.push(ch),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outcome::RunOutcome;
    use crate::report::sample;

    #[test]
    fn a_failed_run() {
        let expected = "\
## shop: run r-1 failed

1 succeeded, 1 failed, 1 skipped in 4.1 s

| task | state | why | agent | attempts | time |
|------|-------|-----|-------|---------:|-----:|
| lint | succeeded |  | local | 1 | 1.2 s |
| build | failed | exit code 2 | local | 1 | 1.2 s |
| deploy | skipped | build failed |  | 0 | 0 ms |

### build

exit code 2

```text
$ make <all> && echo \"x\"
compiling
\terror: `a` < b\u{7}\u{fffe} & | c
```
";
        assert_eq!(markdown(&sample::run()), expected);
    }

    #[test]
    fn flaky_is_said() {
        let mut task = sample::task("t", TaskState::Succeeded, None);
        task.class = Some("flaky".to_owned());
        task.attempts = 2;
        let mut run = sample::run_of(vec![task], RunOutcome::Succeeded, 0);
        let text = markdown(&run);
        assert!(text.contains("| t | flaky: succeeded on attempt 2 |  | local | 2 |"), "{text}");
        run.outcome = Some(RunOutcome::Failed);
        assert!(markdown(&run).contains(" in 4.1 s: 1 flaky task, --fail-on-flaky\n"));
    }

    #[test]
    fn nothing_breaks_out() {
        let task = sample::task("a|b\n<i>*", TaskState::Succeeded, None);
        let text = markdown(&sample::run_of(vec![task], RunOutcome::Succeeded, 0));
        assert!(text.contains("| a\\|b &lt;i&gt;\\* | succeeded |"), "{text}");
        assert_eq!(fence("a ```` b"), "`````");
        assert_eq!(fence("plain"), "```");
    }
}
