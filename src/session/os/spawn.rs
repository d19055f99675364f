//! Forks: a holder off the stage, a shell and a parser off a holder. Every process that forks here
//! has one thread, so the child may go on as ordinary code.

use std::ffi::CString;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Forks; the child runs `child` and ends with what it gives.
///
/// # Errors
/// When the system has no room for another process.
pub(in crate::session) fn fork(child: impl FnOnce() -> i32) -> io::Result<i32> {
    #[expect(unsafe_code, reason = "fork(2)")]
    // SAFETY: the process has one thread, so no lock is left held in the child; the child leaves
    // by _exit and never returns into the parent's frames.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
                libc::_exit(code.unwrap_or(70))
            }
            pid => Ok(pid),
        }
    }
}

/// Puts /dev/null in the place of the three standard descriptors, and gives another name to what
/// was standard input.
///
/// # Errors
/// When /dev/null cannot be opened or no descriptor is left.
pub(in crate::session) fn take_standard_input() -> io::Result<OwnedFd> {
    let taken = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(taken)
}

/// In a forked child: closes a descriptor that is the parent's alone.
pub(in crate::session) fn give_up(given_up: &OwnedFd) {
    #[expect(unsafe_code, reason = "the parent's descriptor is closed in the child alone")]
    // SAFETY: in the child nobody uses the number again: the parent's owner of it stays behind in
    // frames that the child never returns to.
    unsafe {
        libc::close(given_up.as_raw_fd());
    }
}

/// What a program is started with.
pub(in crate::session) struct Program<'a> {
    /// Its file.
    pub path: CString,
    /// Its arguments, its name first.
    pub argv: Vec<CString>,
    /// Its whole environment.
    pub env: Vec<CString>,
    /// Where it starts; as it is when not set.
    pub cwd: Option<CString>,
    /// Its descriptors, as (ours, its); all others are closed. Ours lie between 3 and 199.
    pub descriptors: Vec<(BorrowedFd<'a>, RawFd)>,
    /// The first of them is its controlling terminal.
    pub terminal: bool,
}

/// Where it failed, in the words of an error message.
const STAGES: [&str; 4] = ["start a session of its own", "go into", "set up descriptors", "run"];

/// Starts a program in a session of its own, with every signal as a login gives it. Returns once
/// it runs.
///
/// # Errors
/// A sentence and the system's own words.
pub(in crate::session) fn start(program: &Program<'_>) -> io::Result<i32> {
    let (failures, failure) = std::io::pipe()?;
    let argv = pointers(&program.argv);
    let env = pointers(&program.env);
    let pid = fork(|| {
        let (stage, error) = into_program(program, &argv, &env, failure.as_raw_fd());
        let code = error.raw_os_error().unwrap_or(0).to_le_bytes();
        let told = [stage, code[0], code[1], code[2], code[3]];
        // If even this fails the exit status has to do.
        let _ = rustix::io::write(&failure, &told);
        126
    })?;
    drop(failure);
    match failure_told(failures) {
        None => Ok(pid),
        Some((stage, error)) => {
            let what = STAGES.get(usize::from(stage)).copied().unwrap_or("start");
            let place = match stage {
                1 => program.cwd.as_ref(),
                _ => Some(&program.path),
            };
            let place = place.map_or(String::new(), |place| place.to_string_lossy().into_owned());
            Err(io::Error::new(error.kind(), format!("cannot {what} {place}: {error}")))
        }
    }
}

fn failure_told(mut failures: PipeReader) -> Option<(u8, io::Error)> {
    let mut told = [0; 5];
    failures.read_exact(&mut told).ok()?;
    let code = i32::from_le_bytes([told[1], told[2], told[3], told[4]]);
    Some((told[0], io::Error::from_raw_os_error(code)))
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Never returns when all goes well; otherwise the stage (`STAGES`) and the error.
fn into_program(
    program: &Program<'_>,
    argv: &[*const libc::c_char],
    env: &[*const libc::c_char],
    failure: RawFd,
) -> (u8, io::Error) {
    #[expect(unsafe_code, reason = "the steps between fork and exec")]
    // SAFETY: plain system calls in a forked child with one thread; every pointer is to memory
    // that the caller keeps alive, and the arrays end in null.
    unsafe {
        if libc::setsid() == -1 {
            return (0, io::Error::last_os_error());
        }
        reset_signals();
        if let Some(cwd) = &program.cwd
            && libc::chdir(cwd.as_ptr()) == -1
        {
            return (1, io::Error::last_os_error());
        }
        for (ours, its) in &program.descriptors {
            if libc::dup2(ours.as_raw_fd(), *its) == -1 {
                return (2, io::Error::last_os_error());
            }
        }
        if program.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
            return (2, io::Error::last_os_error());
        }
        close_others(program, failure);
        libc::execve(program.path.as_ptr(), argv.as_ptr(), env.as_ptr());
        (3, io::Error::last_os_error())
    }
}

#[expect(unsafe_code, reason = "called between fork and exec")]
unsafe fn reset_signals() {
    // SAFETY: the dispositions are set to the default, which runs no code of ours; the set is
    // initialised before it is used.
    unsafe {
        // The system call itself: the library will not touch two of the 64, and they are inherited
        // like any other. All zeros: the default, no flags, no mask.
        let default = [0_u64; 4];
        for number in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8,
            );
        }
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

#[expect(unsafe_code, reason = "called between fork and exec")]
unsafe fn close_others(program: &Program<'_>, failure: RawFd) {
    let mut kept: Vec<RawFd> = program.descriptors.iter().map(|(_, its)| *its).collect();
    kept.push(failure);
    kept.sort_unstable();
    let mut from = 3;
    for descriptor in kept.into_iter().filter(|&descriptor| descriptor >= 3) {
        if descriptor > from {
            // SAFETY: closes descriptors that only this child has.
            unsafe { libc::close_range(from.unsigned_abs(), (descriptor - 1).unsigned_abs(), 0) };
        }
        from = descriptor + 1;
    }
    // SAFETY: as above.
    unsafe { libc::close_range(from.unsigned_abs(), u32::MAX, 0) };
}
