//! The report as one HTML page that stands alone: no script, nothing loaded.

use super::flaky::{flaky_words, is_flaky};
use super::record::{RunReport, TaskReport};
use super::summary::{Tone, tone};
use super::words::{outcome_words, reason_words, span, state_words, verdict, words};
use crate::domain::result::CommandResult;

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;\
margin:2rem auto;padding:0 1rem}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884}\
td.n{text-align:right;font-variant-numeric:tabular-nums}.good{color:#1a7f37}.bad{color:#d1242f}\
.doubtful{color:#9a6700}pre{background:#8881;padding:.6rem;overflow-x:auto}summary{cursor:pointer}";

/// The page.
pub(super) fn html(report: &RunReport) -> String {
    let title = format!("{}: run {}", report.workspace_id, report.run_id);
    let outcome = report.outcome.map_or("goes on", outcome_words);
    let code = report.exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
    let why = verdict(report).map(|why| format!(": {why}")).unwrap_or_default();
    let rows: String = report.tasks.iter().map(row).collect();
    let details: String = report.tasks.iter().map(details).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p>{outcome}{why}{code}; started {started}, took {took}</p>\n<table>\n\
         <tr><th>task<th>state<th>why<th>agent<th>attempts<th>time</tr>\n{rows}</table>\n\
         {details}</body>\n</html>\n",
        title = escape(&title),
        started = report.started_at,
        took = span(report.duration_ms),
    )
}

fn row(task: &TaskReport) -> String {
    let why = task.reason.as_ref().map(words).unwrap_or_default();
    let agent = task.agent.as_ref().map_or("", |agent| agent.as_str());
    let id = escape(task.id.as_str());
    let name = match task.commands.is_empty() {
        true => id,
        false => format!("<a href=\"#{}\">{id}</a>", anchor(task)),
    };
    format!(
        "<tr><td>{name}<td class=\"{}\">{}<td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}</tr>\n",
        class(task),
        state(task),
        escape(&why),
        escape(agent),
        task.attempts,
        span(task.duration_ms)
    )
}

fn details(task: &TaskReport) -> String {
    if task.commands.is_empty() {
        return String::new();
    }
    let open = if tone(task.state) == Tone::Bad { " open" } else { "" };
    let commands: String = task.commands.iter().map(command).collect();
    format!(
        "<details id=\"{}\"{open}>\n<summary><span class=\"{}\">{}</span> {}</summary>\n{commands}\
         </details>\n",
        anchor(task),
        class(task),
        state(task),
        escape(task.id.as_str())
    )
}

fn command(command: &CommandResult) -> String {
    let how = match (&command.reason, command.exit_code) {
        (Some(reason), _) => reason_words(reason),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => String::new(),
    };
    format!(
        "<pre><b>$ {}</b>\n{}</pre>\n<p>{} ({})</p>\n",
        escape(&command.command),
        escape(&command.output),
        escape(&how),
        span(command.duration_ms)
    )
}

fn state(task: &TaskReport) -> String {
    match is_flaky(task) {
        true => flaky_words(task),
        false => state_words(task.state).to_owned(),
    }
}

fn class(task: &TaskReport) -> &'static str {
    match tone(task.state) {
        _ if is_flaky(task) => "doubtful",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Doubtful => "doubtful",
        Tone::Quiet | Tone::Name | Tone::Plain => "plain",
    }
}

/// An id may hold no blank; everything but letters and digits is written by its number.
fn anchor(task: &TaskReport) -> String {
    let mut anchor = String::from("task-");
    for ch in task.id.as_str().chars() {
        match ch {
            ch if ch.is_ascii_alphanumeric() => anchor.push(ch),
            ch => anchor.extend(format!("-{:x}-", u32::from(ch)).chars()),
        }
    }
    anchor
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(ch),
            ch if ch.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            ch => safe.push(ch),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outcome::{RunOutcome, TaskState};
    use crate::report::sample;

    #[test]
    fn a_failed_run() {
        let page = html(&sample::run());
        for part in [
            "<title>shop: run r-1</title>",
            "<p>failed, exit code 1; started 2025-11-30T23:00:00.000Z, took 4.1 s</p>",
            "<tr><td>lint<td class=\"good\">succeeded<td><td>local<td class=\"n\">1",
            "<tr><td><a href=\"#task-build\">build</a><td class=\"bad\">failed<td>exit code 2",
            "<details id=\"task-build\" open>",
            "<pre><b>$ make &lt;all&gt; &amp;&amp; echo &quot;x&quot;</b>\ncompiling\n\terror: `a`",
            "<td class=\"doubtful\">skipped<td>build failed",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }

    #[test]
    fn flaky_is_said() {
        let mut task = sample::task("t", TaskState::Succeeded, None);
        task.class = Some("flaky".to_owned());
        task.attempts = 2;
        let mut run = sample::run_of(vec![task], RunOutcome::Succeeded, 0);
        let page = html(&run);
        let cell = "<tr><td>t<td class=\"doubtful\">flaky: succeeded on attempt 2<td>";
        assert!(page.contains(cell), "{page}");
        run.outcome = Some(RunOutcome::Failed);
        assert!(html(&run).contains("<p>failed: 1 flaky task, --fail-on-flaky, exit code"));
    }

    #[test]
    fn nothing_breaks_out() {
        let mut task = sample::task("a\" onclick='x'<script>", TaskState::Succeeded, None);
        task.commands = sample::run().tasks[1].commands.clone();
        "</pre><script>alert(1)</script>".clone_into(&mut task.commands[0].output);
        let page = html(&sample::run_of(vec![task], RunOutcome::Succeeded, 0));
        assert!(!page.contains("<script") && !page.contains("onclick='"), "{page}");
        assert!(page.contains("id=\"task-a-22--20-onclick-3d--27-x-27--3c-script-3e-\""), "{page}");
    }
}
