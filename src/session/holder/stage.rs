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

/// Has the libraries look once at what the processor can do, so that every holder has the answer
/// from its birth: `cpuid` leaves a virtual machine each time it is asked, which costs a holder
/// more than the rest of its start in user space.
fn learn_the_processor() {
    std::hint::black_box(memchr::memchr(b'\n', std::hint::black_box(b"callboard")));
    #[cfg(target_arch = "x86_64")]
    std::hint::black_box(std::is_x86_feature_detected!("avx2"));
}

fn serve() -> std::io::Result<()> {
    // Out of the coordinator's process group: a Ctrl-C meant for that one is not meant for us.
    // It fails for a group leader, which is out already.
    let _ = rustix::process::setsid();
    let socket = spawn::take_standard_input()?;
    spawn::default_signals();
    process::ignore_children();
    learn_the_processor();
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
