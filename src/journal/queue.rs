//! Groups of events on their way to the writer: bounded, in order of arrival.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use super::append::Committed;
use super::error::AppendError;
use crate::domain::event::Stamped;

/// How many events may wait for the writer. A coordinator that outruns its disk by more has to
/// wait in `append`: whatever it did instead, it would act on facts that nothing remembers.
pub(super) const EVENTS_MAX: usize = 64 * 1024;

/// Events that are appended together, and whom to tell.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) events: Vec<Stamped>,
    pub(super) durable: bool,
    pub(super) done: oneshot::Sender<Result<Committed, AppendError>>,
}

/// What the writer finds.
#[derive(Debug)]
pub(super) enum Taken {
    /// Work.
    Groups(VecDeque<Group>),
    /// None before the deadline.
    Nothing,
    /// None, and none to come.
    Closed,
}

/// The queue between `append` and the writer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    groups: VecDeque<Group>,
    events: usize,
    closed: bool,
}

impl Queue {
    /// Adds a group; waits while there are too many. A group that comes after the end is dropped,
    /// which its `done` shows.
    pub(super) fn push(&self, group: Group) {
        let mut waiting = self.lock();
        while waiting.events >= EVENTS_MAX && !waiting.closed {
            waiting = self.emptied.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.closed {
            waiting.events += group.events.len().max(1);
            waiting.groups.push_back(group);
            self.filled.notify_one();
        }
    }

    /// Takes all that has queued; waits for some until `deadline`, or for ever.
    pub(super) fn take(&self, deadline: Option<Instant>) -> Taken {
        let mut waiting = self.lock();
        loop {
            if !waiting.groups.is_empty() {
                waiting.events = 0;
                let groups = std::mem::take(&mut waiting.groups);
                self.emptied.notify_all();
                return Taken::Groups(groups);
            }
            if waiting.closed {
                return Taken::Closed;
            }
            let Some(deadline) = deadline else {
                waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Taken::Nothing;
            }
            let woken = self.filled.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nothing more comes in; what is in can still be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Nothing more is taken either: all that waits is told so.
    pub(super) fn abandon(&self) {
        self.close();
        self.lock().groups.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
