//! The screen as it stands: what a person would see who looked at the terminal now.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::decode::{Hint, decode};
use super::seam::{first_switch, tail_start};
use super::tokens::{Csi, Sink, Tokens};
use crate::domain::session::Size;

/// So much of a transcript's end is enough to draw the screen from, in bytes. Programs draw anew
/// what has changed, and all of it now and then.
pub const SCREEN_WINDOW: usize = 1024 * 1024;
/// Longest title that is kept, in bytes.
const TITLE_KEPT: usize = 512;
/// Largest screen that is drawn.
const COLS_MAX: u16 = 4096;
const ROWS_MAX: u16 = 1024;

/// A picture of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Screen {
    /// The rows from the top, without blanks at their ends.
    pub lines: Vec<String>,
    /// Where the cursor is.
    pub cursor: Cursor,
    /// The window's title, if a program has set one.
    pub title: Option<String>,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// True while the alternate screen is on: a full-screen program.
    pub full_screen: bool,
}

/// A place on the screen, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Column.
    pub col: u16,
    /// Row.
    pub row: u16,
    /// False while a program hides it.
    pub visible: bool,
}

/// A terminal that draws text as it comes.
pub struct Terminal {
    drawn: avt::Terminal,
    tokens: Tokens,
    title: Title,
    size: Size,
}

impl Terminal {
    /// An empty screen. A size of 0 counts as 1, one beyond 4096 columns or 1024 rows as these.
    pub fn new(size: Size) -> Self {
        let size = bounded(size);
        // Its only error is a size of 0.
        let drawn = avt::Terminal::new(size.cols.into(), size.rows.into())
            .unwrap_or_else(|error| unreachable!("{error}"));
        Self { drawn, tokens: Tokens::default(), title: Title::default(), size }
    }

    /// Draws on.
    pub fn feed(&mut self, text: &str) {
        self.drawn.feed(text);
        self.tokens.feed(text, &mut self.title);
    }

    /// The window has another size from here on.
    pub fn resize(&mut self, size: Size) {
        self.size = bounded(size);
        self.drawn.resize(self.size.cols.into(), self.size.rows.into());
    }

    /// What draws the same on an empty terminal of the same size, modes included.
    pub fn redrawn(&self) -> String {
        let dump = self.drawn.dump();
        let mut text = String::with_capacity(dump.len());
        let mut rest = dump.as_str();
        // A run of one character is written as that and its repetition (REP), which not every
        // terminal knows.
        while let Some(at) = rest.find("\x1b[") {
            let (before, sequence) = rest.split_at(at);
            text.push_str(before);
            let digits = sequence[2..].bytes().take_while(u8::is_ascii_digit).count();
            let count = sequence[2..2 + digits].parse::<usize>().ok();
            let repeats = sequence[2 + digits..].starts_with('b');
            rest = match (count.filter(|_| repeats), text.chars().next_back()) {
                (Some(count), Some(last)) => {
                    text.extend(std::iter::repeat_n(last, count.min(self.size.cols.into())));
                    &sequence[3 + digits..]
                }
                _ => {
                    text.push_str("\x1b[");
                    &sequence[2..]
                }
            };
        }
        text.push_str(rest);
        text
    }

    /// The screen as it stands.
    pub fn screen(&self) -> Screen {
        let cursor = self.drawn.cursor();
        let short = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
        let line = |line: &avt::Line| line.text().trim_end().to_owned();
        Screen {
            lines: self.drawn.screen().visible_lines().map(line).collect(),
            cursor: Cursor {
                col: short(cursor.col).min(self.size.cols - 1),
                row: short(cursor.row),
                visible: cursor.visible,
            },
            title: self.title.0.clone(),
            cols: self.size.cols,
            rows: self.size.rows,
            full_screen: self.drawn.active_screen_kind() == avt::ScreenKind::Alternate,
        }
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").field("size", &self.size).finish_non_exhaustive()
    }
}

/// The screen that a text leaves behind.
pub fn render(text: &str, size: Size) -> Screen {
    let mut terminal = Terminal::new(size);
    terminal.feed(text);
    terminal.screen()
}

/// The screen that the end of a transcript leaves behind. Where bytes came before it that are left
/// out (`cut`), the tail begins at a line or after a sequence, on the screen that the first switch
/// in it speaks for. `SCREEN_WINDOW` says how much is worth reading.
pub fn of_tail(mut tail: &[u8], cut: bool, hint: &Hint, size: Size) -> Screen {
    let mut terminal = Terminal::new(size);
    if cut {
        tail = &tail[tail_start(tail, 1)..];
        if first_switch(tail) == Some(false) {
            terminal.feed("\x1b[?1049h");
        }
    }
    terminal.feed(&decode(tail, hint));
    terminal.screen()
}

fn bounded(size: Size) -> Size {
    Size { cols: size.cols.clamp(1, COLS_MAX), rows: size.rows.clamp(1, ROWS_MAX) }
}

#[derive(Clone, Debug, Default)]
struct Title(Option<String>);

impl Sink for Title {
    fn text(&mut self, _run: &str) {}
    fn control(&mut self, _code: u8) {}
    fn csi(&mut self, _csi: &Csi, _last: u8) {}

    fn escape(&mut self, intermediate: u8, last: u8) {
        if (intermediate, last) == (0, b'c') {
            self.0 = None;
        }
    }

    fn osc(&mut self, content: &str) {
        if let Some((b"0" | b"2", title)) =
            content.split_once(';').map(|(kind, title)| (kind.as_bytes(), title))
        {
            let end = title.floor_char_boundary(TITLE_KEPT);
            self.0 = Some(title[..end].chars().filter(|ch| !ch.is_control()).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_screen_can_be_drawn_again_on_any_terminal() {
        let size = Size { cols: 20, rows: 5 };
        for text in [
            "\x1b[31mred\x1b[0m aaaaaaaaaaaa\r\n$ ",
            "plain\x1b[?1049h\x1b[2;3Hfull\x1b[?25l",
            "\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}\u{4e2d}\r\n",
        ] {
            let mut first = Terminal::new(size);
            first.feed(text);
            let redrawn = first.redrawn();
            let mut second = Terminal::new(size);
            second.feed(&redrawn);
            assert_eq!(second.screen(), first.screen(), "{redrawn:?}");
            let repeats = redrawn.split("\x1b[").skip(1).any(|sequence| {
                sequence.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('b')
            });
            assert!(!repeats, "{redrawn:?}");
        }
    }

    const SIZE: Size = Size { cols: 10, rows: 3 };

    #[test]
    fn a_picture() {
        let screen = render("\x1b]0;my title\x07one\r\ntwo\x1b[1;31m!\x1b[0m\x1b[?25l", SIZE);
        assert_eq!(
            screen,
            Screen {
                lines: vec!["one".to_owned(), "two!".to_owned(), String::new()],
                cursor: Cursor { col: 4, row: 1, visible: false },
                title: Some("my title".to_owned()),
                cols: 10,
                rows: 3,
                full_screen: false,
            }
        );
    }

    #[test]
    fn full_screen_programs() {
        let mut terminal = Terminal::new(SIZE);
        terminal.feed("$ vi\r\n\x1b[?1049h\x1b[H~\r\n~");
        terminal.feed("\x1b[Hhello");
        let screen = terminal.screen();
        assert_eq!((screen.lines[0].as_str(), screen.full_screen), ("hello", true));
        terminal.feed("\x1b[?1049l");
        let screen = terminal.screen();
        assert_eq!((screen.lines[0].as_str(), screen.full_screen), ("$ vi", false));
        terminal.resize(Size { cols: 0, rows: 1 });
        assert_eq!(terminal.screen().lines.len(), 1);
    }

    #[test]
    fn from_the_end_of_a_long_transcript() {
        let size = Size { cols: 20, rows: 4 };
        let mut bytes = b"$ top\r\n\x1b]2;top\x07\x1b[?1049h".to_vec();
        let starts = bytes.len();
        for n in 0..200 {
            bytes.extend(format!("\x1b[H\x1b[7mload {n:03}\x1b[m\x1b[K\r\nrow\x1b[K").bytes());
        }
        let whole = of_tail(&bytes, false, &Hint::default(), size);
        for at in starts..starts + 200 {
            let screen = of_tail(&bytes[at..], true, &Hint::default(), size);
            assert_eq!((&screen.lines, screen.cursor), (&whole.lines, whole.cursor), "from {at}");
        }
        // Which screen it is on shows once it is left.
        bytes.extend(b"\x1b[?1049l$ ");
        let screen = of_tail(&bytes[starts + 9..], true, &Hint::default(), size);
        assert_eq!((screen.lines[0].as_str(), screen.full_screen), ("$", false));
        assert_eq!(of_tail(b"", true, &Hint::default(), size).lines.len(), 4);
    }

    #[test]
    fn a_screen_is_bounded() {
        let screen = render("x\x1b[99999C\x1b[99999By", Size { cols: u16::MAX, rows: u16::MAX });
        assert_eq!((screen.cols, screen.rows, screen.lines.len()), (4096, 1024, 1024));
    }

    proptest! {
        #[test]
        fn any_text(text in "(\\PC|\x1b\\[[0-9;?]{0,6}[@-~]|[\r\n\t\x08]|\x1b[78DEMc]){0,60}") {
            let screen = render(&text, SIZE);
            prop_assert_eq!(screen.lines.len(), 3);
            prop_assert!(screen.cursor.row < 3 && screen.cursor.col < 10);
        }
    }
}
