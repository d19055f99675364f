//! The HTTP side of a coordinator: its token, where others find it, and the server itself.
//!
//! `http.token` in the state folder holds the token alone, so that a scraper can name the file
//! (`credentials_file` of Prometheus). It outlives the coordinator: whoever was told it once need
//! not be told again. Removing the file changes it with the next start. `http.json` says where the
//! server is, while there is one.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rand::Rng as _;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::domain::result::SCHEMA_VERSION;
use crate::report::metrics::Snapshot;
use crate::web::guard::Guard;
use crate::web::{routes, server};

const TOKEN: &str = "http.token";
pub(super) const PLACE: &str = "http.json";
/// Bytes of a token; it is written as twice as many hex digits.
const TOKEN_BYTES: usize = 32;
/// Questions that may wait for the loop.
const MEASURES_MAX: usize = 16;

/// What the loop is asked for by the server.
pub(super) type Measures = mpsc::Receiver<oneshot::Sender<Box<Snapshot>>>;

/// What to serve over HTTP.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// Where; port 0 is any.
    pub address: SocketAddr,
    /// Tells somebody where the server is, once it is.
    pub told: fn(&HttpPlace),
}

/// Where the server is.
#[derive(Clone, Debug, Serialize)]
pub struct HttpPlace {
    schema_version: u32,
    /// Its address.
    pub url: String,
    /// The file with the token.
    pub token_file: PathBuf,
    /// Its process.
    pub pid: u32,
}

/// A server whose socket is open.
#[derive(Debug)]
pub(super) struct Http {
    listener: TcpListener,
    guard: Guard,
    place: HttpPlace,
    file: PathBuf,
    told: fn(&HttpPlace),
}

/// A server that serves until it is dropped; what was written down of it goes with it.
#[derive(Debug)]
pub(super) struct Serving {
    server: JoinHandle<()>,
    _announced: Announced,
}

#[derive(Debug)]
struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        // Whoever finds it later is told by the address that nobody is there.
        drop(std::fs::remove_file(&self.0));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Opens the socket, and finds the token or makes one. Only the owner of the workspace does.
///
/// # Errors
/// When the address cannot be had, or the state folder not be written.
pub(super) fn open(state: &Path, options: &HttpOptions) -> io::Result<Http> {
    let listener = server::bind(options.address)?;
    let address = listener.local_addr()?;
    let token_file = state.join(TOKEN);
    let token = token(&token_file)?;
    let place = HttpPlace {
        schema_version: SCHEMA_VERSION,
        url: format!("http://{address}"),
        token_file,
        pid: std::process::id(),
    };
    let guard = Guard::new(&token, !address.ip().is_loopback());
    Ok(Http { listener, guard, place, file: state.join(PLACE), told: options.told })
}

impl Http {
    /// Serves, on this runtime, and says so. The answers come from whoever holds the receiver.
    pub(super) fn serve(self) -> (Serving, Measures) {
        let Self { listener, guard, place, file, told } = self;
        let written = serde_json::to_vec_pretty(&place).map_err(io::Error::other);
        if let Err(error) = written.and_then(|text| write_private(&file, &text)) {
            tracing::warn!(file = %file.display(), %error, "where HTTP is cannot be written down");
        }
        let (measure, measures) = mpsc::channel(MEASURES_MAX);
        let server = tokio::spawn(async move {
            // By now a signal to end is heard, too.
            told(&place);
            if let Err(error) = server::serve(listener, routes(guard, measure)).await {
                tracing::error!(%error, "the HTTP server ended");
            }
        });
        (Serving { server, _announced: Announced(file) }, measures)
    }
}

/// The token that the file holds, or a new one where it holds none that nobody else could have
/// read or put there.
fn token(file: &Path) -> io::Result<String> {
    if let Some(token) = known_token(file) {
        return Ok(token);
    }
    let mut bytes = [0; TOKEN_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    write_private(file, token.as_bytes())?;
    Ok(token)
}

fn known_token(file: &Path) -> Option<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(file).ok()?;
    let metadata = file.metadata().ok()?;
    let is_ours = metadata.is_file()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & 0o077 == 0;
    let mut text = String::new();
    file.take(4 * TOKEN_BYTES as u64).read_to_string(&mut text).ok()?;
    let token = text.trim();
    let is_token =
        token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_ours && is_token).then(|| token.to_owned())
}

/// Puts a new file in place of what is there.
fn write_private(file: &Path, text: &[u8]) -> io::Result<()> {
    let fresh = file.with_extension("new");
    drop(std::fs::remove_file(&fresh));
    let mut written: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    written.set_permissions(Permissions::from_mode(0o600))?;
    written.write_all(text)?;
    std::fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_and_one_that_others_could_read_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(TOKEN);
        let first = token(&file).unwrap();
        assert_eq!(first.len(), 2 * TOKEN_BYTES);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(token(&file).unwrap(), first);
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let second = token(&file).unwrap();
        assert_ne!(second, first);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        std::fs::write(&file, "short").unwrap();
        assert_ne!(token(&file).unwrap(), second);
        let elsewhere = folder.path().join("elsewhere");
        std::fs::write(&elsewhere, &first).unwrap();
        std::fs::set_permissions(&elsewhere, Permissions::from_mode(0o600)).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert_ne!(token(&file).unwrap(), first);
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), first);
    }
}
