//! The screen as it stands: what a person would see who looked at the terminal now.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::decode::Hint;
use super::live::LiveDecoder;
use super::modes::Modes;
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

/// The end of a transcript, as far as a screen is drawn from it. `SCREEN_WINDOW` says how much is
/// worth reading.
#[derive(Clone, Debug)]
pub struct Tail<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// What came before them; `None` where they are all that there is. What is not known counts as
    /// never set.
    pub before: Option<Lead>,
    /// The window where they begin.
    pub size: Size,
    /// Its later sizes, each before the byte that is so far into them; in order.
    pub resizes: &'a [(usize, Size)],
}

/// What bytes leave behind of which no picture is drawn: which screen is on, whether the cursor is
/// hidden, the title.
#[derive(Clone, Debug)]
pub struct Lead {
    modes: Modes,
    decoder: LiveDecoder,
    tokens: Tokens,
    title: Title,
}

impl Lead {
    /// Before any byte.
    pub fn new(hint: &Hint) -> Self {
        Self {
            modes: Modes::default(),
            decoder: LiveDecoder::new(hint.clone()),
            tokens: Tokens::default(),
            title: Title::default(),
        }
    }

    /// Reads on.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.modes.feed(bytes);
        let mut text = String::with_capacity(bytes.len());
        self.decoder.feed(bytes, &mut text);
        self.tokens.feed(&text, &mut self.title);
    }
}

/// The terminal as the end of a transcript leaves it. Where something came before, the tail begins
/// at a line or after a sequence, on the screen that was left, or that the first switch in the tail
/// speaks for.
pub fn of_tail(tail: &Tail<'_>, hint: &Hint) -> Terminal {
    let mut terminal = Terminal::new(tail.size);
    let mut at = 0;
    if let Some(lead) = &tail.before {
        at = tail_start(tail.bytes, 1.min(tail.bytes.len()));
        if lead.modes.alternate_screen || first_switch(&tail.bytes[at..]) == Some(false) {
            terminal.feed("\x1b[?1049h");
        }
        if lead.modes.cursor_hidden {
            terminal.feed("\x1b[?25l");
        }
        terminal.title = lead.title.clone();
    }
    let mut decoder = LiveDecoder::new(hint.clone());
    let mut draw = |terminal: &mut Terminal, bytes: &[u8]| {
        let mut text = String::with_capacity(bytes.len());
        decoder.feed(bytes, &mut text);
        terminal.feed(&text);
    };
    for (place, size) in tail.resizes {
        let place = (*place).clamp(at, tail.bytes.len());
        draw(&mut terminal, &tail.bytes[at..place]);
        terminal.resize(*size);
        at = place;
    }
    draw(&mut terminal, &tail.bytes[at..]);
    let mut rest = String::new();
    decoder.finish(&mut rest);
    terminal.feed(&rest);
    terminal
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

    fn tail(bytes: &[u8], before: Option<Lead>, size: Size) -> Screen {
        of_tail(&Tail { bytes, before, size, resizes: &[] }, &Hint::default()).screen()
    }

    #[test]
    fn from_the_end_of_a_long_transcript() {
        let size = Size { cols: 20, rows: 4 };
        let unknown = || Some(Lead::new(&Hint::default()));
        let mut bytes = b"$ top\r\n\x1b]2;top\x07\x1b[?1049h\x1b[?25l".to_vec();
        let starts = bytes.len();
        for n in 0..200 {
            bytes.extend(format!("\x1b[H\x1b[7mload {n:03}\x1b[m\x1b[K\r\nrow\x1b[K").bytes());
        }
        let whole = tail(&bytes, None, size);
        assert_eq!((whole.title.as_deref(), whole.full_screen), (Some("top"), true));
        for at in starts..starts + 200 {
            let mut lead = Lead::new(&Hint::default());
            bytes[..at].chunks(7).for_each(|piece| lead.feed(piece));
            assert_eq!(tail(&bytes[at..], Some(lead), size), whole, "from {at}");
            let screen = tail(&bytes[at..], unknown(), size);
            assert_eq!((&screen.lines, screen.cursor.row), (&whole.lines, whole.cursor.row));
        }
        // Which screen it is on shows once it is left.
        bytes.extend(b"\x1b[?1049l$ ");
        let screen = tail(&bytes[starts + 9..], unknown(), size);
        assert_eq!((screen.lines[0].as_str(), screen.full_screen), ("$", false));
        assert_eq!(tail(b"", unknown(), size).lines.len(), 4);
    }

    #[test]
    fn a_window_that_changes_its_size() {
        let size = |cols, rows| Size { cols, rows };
        let bytes = "one\r\n\x1b[2;1Hä\x1b[3;12Hx".as_bytes();
        let at = |part: &[u8]| memchr::memmem::find(bytes, part).unwrap();
        for (resizes, last, lines) in [
            // Drawn for 20 columns from the first byte on.
            (vec![(0, size(20, 3))], (20, 3), vec!["one", "ä", "           x"]),
            // Between the bytes of a character.
            (vec![(at(b"\xa4"), size(20, 3))], (20, 3), vec!["one", "ä", "           x"]),
            (vec![(9999, size(10, 2))], (10, 2), vec!["ä", "         x"]),
        ] {
            let tail = Tail { bytes, before: None, size: size(10, 3), resizes: &resizes };
            let screen = of_tail(&tail, &Hint::default()).screen();
            assert_eq!((screen.cols, screen.rows), last);
            assert_eq!(screen.lines, lines, "{resizes:?}");
        }
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
