//! The coordinator's clock: wall time that never goes back.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::domain::time::Timestamp;

/// The wall time at its making plus what the monotonic clock says has passed since, so that a
/// wall clock set back or forth moves no deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    wall: Timestamp,
    since: Instant,
}

impl Clock {
    /// Reads both clocks. `floor` is the latest time that the journal knows: a wall clock that
    /// was set back while no coordinator ran does not make history run backwards.
    pub(super) fn start(floor: Timestamp) -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|passed| i64::try_from(passed.as_millis()).ok())
            .unwrap_or(0);
        Self { wall: Timestamp(wall.max(floor.0)), since: Instant::now() }
    }

    /// Now.
    pub(super) fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.wall.plus_ms(passed)
    }

    /// The monotonic instant of `at`, for waiting.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.since + std::time::Duration::from_millis(at.ms_since(self.wall))
    }
}
