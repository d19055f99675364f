//! Progress on a terminal: what runs where and for how long, below it how far the run is.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tally::Tally;
use crate::control::Notice;
use crate::domain::outcome::TaskState;
use crate::report::record::RunReport;
use crate::report::words::{span, state_words};

/// How many running tasks are listed; a last line counts the rest.
const ROWS_MAX: usize = 10;

/// News that come thick and fast are drawn no more often than this.
const DRAWN_EVERY: Duration = Duration::from_millis(100);

/// The states that are counted on the last line, in this order.
const COUNTED: [TaskState; 8] = [
    TaskState::Running,
    TaskState::Retrying,
    TaskState::BackingOff,
    TaskState::Escalated,
    TaskState::Failed,
    TaskState::TimedOut,
    TaskState::Cancelled,
    TaskState::Skipped,
];

/// Bars on stderr.
pub(in crate::cli) struct Bars {
    screen: MultiProgress,
    whole: ProgressBar,
    rows: Vec<ProgressBar>,
    tally: Tally,
    drawn: Instant,
}

impl Bars {
    pub(super) fn new() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let whole = screen.add(ProgressBar::new(0));
        whole.set_style(style("{bar:24} {pos}/{len} {wide_msg} {elapsed_precise}"));
        let (tally, drawn) = (Tally::default(), Instant::now());
        Self { screen, whole, rows: Vec::new(), tally, drawn }
    }

    pub(super) fn begin(&mut self, report: &RunReport) {
        self.tally = Tally::of(report);
        self.tick();
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) fn hear(&mut self, notice: &Notice) {
        let line = self.tally.hear(notice);
        match notice {
            Notice::Task { state, .. } => {
                let lasting =
                    matches!(state, TaskState::Failed | TaskState::TimedOut | TaskState::Escalated);
                if let Some(line) = line.filter(|_| lasting) {
                    self.say(&line);
                }
            }
            Notice::Awaiting { .. } | Notice::Claimed { .. } => {
                if let Some(line) = line {
                    self.say(&line);
                }
            }
            _ => {}
        }
        if self.drawn.elapsed() > DRAWN_EVERY {
            self.tick();
        }
    }

    /// A line that stays, above the bars.
    pub(super) fn say(&self, text: &str) {
        // A terminal that is gone takes nothing, and the run goes on all the same.
        let _unheard = self.screen.println(text);
    }

    pub(super) fn tick(&mut self) {
        self.drawn = Instant::now();
        let lines = self.lines();
        while self.rows.len() > lines.len() {
            if let Some(row) = self.rows.pop() {
                row.finish_and_clear();
                self.screen.remove(&row);
            }
        }
        while self.rows.len() < lines.len() {
            let row = self.screen.insert_before(&self.whole, ProgressBar::new_spinner());
            row.set_style(style("{spinner} {wide_msg}"));
            self.rows.push(row);
        }
        for (row, line) in self.rows.iter().zip(lines) {
            row.set_message(line);
            row.tick();
        }
        let (settled, total) = self.tally.settled();
        self.whole.set_length(total as u64);
        self.whole.set_position(settled as u64);
        self.whole.set_message(self.counts());
        self.whole.tick();
    }

    pub(super) fn clear(&mut self) {
        // As above.
        let _unheard = self.screen.clear();
    }

    fn lines(&self) -> Vec<String> {
        let now = self.tally.now();
        let running = &self.tally.running;
        let mut lines: Vec<_> = running
            .iter()
            .take(ROWS_MAX)
            .map(|(task, running)| {
                let agent =
                    running.agent.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
                let asks = running.prompt.as_ref().map(|prompt| format!("  asks: {prompt}"));
                let time = span(now.ms_since(running.since));
                format!("{task}{agent}  {time}{}", asks.unwrap_or_default())
            })
            .collect();
        if running.len() > ROWS_MAX {
            lines.push(format!("… and {} more", running.len() - ROWS_MAX));
        }
        lines
    }

    fn counts(&self) -> String {
        let number = |state: &TaskState| self.tally.counts.get(state).copied().unwrap_or(0);
        COUNTED
            .iter()
            .filter(|state| number(state) > 0)
            .map(|state| format!("{} {}", number(state), state_words(*state)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are ours and a test parses them.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_parse() {
        for template in
            ["{bar:24} {pos}/{len} {wide_msg} {elapsed_precise}", "{spinner} {wide_msg}"]
        {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
