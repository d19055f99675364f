//! Watching a socket for one direction.

use std::io;
use std::os::unix::net::UnixStream;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a socket for what is wanted of it and nothing else.
///
/// # Errors
/// When the socket cannot be watched.
pub(in crate::session) fn watch(
    socket: UnixStream,
    interest: Interest,
) -> io::Result<AsyncFd<UnixStream>> {
    #[expect(unsafe_code, reason = "tokio cannot know that a descriptor stays the same")]
    // SAFETY: a `UnixStream` owns its descriptor and gives the same one until it is dropped, which
    // the `AsyncFd` that owns it outlives.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    Ok(watched?)
}
