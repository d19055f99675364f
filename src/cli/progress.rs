//! What a person sees while a run goes on, on stderr: bars on a terminal, one line for each change
//! otherwise, nothing where nobody wants it. stdout is never touched.

mod bars;
mod tally;

use std::io::{self, IsTerminal};

use super::output;
use crate::control::Notice;
use crate::report::record::RunReport;
use bars::Bars;
use tally::Tally;

/// How progress is shown.
pub(super) enum Progress {
    /// On a terminal.
    Bars(Bars),
    /// In a log.
    Lines(Tally),
    /// Not at all.
    Silent,
}

impl Progress {
    /// As fits where stderr goes; silent where that is asked for.
    pub(super) fn choose(silent: bool) -> Self {
        if silent {
            Self::Silent
        } else if io::stderr().is_terminal() {
            Self::Bars(Bars::new())
        } else {
            Self::Lines(Tally::default())
        }
    }

    /// The run as it stands; what was counted before is forgotten.
    pub(super) fn begin(&mut self, report: &RunReport) {
        match self {
            Self::Bars(bars) => bars.begin(report),
            Self::Lines(tally) => *tally = Tally::of(report),
            Self::Silent => {}
        }
    }

    /// News of the run.
    pub(super) fn hear(&mut self, notice: &Notice) {
        match self {
            Self::Bars(bars) => bars.hear(notice),
            Self::Lines(tally) => {
                if let Some(line) = tally.hear(notice) {
                    output::note(format!("{line}\n"));
                }
            }
            Self::Silent => {}
        }
    }

    /// The run as it stands, after news may have been missed: what has changed is told as if it
    /// had been heard, and nothing is told twice.
    pub(super) fn catch_up(&mut self, report: &RunReport) {
        let tally = match self {
            Self::Bars(bars) => bars.tally(),
            Self::Lines(tally) => tally,
            Self::Silent => return,
        };
        let missed = tally.missed(report);
        missed.iter().for_each(|notice| self.hear(notice));
    }

    /// A word that a person has to see, whatever else is shown.
    pub(super) fn warn(&self, text: &str) {
        match self {
            Self::Bars(bars) => bars.say(text),
            Self::Lines(_) | Self::Silent => output::note(format!("{text}\n")),
        }
    }

    /// A word to the person.
    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Bars(bars) => bars.say(text),
            Self::Lines(_) => output::note(format!("{text}\n")),
            Self::Silent => {}
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self) {
        if let Self::Bars(bars) = self {
            bars.tick();
        }
    }

    /// The run is over: whatever moves is taken away.
    pub(super) fn finish(&mut self) {
        if let Self::Bars(bars) = self {
            bars.clear();
        }
    }
}
