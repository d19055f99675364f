//! Is a service there? A GET over plain HTTP, for `ready = "http:URL"`.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one try may take.
const TRY_MS: u64 = 2_000;
/// The pause between two tries.
const PAUSE_MS: u64 = 100;

/// Returns once `url` answers a GET with a status below 400. Tries for ever: whoever awaits it
/// drops it when the service ends. A URL that is not plain http to a host never answers; the
/// manifest's check has refused those.
pub(super) async fn http_ready(url: &str) {
    loop {
        let attempt = tokio::time::timeout(Duration::from_millis(TRY_MS), status(url)).await;
        if matches!(attempt, Ok(Some(code)) if code < 400) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
    }
}

async fn status(url: &str) -> Option<u16> {
    let rest = url.strip_prefix("http://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address =
        if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let mut stream = TcpStream::connect(&address).await.ok()?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    // "HTTP/1.1 200" is all that matters of the answer.
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.ok()?;
    let text = std::str::from_utf8(&head).ok()?;
    text.starts_with("HTTP/").then(|| text.get(9..12)?.parse().ok()).flatten()
}
