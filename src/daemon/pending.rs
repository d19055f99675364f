//! Requests that wait for something in a session: for its shell, its end, a command's end, or for
//! anything new at all. They are answered as soon as it is so, and cost nothing until then.

use std::collections::HashMap;

use super::inbox::ConnectionId;
use super::sessions::Asker;
use crate::control::{Echo, Seen};
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::time::Timestamp;

/// Most requests that wait at a time.
const WISHES_MAX: usize = 16 * 1024;

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// Whose.
    pub asker: Asker,
    /// For what.
    pub what: What,
    /// Until when at most.
    pub due: Option<Timestamp>,
}

/// What it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The session's shell.
    Opened,
    /// The session's end.
    Closed,
    /// Anything that was not seen.
    News {
        /// The command to tell of.
        command: Option<CommandId>,
        /// What was seen.
        seen: Seen,
    },
    /// A command that ends or waits for input.
    Command {
        /// Which.
        command: CommandId,
    },
    /// The end of a command that was interrupted.
    Interrupted {
        /// Which.
        command: CommandId,
    },
    /// The receipt for an input.
    Receipt {
        /// The number that the holder was given.
        number: u64,
        /// The command that was running.
        command: Option<CommandId>,
        /// The transcript's end before.
        offset: u64,
        /// What the terminal will show of it.
        echo: Option<Echo>,
    },
}

/// All requests that wait.
#[derive(Debug, Default)]
pub(super) struct Pending {
    wishes: HashMap<SessionId, Vec<Wish>>,
    count: usize,
}

impl Pending {
    /// False when there are too many already.
    pub(super) fn has_room(&self) -> bool {
        self.count < WISHES_MAX
    }

    /// Has one wait. An earlier look of the same connection is taken back.
    pub(super) fn add(&mut self, session: &SessionId, wish: Wish) {
        let wishes = self.wishes.entry(session.clone()).or_default();
        let before = wishes.len();
        if matches!(wish.what, What::News { .. }) {
            let connection = wish.asker.connection;
            wishes.retain(|other| {
                other.asker.connection != connection || !matches!(other.what, What::News { .. })
            });
        }
        wishes.push(wish);
        self.count = self.count + wishes.len() - before;
    }

    /// All that wait at a session, to be looked at; what still waits is given back by `put_back`.
    pub(super) fn take(&mut self, session: &SessionId) -> Vec<Wish> {
        let Some(wishes) = self.wishes.remove(session) else { return Vec::new() };
        self.count -= wishes.len();
        wishes
    }

    /// These go on waiting.
    pub(super) fn put_back(&mut self, session: &SessionId, mut wishes: Vec<Wish>) {
        if wishes.is_empty() {
            return;
        }
        self.count += wishes.len();
        let newer = self.wishes.entry(session.clone()).or_default();
        wishes.append(newer);
        *newer = wishes;
    }

    /// A client is gone, and with it all that it waits for.
    pub(super) fn drop_connection(&mut self, connection: ConnectionId) {
        self.wishes.retain(|_, wishes| {
            wishes.retain(|wish| wish.asker.connection != connection);
            !wishes.is_empty()
        });
        self.count = self.wishes.values().map(Vec::len).sum();
    }

    /// The sessions at which somebody has waited for long enough.
    pub(super) fn overdue(&self, now: Timestamp) -> Vec<SessionId> {
        let late = |wishes: &Vec<Wish>| wishes.iter().any(|w| w.due.is_some_and(|due| due <= now));
        self.wishes.iter().filter(|(_, w)| late(w)).map(|(session, _)| session.clone()).collect()
    }

    /// When the next one has waited for long enough.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.wishes.values().flatten().filter_map(|wish| wish.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(connection: u64, request: u64, what: What) -> Wish {
        Wish { asker: Asker { connection, request }, what, due: None }
    }

    fn news() -> What {
        What::News { command: None, seen: Seen::default() }
    }

    #[test]
    fn a_connection_looks_at_a_session_once() {
        let mut pending = Pending::default();
        let session = SessionId::from("s");
        pending.add(&session, wish(1, 1, news()));
        pending.add(&session, wish(1, 2, What::Closed));
        pending.add(&session, wish(2, 1, news()));
        pending.add(&session, wish(1, 3, news()));
        let kept = pending.take(&session);
        let kept: Vec<_> = kept.iter().map(|w| (w.asker.connection, w.asker.request)).collect();
        assert_eq!(kept, [(1, 2), (2, 1), (1, 3)]);
        assert_eq!(pending.count, 0);
    }

    #[test]
    fn a_client_takes_its_wishes_along() {
        let mut pending = Pending::default();
        for (session, connection) in [("a", 1), ("a", 2), ("b", 1)] {
            pending.add(&SessionId::from(session), wish(connection, 1, What::Opened));
        }
        pending.drop_connection(1);
        assert_eq!((pending.count, pending.take(&"b".into()).len()), (1, 0));
        assert_eq!(pending.take(&"a".into()).len(), 1);
    }

    #[test]
    fn only_what_has_a_time_is_ever_late() {
        let mut pending = Pending::default();
        pending.add(&"a".into(), wish(1, 1, What::Opened));
        assert_eq!(pending.next_due(), None);
        let due = Some(Timestamp(50));
        pending.add(&"b".into(), Wish { due, ..wish(1, 2, What::Opened) });
        assert_eq!(pending.next_due(), due);
        assert!(pending.overdue(Timestamp(49)).is_empty());
        assert_eq!(pending.overdue(Timestamp(50)), [SessionId::from("b")]);
    }
}
