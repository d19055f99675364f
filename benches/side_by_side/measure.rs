//! Medians, spreads and ratios. A number is never shown without the one beside it.

use std::time::{Duration, Instant};

/// Several measurements of one thing.
pub struct Series {
    values: Vec<f64>,
}

impl Series {
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { values }
    }

    /// The value below which `share` of the others lie (nearest rank).
    pub fn at(&self, share: f64) -> f64 {
        let last = self.values.len().saturating_sub(1);
        self.values.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Median with the least and the greatest.
    pub fn shown(&self, unit: &str) -> String {
        format!(
            "{:.3} {unit} ({:.3} to {:.3}, n={})",
            self.median(),
            self.at(0.0),
            self.at(1.0),
            self.values.len()
        )
    }
}

/// Seconds that `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Microseconds of a duration.
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// One line of a table.
pub fn row(name: &str, text: &str) {
    println!("  {name:<44} {text}");
}

/// The verdict on a target: met or not, with the figure.
pub fn target(what: &str, met: bool) {
    println!("  {} {what}", if met { "reached:" } else { "MISSED:" });
}
