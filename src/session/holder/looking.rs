//! When the foreground group is looked at, and what follows. Nothing is looked at while output
//! flows; in quiet the pauses grow with it, and as long as nobody in the group has run, the last look
//! stands.

use crate::command::awaiting::Sight;
use crate::command::event::Event;
use crate::command::lines::last_line;
use crate::domain::outcome::CommandState;

use super::super::os::pty::Terminal;
use super::probe::{Seen, Still, View};
use super::session::Session;

/// First look after the output has stopped.
const LOOK_FIRST_MS: u64 = 15;
/// Between the look that first sees somebody wait and the one that confirms it: what was printed
/// before comes to the master by way of a work queue of the kernel's (`flush_to_ldisc`), and may
/// still be on its way when its writer already reads.
const LOOK_AGAIN_MS: u64 = 5;
/// A pause is this part of the quiet before it,
const LOOK_PAUSE_PART: u64 = 20;
/// and no longer than this.
const LOOK_PAUSE_MAX_MS: u64 = 1_000;
/// The same while someone waits: only its own end can change that, or a signal.
const WAIT_PAUSE_MAX_MS: u64 = 8_000;

/// The looks of a command.
#[derive(Default)]
pub(super) struct Looks {
    due_ms: Option<u64>,
    pause_ms: u64,
    /// The last look, as long as no output and no input has come since.
    last: Option<(Seen, Still)>,
    /// The last look showed somebody waiting, and no output and no input has come since.
    sighted: bool,
    /// Whoever was last seen waiting does so at the second terminal.
    at_stderr: bool,
    /// The shell was last seen to wait for a command with one open.
    idle_seen: bool,
}

impl Looks {
    /// Something has happened: look again soon.
    pub(super) fn soon(&mut self, now_ms: u64) {
        self.due_ms = Some(now_ms + LOOK_FIRST_MS);
        self.pause_ms = LOOK_FIRST_MS;
        self.last = None;
        self.sighted = false;
    }

    /// No command, no looks.
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }

    /// True when it is time.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due| due <= now_ms)
    }

    /// The time of the next one.
    pub(super) fn due(&self) -> Option<u64> {
        self.due_ms
    }

    /// An answer goes to the second terminal.
    pub(super) fn at_stderr(&self) -> bool {
        self.at_stderr
    }

    /// True when a look would show the same again, and the same would follow. Who polls may be
    /// waiting by now for what is not in the group.
    fn unchanged(&self, waits: bool, main: &Terminal) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(seen, still)| (waits || seen.sight == Sight::Busy) && still.holds(main))
    }
}

impl Session {
    /// Looks whether the foreground group waits for input.
    pub(super) fn look(&mut self, now_ms: u64) {
        let Some(active) = self.active.as_ref().filter(|active| active.command.wants_looks())
        else {
            self.looks.stop();
            return;
        };
        let waits = active.command.state() == CommandState::AwaitingInput;
        self.looks.pause_ms = if waits {
            (self.looks.pause_ms * 2).min(WAIT_PAUSE_MAX_MS)
        } else {
            let quiet_ms = active.command.quiet_ms(now_ms);
            (quiet_ms / LOOK_PAUSE_PART).clamp(LOOK_FIRST_MS, LOOK_PAUSE_MAX_MS)
        };
        self.looks.due_ms = Some(now_ms + self.looks.pause_ms);
        if self.input.waits() || self.looks.unchanged(waits, &self.main) {
            return;
        }
        if self.shell.has_lost_its_command() {
            self.recover_command(now_ms);
            return;
        }
        self.looks.idle_seen = false;
        let tree = self.tree.everything();
        let (seen, still) = View {
            main: &self.main,
            stderr: &self.stderr,
            shell: self.shell.pid,
            shell_program: self.shell.program,
        }
        .look(&tree);
        let busy = seen.sight == Sight::Busy;
        let was_sighted = std::mem::replace(&mut self.looks.sighted, !busy);
        if !busy && !was_sighted {
            self.looks.last = None;
            self.looks.due_ms = Some(now_ms + LOOK_AGAIN_MS);
            return;
        }
        self.looks.last = still.map(|still| (seen, still));
        self.looks.at_stderr = seen.at_stderr;
        let last_line = if busy { String::new() } else { last_line(self.capture.tail()) };
        self.feed(Event::Looked { sight: seen.sight, last_line: &last_line }, now_ms);
    }

    /// The shell has been told to go, and waits for the word. An interrupt has taken the text from
    /// it, or the command has broken the driver (a DEBUG trap under `extdebug` that lets nothing
    /// pass).
    fn recover_command(&mut self, now_ms: u64) {
        if self.shell.ask_again() {
            return;
        }
        let interrupted = self.active.as_ref().is_some_and(|active| active.command.is_ending());
        if !interrupted && !self.shell.may_be_given_again() {
            if std::mem::replace(&mut self.looks.idle_seen, true) {
                self.feed(Event::ReportLost, now_ms);
            }
        } else if interrupted || self.shell.give_again().is_err() {
            self.shell.forget_command();
            self.feed(Event::Reported { status: 130, pipe_status: None }, now_ms);
        }
    }
}
