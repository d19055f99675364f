//! Those who follow the board: what each has been told, and what it lacks.
//!
//! A watcher that keeps up is told each change as it happens. One that does not is told no more until
//! its queue has drained: then it hears how many changes it missed and gets everything anew. What
//! there is to catch up on is sent in parts, so that no queue grows past its limit.

use std::collections::HashMap;

use crate::board::Board;
use crate::control::{Notice, Response};
use crate::daemon::inbox::ConnectionId;
use crate::domain::board::key::covers;
use crate::domain::board::{BoardEntry, Version};
use crate::session::stream::Outlet;

/// Bytes that wait for a watcher from which on it counts as slow.
const WAITING_MAX: usize = 1024 * 1024;
/// Bytes below which it is given more.
const DRAINED: usize = WAITING_MAX / 2;
/// So many entries are sent in one part.
const PART: usize = 64;

/// Who follows the board, one watch a connection.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Watchers(HashMap<ConnectionId, Watcher>);

#[derive(Debug)]
struct Watcher {
    responses: Outlet,
    told: String,
    stand: Stand,
}

#[derive(Debug)]
enum Stand {
    /// It has been told everything.
    Even,
    /// It is being told what there is after a version.
    Behind { since: Option<Version>, tombstones: bool },
    /// It was too slow for so many changes.
    Lost { missed: u64 },
}

impl Watchers {
    pub(in crate::daemon) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when somebody lacks something.
    pub(in crate::daemon) fn are_behind(&self) -> bool {
        self.0.values().any(|watcher| !matches!(watcher.stand, Stand::Even))
    }

    /// Somebody follows from `since` on, or from the beginning.
    pub(in crate::daemon) fn add(
        &mut self,
        connection: ConnectionId,
        responses: Outlet,
        told: String,
        since: Option<Version>,
    ) {
        let stand = Stand::Behind { tombstones: since.is_some(), since };
        self.0.insert(connection, Watcher { responses, told, stand });
    }

    pub(in crate::daemon) fn remove(&mut self, connection: ConnectionId) {
        self.0.remove(&connection);
    }

    /// An entry has changed.
    pub(in crate::daemon) fn tell(&mut self, entry: &BoardEntry) {
        self.0.retain(|_, watcher| watcher.tell(entry));
    }

    /// Gives those who lack something as much as they take.
    pub(in crate::daemon) fn catch_up(&mut self, board: &Board) {
        self.0.retain(|_, watcher| watcher.catch_up(board));
    }
}

impl Watcher {
    /// False when it is gone.
    fn tell(&mut self, entry: &BoardEntry) -> bool {
        if !covers(&self.told, &entry.key) {
            return true;
        }
        match &mut self.stand {
            Stand::Even if self.responses.waiting() > WAITING_MAX => {
                self.stand = Stand::Lost { missed: 1 };
                true
            }
            Stand::Even => self.send(Notice::Board { entry: entry.clone() }),
            // It comes to that.
            Stand::Behind { .. } => true,
            Stand::Lost { missed } => {
                *missed += 1;
                true
            }
        }
    }

    fn catch_up(&mut self, board: &Board) -> bool {
        if let Stand::Lost { missed } = self.stand {
            if self.responses.waiting() > DRAINED {
                return true;
            }
            if !self.send(Notice::Gap { missed }) || !self.send(Notice::BoardAnew) {
                return false;
            }
            self.stand = Stand::Behind { since: None, tombstones: false };
        }
        while let Stand::Behind { since, tombstones } = &self.stand {
            if self.responses.waiting() > WAITING_MAX {
                return true;
            }
            let next = match board.after(since.as_ref(), &self.told, *tombstones, PART) {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(%error, "the board cannot be read for a watcher");
                    return true;
                }
            };
            let stand = if next.is_all {
                Stand::Even
            } else {
                Stand::Behind { since: next.through, tombstones: *tombstones }
            };
            self.stand = stand;
            for entry in next.entries {
                if !self.send(Notice::Board { entry }) {
                    return false;
                }
            }
            if next.is_all {
                return self.send(Notice::BoardThrough { version: board.clock().clone() });
            }
        }
        true
    }

    fn send(&self, notice: Notice) -> bool {
        let notice = Box::new(notice);
        self.responses.send(&Response::Notice { notice }).is_ok()
    }
}
