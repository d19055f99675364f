//! A holder's own process, and signals to others.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::command::event::Fate;

/// Makes orphans below come to this process, and names it.
///
/// # Errors
/// When the kernel refuses.
pub(in crate::session) fn become_holder() -> io::Result<()> {
    // A session of its own: the coordinator's terminal does not reach it.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Pid::from_raw(1))?;
    #[expect(unsafe_code, reason = "prctl(PR_SET_NAME) takes a pointer")]
    // SAFETY: the name is a NUL-terminated literal shorter than 16 bytes.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"cb-holder".as_ptr());
    }
    Ok(())
}

/// Leaves the deaths of children to the kernel.
pub(in crate::session) fn ignore_children() {
    #[expect(unsafe_code, reason = "signal(2)")]
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}

/// A descriptor that becomes readable when a child has died.
///
/// # Errors
/// When no descriptor is left.
pub(in crate::session) fn child_deaths() -> io::Result<OwnedFd> {
    #[expect(unsafe_code, reason = "signal sets and signalfd(2)")]
    // SAFETY: the set is initialised by sigemptyset before it is read, and signalfd gives a
    // descriptor that nobody else owns.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Takes one dead child; `None` when there is none.
pub(in crate::session) fn reap() -> Option<(i32, Fate)> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let fate = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Fate::Exited(code),
                    (None, Some(signal)) => Fate::Signalled(signal),
                    (None, None) => continue,
                };
                return Some((pid.as_raw_nonzero().get(), fate));
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// In a forked child that reads what may be meant to do it harm: so much CPU time, and a stack that
/// grows as far as it may. What it lacks ends it.
pub(in crate::session) fn limit_reader(seconds: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let cpu = Rlimit { current: Some(seconds), maximum: Some(seconds) };
    // Limits that cannot be set leave those that are: the parent's patience is one of them.
    let _ = setrlimit(Resource::Cpu, cpu);
    let core = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, core);
    let stack = getrlimit(Resource::Stack).maximum;
    let wanted = stack.unwrap_or(READER_STACK_BYTES).min(READER_STACK_BYTES);
    let _ = setrlimit(Resource::Stack, Rlimit { current: Some(wanted), maximum: stack });
}

/// What a reader may need of a stack for the deepest text that is not refused unread.
const READER_STACK_BYTES: u64 = 96 * 1024 * 1024;

/// Sends a signal to the process that has this pid, if `is_it` still says so. The descriptor holds
/// the pid, so another process cannot get it in between.
///
/// # Errors
/// When it is another user's.
pub(in crate::session) fn signal(
    pid: i32,
    signal: Signal,
    is_it: impl FnOnce() -> bool,
) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
    let Ok(descriptor) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
        return Ok(());
    };
    if !is_it() {
        return Ok(());
    }
    match rustix::process::pidfd_send_signal(&descriptor, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal to a process group.
pub(in crate::session) fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // A group that is gone needs no signal.
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// CPU time of the children that this process has reaped, in ms.
pub(in crate::session) fn reaped_cpu_ms() -> u64 {
    #[expect(unsafe_code, reason = "getrusage(2)")]
    // SAFETY: the kernel fills in the whole structure.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ms = |time: libc::timeval| {
        time.tv_sec.unsigned_abs() * 1000 + time.tv_usec.unsigned_abs() / 1000
    };
    ms(usage.ru_utime) + ms(usage.ru_stime)
}
