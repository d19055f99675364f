//! Descriptors handed over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends one descriptor.
///
/// # Errors
/// When the other side is gone.
pub(in crate::session) fn send(socket: impl AsFd, handed: impl AsFd) -> io::Result<()> {
    let handed = [handed.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&handed));
    sendmsg(socket, &[IoSlice::new(b"h")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for one descriptor; `None` at the end of the stream.
///
/// # Errors
/// When the socket cannot be read.
pub(in crate::session) fn receive(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    loop {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        match got {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut handed) = message
                && let Some(descriptor) = handed.next()
            {
                return Ok(Some(descriptor));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_goes_through_a_socket() {
        let (near, far) = UnixStream::pair().unwrap();
        let (kept, handed) = UnixStream::pair().unwrap();
        send(&near, &handed).unwrap();
        drop(handed);
        let mut got = UnixStream::from(receive(&far).unwrap().unwrap());
        got.write_all(b"x").unwrap();
        let mut byte = [0];
        (&kept).read_exact(&mut byte).unwrap();
        drop(near);
        assert!(receive(&far).unwrap().is_none());
    }
}
