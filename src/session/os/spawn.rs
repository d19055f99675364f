//! New processes: a holder forked off the stage, a shell and a parser started by a holder. A process
//! that forks here has one thread, so the child may go on as ordinary code.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::notify::Trace;

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

/// Puts /dev/null in the place of standard error, whose other end may wait for its last writer.
pub(in crate::session) fn give_up_stderr() {
    // Without a descriptor for it there is nothing better to do than to go on as we are.
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
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
    /// Lists of processes of control groups that it enters before anything of it runs, if the
    /// kernel lets it. Above 2.
    pub groups: &'a [OwnedFd],
    /// The filter that has its calls told.
    pub trace: Option<&'a Trace>,
}

/// Where it failed, in the words of an error message.
const STAGES: [&str; 5] = [
    "start a session of its own",
    "go into",
    "set up descriptors",
    "run",
    "hand over the listener for the calls of",
];

/// What the child's few calls before its program need of a stack.
const STACK_BYTES: usize = 64 * 1024;

/// Starts a program in a session of its own, with every signal as a login gives it. Returns once
/// it runs.
///
/// Nothing is copied for the child: it has this process's memory, which waits until the child has a
/// program of its own.
///
/// # Errors
/// A sentence and the system's own words.
pub(in crate::session) fn start(program: &Program<'_>) -> io::Result<i32> {
    let (argv, env, gaps) = (pointers(&program.argv), pointers(&program.env), gaps(program));
    let mut child = Child { program, argv: &argv, env: &env, gaps: &gaps, failure: None };
    let mut stack = Vec::<u128>::with_capacity(STACK_BYTES / size_of::<u128>());
    #[expect(unsafe_code, reason = "clone(2)")]
    // SAFETY: the stack grows down from its aligned end and is the child's alone. This process, all
    // that the child is lent included, stands still until the child has executed its program or
    // ended; `live` takes no memory and no lock, and never returns into frames of this process.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(live, top.cast(), flags, (&raw mut child).cast())
    };
    if pid == -1 {
        return Err(io::Error::last_os_error());
    }
    match child.failure {
        None => Ok(pid),
        Some((stage, code)) => {
            let error = io::Error::from_raw_os_error(code);
            let what = STAGES.get(stage).copied().unwrap_or("start");
            let place = match stage {
                1 => program.cwd.as_ref(),
                _ => Some(&program.path),
            };
            let place = place.map_or(String::new(), |place| place.to_string_lossy().into_owned());
            Err(io::Error::new(error.kind(), format!("cannot {what} {place}: {error}")))
        }
    }
}

/// What a child that has no memory of its own is lent.
struct Child<'a> {
    program: &'a Program<'a>,
    argv: &'a [*const libc::c_char],
    env: &'a [*const libc::c_char],
    gaps: &'a [(u32, u32)],
    /// Where in `STAGES` it failed, and the system's error.
    failure: Option<(usize, i32)>,
}

#[expect(unsafe_code, reason = "the child's life until it has a program")]
extern "C" fn live(child: *mut libc::c_void) -> i32 {
    // SAFETY: `start` gives its own `Child`, and does not look at it before this process is gone
    // from its memory.
    unsafe {
        let child = &mut *child.cast::<Child<'_>>();
        let stage = into_program(child);
        child.failure = Some((stage, *libc::__errno_location()));
        libc::_exit(126)
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Never returns when all goes well; otherwise the stage (`STAGES`), with the error in `errno`.
#[expect(unsafe_code, reason = "the steps up to exec")]
unsafe fn into_program(child: &Child<'_>) -> usize {
    let program = child.program;
    // SAFETY: plain system calls; every pointer is to memory that `start` keeps alive, and the
    // arrays end in null. Descriptors, working directory and signals are this process's own.
    unsafe {
        if libc::setsid() == -1 {
            return 0;
        }
        own_no_signals();
        for group in program.groups {
            // 0 is whoever writes it. Whether it is inside is seen from outside.
            let _ = libc::write(group.as_raw_fd(), c"0".as_ptr().cast(), 1);
        }
        if let Some(cwd) = &program.cwd
            && libc::chdir(cwd.as_ptr()) == -1
        {
            return 1;
        }
        for (ours, its) in &program.descriptors {
            if libc::dup2(ours.as_raw_fd(), *its) == -1 {
                return 2;
            }
        }
        if program.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
            return 2;
        }
        if let Some(trace) = program.trace
            && !trace.install()
        {
            return 4;
        }
        for (first, last) in child.gaps {
            libc::close_range(*first, *last, 0);
        }
        libc::execve(program.path.as_ptr(), child.argv.as_ptr(), child.env.as_ptr());
        3
    }
}

/// Gives every signal its default. Once in the stage, for all that come from it: an ignored signal
/// is inherited by every program, a caught one by none.
pub(in crate::session) fn default_signals() {
    #[expect(unsafe_code, reason = "rt_sigaction(2)")]
    // SAFETY: the default runs no code of ours. The system call itself, since the library will not
    // touch two of the 64. All zeros: the default, no flags, no mask.
    unsafe {
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
    }
}

/// Takes back what a holder does to signals (`process::child_deaths`).
#[expect(unsafe_code, reason = "called before exec")]
unsafe fn own_no_signals() {
    // SAFETY: the default runs no code of ours; the set is initialised before it is used.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// The ranges of descriptors that the program is not to have.
fn gaps(program: &Program<'_>) -> Vec<(u32, u32)> {
    let mut kept: Vec<u32> =
        program.descriptors.iter().filter_map(|(_, its)| u32::try_from(*its).ok()).collect();
    kept.sort_unstable();
    let mut gaps = Vec::new();
    let mut from = 3;
    for descriptor in kept.into_iter().filter(|&descriptor| descriptor >= 3) {
        if descriptor > from {
            gaps.push((from, descriptor - 1));
        }
        from = descriptor + 1;
    }
    gaps.push((from, u32::MAX));
    gaps
}
