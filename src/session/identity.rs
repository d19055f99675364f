//! Who a process is, and signals that reach that very process or none.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::domain::process::ProcessIdentity;

/// The identity of a process that lives.
///
/// # Errors
/// When there is none of that pid, or `/proc` does not tell.
pub fn of(pid: i32) -> io::Result<ProcessIdentity> {
    let start_time = start_time(pid).ok_or(io::ErrorKind::NotFound)?;
    Ok(ProcessIdentity { pid, start_time, boot_id: boot_id()?, pid_namespace: pid_namespace()? })
}

/// This process's own.
///
/// # Errors
/// When `/proc` does not tell.
pub fn own() -> io::Result<ProcessIdentity> {
    of(i32::try_from(std::process::id()).map_err(io::Error::other)?)
}

/// True while that very process lives. One of another boot or pid namespace, or whose pid another
/// process has by now, does not.
pub fn lives(identity: &ProcessIdentity) -> bool {
    start_time(identity.pid) == Some(identity.start_time)
        && boot_id().is_ok_and(|boot| boot == identity.boot_id)
        && pid_namespace().is_ok_and(|namespace| namespace == identity.pid_namespace)
}

/// Sends that very process a signal; false when it is gone, and nothing was signalled.
///
/// The descriptor of the process is taken before its identity is looked at, so that both concern
/// the same process (`pidfd_open(2)`, Linux 5.3). Where the kernel has none, nothing is signalled:
/// a bare pid may be anybody's by then.
///
/// # Errors
/// When the kernel refuses.
pub fn signal(identity: &ProcessIdentity, signal: Signal) -> io::Result<bool> {
    let Some(pid) = Pid::from_raw(identity.pid) else { return Ok(false) };
    let descriptor = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if !lives(identity) {
        return Ok(false);
    }
    match rustix::process::pidfd_send_signal(descriptor, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// When a process started, in clock ticks since the boot (`proc_pid_stat(5)`, field 22); `None` for
/// one that is not there or dead already.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may be any bytes, brackets and half characters included.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    // From the third field to the 22nd, one of which is taken.
    let start_time = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start_time)
}

/// The running boot.
///
/// # Errors
/// When `/proc` is not there.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn pid_namespace() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/self/ns/pid")?.ino())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_pid_that_comes_round_again_is_another_process() {
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let identity = of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(lives(&identity));
        let others = [
            ProcessIdentity { start_time: identity.start_time + 1, ..identity.clone() },
            ProcessIdentity { boot_id: "another".to_owned(), ..identity.clone() },
            ProcessIdentity { pid_namespace: 1, ..identity.clone() },
        ];
        for other in &others {
            assert!(!lives(other));
            assert!(!signal(other, Signal::KILL).unwrap());
        }
        assert!(child.try_wait().unwrap().is_none());
        assert!(signal(&identity, Signal::KILL).unwrap());
        child.wait().unwrap();
        assert!(!lives(&identity));
        assert!(!signal(&identity, Signal::KILL).unwrap());
    }
}
