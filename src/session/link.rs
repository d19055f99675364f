//! The coordinator's end of sessions: the stage, and a link to each holder.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::domain::frame::Decoder;
use crate::domain::ids::SessionId;

use super::door;
use super::os::handover;
use super::stream::{Inlet, Outlet, OutletError};
use super::wire::{Ask, Fact, FactBody, LINK_VERSION, Present};

/// What is read of a link at a time.
const READ_BYTES: usize = 16 * 1024;

/// The process that forks holders. It ends when this is dropped; its holders do not.
#[derive(Debug)]
pub struct Stage {
    socket: Option<StdStream>,
    process: Child,
}

impl Stage {
    /// Starts the stage: `exe` is this program, `env` all that the stage will know of an
    /// environment.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start<'a>(
        exe: &Path,
        env: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> io::Result<Self> {
        let (socket, its) = StdStream::pair()?;
        let process = Command::new(exe)
            .arg("__stage")
            .env_clear()
            .envs(env)
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { socket: Some(socket), process })
    }

    /// The stage's process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Has a holder forked and gives the link to it. Its first document has to be `Ask::Open`.
    ///
    /// # Errors
    /// When the stage is gone, or no descriptor is left.
    pub fn open(&self) -> io::Result<HolderLink> {
        let (near, far) = StdStream::pair()?;
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        handover::send(socket, &far)?;
        let inlet = Inlet::new(near.try_clone()?)?;
        let (outlet, drained) = Outlet::new(near)?;
        tokio::spawn(drained);
        Ok(HolderLink { asks: Asks { outlet }, facts: Facts::new(inlet) })
    }
}

/// Adopts the session behind a door: its holder's link, and its first word. What nobody has
/// acknowledged follows as facts.
///
/// # Errors
/// When nobody listens there, whoever does is not the session's holder, or it does not answer in
/// time.
pub async fn adopt(
    door: &Path,
    session: &SessionId,
    epoch: u64,
    patience: Duration,
) -> io::Result<(HolderLink, Present)> {
    let near = door::connect(door, session)?;
    let inlet = Inlet::new(near.try_clone()?)?;
    let (outlet, drained) = Outlet::new(near)?;
    tokio::spawn(drained);
    let mut link = HolderLink { asks: Asks { outlet }, facts: Facts::new(inlet) };
    link.send(&Ask::Adopt { epoch }).map_err(io::Error::other)?;
    let first = tokio::time::timeout(patience, link.facts.recv());
    match first.await {
        Ok(Some(Fact { seq: 0, body: FactBody::Present { present } }))
            if present.spec.id == *session && present.version == LINK_VERSION =>
        {
            Ok((link, *present))
        }
        Ok(Some(_)) => Err(io::Error::other("whoever listens there is not the session's holder")),
        Ok(None) => Err(io::ErrorKind::ConnectionAborted.into()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.socket = None;
        // With its socket closed it has nothing left to wait for.
        drop(self.process.wait());
    }
}

/// A holder, as the coordinator sees it. When both halves are dropped the holder ends its tree
/// and itself.
#[derive(Debug)]
pub struct HolderLink {
    /// What is asked of it.
    pub asks: Asks,
    /// What it reports. Whoever reads late makes the holder tell less, and lose nothing.
    pub facts: Facts,
}

impl HolderLink {
    /// Asks something of the holder.
    ///
    /// # Errors
    /// When the holder is gone.
    pub fn send(&self, ask: &Ask) -> Result<(), OutletError> {
        self.asks.send(ask)
    }
}

/// The writing half of a link. A holder that does not read makes nobody wait.
#[derive(Debug)]
pub struct Asks {
    outlet: Outlet,
}

impl Asks {
    /// Asks something of the holder.
    ///
    /// # Errors
    /// When the holder is gone.
    pub fn send(&self, ask: &Ask) -> Result<(), OutletError> {
        self.outlet.send(ask)
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.outlet.close();
    }
}

/// The reading half of a link.
#[derive(Debug)]
pub struct Facts {
    inlet: Inlet,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Facts {
    fn new(inlet: Inlet) -> Self {
        Self { inlet, decoder: Decoder::default(), buffer: vec![0; READ_BYTES] }
    }

    /// The next fact; `None` once the holder is gone. Whoever gives up waiting loses none.
    pub async fn recv(&mut self) -> Option<Fact> {
        loop {
            match self.decoder.document::<Fact>() {
                Ok(Some(fact)) => return Some(fact),
                Ok(None) => {}
                // Not a holder of ours: the link is of no more use.
                Err(_) => return None,
            }
            match self.inlet.read(&mut self.buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(got) => self.decoder.push(&self.buffer[..got]),
            }
        }
    }
}
