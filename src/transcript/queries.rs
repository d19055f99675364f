//! What a program asks its terminal: recognised in the output as it comes, and answered.
//!
//! A terminal that never answers leaves programs waiting (a shell's line editor for the cursor's
//! place, an editor for the colours), and one that answers at the wrong time types into the next
//! program. This file knows the questions and the answers; when to give them is the holder's.
//!
//! | asked | answer |
//! |---|---|
//! | `CSI 5 n` | `CSI 0 n`: all is well |
//! | `CSI 6 n`, `CSI ? 6 n` | the cursor's place |
//! | `CSI ? 996 n` | a dark scheme |
//! | `CSI c`, `CSI > c`, `CSI = c` | a VT220 with colours, version 1, unit 0 |
//! | `CSI Ps $ p`, `CSI ? Ps $ p` | mode not recognised |
//! | `CSI > q` | `callboard(VERSION)` |
//! | `CSI 14 t`, `16 t`, `18 t`, `19 t` | sizes; a cell counts as 8 by 16 pixels |
//! | `OSC 4;N;?`, `10;?`, `11;?`, `12;?` | xterm's palette, light grey on black |
//! | `DCS $ q … ST`, `DCS + q … ST` | not known here |
//!
//! Silence is the answer to `OSC 52 ; c ; ?`, since the clipboard is none of a program's business,
//! and to `CSI ? u`: a terminal without that keyboard protocol says nothing, and a program asks for
//! `CSI c` behind it so as not to wait. Titles are never sent back: they would be typed.

use std::fmt::Write as _;

use crate::domain::session::Size;

/// Longest sequence that can be a query, in bytes; what is longer is none.
const SEQUENCE_MAX: usize = 64;
/// A cell's size in pixels, for those who count in pixels.
const CELL: (u32, u32) = (8, 16);

/// A question, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// `CSI 5 n`.
    Status,
    /// `CSI 6 n`; `private` with `?`.
    Cursor {
        /// The answer carries the `?`, too.
        private: bool,
    },
    /// `CSI ? 996 n`.
    Scheme,
    /// `CSI c`.
    Attributes,
    /// `CSI > c`.
    SecondAttributes,
    /// `CSI = c`.
    ThirdAttributes,
    /// `CSI [?] Ps $ p`.
    Mode {
        /// With `?`.
        private: bool,
        /// Its number.
        mode: u32,
    },
    /// `CSI > q`.
    Version,
    /// `CSI Ps t` with one of 14, 16, 18 and 19.
    Window {
        /// `Ps`.
        what: u8,
    },
    /// `OSC 10 ; ?`, 11 or 12.
    Color {
        /// The number.
        which: u8,
        /// How the question was closed, and the answer will be.
        end: StringEnd,
    },
    /// `OSC 4 ; N ; ?`.
    Palette {
        /// `N`.
        index: u8,
        /// How the question was closed, and the answer will be.
        end: StringEnd,
    },
    /// `DCS $ q … ST`.
    Setting,
    /// `DCS + q … ST`.
    Capability,
}

/// How an OSC was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringEnd {
    /// `BEL`.
    Bell,
    /// `ESC \`.
    Terminator,
}

/// What an answer is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The window.
    pub size: Size,
    /// Row and column of the cursor, counted from 0.
    pub cursor: (u16, u16),
}

impl Query {
    /// The bytes that the terminal sends.
    pub fn answer(self, facts: &Facts) -> Vec<u8> {
        let (cols, rows) = (u32::from(facts.size.cols), u32::from(facts.size.rows));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Status => write!(text, "\x1b[0n"),
            Self::Cursor { private } => {
                let (row, col) = (u32::from(facts.cursor.0) + 1, u32::from(facts.cursor.1) + 1);
                write!(text, "\x1b[{}{row};{col}R", if private { "?" } else { "" })
            }
            Self::Scheme => write!(text, "\x1b[?997;1n"),
            Self::Attributes => write!(text, "\x1b[?62;22c"),
            Self::SecondAttributes => write!(text, "\x1b[>0;1;0c"),
            Self::ThirdAttributes => write!(text, "\x1bP!|00000000\x1b\\"),
            Self::Mode { private, mode } => {
                write!(text, "\x1b[{}{mode};0$y", if private { "?" } else { "" })
            }
            Self::Version => write!(text, "\x1bP>|callboard({})\x1b\\", env!("CARGO_PKG_VERSION")),
            Self::Window { what: 14 } => {
                write!(text, "\x1b[4;{};{}t", rows * CELL.1, cols * CELL.0)
            }
            Self::Window { what: 16 } => write!(text, "\x1b[6;{};{}t", CELL.1, CELL.0),
            Self::Window { what: 18 } => write!(text, "\x1b[8;{rows};{cols}t"),
            Self::Window { .. } => write!(text, "\x1b[9;{rows};{cols}t"),
            Self::Color { which, end } => {
                let shade = if which == 11 { "0000/0000/0000" } else { "e5e5/e5e5/e5e5" };
                write!(text, "\x1b]{which};rgb:{shade}{}", end.bytes())
            }
            Self::Palette { index, end } => {
                let [r, g, b] = palette(index);
                let end = end.bytes();
                write!(text, "\x1b]4;{index};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{end}")
            }
            Self::Setting => write!(text, "\x1bP0$r\x1b\\"),
            Self::Capability => write!(text, "\x1bP0+r\x1b\\"),
        };
        text.into_bytes()
    }
}

impl StringEnd {
    fn bytes(self) -> &'static str {
        match self {
            Self::Bell => "\x07",
            Self::Terminator => "\x1b\\",
        }
    }
}

/// xterm's 256 colours.
fn palette(index: u8) -> [u8; 3] {
    const FIRST: [[u8; 3]; 16] = [
        [0, 0, 0],
        [205, 0, 0],
        [0, 205, 0],
        [205, 205, 0],
        [0, 0, 238],
        [205, 0, 205],
        [0, 205, 205],
        [229, 229, 229],
        [127, 127, 127],
        [255, 0, 0],
        [0, 255, 0],
        [255, 255, 0],
        [92, 92, 255],
        [255, 0, 255],
        [0, 255, 255],
        [255, 255, 255],
    ];
    match index {
        0..16 => FIRST[usize::from(index)],
        16..232 => {
            let cube = index - 16;
            let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
            [level(cube / 36), level(cube / 6 % 6), level(cube % 6)]
        }
        232.. => [8 + 10 * (index - 232); 3],
    }
}

/// Finds queries in output that comes in pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    state: State,
    /// What the open sequence holds, without its introducer.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// The first byte of an 8-bit control as UTF-8 writes it.
    Wide,
    Escape,
    Csi,
    /// Inside OSC or DCS.
    Text(Kind),
    /// An ESC inside one of those, or the first byte of an 8-bit terminator.
    TextEscape(Kind),
    TextWide(Kind),
    /// Inside a string that can be no query.
    Skipped,
    SkippedEscape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Osc,
    Dcs,
}

impl Scanner {
    /// True within what may yet be a query.
    pub fn is_inside(&self) -> bool {
        !matches!(self.state, State::Ground | State::Skipped | State::SkippedEscape)
    }

    /// Reads on. `each` gets every query and how many of these bytes end with it.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Query, usize)) {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Ground => match memchr::memchr2(0x1b, 0xc2, &bytes[at..]) {
                    Some(found) => {
                        at += found;
                        if let Some(len) = no_query(&bytes[at..]) {
                            at += len;
                            continue;
                        }
                        self.state = if bytes[at] == 0x1b { State::Escape } else { State::Wide };
                    }
                    None => return,
                },
                State::Skipped => {
                    let end = bytes[at..].iter().position(|byte| ends_string(*byte));
                    match end {
                        Some(found) => {
                            at += found;
                            let escape = bytes[at] == 0x1b;
                            self.state = if escape { State::SkippedEscape } else { State::Ground };
                        }
                        None => return,
                    }
                }
                _ => {
                    if let Some(query) = self.step(bytes[at]) {
                        each(query, at + 1);
                    }
                }
            }
            at += 1;
        }
    }

    fn step(&mut self, byte: u8) -> Option<Query> {
        match self.state {
            State::Ground | State::Skipped => {}
            State::Wide => {
                self.state = State::Ground;
                if (0x80..0xa0).contains(&byte) {
                    self.introduce(byte - 0x40);
                } else if byte == 0x1b {
                    self.state = State::Escape;
                } else if byte == 0xc2 {
                    self.state = State::Wide;
                }
            }
            State::Escape => self.introduce(byte),
            State::Csi => return self.csi(byte),
            State::Text(kind) => return self.text(kind, byte),
            State::TextEscape(kind) => {
                if byte == b'\\' {
                    return self.close(kind, StringEnd::Terminator);
                }
                self.introduce(byte);
            }
            State::TextWide(kind) => {
                if byte == 0x9c {
                    return self.close(kind, StringEnd::Terminator);
                }
                self.hold(0xc2);
                self.state = State::Text(kind);
                return self.text(kind, byte);
            }
            State::SkippedEscape => {
                if byte == b'\\' {
                    self.state = State::Ground;
                } else {
                    self.introduce(byte);
                }
            }
        }
        None
    }

    /// What follows an ESC.
    fn introduce(&mut self, byte: u8) {
        self.held.clear();
        self.state = match byte {
            0x1b => State::Escape,
            b'[' => State::Csi,
            b']' => State::Text(Kind::Osc),
            b'P' => State::Text(Kind::Dcs),
            b'X' | b'^' | b'_' => State::Skipped,
            0xc2 => State::Wide,
            _ => State::Ground,
        };
    }

    fn csi(&mut self, byte: u8) -> Option<Query> {
        match byte {
            0x20..=0x3f => {
                // A sequence that long is still one to its end.
                self.hold(byte);
                None
            }
            0x40..=0x7e => {
                self.state = State::Ground;
                csi(&self.held, byte)
            }
            0x1b => {
                self.state = State::Escape;
                None
            }
            0xc2 => {
                self.state = State::Wide;
                None
            }
            _ => {
                self.state = State::Ground;
                None
            }
        }
    }

    fn text(&mut self, kind: Kind, byte: u8) -> Option<Query> {
        match byte {
            0x07 if kind == Kind::Osc => return self.close(kind, StringEnd::Bell),
            0x1b => self.state = State::TextEscape(kind),
            0xc2 => self.state = State::TextWide(kind),
            0x07 | 0x18 | 0x1a | b'\n' | b'\r' => self.state = State::Ground,
            _ => self.hold(byte),
        }
        None
    }

    fn close(&mut self, kind: Kind, end: StringEnd) -> Option<Query> {
        self.state = State::Ground;
        match kind {
            _ if self.held.len() > SEQUENCE_MAX => None,
            Kind::Osc => osc(&self.held, end),
            Kind::Dcs if self.held.starts_with(b"$q") => Some(Query::Setting),
            Kind::Dcs if self.held.starts_with(b"+q") => Some(Query::Capability),
            Kind::Dcs => None,
        }
    }

    /// One byte more than the longest tells that a sequence was too long.
    fn hold(&mut self, byte: u8) {
        if self.held.len() <= SEQUENCE_MAX {
            self.held.push(byte);
        }
    }
}

/// The length of a whole control sequence that can be no query, as almost all are: colours above
/// all, which are not worth a state each.
fn no_query(bytes: &[u8]) -> Option<usize> {
    let [0x1b, b'[', rest @ ..] = bytes else { return None };
    let last = rest.iter().take(SEQUENCE_MAX).position(|byte| !matches!(byte, 0x20..=0x3f))?;
    match rest[last] {
        b'c' | b'n' | b'p' | b'q' | b't' => None,
        0x40..=0x7e => Some(last + 3),
        _ => None,
    }
}

fn ends_string(byte: u8) -> bool {
    matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b | b'\n' | b'\r')
}

fn csi(held: &[u8], last: u8) -> Option<Query> {
    let (private, rest) = match held {
        [mark @ (b'<' | b'=' | b'>' | b'?'), rest @ ..] => (*mark, rest),
        _ => (0, held),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(digits);
    let number = if digits.is_empty() {
        0
    } else {
        std::str::from_utf8(digits).ok()?.parse::<u32>().ok()?
    };
    // `18;2 t` is no query, and `6;1 n` none that is known.
    Some(match (private, number, rest, last) {
        (0, 5, b"", b'n') => Query::Status,
        (0, 6, b"", b'n') => Query::Cursor { private: false },
        (b'?', 6, b"", b'n') => Query::Cursor { private: true },
        (b'?', 996, b"", b'n') => Query::Scheme,
        (0, 0, b"", b'c') => Query::Attributes,
        (b'>', 0, b"", b'c') => Query::SecondAttributes,
        (b'=', 0, b"", b'c') => Query::ThirdAttributes,
        (0, mode, b"$", b'p') => Query::Mode { private: false, mode },
        (b'?', mode, b"$", b'p') => Query::Mode { private: true, mode },
        (b'>', 0, b"", b'q') => Query::Version,
        (0, 14 | 16 | 18 | 19, b"", b't') => Query::Window { what: u8::try_from(number).ok()? },
        _ => return None,
    })
}

fn osc(held: &[u8], end: StringEnd) -> Option<Query> {
    let text = std::str::from_utf8(held).ok()?.strip_suffix(";?")?;
    match text {
        "10" | "11" | "12" => Some(Query::Color { which: text.parse().ok()?, end }),
        _ => Some(Query::Palette { index: text.strip_prefix("4;")?.parse().ok()?, end }),
    }
}

#[cfg(test)]
#[path = "queries_tests.rs"]
mod tests;
