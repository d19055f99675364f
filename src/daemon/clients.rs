//! The clients' queues: what each is sent, and what becomes of one that does not read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::inbox::{ConnectionId, Event};
use crate::control::{Answer, Failure, FailureKind, Notice, Response};
use crate::session::stream::Outlet;

/// Bytes that wait for a client from which on it gets no more news, and none of its long answers is
/// begun: it is slow, and is told how much news it missed. Answers it still gets.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// Long answers of one client that may wait for their turn.
const LONG_ANSWERS_MAX: usize = 256;
/// How long clients may take to read their last answers when the coordinator ends.
const PARTING_MAX: Duration = Duration::from_secs(5);
const PARTING_PAUSE: Duration = Duration::from_millis(2);

/// All clients that are connected.
#[derive(Debug, Default)]
pub(super) struct Clients(HashMap<ConnectionId, Client>);

#[derive(Debug)]
struct Client {
    responses: Outlet,
    /// Notices that it was too slow for.
    missed: u64,
    /// Long answers are made one after the other, each once there is room for it: every one that
    /// waits for its turn has a clone.
    turn: Arc<Mutex<()>>,
}

impl Clients {
    /// Whom an event brings and whom it takes away.
    pub(super) fn meet(&mut self, event: &Event) {
        match event {
            Event::Connected { connection, responses, .. } => {
                let turn = Arc::default();
                let client = Client { responses: responses.clone(), missed: 0, turn };
                self.0.insert(*connection, client);
            }
            Event::Gone { connection } => {
                self.0.remove(connection);
            }
            _ => {}
        }
    }

    /// The queue of one, for whoever looks after it.
    pub(super) fn outlet(&self, connection: ConnectionId) -> Option<Outlet> {
        self.0.get(&connection).map(|client| client.responses.clone())
    }

    /// Lets them have what waits for them, for as long as they take it.
    pub(super) async fn part(self) {
        let clients: Vec<Outlet> = self.0.into_values().map(|client| client.responses).collect();
        clients.iter().for_each(Outlet::close);
        let started = Instant::now();
        while clients.iter().any(|client| client.waiting() > 0) && started.elapsed() < PARTING_MAX {
            tokio::time::sleep(PARTING_PAUSE).await;
        }
    }

    /// Sends an answer, or news where there is room.
    pub(super) fn respond(&mut self, connection: ConnectionId, response: Response) {
        let Some(client) = self.0.get_mut(&connection) else { return };
        let is_news = match &response {
            Response::Notice { notice } => !matches!(**notice, Notice::RunEnded { .. }),
            Response::Reply { .. } | Response::Refusal { .. } => false,
        };
        if is_news && client.responses.waiting() > WAITING_BYTES_MAX {
            client.missed += 1;
            return;
        }
        if client.missed > 0 {
            let missed = std::mem::take(&mut client.missed);
            let notice = Box::new(Notice::Gap { missed });
            drop(client.responses.send(&Response::Notice { notice }));
        }
        if !send(connection, &client.responses, &response) {
            self.0.remove(&connection);
        }
    }

    /// Computes an answer, on another thread when it may take long, and sends it.
    pub(super) fn answer(
        &mut self,
        connection: ConnectionId,
        id: u64,
        long: bool,
        compute: impl FnOnce() -> Result<Answer, Failure> + Send + 'static,
    ) {
        let response = move || match compute() {
            Ok(answer) => Response::Reply { id, answer: Box::new(answer) },
            Err(failure) => Response::Refusal { id, failure },
        };
        if !long {
            return self.respond(connection, response());
        }
        let Some(client) = self.0.get(&connection) else { return };
        if Arc::strong_count(&client.turn) > LONG_ANSWERS_MAX {
            return self.respond(connection, Response::Refusal { id, failure: hasty() });
        }
        let responses = client.responses.clone();
        let turn = Arc::clone(&client.turn);
        tokio::spawn(async move {
            let _turn = turn.lock().await;
            responses.eased(WAITING_BYTES_MAX).await;
            if responses.is_closed() {
                return;
            }
            let sent =
                tokio::task::spawn_blocking(move || send(connection, &responses, &response()));
            // It fails only by a panic, which has been told.
            drop(sent.await);
        });
    }
}

/// False when not even answers are taken any more: the client is as good as gone. Its queue ends
/// here, its reader tells the desk.
fn send(connection: ConnectionId, responses: &Outlet, response: &Response) -> bool {
    let sent = responses.send(response);
    if let Err(error) = &sent {
        tracing::warn!(connection, %error, "letting go of a client");
        responses.cut();
    }
    sent.is_ok()
}

fn hasty() -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!(
            "{LONG_ANSWERS_MAX} long answers wait for this client already, which does not read them"
        ),
        hint: Some("read an answer before the next question".to_owned()),
    }
}
