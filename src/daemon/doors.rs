//! The Unix socket: each client has a task that reads it and one that writes to it; the loop
//! knows it by a number and a bounded queue.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::inbox::{CLIENT_RESPONSES_MAX, ConnectionId, Event};
use super::ownership;
use crate::control::{Request, Response};
use crate::domain::frame::{self, Decoder};

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
    let (reader, writer) = stream.into_split();
    let (responses, outgoing) = mpsc::channel(CLIENT_RESPONSES_MAX);
    if inbox.send(Event::Connected { connection, responses }).await.is_err() {
        return;
    }
    let writing = tokio::spawn(write_responses(writer, outgoing));
    read_requests(reader, connection, &inbox).await;
    drop(inbox.send(Event::Gone { connection }).await);
    // The loop drops its end of the queue when it hears `Gone`, and what is queued still goes out
    // to a client that only closed its writing half.
    drop(writing.await);
}

async fn read_requests(
    mut reader: OwnedReadHalf,
    connection: ConnectionId,
    inbox: &mpsc::Sender<Event>,
) {
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

async fn write_responses(mut writer: OwnedWriteHalf, mut outgoing: mpsc::Receiver<Response>) {
    let mut bytes = Vec::new();
    while let Some(response) = outgoing.recv().await {
        bytes.clear();
        if let Err(error) = frame::encode(&response, &mut bytes) {
            tracing::error!(%error, "a response cannot be written");
            return;
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.shrink_to(64 * 1024);
    }
}
