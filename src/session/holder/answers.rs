//! The holder answers what programs ask their terminal, once.
//!
//! An answer is typed, so it must reach whoever asked and nobody else. Only a running command is
//! answered. In line mode no program can read an answer, which has no line end: it would be echoed,
//! and fall to whoever reads the next line. So a question waits until a terminal is in character
//! mode, and is forgotten when that does not come. What was not read is thrown away with the other
//! input at the command's end.

use std::collections::VecDeque;

use crate::domain::session::Size;
use crate::transcript::index::Stream;
use crate::transcript::queries::{Facts, Query, Scanner};
use crate::transcript::screen;

use super::capture::Capture;
use super::session::Session;

/// So many questions may be open: all colours of the palette, and more.
const OPEN_MAX: usize = 512;
/// After that whoever asked is taken not to want to know.
const FORGOTTEN_AFTER_MS: u64 = 1_000;
/// The pauses between looks at the terminal's mode grow up to this.
const PAUSE_MAX_MS: u64 = 64;
/// The screen is drawn from so much output at most.
const DRAWN_BYTES: u64 = 64 * 1024;

/// Questions, and answers given.
#[derive(Default)]
pub(super) struct Answers {
    /// A command runs whose questions are answered.
    listening: bool,
    scanners: [Scanner; 2],
    open: VecDeque<Question>,
    due_ms: Option<u64>,
    pause_ms: u64,
    /// Bytes typed since the last boundary.
    given: u64,
    /// The screen, once somebody has asked for the cursor.
    drawn: Option<Drawn>,
}

struct Question {
    query: Query,
    stream: Stream,
    /// Where it ends in the transcript.
    offset: u64,
    forget_ms: u64,
}

/// The screen as far as it has been drawn.
struct Drawn {
    terminal: screen::Terminal,
    to: u64,
}

impl Answers {
    /// A command begins.
    pub(super) fn begin(&mut self) {
        *self = Self { listening: true, ..Self::default() };
    }

    /// The command is over: nothing is answered any more.
    pub(super) fn stop(&mut self) {
        let given = self.given;
        *self = Self { given, ..Self::default() };
    }

    /// How many bytes were typed since the last boundary.
    pub(super) fn take_given(&mut self) -> u64 {
        std::mem::take(&mut self.given)
    }

    /// The window has another size.
    pub(super) fn resized(&mut self) {
        self.drawn = None;
    }

    /// Reads output that begins at `offset`.
    pub(super) fn listen(&mut self, stream: Stream, offset: u64, bytes: &[u8], now_ms: u64) {
        if !self.listening {
            return;
        }
        let Self { scanners, open, .. } = self;
        let before = open.len();
        scanners[usize::from(stream == Stream::Stderr)].feed(bytes, |query, end| {
            if open.len() < OPEN_MAX {
                let (offset, forget_ms) = (offset + end as u64, now_ms + FORGOTTEN_AFTER_MS);
                open.push_back(Question { query, stream, offset, forget_ms });
            }
        });
        if open.len() > before {
            self.due_ms = Some(now_ms);
            self.pause_ms = 1;
        }
    }

    /// When the terminals' modes are next looked at.
    pub(super) fn due(&self) -> Option<u64> {
        self.due_ms
    }

    /// True when it is time.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due| due <= now_ms)
    }
}

impl Session {
    /// Answers what is open, if there is anyone who can read it.
    pub(super) fn answer(&mut self, now_ms: u64) {
        while let Some(question) = self.answers.open.front() {
            let (own, other) = match question.stream {
                Stream::Main => (&self.main, &self.stderr),
                Stream::Stderr => (&self.stderr, &self.main),
            };
            // Who asks over standard error mostly reads from its standard input.
            let reader = [own, other].into_iter().find(|terminal| terminal.takes_keys());
            let mut given = false;
            if let Some(terminal) = reader {
                let size = self.spec.size;
                let cursor = match question.query {
                    Query::Cursor { .. } => {
                        cursor(&mut self.answers.drawn, &self.capture, size, question.offset)
                    }
                    _ => (0, 0),
                };
                let answer = question.query.answer(&Facts { size, cursor });
                let typed = terminal.type_whole(&answer);
                self.answers.given += typed;
                given = typed > 0;
            }
            // Nobody can read it yet, or has room for it.
            if !given && question.forget_ms > now_ms {
                let pause = self.answers.pause_ms;
                self.answers.due_ms = Some(now_ms + pause);
                self.answers.pause_ms = (pause * 2).min(PAUSE_MAX_MS);
                return;
            }
            self.answers.open.pop_front();
            self.answers.pause_ms = 1;
        }
        self.answers.due_ms = None;
    }
}

/// Row and column of the cursor after the output up to `end`.
fn cursor(drawn: &mut Option<Drawn>, capture: &Capture, size: Size, end: u64) -> (u16, u16) {
    let start = capture.recent(end, DRAWN_BYTES);
    if drawn.as_ref().is_some_and(|drawn| !(start..=end).contains(&drawn.to)) {
        *drawn = None;
    }
    let drawn =
        drawn.get_or_insert_with(|| Drawn { terminal: screen::Terminal::new(size), to: start });
    let bytes = capture.read(drawn.to..end);
    drawn.terminal.feed(&String::from_utf8_lossy(&bytes));
    drawn.to = end;
    let cursor = drawn.terminal.screen().cursor;
    (cursor.row, cursor.col)
}
