//! `callboard serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use crate::cli::coordinator::{self, Start};
use crate::cli::failure::Failure;
use crate::cli::{exit, output, sources};

/// Be the coordinator of a workspace.
///
/// Verbs that need a coordinator start one by themselves, which ends once nobody needs it. One that
/// is started by hand stays until it is told to end (Ctrl-C, or SIGTERM): then it ends what it runs.
/// One that dies leaves its sessions running for five minutes, and the next one goes on with them.
///
/// With --replace it takes a running coordinator's place, of this or another version: runs and
/// sessions go on, and clients follow.
///
/// With --http it answers at /metrics (for Prometheus) and /healthz, too. Requests need the token
/// whose file is named on stderr, as in `curl -H "Authorization: Bearer $(cat FILE)"`; /healthz
/// needs none.
///
/// RUST_LOG filters what it logs, as in RUST_LOG=debug; CALLBOARD_LOG_FORMAT=json makes it JSON
/// lines. Both hold for every verb.
#[derive(Debug, Args)]
pub(in crate::cli) struct Serve {
    /// The workspace's root [default: the workspace around here, or else this folder]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Take the place of the coordinator that runs, if one does
    #[arg(long, conflicts_with = "for_client")]
    replace: bool,
    /// Serve over HTTP at a port of this machine, as in 9464 or 127.0.0.1:9464; 0 is any port
    #[arg(long, value_name = "ADDR", value_parser = http_address)]
    http: Option<SocketAddr>,
    /// Let --http name an address that other machines reach: the token then travels in the clear
    #[arg(long, requires = "http")]
    http_allow_remote: bool,
    /// Started by a client: detach from its terminal, and end once nobody needs us
    #[arg(long, hide = true)]
    for_client: bool,
}

impl Serve {
    /// Serves until told to end.
    ///
    /// # Errors
    /// When it cannot.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        self.check_http()?;
        let root = match self.workspace {
            Some(root) => sources::real_folder(&root)?,
            None => {
                let here = sources::current_folder()?;
                coordinator::root_around(&here)?.unwrap_or(here)
            }
        };
        let how = match (self.for_client, self.replace) {
            (true, _) => Start::ForClient,
            (false, true) => Start::InPlace,
            (false, false) => Start::First,
        };
        coordinator::become_coordinator(root, how, self.http)?;
        Ok(exit::SUCCEEDED)
    }

    fn check_http(&self) -> Result<(), Failure> {
        let Some(address) = self.http.filter(|address| !address.ip().is_loopback()) else {
            return Ok(());
        };
        if !self.http_allow_remote {
            let message = format!("other machines reach {address}: it is refused unless told");
            return Err(Failure::usage(message).hint(
                "name only a port, and reach it through `ssh -L`; or add --http-allow-remote",
            ));
        }
        output::note(format!(
            "warning: other machines reach {address}, and whoever reads the traffic has the token\n"
        ));
        Ok(())
    }
}

/// `PORT`, `localhost:PORT` or `ADDRESS:PORT`.
fn http_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let here = text.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok());
    match here {
        Some(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        None => text.parse().map_err(|_| {
            format!("`{text}` is no address: write a port, as in 9464, or 127.0.0.1:9464")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, wanted) in [
            ("9464", Some("127.0.0.1:9464")),
            ("0", Some("127.0.0.1:0")),
            ("localhost:80", Some("127.0.0.1:80")),
            ("127.0.0.1:1", Some("127.0.0.1:1")),
            ("[::1]:9464", Some("[::1]:9464")),
            ("0.0.0.0:1", Some("0.0.0.0:1")),
            ("65536", None),
            ("example.org:80", None),
            ("127.0.0.1", None),
            ("", None),
        ] {
            let address = http_address(text).ok().map(|address| address.to_string());
            assert_eq!(address.as_deref(), wanted, "{text:?}");
        }
    }
}
