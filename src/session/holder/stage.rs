//! The stage: a small process with one thread that forks holders. Executing the whole binary anew
//! for each session would cost milliseconds and private memory; a fork of a process that has
//! touched next to nothing costs neither.

use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use super::super::os::{handover, process, spawn};
use super::turn;

/// The stage's whole life: its socket is its standard input. Every descriptor that comes over it
/// is a new holder's link. It ends when the socket is closed; its holders do not.
pub fn stage_main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> std::io::Result<()> {
    // Out of the coordinator's process group: a Ctrl-C meant for that one is not meant for us.
    // It fails for a group leader, which is out already.
    let _ = rustix::process::setsid();
    let socket = spawn::take_standard_input()?;
    process::ignore_children();
    while let Some(link) = handover::receive(&socket)? {
        let link = UnixStream::from(link);
        // Without room for a process the link is dropped: its end says that there is no holder.
        drop(spawn::fork(|| {
            // The stage's own socket must not be kept open by its holders.
            spawn::give_up(&socket);
            i32::from(turn::hold(link).is_err())
        }));
    }
    Ok(())
}
