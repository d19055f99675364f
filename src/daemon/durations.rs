//! How long the same commands took before, for raising tiers (design, section 3).

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// How many durations of one command are remembered.
const SAMPLES_MAX: usize = 20;
/// How many commands are remembered; past that, none is added. The journal replays the newest
/// last, so a start after a clean-up learns afresh.
const COMMANDS_MAX: usize = 10_000;
/// Fewer samples than this say nothing.
const SAMPLES_MIN: usize = 3;

/// Durations by command text. Only a hash of the text is kept.
#[derive(Debug, Default)]
pub(super) struct Durations {
    samples: HashMap<u64, Vec<u64>>,
}

impl Durations {
    /// Remembers that `text` completed after `ms`.
    pub(super) fn record(&mut self, text: &str, ms: u64) {
        let key = key(text);
        if !self.samples.contains_key(&key) && self.samples.len() >= COMMANDS_MAX {
            return;
        }
        let samples = self.samples.entry(key).or_default();
        if samples.len() == SAMPLES_MAX {
            samples.remove(0);
        }
        samples.push(ms);
    }

    /// The 95th percentile (nearest rank), once there are samples enough.
    pub(super) fn p95_ms(&self, text: &str) -> Option<u64> {
        let mut samples = self.samples.get(&key(text))?.clone();
        if samples.len() < SAMPLES_MIN {
            return None;
        }
        samples.sort_unstable();
        let rank = (samples.len() * 95).div_ceil(100);
        samples.get(rank - 1).copied()
    }
}

fn key(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_of_the_latest() {
        let mut durations = Durations::default();
        durations.record("a", 10);
        durations.record("a", 20);
        assert_eq!(durations.p95_ms("a"), None, "too few");
        for ms in 1..=20 {
            durations.record("a", ms * 100);
        }
        assert_eq!(durations.p95_ms("a"), Some(1900));
        assert_eq!(durations.p95_ms("b"), None);
    }
}
