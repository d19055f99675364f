//! The modes of a terminal that whoever sends keys to it has to know.
//!
//! Fed with the raw bytes as they come, cut anywhere. Between escape sequences it only looks for
//! the next one, so it costs next to nothing beside the read that brought the bytes. Strings (OSC,
//! DCS) need no state of their own: an ESC ends them in any case.

use serde::{Deserialize, Serialize};

const PARAMS: usize = 16;

/// The modes as they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    /// DECCKM: arrows, Home and End are sent as `ESC O A` instead of `ESC [ A`.
    pub application_cursor: bool,
    /// DECKPAM: the keypad sends sequences of its own.
    pub application_keypad: bool,
    /// Pasted text is wanted between `ESC [ 200 ~` and `ESC [ 201 ~`.
    pub bracketed_paste: bool,
    /// Which mouse events are wanted.
    pub mouse: Mouse,
    /// How they are to be written.
    pub mouse_coding: MouseCoding,
    /// The program wants to be told of focus gained and lost.
    pub focus_events: bool,
    /// The alternate screen is on.
    pub alternate_screen: bool,
    /// The cursor is hidden.
    pub cursor_hidden: bool,
    #[serde(skip)]
    place: Place,
}

/// Mouse events that a program wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mouse {
    /// None.
    #[default]
    Off,
    /// Buttons pressed.
    Press,
    /// Pressed and released.
    Click,
    /// And moves while a button is down.
    Drag,
    /// And all other moves.
    Move,
}

/// How mouse events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MouseCoding {
    /// As single bytes, up to column 223.
    #[default]
    Bytes,
    /// As UTF-8 characters (1005).
    Utf8,
    /// As numbers (1006).
    Sgr,
    /// As numbers, the older way (1015).
    Urxvt,
    /// As numbers that count pixels (1016).
    Pixels,
}

/// Where in a sequence the bytes broke off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Ground,
    Escape,
    /// Behind an intermediate: the last byte is not looked at.
    Charset,
    Sequence {
        params: [u16; PARAMS],
        last: usize,
        mark: u8,
    },
}

impl Modes {
    /// Reads on.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.place == Place::Ground {
                let Some(found) = memchr::memchr(0x1b, &bytes[at..]) else { return };
                at += found + 1;
                self.place = Place::Escape;
                continue;
            }
            self.step(bytes[at]);
            at += 1;
        }
    }

    fn step(&mut self, byte: u8) {
        if byte == 0x1b {
            self.place = Place::Escape;
            return;
        }
        match &mut self.place {
            Place::Ground => {}
            Place::Escape => self.place = self.escape(byte),
            Place::Charset if matches!(byte, 0x20..=0x2f) => {}
            Place::Charset => self.place = Place::Ground,
            Place::Sequence { params, last, mark } => match byte {
                b'0'..=b'9' => {
                    if let Some(param) = params.get_mut(*last) {
                        *param = param.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                    }
                }
                b';' | b':' => *last += 1,
                0x20..=0x2f | 0x3c..=0x3f => *mark = byte,
                _ => {
                    let Place::Sequence { params, last, mark } = std::mem::take(&mut self.place)
                    else {
                        return;
                    };
                    self.sequence(&params[..=last.min(PARAMS - 1)], mark, byte);
                }
            },
        }
    }

    fn escape(&mut self, byte: u8) -> Place {
        match byte {
            b'[' => return Place::Sequence { params: [0; PARAMS], last: 0, mark: 0 },
            0x20..=0x2f => return Place::Charset,
            b'=' => self.application_keypad = true,
            b'>' => self.application_keypad = false,
            b'c' => *self = Self::default(),
            _ => {}
        }
        Place::Ground
    }

    fn sequence(&mut self, params: &[u16], mark: u8, last: u8) {
        match (mark, last) {
            (b'?', b'h' | b'l') => params.iter().for_each(|&mode| self.set(mode, last == b'h')),
            // A soft reset.
            (b'!', b'p') => {
                self.application_cursor = false;
                self.application_keypad = false;
                self.cursor_hidden = false;
            }
            _ => {}
        }
    }

    fn set(&mut self, mode: u16, on: bool) {
        let mouse = |kind| if on { kind } else { Mouse::Off };
        let coding = |kind| if on { kind } else { MouseCoding::Bytes };
        match mode {
            1 => self.application_cursor = on,
            9 => self.mouse = mouse(Mouse::Press),
            25 => self.cursor_hidden = !on,
            47 | 1047 | 1049 => self.alternate_screen = on,
            66 => self.application_keypad = on,
            1000 => self.mouse = mouse(Mouse::Click),
            1002 => self.mouse = mouse(Mouse::Drag),
            1003 => self.mouse = mouse(Mouse::Move),
            1004 => self.focus_events = on,
            1005 => self.mouse_coding = coding(MouseCoding::Utf8),
            1006 => self.mouse_coding = coding(MouseCoding::Sgr),
            1015 => self.mouse_coding = coding(MouseCoding::Urxvt),
            1016 => self.mouse_coding = coding(MouseCoding::Pixels),
            2004 => self.bracketed_paste = on,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::session::Size;
    use crate::transcript::clean::Cleaner;

    fn after(bytes: &[u8]) -> Modes {
        let mut modes = Modes::default();
        modes.feed(bytes);
        modes
    }

    #[test]
    fn modes_come_and_go() {
        let off = Modes::default();
        for (bytes, expected) in [
            (&b"plain text"[..], off),
            (b"\x1b[?1h\x1b=", Modes { application_cursor: true, application_keypad: true, ..off }),
            (b"\x1b[?1h\x1b=\x1b[?1l\x1b>", off),
            (
                b"\x1b[?1;2004;25l\x1b[?2004h",
                Modes { bracketed_paste: true, cursor_hidden: true, ..off },
            ),
            (
                b"\x1b[?1002;1006h",
                Modes { mouse: Mouse::Drag, mouse_coding: MouseCoding::Sgr, ..off },
            ),
            (b"\x1b[?1003h\x1b[?1003l", off),
            (
                b"\x1b[?1049h\x1b[?1004h",
                Modes { alternate_screen: true, focus_events: true, ..off },
            ),
            (b"\x1b[?1049h\x1b[?1h\x1bc", off),
            (b"\x1b[?1h\x1b[!p", off),
            // Not the private mode; no sequence at all; one that a string ends with.
            (b"\x1b[1h\x1b(\x1b[1h?1h\x1b[>1h", off),
            (b"\x1b]0;title \x1b[?1h\x07", Modes { application_cursor: true, ..off }),
        ] {
            assert_eq!(after(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
        let written = serde_json::to_value(after(b"\x1b[?1000;1006h")).unwrap();
        assert_eq!((&written["mouse"], &written["mouse_coding"]), (&"click".into(), &"sgr".into()));
        assert_eq!(written.get("place"), None);
    }

    #[test]
    fn cut_at_every_byte() {
        let bytes = b"x\x1b]0;t\x1b\\\x1b[?1;1002h\x1b(0\x1b=\x1b[?2004h\x1b[!q\x1b[?1006h";
        let whole = after(bytes);
        for at in 0..=bytes.len() {
            let mut modes = after(&bytes[..at]);
            modes.feed(&bytes[at..]);
            assert_eq!(modes, whole, "cut at {at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_cut_anywhere(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(0x1b), prop::sample::select(b"[?1;0h6l!p=>c(".to_vec())],
                0..200,
            ),
            piece in 1usize..20,
        ) {
            let mut modes = Modes::default();
            bytes.chunks(piece).for_each(|piece| modes.feed(piece));
            prop_assert_eq!(modes, after(&bytes));
        }

        #[test]
        fn the_cleaner_agrees_on_the_screen(
            text in "([a-z\r\n]{0,4}|\x1b\\[\\?(1|47|1047|1049|25)(;1049)?[hl]|\x1b[c7(]|\x1b\\]0;[a-z]{0,4}\x07){0,20}"
        ) {
            let mut cleaner = Cleaner::new(Size::default());
            cleaner.feed(&text);
            prop_assert_eq!(after(text.as_bytes()).alternate_screen, cleaner.is_on_alternate_screen());
        }
    }
}
