//! What the kernel offers, asked without changing anything.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::domain::machine::Notify;

/// Seccomp user notification. Flags are looked at before the filter is, so a filter at address 0
/// tells which flags are known (`EFAULT`) and which are not (`EINVAL`), and never takes hold.
pub(in crate::session) fn notify() -> Notify {
    const NEW_LISTENER: libc::c_ulong = 1 << 3;
    const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;
    if is_known(NEW_LISTENER | WAIT_KILLABLE_RECV) {
        Notify::Killable
    } else if is_known(NEW_LISTENER) {
        Notify::Interruptible
    } else {
        Notify::Missing
    }
}

fn is_known(flags: libc::c_ulong) -> bool {
    const SET_MODE_FILTER: libc::c_ulong = 1;
    #[expect(unsafe_code, reason = "seccomp(2) has no other form")]
    // SAFETY: the kernel refuses a filter at address 0; nothing is read or changed.
    let answer = unsafe {
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, std::ptr::null::<libc::c_void>())
    };
    answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// The Landlock ABI (`landlock_create_ruleset(2)`, `LANDLOCK_CREATE_RULESET_VERSION`).
pub(in crate::session) fn landlock() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    #[expect(unsafe_code, reason = "landlock_create_ruleset(2) has no other form")]
    // SAFETY: asked for its version it reads no attributes and makes no ruleset.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(answer).ok().filter(|abi| *abi > 0)
}

/// Whether a user namespace can be made: a child tries. `None` where no child can be started.
pub(in crate::session) fn user_namespaces() -> Option<bool> {
    let mut command = Command::new("true");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !matches!(command.status(), Ok(status) if status.success()) {
        return None;
    }
    #[expect(unsafe_code, reason = "what a child does between fork and exec")]
    // SAFETY: unshare(2) is a system call and nothing else; it allocates nothing.
    unsafe {
        command.pre_exec(|| match libc::unshare(libc::CLONE_NEWUSER) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    Some(matches!(command.status(), Ok(status) if status.success()))
}
