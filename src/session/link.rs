//! The coordinator's end of sessions: the stage, and a link to each holder.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::sync::mpsc;

use crate::domain::frame::Decoder;

use super::os::handover;
use super::stream::{Inlet, Outlet, OutletError};
use super::wire::{Ask, Fact};

/// Facts that the coordinator may be behind; a holder tells less when they pile up.
const FACTS_WAITING_MAX: usize = 256;

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
        let (told, facts) = mpsc::channel(FACTS_WAITING_MAX);
        tokio::spawn(read_facts(inlet, told));
        tokio::spawn(drained);
        Ok(HolderLink { asks: Asks { outlet }, facts })
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
    /// What it reports. The end of the channel: the holder is gone.
    pub facts: mpsc::Receiver<Fact>,
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

async fn read_facts(mut reader: Inlet, told: mpsc::Sender<Fact>) {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let got = tokio::select! {
            got = reader.read(&mut buffer) => got,
            // Nobody listens any more: the link's end tells the holder.
            () = told.closed() => return,
        };
        match got {
            Ok(0) | Err(_) => return,
            Ok(got) => decoder.push(&buffer[..got]),
        }
        loop {
            match decoder.document::<Fact>() {
                Ok(Some(fact)) => {
                    if told.send(fact).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                // Not a holder of ours: the link is of no more use.
                Err(_) => return,
            }
        }
    }
}
