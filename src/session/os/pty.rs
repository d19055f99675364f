//! A session's terminals. portable-pty opens and resizes them; the slaves are opened here, since
//! its own child closes every descriptor that the driver needs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use portable_pty::{MasterPty, PtySize, native_pty_system};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcsetattr,
};

use crate::domain::session::Size;

/// Everything that `stty` can set a key to.
const SPECIAL_CODES: [SpecialCodeIndex; 17] = [
    SpecialCodeIndex::VINTR,
    SpecialCodeIndex::VQUIT,
    SpecialCodeIndex::VERASE,
    SpecialCodeIndex::VKILL,
    SpecialCodeIndex::VEOF,
    SpecialCodeIndex::VTIME,
    SpecialCodeIndex::VMIN,
    SpecialCodeIndex::VSWTC,
    SpecialCodeIndex::VSTART,
    SpecialCodeIndex::VSTOP,
    SpecialCodeIndex::VSUSP,
    SpecialCodeIndex::VEOL,
    SpecialCodeIndex::VREPRINT,
    SpecialCodeIndex::VDISCARD,
    SpecialCodeIndex::VWERASE,
    SpecialCodeIndex::VLNEXT,
    SpecialCodeIndex::VEOL2,
];

/// What a terminal holds of input that nobody reads, a little less than the kernel's own limit.
const QUEUE_BYTES: u64 = 4000;

/// One terminal: both ends, and the modes in which it was opened.
pub(in crate::session) struct Terminal {
    pty: Box<dyn MasterPty + Send>,
    /// Read and written without blocking.
    pub master: OwnedFd,
    /// Kept open: the master then never sees a hang-up, and modes and queues can be asked for.
    pub slave: OwnedFd,
    /// The slave's device number.
    pub device: u64,
    sane: Termios,
}

impl Terminal {
    /// Opens a terminal of `size`.
    ///
    /// # Errors
    /// When the system has no more of them, or no descriptor is left.
    pub(in crate::session) fn open(size: Size) -> io::Result<Self> {
        let pair = native_pty_system().openpty(pty_size(size)).map_err(io::Error::other)?;
        drop(pair.slave);
        let raw = pair.master.as_raw_fd().ok_or(io::ErrorKind::Unsupported)?;
        #[expect(unsafe_code, reason = "portable-pty lends its descriptor as a number")]
        // SAFETY: `pair.master` owns the descriptor and outlives the borrow.
        let lent = unsafe { BorrowedFd::borrow_raw(raw) };
        let master = rustix::io::fcntl_dupfd_cloexec(lent, 3)?;
        fcntl_setfl(&master, fcntl_getfl(&master)? | OFlags::NONBLOCK)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        let mut sane = tcgetattr(&slave)?;
        // Ctrl-S must not stop an output that nobody can start again.
        sane.input_modes -= InputModes::IXON;
        tcsetattr(&slave, OptionalActions::Now, &sane)?;
        let device = fstat(&slave)?.st_rdev;
        Ok(Self { pty: pair.master, master, slave, device, sane })
    }

    /// Gives the window another size; the foreground group is told by the kernel.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(in crate::session) fn resize(&self, size: Size) -> io::Result<()> {
        self.pty.resize(pty_size(size)).map_err(io::Error::other)
    }

    /// The foreground process group.
    pub(in crate::session) fn foreground(&self) -> Option<i32> {
        self.pty.process_group_leader().filter(|&group| group > 0)
    }

    /// True in line mode without echo: a password is typed.
    pub(in crate::session) fn is_secret(&self) -> bool {
        tcgetattr(&self.slave).is_ok_and(|modes| {
            modes.local_modes.contains(LocalModes::ICANON)
                && !modes.local_modes.contains(LocalModes::ECHO)
        })
    }

    /// True out of line mode: what is typed is read key by key.
    pub(in crate::session) fn takes_keys(&self) -> bool {
        tcgetattr(&self.slave).is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
    }

    /// Types something if all of it can be taken now; answers with how many bytes were typed.
    pub(in crate::session) fn type_whole(&self, bytes: &[u8]) -> u64 {
        if self.unread() + bytes.len() as u64 > QUEUE_BYTES {
            return 0;
        }
        loop {
            match rustix::io::write(&self.master, bytes) {
                Ok(taken) => return taken as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return 0,
            }
        }
    }

    /// Bytes that a reader would get at once.
    pub(in crate::session) fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.slave).unwrap_or(0)
    }

    /// Turns the echo on or off.
    pub(in crate::session) fn set_echo(&self, echo: bool) {
        let Ok(mut modes) = tcgetattr(&self.slave) else { return };
        modes.local_modes.set(LocalModes::ECHO, echo);
        // A terminal that refuses shows a blank line more.
        let _ = tcsetattr(&self.slave, OptionalActions::Now, &modes);
    }

    /// Throws away what nobody has read, and says how much it was.
    pub(in crate::session) fn discard_input(&self) -> u64 {
        if let Ok(mut modes) = tcgetattr(&self.slave) {
            // An unfinished line counts only out of line mode. The sane modes follow in any case.
            modes.local_modes -= LocalModes::ICANON;
            let _ = tcsetattr(&self.slave, OptionalActions::Now, &modes);
        }
        let unread = self.unread();
        // What was typed a moment ago may still be on its way to the slave.
        let _ = tcflush(&self.master, QueueSelector::OFlush);
        let _ = tcflush(&self.slave, QueueSelector::IFlush);
        let _ = tcsetattr(&self.slave, OptionalActions::Now, &self.sane);
        unread
    }

    /// Puts the modes back that a program has left behind.
    pub(in crate::session) fn restore_modes(&self) {
        let Ok(modes) = tcgetattr(&self.slave) else { return };
        let same = modes.input_modes == self.sane.input_modes
            && modes.output_modes == self.sane.output_modes
            && modes.control_modes == self.sane.control_modes
            && modes.local_modes == self.sane.local_modes
            && SPECIAL_CODES
                .into_iter()
                .all(|code| modes.special_codes[code] == self.sane.special_codes[code]);
        if !same {
            let _ = tcsetattr(&self.slave, OptionalActions::Now, &self.sane);
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

fn pty_size(size: Size) -> PtySize {
    PtySize { rows: size.rows, cols: size.cols, pixel_width: 0, pixel_height: 0 }
}
