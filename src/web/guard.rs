//! Who may ask anything: requests that were meant for this machine's own address, come from no
//! foreign page, and carry the token.
//!
//! A page that a browser has loaded from elsewhere can send requests here, and one whose name was
//! made to resolve to this machine (DNS rebinding) can even read the answers. The `Host` that such
//! a request names is the page's, so names other than `localhost` are refused; an `Origin` has to
//! be our own. The token keeps out other users of the machine, whom neither would stop.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// Paths that need no token: whether the process is there is no secret.
const OPEN: [&str; 1] = ["/healthz"];

/// What requests are held against.
#[derive(Clone)]
pub struct Guard {
    token: [u8; 32],
    remote: bool,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("remote", &self.remote).finish_non_exhaustive()
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was meant for another host.
    Host,
    /// A foreign page sends it.
    Origin,
    /// It lacks the token.
    Token,
}

impl Guard {
    /// Lets in whoever has the token. With `remote`, other addresses than this machine's own are
    /// taken for ours; names still are not.
    pub fn new(token: &str, remote: bool) -> Self {
        Self { token: Sha256::digest(token.as_bytes()).into(), remote }
    }

    /// Checks the head of a request.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(
        &self,
        authority: Option<&Authority>,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let host: Authority = single(headers, &HOST)
            .ok_or(Refusal::Host)?
            .and_then(|host| host.parse().ok())
            .ok_or(Refusal::Host)?;
        let is_ours = |host: &Authority| self.is_ours(host);
        if !is_ours(&host) || !authority.is_none_or(is_ours) {
            return Err(Refusal::Host);
        }
        match single(headers, &ORIGIN) {
            Some(None) => {}
            Some(Some(origin)) if is_origin_of(origin, &host) => {}
            _ => return Err(Refusal::Origin),
        }
        if OPEN.contains(&path) || self.has_token(headers) {
            return Ok(());
        }
        Err(Refusal::Token)
    }

    fn is_ours(&self, authority: &Authority) -> bool {
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host();
        if authority.as_str() != host && authority.port_u16().is_none() {
            return false;
        }
        if host.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse::<IpAddr>().is_ok_and(|address| self.remote || address.is_loopback())
    }

    /// Compares digests: how long that takes says nothing of the token.
    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(Some(value)) = single(headers, &AUTHORIZATION) else { return false };
        let Some((scheme, token)) = value.split_once(' ') else { return false };
        let digest: [u8; 32] = Sha256::digest(token.trim().as_bytes()).into();
        scheme.eq_ignore_ascii_case("bearer") && digest == self.token
    }
}

/// The value of a header: `Some(None)` where it is not there, `None` where it is there more than
/// once or is no text.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Some(None) };
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok().map(Some)
}

/// True for the page that this host itself serves.
fn is_origin_of(origin: &str, host: &Authority) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host.as_str()))
}

/// Every route's first step.
pub(super) async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let uri = request.uri();
    match guard.check(uri.authority(), uri.path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            tracing::warn!(?refusal, path = uri.path(), "an HTTP request is refused");
            refusal.into_response()
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Host => (
                StatusCode::FORBIDDEN,
                "this host is not ours: ask 127.0.0.1 or localhost by that name\n",
            )
                .into_response(),
            Self::Origin => {
                (StatusCode::FORBIDDEN, "pages from elsewhere are not let in\n").into_response()
            }
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"callboard\""))],
                "a token is needed: `Authorization: Bearer …`; `serve --http` says where it is\n",
            )
                .into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(remote: bool, path: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        Guard::new("secret", remote).check(None, path, &map)
    }

    #[test]
    fn hosts() {
        for (host, local, remote) in [
            ("127.0.0.1:9464", true, true),
            ("127.8.0.1", true, true),
            ("[::1]:9464", true, true),
            ("localhost:1", true, true),
            ("LocalHost", true, true),
            ("192.168.0.7:9464", false, true),
            ("[fe80::1]:9464", false, true),
            ("evil.example", false, false),
            ("localhost.evil.example:9464", false, false),
            ("127.0.0.1.evil.example", false, false),
            ("me@127.0.0.1", false, false),
            ("evil.example@127.0.0.1", false, false),
            ("", false, false),
            ("127.0.0.1:notaport", false, false),
        ] {
            let ours = |remote| check(remote, "/healthz", &[("host", host)]).is_ok();
            assert_eq!((ours(false), ours(true)), (local, remote), "{host:?}");
        }
        assert_eq!(check(false, "/healthz", &[]), Err(Refusal::Host));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(check(false, "/healthz", &two), Err(Refusal::Host));
        let other: Authority = "evil.example".parse().unwrap();
        let mut map = HeaderMap::new();
        map.insert(HOST, HeaderValue::from_static("localhost"));
        let guard = Guard::new("secret", true);
        assert_eq!(guard.check(Some(&other), "/healthz", &map), Err(Refusal::Host));
    }

    #[test]
    fn origins() {
        for (origin, good) in [
            ("http://localhost:9464", true),
            ("https://localhost:9464", true),
            ("http://localhost:3000", false),
            ("http://127.0.0.1:9464", false),
            ("http://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let headers = [("host", "localhost:9464"), ("origin", origin)];
            assert_eq!(check(false, "/healthz", &headers).is_ok(), good, "{origin:?}");
        }
    }

    #[test]
    fn tokens() {
        for (value, good) in [
            ("Bearer secret", true),
            ("bearer  secret", true),
            ("Bearer", false),
            ("Bearer ", false),
            ("Bearer secre", false),
            ("Bearer secrets", false),
            ("Basic secret", false),
            ("secret", false),
        ] {
            let headers = [("host", "localhost"), ("authorization", value)];
            assert_eq!(check(false, "/metrics", &headers).is_ok(), good, "{value:?}");
        }
        assert_eq!(check(false, "/metrics", &[("host", "localhost")]), Err(Refusal::Token));
        // Whoever does not know the way in is not told what there is either.
        assert_eq!(check(false, "/nothing", &[("host", "localhost")]), Err(Refusal::Token));
    }
}
