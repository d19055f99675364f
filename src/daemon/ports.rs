//! Ports that sessions' processes listen on, as the board has them.

use std::collections::BTreeMap;

use super::desk::Desk;
use super::holding;
use crate::domain::board::{BoardEntry, BoardView, Writer};
use crate::domain::ids::SessionId;
use crate::domain::time::Timestamp;
use crate::session::wire::Listener;

impl Desk {
    /// Ports and their changes go on the board, with the process that really holds them.
    pub(super) fn listening(&mut self, id: &SessionId, ports: Vec<Listener>, now: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let before = std::mem::replace(&mut session.listeners, ports.clone());
        let writer = self.writer_of(id);
        for gone in before.iter().filter(|listener| !ports.contains(listener)) {
            // Another process of it, or of another session, may listen there as well.
            let stays = ports.iter().any(|other| port_key(other) == port_key(gone));
            let others = self.sessions.values().any(|session| {
                session.id != *id
                    && session.listeners.iter().any(|other| port_key(other) == port_key(gone))
            });
            if !stays && !others {
                self.let_go(id, &port_key(gone), now);
                self.post(port_key(gone), None, writer.clone(), now);
            }
        }
        for new in ports.iter().filter(|listener| !before.contains(listener)) {
            let value = serde_json::json!({ "pid": new.pid, "session": id });
            self.post(port_key(new), Some(value), writer.clone(), now);
            self.judge(id, None, &[holding::port(new)], now);
        }
        self.background_services(id, &ports, now);
    }

    /// Takes ports off the board that nobody listens on any more.
    pub(super) fn take_down(&mut self, ports: impl IntoIterator<Item = Listener>, now: Timestamp) {
        for listener in ports {
            self.post(port_key(&listener), None, Writer::default(), now);
        }
    }
}

/// The ports that the board says are taken, by session.
#[derive(Debug, Default)]
pub(super) struct Posted(BTreeMap<SessionId, Vec<Listener>>);

impl Posted {
    /// What a board has of them.
    pub(super) fn of(board: &BoardView) -> Self {
        let mut posted = Self::default();
        for entry in &board.entries {
            if let Some((session, listener)) = listener_of(entry) {
                posted.0.entry(session).or_default().push(listener);
            }
        }
        posted
    }

    /// Those of a session.
    pub(super) fn take(&mut self, session: &SessionId) -> Vec<Listener> {
        self.0.remove(session).unwrap_or_default()
    }

    /// Those of sessions that nobody has asked for.
    pub(super) fn into_rest(self) -> impl Iterator<Item = Listener> {
        self.0.into_values().flatten()
    }
}

fn listener_of(entry: &BoardEntry) -> Option<(SessionId, Listener)> {
    let (host, port) = entry.key.strip_prefix("port/")?.rsplit_once('/')?;
    let value = entry.value.as_ref()?;
    let session = SessionId::new(value["session"].as_str()?);
    let pid = i32::try_from(value["pid"].as_i64()?).ok()?;
    Some((session, Listener { host: host.to_owned(), port: port.parse().ok()?, pid }))
}

pub(super) fn port_key(listener: &Listener) -> String {
    format!("port/{}/{}", listener.host, listener.port)
}
