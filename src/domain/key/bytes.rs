//! What a terminal sends for a key: as xterm does, which is what `TERM=xterm-256color` says.

use super::name::{Base, Held, Key};

/// Goes before what is pasted.
pub const PASTE_START: &str = "\x1b[200~";
/// Goes after it.
pub const PASTE_END: &str = "\x1b[201~";

/// Which modes a program has asked for that change what keys send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyModes {
    /// Arrows, Home and End (DECCKM).
    pub application_cursor: bool,
    /// The number pad (DECKPAM).
    pub application_keypad: bool,
    /// Pasted text is marked (mode 2004).
    pub bracketed_paste: bool,
}

/// The marks' other forms, with a control character of its own for their first two.
const PASTE_START_C1: &str = "\u{9b}200~";
const PASTE_END_C1: &str = "\u{9b}201~";

/// What is sent for pasted text. A mark in the text itself would end the paste early, and the rest
/// would be taken for typed: such marks are taken out.
pub fn pasted(text: &str, modes: KeyModes) -> String {
    if !modes.bracketed_paste {
        return text.to_owned();
    }
    let mut out = PASTE_START.to_owned();
    let inside = out.len();
    for character in text.chars() {
        out.push(character);
        // At each end of one, so that what is left of two that stood in one another is none.
        for mark in [PASTE_START, PASTE_END, PASTE_START_C1, PASTE_END_C1] {
            if character == '~' && out[inside..].ends_with(mark) {
                out.truncate(out.len() - mark.len());
            }
        }
    }
    out.push_str(PASTE_END);
    out
}

/// The control character for a character that is typed with Ctrl.
pub(super) fn control(character: char) -> Option<u8> {
    Some(match character {
        'a'..='z' => u8::try_from(character).ok()? & 0x1f,
        ' ' | '@' | '2' => 0,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '6' => 0x1e,
        '_' | '/' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

impl Key {
    /// The bytes in these modes; never none.
    pub fn bytes(self, modes: KeyModes) -> Vec<u8> {
        let mut out = Vec::new();
        match self.base {
            Base::Up => self.cursor(b'A', modes, &mut out),
            Base::Down => self.cursor(b'B', modes, &mut out),
            Base::Right => self.cursor(b'C', modes, &mut out),
            Base::Left => self.cursor(b'D', modes, &mut out),
            Base::Home => self.cursor(b'H', modes, &mut out),
            Base::End => self.cursor(b'F', modes, &mut out),
            Base::Insert => self.numbered(2, &mut out),
            Base::Delete => self.numbered(3, &mut out),
            Base::PageUp => self.numbered(5, &mut out),
            Base::PageDown => self.numbered(6, &mut out),
            Base::Function(number) => self.function(number, &mut out),
            Base::Pad(character) => pad(character, modes, &mut out),
            Base::PadEnter if modes.application_keypad => out.extend(b"\x1bOM"),
            Base::PadEnter => out.push(b'\r'),
            Base::Char(character) => {
                self.escape(&mut out);
                match control(character).filter(|_| self.held.ctrl) {
                    Some(byte) => out.push(byte),
                    None => out.extend(character.encode_utf8(&mut [0; 4]).bytes()),
                }
            }
            Base::Enter => {
                self.escape(&mut out);
                out.push(b'\r');
            }
            Base::Esc => {
                self.escape(&mut out);
                out.push(0x1b);
            }
            Base::Tab => {
                self.escape(&mut out);
                out.extend::<&[u8]>(if self.held.shift { b"\x1b[Z" } else { b"\t" });
            }
            Base::Backspace => {
                self.escape(&mut out);
                out.push(if self.held.ctrl { 0x08 } else { 0x7f });
            }
        }
        out
    }

    /// Alt sends an escape before the key.
    fn escape(self, out: &mut Vec<u8>) {
        if self.held.alt {
            out.push(0x1b);
        }
    }

    fn cursor(self, end: u8, modes: KeyModes, out: &mut Vec<u8>) {
        match self.held.parameter() {
            Some(held) => out.extend(format!("\x1b[1;{held}{}", char::from(end)).bytes()),
            None => {
                let start = if modes.application_cursor { b"\x1bO" } else { b"\x1b[" };
                out.extend(start);
                out.push(end);
            }
        }
    }

    fn numbered(self, number: u8, out: &mut Vec<u8>) {
        match self.held.parameter() {
            Some(held) => out.extend(format!("\x1b[{number};{held}~").bytes()),
            None => out.extend(format!("\x1b[{number}~").bytes()),
        }
    }

    fn function(self, number: u8, out: &mut Vec<u8>) {
        match (number, self.held.parameter()) {
            (1..=4, None) => out.extend([0x1b, b'O', b'O' + number]),
            (1..=4, Some(held)) => {
                out.extend(format!("\x1b[1;{held}{}", char::from(b'O' + number)).bytes());
            }
            // The numbers have gaps where the VT220's keys had.
            (5, _) => self.numbered(15, out),
            (6..=10, _) => self.numbered(number + 11, out),
            _ => self.numbered(number + 12, out),
        }
    }
}

impl Held {
    /// xterm's number for what is held down; `None` for nothing.
    fn parameter(self) -> Option<u8> {
        let held = u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl);
        (held > 0).then_some(held + 1)
    }
}

fn pad(character: char, modes: KeyModes, out: &mut Vec<u8>) {
    match u8::try_from(character) {
        Ok(b'=') if modes.application_keypad => out.extend(b"\x1bOX"),
        // The digits and signs stand 64 below their letters.
        Ok(byte) if modes.application_keypad => out.extend([0x1b, b'O', byte + 0x40]),
        Ok(byte) => out.push(byte),
        Err(_) => {}
    }
}
