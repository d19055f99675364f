//! The caller's own terminal: raw while a person is at a session's, and put back on every way out.

use std::io::{IsTerminal as _, Write as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::failure::{Failure, Kind, reason};
use crate::domain::session::Size;

/// Puts back what a program may have changed in a terminal: alternate screen, mouse, pasting,
/// focus, key modes, margins, character set, colours, and a hidden cursor.
const RESET: &[u8] = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\
    \x1b[?2004l\x1b[?1l\x1b>\x1b[r\x1b(B\x1b[0m\x1b[?25h\r\n";

/// A terminal in raw mode. When this is dropped, by a panic too, it is as it was.
#[derive(Debug)]
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    /// Makes standard input's terminal raw.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn enter() -> Result<Self, Failure> {
        let stdin = std::io::stdin();
        let failed = |error: rustix::io::Errno| {
            let message = format!("the terminal cannot be made raw: {}", reason(&error.into()));
            Failure::new(Kind::Machine, message)
        };
        let before = tcgetattr(&stdin).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Drain, &raw).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let mut stdout = std::io::stdout().lock();
        // A terminal that is gone needs nothing put back.
        let _unheard = stdout.write_all(RESET).and_then(|()| stdout.flush());
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Drain, &self.before);
    }
}

/// True when standard input and output are a terminal.
pub(super) fn is_one() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The window's size, where it is known.
pub(super) fn size() -> Option<Size> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { cols: size.ws_col, rows: size.ws_row })
}
