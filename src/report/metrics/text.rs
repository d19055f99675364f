//! The text exposition format of Prometheus, version 0.0.4: a comment for what each metric is, then
//! a line for each of its samples.

use std::fmt::Write as _;

use super::{Histogram, Snapshot, TASK_STATES, seconds_of};

/// The media type of what `render` writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes a snapshot as a scraper reads it.
pub fn render(snapshot: &Snapshot) -> String {
    let mut page = Page(String::with_capacity(8 * 1024));
    page.process(snapshot);
    page.work(snapshot);
    page.commands(snapshot);
    page.coordinator(snapshot);
    page.0
}

struct Page(String);

impl Page {
    fn process(&mut self, now: &Snapshot) {
        self.head(
            "callboard_build_info",
            "gauge",
            "Version of the coordinator, and its workspace.",
        );
        let labels = [("version", now.version), ("workspace", now.workspace.as_str())];
        self.sample("callboard_build_info", &labels, "1");
        self.head("process_start_time_seconds", "gauge", "When the coordinator began.");
        let since = u64::try_from(now.since.0).unwrap_or(0);
        let since = format!("{:.3}", seconds_of(since.saturating_mul(1000)));
        self.sample("process_start_time_seconds", &[], &since);
    }

    fn work(&mut self, now: &Snapshot) {
        let tally = &now.tally;
        self.head("callboard_runs_total", "counter", "Runs that have ended, by outcome.");
        for (outcome, count) in &tally.runs {
            self.sample("callboard_runs_total", &[("outcome", outcome)], &count.to_string());
        }
        self.gauge("callboard_runs_open", "Runs that go on.", now.runs_open);
        self.histogram("callboard_run_duration_seconds", "Time of whole runs.", &tally.run_time);
        self.head("callboard_tasks", "gauge", "Tasks of the runs that go on, by state.");
        for state in TASK_STATES {
            let count = now.tasks.get(&state).copied().unwrap_or(0).to_string();
            self.sample("callboard_tasks", &[("state", state.as_str())], &count);
        }
        self.counter("callboard_attempts_total", "Attempts that were started.", tally.attempts);
        let help = "Attempts that were started after an earlier one of the same task.";
        self.counter("callboard_attempt_retries_total", help, tally.retries);
        self.head("callboard_attempts_ended_total", "counter", "Attempts that ended, by how.");
        for (end, count) in &tally.attempts_ended {
            self.sample("callboard_attempts_ended_total", &[("end", end)], &count.to_string());
        }
        let help = "Time of attempts, from their start until their tree is gone.";
        self.histogram("callboard_attempt_duration_seconds", help, &tally.attempt_time);
    }

    fn commands(&mut self, now: &Snapshot) {
        let tally = &now.tally;
        self.head("callboard_sessions", "gauge", "Open sessions, by state.");
        for state in ["starting", "idle", "busy", "closing"] {
            let count = now.sessions.get(state).copied().unwrap_or(0).to_string();
            self.sample("callboard_sessions", &[("state", state)], &count);
        }
        let opened = tally.sessions_opened;
        self.counter("callboard_sessions_opened_total", "Sessions whose shell was there.", opened);
        let closed = tally.sessions_closed;
        self.counter("callboard_sessions_closed_total", "Sessions that are over.", closed);
        let started = tally.commands_started;
        self.counter("callboard_commands_started_total", "Commands that began.", started);
        let help = "Commands that ended, by state and kind of reason.";
        self.head("callboard_commands_total", "counter", help);
        for ((state, kind), count) in &tally.commands {
            let labels = [("state", *state), ("reason", kind.as_str())];
            self.sample("callboard_commands_total", &labels, &count.to_string());
        }
        self.histogram(
            "callboard_command_duration_seconds",
            "Time of commands.",
            &tally.command_time,
        );
    }

    fn coordinator(&mut self, now: &Snapshot) {
        let tally = &now.tally;
        self.counter(
            "callboard_journal_events_total",
            "Events given to the journal.",
            tally.events,
        );
        let help = "Groups of events given to the journal, each a write.";
        self.counter("callboard_journal_commits_total", help, tally.commits);
        let help = "How long the coordinator waited for a group of events to be on the disk.";
        self.histogram("callboard_journal_commit_duration_seconds", help, &tally.commit_time);
        let help = "Keys on the board, removed ones included.";
        self.gauge("callboard_board_entries", help, now.board_entries);
        self.gauge("callboard_inbox_depth", "Events that wait to be heard.", now.inbox.0);
        self.gauge("callboard_inbox_capacity", "Events that may wait.", now.inbox.1);
        self.gauge("callboard_clients", "Clients at the Unix socket.", now.clients);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.sample(name, &[], &value.to_string());
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.sample(name, &[], &value.to_string());
    }

    /// Buckets are cumulative, and the last one, without a bound, is the count.
    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
            below += count;
            self.sample(&bucket, &[("le", &bound.to_string())], &below.to_string());
        }
        let count = histogram.count().to_string();
        self.sample(&bucket, &[("le", "+Inf")], &count);
        self.sample(&format!("{name}_sum"), &[], &seconds_of(histogram.sum_us).to_string());
        self.sample(&format!("{name}_count"), &[], &count);
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a String does not fail; this help has neither backslash nor newline.
        let _infallible = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            text.chars().for_each(|c| self.push_escaped(c));
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.0.push(' ');
        self.0.push_str(value);
        self.0.push('\n');
    }

    fn push_escaped(&mut self, c: char) {
        match c {
            '\\' => self.0.push_str("\\\\"),
            '"' => self.0.push_str("\\\""),
            '\n' => self.0.push_str("\\n"),
            c => self.0.push(c),
        }
    }
}
