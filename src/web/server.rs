//! The HTTP server: connections within limits, each on its own task.

use std::io;
use std::net::{SocketAddr, TcpListener as Listening};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 256;
/// Bytes of a request's head; a longer one is answered with 431.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a head may take to come, and how long a connection may have nothing to ask.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// How long the other end may leave what it is sent untaken.
const TAKING_MAX_MS: u32 = 30_000;
/// After a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes an address.
///
/// # Errors
/// When the system refuses; `AddrInUse` where another process has it.
pub fn bind(address: SocketAddr) -> io::Result<Listening> {
    let listener = Listening::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until it is dropped.
///
/// # Errors
/// When the socket cannot be watched.
pub async fn serve(listener: Listening, routes: Router) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropping the set ends what is still open.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = routes.clone();
                connections.spawn(async move {
                    converse(stream, routes).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: others have to close first.
                tracing::warn!(%error, "cannot accept an HTTP client");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, routes: Router) {
    // A kernel that knows no such limit has its own.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, TAKING_MAX_MS);
    drop(stream.set_nodelay(true));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
