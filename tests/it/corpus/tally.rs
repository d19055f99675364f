//! What the rows came to: a table, and what has to hold.

use callboard::domain::result::{Awaiting, Certainty};

use super::{Label, Row, waits, works};

/// Working programs that are taken for waiting ones at certainty `possible`, each with the reason.
const KNOWN_FALSE_ALARMS: &[(&str, &str)] = &[
    (
        "hidden python sleep, Password:",
        "it may not be examined, it sleeps, and all that is left to go by are its words",
    ),
    (
        "ssh -t runs a sleep",
        "on this side a remote program that works looks like one that waits for a key",
    ),
];
const FALSE_ALARMS_MAX: usize = 2;

/// What was seen of a row.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) awaiting: Option<Awaiting>,
    /// From its block to the fact, in ms.
    pub(super) after_ms: Option<f64>,
    /// It ended, and how.
    pub(super) ended: Option<String>,
}

/// All rows so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    lines: Vec<String>,
    wrong: Vec<String>,
    false_alarms: Vec<&'static str>,
    times: Vec<f64>,
    waiting: usize,
    working: usize,
    skipped: usize,
    missed: usize,
}

impl Tally {
    pub(super) fn skipped(&mut self, row: &Row) {
        self.skipped += 1;
        self.lines.push(format!("{:<46} skipped", row.name));
    }

    pub(super) fn note(&mut self, row: &Row, seen: Seen) {
        let told = seen.awaiting.as_ref().map_or_else(
            || seen.ended.clone().map_or("-".to_owned(), |reason| format!("ended: {reason}")),
            |awaiting| {
                let secret = if awaiting.secret { " secret" } else { "" };
                format!("{:?} by {:?}{secret}", awaiting.certainty, awaiting.evidence)
            },
        );
        let after = seen.after_ms.map_or(String::new(), |ms| format!("{ms:.0} ms"));
        self.lines.push(format!(
            "{:<46} {:<14} {told:<34} {after}",
            row.name,
            format!("{:?}", row.label)
        ));
        if let Some(reason) = seen.ended {
            self.wrong.push(format!("{}: it ended: {reason}", row.name));
        }
        match (row.label, seen.awaiting) {
            (Label::Works, None) => self.working += 1,
            (Label::Works, Some(awaiting)) => {
                self.working += 1;
                self.false_alarms.push(row.name);
                let known = KNOWN_FALSE_ALARMS.iter().any(|(name, _)| *name == row.name);
                if awaiting.certainty == Certainty::Certain || !known {
                    self.wrong.push(format!("{}: false alarm: {awaiting:?}", row.name));
                }
            }
            (_, None) => {
                self.waiting += 1;
                self.missed += 1;
                self.wrong.push(format!("{}: missed", row.name));
            }
            (label, Some(awaiting)) => {
                self.waiting += 1;
                self.times.extend(seen.after_ms);
                let secret = matches!(label, Label::WaitsSecret | Label::MayWaitSecret);
                let certain = matches!(label, Label::Waits | Label::WaitsSecret);
                if awaiting.secret != secret {
                    self.wrong.push(format!("{}: secret: {awaiting:?}", row.name));
                }
                if certain && awaiting.certainty != Certainty::Certain {
                    self.wrong.push(format!("{}: not certain: {awaiting:?}", row.name));
                }
            }
        }
    }

    /// Prints the table, and fails where it is not as it has to be.
    pub(super) fn conclude(&mut self) {
        self.times.sort_by(f64::total_cmp);
        let at = |part: usize| {
            let index = (self.times.len() * part / 100).min(self.times.len().saturating_sub(1));
            self.times.get(index).copied().unwrap_or(f64::NAN)
        };
        for line in &self.lines {
            eprintln!("{line}");
        }
        eprintln!(
            "{} rows counted, {} skipped; {} of {} that wait were seen; {} false alarms of {} that work; \
             detection median {:.0} ms, p95 {:.0} ms",
            self.waiting + self.working,
            self.skipped,
            self.waiting - self.missed,
            self.waiting,
            self.false_alarms.len(),
            self.working,
            at(50),
            at(95),
        );
        for (name, reason) in KNOWN_FALSE_ALARMS {
            eprintln!("known: {name}: {reason}");
        }
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        assert!(self.false_alarms.len() <= FALSE_ALARMS_MAX);
        assert!(waits::ROWS.len() >= 30 && works::ROWS.len() >= 30);
    }
}
