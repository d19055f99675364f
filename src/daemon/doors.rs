//! The Unix socket: each client has a task that reads it, and an outlet to which the crew writes;
//! the loop knows it by a number.

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::inbox::{ConnectionId, Event};
use super::ownership;
use crate::control::Request;
use crate::domain::frame::Decoder;
use crate::session::stream::{Inlet, Outlet};

/// How many clients at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 512;

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
        if let Err(error) = ownership::admit(&stream) {
            tracing::warn!(%error, "closing a connection");
            continue;
        }
        let connection = next;
        next += 1;
        let inbox = inbox.clone();
        if inbox.is_closed() {
            return;
        }
        tokio::spawn(async move {
            serve_client(stream, connection, inbox).await;
            drop(place);
        });
    }
}

async fn serve_client(stream: UnixStream, connection: ConnectionId, inbox: mpsc::Sender<Event>) {
    let Ok((reader, responses, drained)) = ends(stream) else { return };
    let writing = tokio::spawn(drained);
    if inbox.send(Event::Connected { connection, responses: responses.clone() }).await.is_ok() {
        read_requests(reader, connection, &inbox).await;
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

async fn read_requests(mut reader: Inlet, connection: ConnectionId, inbox: &mpsc::Sender<Event>) {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        loop {
            match decoder.document::<Request>() {
                Ok(Some(request)) => {
                    if inbox.send(Event::Asked { connection, request }).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(connection, %error, "closing a client that speaks another language");
                    return;
                }
            }
        }
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => decoder.push(&buffer[..count]),
        }
    }
}
