//! Frames over a Unix socket, as quick as they can be: an `Outlet` writes at once whatever the
//! socket takes, and leaves the rest to a task; an `Inlet` reads.
//!
//! tokio's own `UnixStream` watches a socket for both directions. The peer's every read then makes
//! the socket writable anew and wakes this process for nothing, in the middle of the peer's work:
//! on two cores that is a tenth of a command's round trip. Here each end is watched for what it
//! waits for, and for writing only while something waits.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::os::watch::watch;
use crate::domain::frame::{self, FrameError};

/// Bytes that may wait for a peer. It has stopped reading long before so many do.
const WAITING_BYTES_MAX: usize = 2 * frame::FRAME_BYTES_MAX;

/// Why a document was not sent.
#[derive(Debug, thiserror::Error)]
pub enum OutletError {
    /// It cannot be written as a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer is gone.
    #[error("the peer is gone: {0}")]
    Gone(#[from] io::Error),
    /// The peer does not read.
    #[error("the peer does not read what it is sent")]
    Slow,
}

/// The writing end of a socket. Clones write to the same one, a document at a time.
#[derive(Clone, Debug)]
pub struct Outlet(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    socket: UnixStream,
    waiting: Mutex<Waiting>,
    /// Told when something waits, and when nothing more will come.
    news: Notify,
    /// Told when the peer has taken something, and when it will not any more.
    room: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// True once the outlet is closed: what waits is still written, nothing more is taken.
    closed: bool,
}

impl Outlet {
    /// The writing end of `socket`, and the task's future that writes what the socket did not take
    /// at once. It ends once the outlet is closed and nothing waits, or the peer is gone.
    ///
    /// # Errors
    /// When the socket cannot be made non-blocking.
    pub fn new(socket: UnixStream) -> io::Result<(Self, impl Future<Output = ()> + Send)> {
        socket.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            socket,
            waiting: Mutex::default(),
            news: Notify::default(),
            room: Notify::default(),
        });
        let drained = drain(Arc::clone(&shared));
        Ok((Self(shared), drained))
    }

    /// Sends a document: at once as far as the socket takes it.
    ///
    /// # Errors
    /// When it has no frame, or the peer is gone or does not read.
    pub fn send<T: Serialize>(&self, document: &T) -> Result<(), OutletError> {
        let mut bytes = Vec::new();
        frame::encode(document, &mut bytes)?;
        let mut waiting = self.0.lock();
        if waiting.closed {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        let taken = if waiting.bytes.is_empty() { write(&self.0.socket, &bytes)? } else { 0 };
        if taken < bytes.len() {
            if waiting.bytes.len() + bytes.len() > WAITING_BYTES_MAX {
                return Err(OutletError::Slow);
            }
            waiting.bytes.extend_from_slice(&bytes[taken..]);
            self.0.news.notify_one();
        }
        Ok(())
    }

    /// True once nothing more is taken: it was closed, or the peer is gone.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// How many bytes wait for the peer.
    pub fn waiting(&self) -> usize {
        self.0.lock().bytes.len()
    }

    /// Waits until no more than `bytes` wait for the peer, or nothing is taken any more.
    pub async fn eased(&self, bytes: usize) {
        loop {
            // What is told from here on is not missed.
            let room = self.0.room.notified();
            {
                let waiting = self.0.lock();
                if waiting.closed || waiting.bytes.len() <= bytes {
                    return;
                }
            }
            room.await;
        }
    }

    /// Lets go of a peer that does not read: what waits is dropped, and both of its directions end.
    pub fn cut(&self) {
        {
            let mut waiting = self.0.lock();
            waiting.closed = true;
            waiting.bytes = Vec::new();
        }
        // It may be gone by itself.
        drop(self.0.socket.shutdown(Shutdown::Both));
        self.0.news.notify_one();
        self.0.room.notify_waiters();
    }

    /// Takes nothing more; what waits is still written, and then the peer sees the end.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.news.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held, and the bytes would be whole all the same.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what the socket takes now.
fn write(mut socket: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        match socket.write(&bytes[taken..]) {
            Ok(count) => taken += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

async fn drain(shared: Arc<Shared>) {
    loop {
        let (is_empty, closed) = {
            let waiting = shared.lock();
            (waiting.bytes.is_empty(), waiting.closed)
        };
        if !is_empty {
            if drain_waiting(&shared).await.is_err() {
                shared.lock().closed = true;
                shared.room.notify_waiters();
                return;
            }
        } else if closed {
            // The peer sees the end now, whoever else has this socket open. It may be gone.
            drop(shared.socket.shutdown(Shutdown::Write));
            return;
        } else {
            shared.news.notified().await;
        }
    }
}

/// Writes until nothing waits, watching the socket meanwhile.
async fn drain_waiting(shared: &Shared) -> io::Result<()> {
    let watched = watch(shared.socket.try_clone()?, Interest::WRITABLE)?;
    loop {
        let mut ready = watched.writable().await?;
        let mut waiting = shared.lock();
        let taken = write(&shared.socket, &waiting.bytes)?;
        waiting.bytes.drain(..taken);
        shared.room.notify_waiters();
        if waiting.bytes.is_empty() {
            waiting.bytes.shrink_to_fit();
            return Ok(());
        }
        drop(waiting);
        ready.clear_ready();
    }
}

/// The reading end of a socket.
#[derive(Debug)]
pub struct Inlet(AsyncFd<UnixStream>);

impl Inlet {
    /// The reading end of `socket`.
    ///
    /// # Errors
    /// When the socket cannot be watched.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self(watch(socket, Interest::READABLE)?))
    }

    /// Reads what is there, once something is; 0 when the peer has closed its end.
    ///
    /// # Errors
    /// When the socket has failed.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|socket| {
                let mut socket = socket.get_ref();
                socket.read(buffer)
            });
            match read {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Ok(count)) => {
                    // A stream that gave less than it could has nothing more (epoll(7)).
                    if count > 0 && count < buffer.len() {
                        ready.clear_ready();
                    }
                    return Ok(count);
                }
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::frame::Decoder;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn documents_arrive_whole_and_in_order_whatever_the_reader_does() {
        runtime().block_on(async {
            let (near, far) = UnixStream::pair().unwrap();
            let (outlet, drained) = Outlet::new(near).unwrap();
            let drained = tokio::spawn(drained);
            let text = "x".repeat(10_000);
            for n in 0..500_u32 {
                outlet.send(&(n, &text)).unwrap();
            }
            assert!(outlet.waiting() > 0, "more than a socket takes at once");
            outlet.close();
            assert!(outlet.send(&0).is_err(), "closed");
            let mut inlet = Inlet::new(far).unwrap();
            let mut decoder = Decoder::default();
            let mut buffer = [0; 4096];
            let mut expected = 0;
            while expected < 500 {
                let count = inlet.read(&mut buffer).await.unwrap();
                assert!(count > 0);
                decoder.push(&buffer[..count]);
                while let Some((n, _)) = decoder.document::<(u32, String)>().unwrap() {
                    assert_eq!(n, expected);
                    expected += 1;
                }
            }
            drained.await.unwrap();
        });
    }

    #[test]
    fn who_waits_for_room_has_it_once_the_peer_reads_or_is_let_go() {
        runtime().block_on(async {
            for lets_go in [false, true] {
                let (near, far) = UnixStream::pair().unwrap();
                let (outlet, drained) = Outlet::new(near).unwrap();
                let drained = tokio::spawn(drained);
                while outlet.waiting() < 100_000 {
                    outlet.send(&"x".repeat(10_000)).unwrap();
                }
                let waiter = outlet.clone();
                let waiter = tokio::spawn(async move { waiter.eased(1000).await });
                tokio::task::yield_now().await;
                assert!(!waiter.is_finished());
                let mut inlet = Inlet::new(far).unwrap();
                if lets_go {
                    outlet.cut();
                    assert!(outlet.waiting() == 0 && outlet.send(&0).is_err());
                }
                let mut buffer = [0; 4096];
                while !waiter.is_finished() {
                    inlet.read(&mut buffer).await.unwrap();
                    tokio::task::yield_now().await;
                }
                outlet.close();
                while inlet.read(&mut buffer).await.unwrap() > 0 {}
                drained.await.unwrap();
            }
        });
    }

    #[test]
    fn a_peer_that_is_gone_is_told() {
        runtime().block_on(async {
            let (near, far) = UnixStream::pair().unwrap();
            let (outlet, drained) = Outlet::new(near.try_clone().unwrap()).unwrap();
            let drained = tokio::spawn(drained);
            drop(far);
            assert!(matches!(outlet.send(&1), Err(OutletError::Gone(_))));
            let mut inlet = Inlet::new(near).unwrap();
            assert_eq!(inlet.read(&mut [0; 8]).await.unwrap(), 0);
            outlet.close();
            drained.await.unwrap();
        });
    }
}
