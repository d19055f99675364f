//! How long a task waits before it is tried again: exponential, capped, with full jitter.

use std::time::Duration;

use backoff::ExponentialBackoffBuilder;
use backoff::backoff::Backoff;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::domain::outcome::{Reason, TaskCause, TaskReason};

/// The longest first wait.
const INITIAL: Duration = Duration::from_millis(500);
/// How much longer each following wait may be.
const MULTIPLIER: f64 = 2.0;
/// No wait is longer.
const CAP: Duration = Duration::from_secs(30);
/// From this retry on the cap has been reached.
const STEPS_TO_CAP: u32 = 7;

/// The wait before the `nth` retry (from 1) of a task, anywhere from nothing to the ceiling.
///
/// It depends on nothing but its arguments, not even on the order in which tasks fail, so that a
/// replay waits as the run did. The generator is a named algorithm for the same reason: the
/// standard one may change with a release of its crate.
pub(super) fn wait_ms(seed: u64, task: usize, nth: u32) -> u64 {
    let task = u64::try_from(task).unwrap_or(u64::MAX);
    let mixed = seed
        ^ task.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(nth).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    Xoshiro256PlusPlus::seed_from_u64(mixed).random_range(0..=ceiling_ms(nth))
}

/// The longest that the `nth` wait can be. The policy's own randomisation is off (it draws from
/// the system), so what it looks at inside never reaches the answer.
fn ceiling_ms(nth: u32) -> u64 {
    let mut policy = ExponentialBackoffBuilder::new()
        .with_initial_interval(INITIAL)
        .with_multiplier(MULTIPLIER)
        .with_max_interval(CAP)
        .with_randomization_factor(0.0)
        .with_max_elapsed_time(None)
        .build();
    let ceiling = (0..nth.clamp(1, STEPS_TO_CAP)).filter_map(|_| policy.next_backoff()).last();
    u64::try_from(ceiling.unwrap_or(CAP).as_millis()).unwrap_or(u64::MAX)
}

/// Whether an attempt was cut off from outside, which says nothing about the task itself.
pub(super) fn was_interrupted(reason: &TaskReason) -> bool {
    match reason {
        TaskReason::Command(reason) => {
            matches!(reason, Reason::Interrupted { .. } | Reason::Lost | Reason::SessionClosed)
        }
        TaskReason::Task(cause) => matches!(cause, TaskCause::CoordinatorLost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_double_up_to_the_cap() {
        let ceilings: Vec<u64> = (1..=9).map(ceiling_ms).collect();
        assert_eq!(ceilings, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!(ceiling_ms(u32::MAX), 30_000);
    }

    #[test]
    fn the_jitter_is_full_and_repeatable() {
        let waits: Vec<u64> = (0..2_000).map(|task| wait_ms(7, task, 3)).collect();
        assert!(waits.iter().all(|ms| *ms <= 2_000));
        assert!(waits.iter().any(|ms| *ms < 100) && waits.iter().any(|ms| *ms > 1_900));
        let again: Vec<u64> = (0..2_000).map(|task| wait_ms(7, task, 3)).collect();
        assert_eq!(waits, again);
        assert_ne!(waits, (0..2_000).map(|task| wait_ms(8, task, 3)).collect::<Vec<_>>());
    }

    /// Waits are rebuilt from the journal by later releases, too: these numbers stay.
    #[test]
    fn the_waits_are_the_same_in_every_release() {
        let waits: Vec<u64> = (1..=4).map(|nth| wait_ms(42, 0, nth)).collect();
        assert_eq!(waits, [27, 676, 472, 2724]);
    }
}
