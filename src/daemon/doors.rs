//! The Unix socket: each client has a task that reads it, and an outlet to which the crew writes;
//! the loop knows it by a number.

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::calls::REPLACE;
use super::inbox::{ConnectionId, Event};
use super::ownership;
use super::peers::{Lineage, Peer};
use crate::control::{CONTROL_VERSION, Call, Failure, FailureKind, Request, Response};
use crate::domain::frame::Decoder;
use crate::session::stream::{Inlet, Outlet};

/// How many clients at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 512;
/// Bytes that wait for a client from which on it is not listened to: who does not read what it has
/// asked for may not ask for more.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// Accepts clients until the inbox is closed. Only processes of this user are let in.
pub(super) async fn listen(listener: UnixListener, inbox: mpsc::Sender<Event>) {
    let places = std::sync::Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    let mut next: ConnectionId = 1;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: others have to close first.
                tracing::warn!(%error, "cannot accept a client");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let peer = match ownership::admit(&stream) {
            Ok(peer) => look_at(peer),
            Err(error) => {
                tracing::warn!(%error, "closing a connection");
                continue;
            }
        };
        let connection = next;
        next += 1;
        let inbox = inbox.clone();
        if inbox.is_closed() {
            return;
        }
        tokio::spawn(async move {
            serve_client(stream, connection, inbox, peer).await;
            drop(place);
        });
    }
}

async fn serve_client(
    stream: UnixStream,
    connection: ConnectionId,
    inbox: mpsc::Sender<Event>,
    peer: Peer,
) {
    let Ok((reader, responses, drained)) = ends(stream) else { return };
    let writing = tokio::spawn(drained);
    let connected = Event::Connected { connection, responses: responses.clone(), peer };
    if inbox.send(connected).await.is_ok() {
        let mut door = Door { reader, responses: responses.clone(), greeted: false };
        door.read_requests(connection, &inbox).await;
        drop(inbox.send(Event::Gone { connection }).await);
    }
    // What is queued still goes out to a client that only closed its writing half.
    responses.close();
    drop(writing.await);
}

fn ends(stream: UnixStream) -> std::io::Result<(Inlet, Outlet, impl Future<Output = ()> + Send)> {
    let stream = stream.into_std()?;
    let reader = Inlet::new(stream.try_clone()?)?;
    let (responses, drained) = Outlet::new(stream)?;
    Ok((reader, responses, drained))
}

/// Who has connected. One of another pid namespace cannot come from a holder of ours, whose
/// processes all have a number here.
fn look_at(peer: ownership::Peer) -> Peer {
    match peer.pid {
        None => Peer::Person,
        Some(pid) => Lineage::of(pid).map_or(Peer::Gone, Peer::Process),
    }
}

/// One client's.
struct Door {
    reader: Inlet,
    responses: Outlet,
    /// True once both sides have agreed on the version.
    greeted: bool,
}

/// What every version's requests have in common.
#[derive(serde::Deserialize)]
struct Numbered {
    id: u64,
}

impl Door {
    async fn read_requests(&mut self, connection: ConnectionId, inbox: &mpsc::Sender<Event>) {
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; 16 * 1024];
        loop {
            loop {
                match decoder.frame() {
                    Ok(Some(frame)) => match self.request(frame) {
                        Ok(request) => {
                            self.responses.eased(WAITING_BYTES_MAX).await;
                            if inbox.send(Event::Asked { connection, request }).await.is_err() {
                                return;
                            }
                        }
                        Err(Refused::Request) => {}
                        Err(Refused::Client) => return,
                    },
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(connection, %error, "closing a client that speaks another language");
                        self.refuse(0, foreign(&error.to_string()));
                        return;
                    }
                }
            }
            match self.reader.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => decoder.push(&buffer[..count]),
            }
        }
    }

    /// A request that the desk may hear. A call that is not known here is refused by its number;
    /// only what has none costs the client its connection.
    fn request(&mut self, frame: &[u8]) -> Result<Request, Refused> {
        let request: Request = match serde_json::from_slice(frame) {
            Ok(request) => request,
            Err(error) => {
                let Ok(Numbered { id }) = serde_json::from_slice(frame) else {
                    self.refuse(0, foreign(&error.to_string()));
                    return Err(Refused::Client);
                };
                self.refuse(id, unknown_call(&error.to_string()));
                return Err(Refused::Request);
            }
        };
        match &request.call {
            Call::Hello { version, .. } => self.greeted = *version == CONTROL_VERSION,
            // It has to be understood from any version: see `docs/clients.md`.
            Call::HandOver => {}
            _ if !self.greeted => {
                self.refuse(request.id, ungreeted());
                return Err(Refused::Request);
            }
            _ => {}
        }
        Ok(request)
    }

    fn refuse(&self, id: u64, failure: Failure) {
        // A client that is gone by now need not be told.
        drop(self.responses.send(&Response::Refusal { id, failure }));
    }
}

/// What was refused.
enum Refused {
    Request,
    Client,
}

fn of_version(message: String) -> Failure {
    Failure { kind: FailureKind::Version, message, hint: Some(REPLACE.to_owned()) }
}

fn unknown_call(error: &str) -> Failure {
    of_version(format!(
        "the coordinator of this workspace, callboard {}, does not know this request: {error}",
        env!("CARGO_PKG_VERSION")
    ))
}

fn ungreeted() -> Failure {
    of_version(
        "a connection begins with `hello`, and both sides have to agree on the version".to_owned(),
    )
}

fn foreign(error: &str) -> Failure {
    let message = format!("this is no request, and nothing after it can be read: {error}");
    Failure { kind: FailureKind::Usage, message, hint: None }
}
