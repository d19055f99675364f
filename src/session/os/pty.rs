//! A session's terminals. portable-pty opens and resizes them; the slaves are opened here, since
//! its own child closes every descriptor that the driver needs.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

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

/// How long input that is on its way to a terminal's queue is waited for at a boundary.
const LATE_LOOK: Duration = Duration::from_micros(200);
/// And how often.
const LATE_LOOKS_MAX: usize = 10;

/// How a terminal takes input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Typing {
    /// Programs get whole lines.
    pub in_line_mode: bool,
    /// What is typed is shown.
    pub echoes: bool,
    /// What is taken for an interrupt; `None` while the program gets every key itself.
    pub interrupt: Option<u8>,
    /// What ends a line.
    ends: [Option<u8>; 5],
    /// What throws the unfinished line away.
    drops: [Option<u8>; 4],
    /// Takes its meaning from the character after it.
    literal: Option<u8>,
}

impl Typing {
    /// True for a byte by which the terminal itself sends a signal.
    pub(in crate::session) fn signals(&self, byte: u8) -> bool {
        self.drops[1..].contains(&Some(byte))
    }

    /// True for a byte that ends a line.
    pub(in crate::session) fn ends_line(&self, byte: u8) -> bool {
        self.ends.contains(&Some(byte))
    }

    /// The length of the unfinished line after `bytes`, when it was `open` before; or, as an error,
    /// where in `bytes` the first line begins that is longer than `longest`.
    pub(in crate::session) fn lines(
        &self,
        bytes: &[u8],
        open: usize,
        longest: usize,
    ) -> Result<usize, usize> {
        let (mut open, mut begin, mut literal) = (open, 0, false);
        for (at, &byte) in bytes.iter().enumerate() {
            let plain = std::mem::replace(&mut literal, false);
            let is_one_of = |codes: &[Option<u8>]| !plain && codes.contains(&Some(byte));
            if is_one_of(&self.ends) || is_one_of(&self.drops) {
                open = 0;
                begin = at + 1;
                continue;
            }
            literal = !plain && self.literal == Some(byte);
            open += 1;
            if open > longest {
                return Err(begin);
            }
        }
        Ok(open)
    }
}

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

    /// How it takes input at the moment; `None` when it is gone.
    pub(in crate::session) fn typing(&self) -> Option<Typing> {
        let modes = tcgetattr(&self.slave).ok()?;
        let code = |index| Some(modes.special_codes[index]).filter(|&code| code != 0);
        let in_line_mode = modes.local_modes.contains(LocalModes::ICANON);
        let has_signals = modes.local_modes.contains(LocalModes::ISIG);
        let signal = |index| code(index).filter(|_| has_signals);
        let newline = (!modes.input_modes.contains(InputModes::INLCR)).then_some(b'\n');
        let returns = modes.input_modes.contains(InputModes::ICRNL)
            && !modes.input_modes.contains(InputModes::IGNCR);
        Some(Typing {
            in_line_mode,
            echoes: modes.local_modes.contains(LocalModes::ECHO),
            interrupt: signal(SpecialCodeIndex::VINTR),
            ends: [
                newline,
                returns.then_some(b'\r'),
                code(SpecialCodeIndex::VEOF),
                code(SpecialCodeIndex::VEOL),
                code(SpecialCodeIndex::VEOL2),
            ],
            drops: [
                code(SpecialCodeIndex::VKILL),
                signal(SpecialCodeIndex::VINTR),
                signal(SpecialCodeIndex::VQUIT),
                signal(SpecialCodeIndex::VSUSP),
            ],
            literal: code(SpecialCodeIndex::VLNEXT)
                .filter(|_| modes.local_modes.contains(LocalModes::IEXTEN)),
        })
    }

    /// Interrupts the foreground group the way Ctrl-C does: the kernel sends the signal, so that it
    /// reaches other users' programs, too. False where the kernel does not know how.
    pub(in crate::session) fn interrupt(&self) -> bool {
        #[expect(unsafe_code, reason = "ioctl(TIOCSIG)")]
        // SAFETY: the request takes a signal's number by value, and the descriptor is our own.
        let result = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSIG, libc::SIGINT) };
        result == 0
    }

    /// Throws away what nobody has read, as Ctrl-C does, and leaves the modes as they are. Says how
    /// much it was, an unfinished line left out.
    pub(in crate::session) fn flush_input(&self) -> u64 {
        let unread = self.unread();
        let _ = tcflush(&self.slave, QueueSelector::IFlush);
        unread
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
        let mut unread = self.flush_input();
        if unread > 0 {
            // The kernel brings what was written a little later; twice nothing is the end of it.
            let mut nothing = 0;
            for _ in 0..LATE_LOOKS_MAX {
                std::thread::sleep(LATE_LOOK);
                let late = self.flush_input();
                unread += late;
                nothing = if late == 0 { nothing + 1 } else { 0 };
                if nothing == 2 {
                    break;
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_the_kernel_does() {
        let terminal = Terminal::open(Size::default()).unwrap();
        let typing = terminal.typing().unwrap();
        assert!(typing.in_line_mode && typing.echoes && typing.interrupt == Some(3));
        // Bytes, the unfinished line before them, and after them; or where the long line begins.
        for (bytes, open, expected) in [
            (&b""[..], 3, Ok(3)),
            (b"ab", 1, Ok(3)),
            (b"ab\ncd", 1, Ok(2)),
            (b"ab\rc", 0, Ok(1)),
            (b"ab\x04c", 0, Ok(1)),
            // Ctrl-U and Ctrl-C throw the line away.
            (b"12345678\x15ab", 0, Ok(2)),
            (b"12345678\x03", 0, Ok(0)),
            // After Ctrl-V they are as good as any other.
            (b"ab\x16\nc", 0, Ok(5)),
            (b"ab\x16\x16\nc", 0, Ok(1)),
            (b"12345678\n12345678", 0, Ok(8)),
            (b"12345678\n123456789", 0, Err(9)),
            (b"1234\n", 5, Err(0)),
        ] {
            assert_eq!(typing.lines(bytes, open, 8), expected, "{bytes:?} {open}");
        }
    }

    #[test]
    fn modes_say_how_input_is_taken() {
        let terminal = Terminal::open(Size::default()).unwrap();
        let mut modes = tcgetattr(&terminal.slave).unwrap();
        modes.make_raw();
        tcsetattr(&terminal.slave, OptionalActions::Now, &modes).unwrap();
        let raw = terminal.typing().unwrap();
        assert!(!raw.in_line_mode && !raw.echoes && raw.interrupt.is_none());
        terminal.restore_modes();
        assert!(terminal.typing().unwrap().in_line_mode);
    }

    #[test]
    fn the_kernel_can_interrupt_a_foreground_group() {
        assert!(Terminal::open(Size::default()).unwrap().interrupt());
    }
}
