//! Seccomp user notification: a filter is installed in a child before its program, its listener
//! comes to the holder, and calls wait there for an answer (`seccomp_unotify(2)`).

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::filter::{ABIS, program};
use super::{features, handover};
use crate::domain::machine::{Means, Notify};

/// What it takes to trace sessions from here.
pub(in crate::session) fn means() -> Means {
    if ABIS.is_empty() || features::notify() != Notify::Killable {
        Means::Missing
    } else if may_administer() {
        Means::Free
    } else {
        Means::CostsRights
    }
}

/// True with `CAP_SYS_ADMIN`, which spares `NO_NEW_PRIVS`.
fn may_administer() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    effective.is_some_and(|set| set & SYS_ADMIN != 0)
}

/// A filter that is to be installed in a child.
pub(in crate::session) struct Trace {
    program: Vec<libc::sock_filter>,
    no_new_privs: bool,
    near: UnixStream,
    far: UnixStream,
    /// The system's error where it could not be installed.
    failed: Cell<i32>,
}

impl Trace {
    /// One for this machine.
    ///
    /// # Errors
    /// A sentence, where the kernel cannot or no descriptor is left.
    pub(in crate::session) fn prepare() -> io::Result<Self> {
        let means = means();
        if means == Means::Missing {
            let message =
                "this kernel cannot hold a call for a holder (Linux 5.19, x86-64 or arm64)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let (near, far) = UnixStream::pair()?;
        let no_new_privs = means == Means::CostsRights;
        Ok(Self { program: program(ABIS), no_new_privs, near, far, failed: Cell::new(0) })
    }

    /// In the child, right before its program: false when it must not go on. Where the kernel
    /// refuses the filter it goes on without.
    #[expect(unsafe_code, reason = "called between clone and exec")]
    pub(super) unsafe fn install(&self) -> bool {
        // SAFETY: plain system calls on memory that the parent keeps alive while this child runs;
        // nothing is allocated.
        unsafe {
            let errno = || *libc::__errno_location();
            if self.no_new_privs && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 {
                self.failed.set(errno());
                return true;
            }
            let filter = libc::sock_fprog {
                len: u16::try_from(self.program.len()).unwrap_or(0),
                filter: self.program.as_ptr().cast_mut(),
            };
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
                | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
            let mode = libc::SECCOMP_SET_MODE_FILTER;
            let listener = libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter);
            let Ok(listener) = RawFd::try_from(listener) else { return false };
            if listener < 0 {
                self.failed.set(errno());
                return true;
            }
            send(self.far.as_raw_fd(), listener)
        }
    }

    /// In the parent, once the child has its program.
    ///
    /// # Errors
    /// Why there is no filter.
    pub(in crate::session) fn listener(self) -> io::Result<Listener> {
        let Self { near, far, failed, .. } = self;
        drop(far);
        if failed.get() != 0 {
            return Err(io::Error::from_raw_os_error(failed.get()));
        }
        let listener = handover::receive(&near)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        wake_on_the_same_cpu(&listener);
        Ok(Listener(listener))
    }
}

/// Sends a descriptor without taking memory.
#[expect(unsafe_code, reason = "called between clone and exec")]
unsafe fn send(socket: RawFd, handed: RawFd) -> bool {
    // `size_of::<RawFd>()`.
    const DESCRIPTOR: u32 = 4;
    // SAFETY: the control buffer is aligned and large enough for one descriptor; every pointer is to
    // this frame.
    unsafe {
        let mut byte = *b"h";
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = [0_u64; 8];
        let mut message = std::mem::zeroed::<libc::msghdr>();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(DESCRIPTOR) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(DESCRIPTOR) as _;
        std::ptr::copy_nonoverlapping(&raw const handed, libc::CMSG_DATA(head).cast(), 1);
        libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) == 1
    }
}

const fn ioctl_number(direction: u64, number: u64, size: usize) -> libc::Ioctl {
    (direction << 30 | (size as u64) << 16 | (b'!' as u64) << 8 | number) as libc::Ioctl
}
const READ_WRITE: u64 = 3;
const WRITE: u64 = 1;

/// Saves most of the way there and back (Linux 6.6); without it everything is as right.
fn wake_on_the_same_cpu(listener: &OwnedFd) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    #[expect(unsafe_code, reason = "ioctl(SECCOMP_IOCTL_NOTIF_SET_FLAGS)")]
    // SAFETY: the flags are the argument itself; no memory is read.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), ioctl_number(WRITE, 4, size_of::<u64>()), SYNC_WAKE_UP);
    }
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Waiting {
    /// Its name for the answer.
    pub id: u64,
    /// The thread.
    pub pid: i32,
    /// `AUDIT_ARCH_*`.
    pub arch: u32,
    /// The call's number there.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Where the calls of a session wait.
#[derive(Debug)]
pub(in crate::session) struct Listener(OwnedFd);

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// The next call that waits, without waiting for one.
    ///
    /// # Errors
    /// When nobody is left who has the filter.
    pub(in crate::session) fn next(&self) -> io::Result<Option<Waiting>> {
        loop {
            let mut watched = [PollFd::new(&self.0, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            match poll(&mut watched, Some(&now)) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            let [watch] = &watched;
            if !watch.revents().contains(PollFlags::IN) {
                let is_gone = watch.revents().intersects(PollFlags::HUP | PollFlags::ERR);
                return if is_gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(None) };
            }
            if let Some(waiting) = self.receive()? {
                return Ok(Some(waiting));
            }
        }
    }

    fn receive(&self) -> io::Result<Option<Waiting>> {
        #[expect(unsafe_code, reason = "ioctl(SECCOMP_IOCTL_NOTIF_RECV)")]
        // SAFETY: the kernel wants the structure zeroed and fills it in; its size is in the number.
        let (answer, told) = unsafe {
            let mut told = std::mem::zeroed::<libc::seccomp_notif>();
            let number = ioctl_number(READ_WRITE, 0, size_of::<libc::seccomp_notif>());
            (libc::ioctl(self.0.as_raw_fd(), number, &raw mut told), told)
        };
        if answer == -1 {
            return match io::Error::last_os_error() {
                // Ended in between, or a signal of ours.
                error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {
                    Ok(None)
                }
                error => Err(error),
            };
        }
        Ok(Some(Waiting {
            id: told.id,
            pid: i32::try_from(told.pid).unwrap_or(0),
            arch: told.data.arch,
            number: told.data.nr.cast_unsigned(),
            arguments: told.data.args,
        }))
    }

    /// True while the call waits: what was read of its process until now was that process's.
    pub(in crate::session) fn is_waiting(&self, id: u64) -> bool {
        #[expect(unsafe_code, reason = "ioctl(SECCOMP_IOCTL_NOTIF_ID_VALID)")]
        // SAFETY: the kernel reads the number that is pointed to.
        unsafe {
            let number = ioctl_number(WRITE, 2, size_of::<u64>());
            libc::ioctl(self.0.as_raw_fd(), number, &raw const id) == 0
        }
    }

    /// Lets the call be made. One that is gone needs no answer.
    pub(in crate::session) fn go_on(&self, id: u64) {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
        self.answer(libc::seccomp_notif_resp { id, val: 0, error: 0, flags });
    }

    /// Has the call fail.
    pub(in crate::session) fn refuse(&self, id: u64, error: i32) {
        self.answer(libc::seccomp_notif_resp { id, val: 0, error: -error, flags: 0 });
    }

    fn answer(&self, answer: libc::seccomp_notif_resp) {
        #[expect(unsafe_code, reason = "ioctl(SECCOMP_IOCTL_NOTIF_SEND)")]
        // SAFETY: the kernel reads the structure, whose size is in the number.
        unsafe {
            let number = ioctl_number(READ_WRITE, 1, size_of::<libc::seccomp_notif_resp>());
            libc::ioctl(self.0.as_raw_fd(), number, &raw const answer);
        }
    }
}

/// Reads another process's memory, as much of it as is there.
pub(in crate::session) fn read_memory(pid: i32, address: u64, into: &mut [u8]) -> Option<usize> {
    let address = usize::try_from(address).ok()?;
    let own = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let far =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    #[expect(unsafe_code, reason = "process_vm_readv(2)")]
    // SAFETY: the kernel writes into `into` alone, and checks the other side's address itself.
    let got = unsafe { libc::process_vm_readv(pid, &raw const own, 1, &raw const far, 1, 0) };
    usize::try_from(got).ok()
}

/// A name out of another process's memory, without its NUL; `None` where there is none of at most
/// `PATH_MAX` bytes.
pub(in crate::session) fn read_name(pid: i32, address: u64) -> Option<Vec<u8>> {
    const NAME_BYTES_MAX: usize = 4096;
    // A page at a time: what lies behind it may not be there.
    const PAGE: u64 = NAME_BYTES_MAX as u64;
    let mut name = Vec::new();
    while name.len() < NAME_BYTES_MAX {
        let from = address.checked_add(name.len() as u64)?;
        // Most names are short.
        let length = (PAGE - from % PAGE).min(if name.is_empty() { 256 } else { PAGE });
        let mut piece = [0; NAME_BYTES_MAX];
        let piece = &mut piece[..usize::try_from(length).ok()?];
        let got = read_memory(pid, from, piece).filter(|got| *got > 0)?;
        let piece = &piece[..got];
        if let Some(end) = memchr::memchr(0, piece) {
            name.extend_from_slice(&piece[..end]);
            return Some(name);
        }
        name.extend_from_slice(piece);
    }
    None
}

/// An address as `bind` takes it, if it is one of the internet.
pub(in crate::session) fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET => {
            let host: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some((Ipv4Addr::from(host), port).into())
        }
        libc::AF_INET6 => {
            let host: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some((Ipv6Addr::from(host), port).into())
        }
        _ => None,
    }
}

/// Where a process's stream socket is bound; `None` when it is none, or not to be seen. Our own
/// copy of it lives no longer than this look.
pub(in crate::session) fn bound_to(pid: i32, descriptor: i32) -> Option<SocketAddr> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let socket = pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()).ok()?;
    let kind = rustix::net::sockopt::socket_type(&socket).ok()?;
    if kind != rustix::net::SocketType::STREAM {
        return None;
    }
    rustix::net::getsockname(&socket).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_over_the_end_of_a_page() {
        let own = i32::try_from(std::process::id()).unwrap();
        for length in [0, 1, 255, 256, 257, 4095] {
            let mut text = vec![b'a'; length];
            text.push(0);
            text.extend_from_slice(b"behind");
            let address = text.as_ptr().addr() as u64;
            assert_eq!(read_name(own, address), Some(vec![b'a'; length]));
        }
        let long = vec![b'a'; 9000];
        assert_eq!(read_name(own, long.as_ptr().addr() as u64), None);
        assert_eq!(read_name(own, 8), None);
        assert_eq!(read_name(own, u64::MAX - 3), None);
    }

    #[test]
    fn addresses() {
        let mut four = [0; 16];
        four[..2].copy_from_slice(&2_u16.to_ne_bytes());
        four[2..8].copy_from_slice(&[0x1f, 0x90, 127, 0, 0, 1]);
        assert_eq!(parse_address(&four), Some("127.0.0.1:8080".parse().unwrap()));
        let mut six = [0; 28];
        six[..2].copy_from_slice(&10_u16.to_ne_bytes());
        six[2..4].copy_from_slice(&[0, 80]);
        assert_eq!(parse_address(&six), Some("[::]:80".parse().unwrap()));
        assert_eq!(parse_address(&six[..20]), None);
        assert_eq!(parse_address(&[1, 0, 0, 0, 0]), None);
        assert_eq!(parse_address(&[]), None);
    }

    #[test]
    fn a_bound_socket_of_another_is_seen() {
        let own = i32::try_from(std::process::id()).unwrap();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(bound_to(own, socket.as_raw_fd()), Some(socket.local_addr().unwrap()));
        let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(bound_to(own, datagram.as_raw_fd()), None);
        assert_eq!(bound_to(own, 1_000), None);
    }
}
