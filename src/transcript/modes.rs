//! Which modes the output has asked the terminal for, as far as they change what keys send.
//!
//! The holder sees every byte that a program prints, so that it knows what a terminal would.
//! Output may be cut anywhere; between escapes it is only searched for the next one.

use memchr::memchr;

use crate::domain::key::KeyModes;

const ESC: u8 = 0x1b;
/// CAN and SUB end a sequence without effect.
const CANCELS: [u8; 2] = [0x18, 0x1a];
/// Numbers of one sequence that are looked at; xterm keeps as many.
const NUMBERS_MAX: usize = 30;

/// Follows the output of one stream.
#[derive(Clone, Debug, Default)]
pub struct ModeTracker {
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// A sequence whose last byte means a character set or the like.
    Designation,
    Control(Control),
}

/// `CSI`, as far as it has come.
#[derive(Clone, Debug, Default)]
struct Control {
    /// `?` and its like.
    private: Option<u8>,
    intermediate: Option<u8>,
    numbers: Vec<u16>,
}

impl ModeTracker {
    /// Reads on; `modes` are the terminal's.
    pub fn feed(&mut self, bytes: &[u8], modes: &mut KeyModes) {
        let mut rest = bytes;
        loop {
            if matches!(self.state, State::Ground) {
                let Some(at) = memchr(ESC, rest) else { return };
                self.state = State::Escape;
                rest = &rest[at + 1..];
            }
            let Some((&byte, after)) = rest.split_first() else { return };
            self.take(byte, modes);
            rest = after;
        }
    }

    fn take(&mut self, byte: u8, modes: &mut KeyModes) {
        if byte == ESC {
            self.state = State::Escape;
            return;
        }
        if CANCELS.contains(&byte) {
            self.state = State::Ground;
            return;
        }
        if byte < 0x20 {
            // Control characters do their work in the middle of a sequence.
            return;
        }
        match (&mut self.state, byte) {
            (State::Ground, _) => {}
            (State::Escape, b'[') => {
                self.state = State::Control(Control::default());
                return;
            }
            (State::Escape | State::Designation, 0x20..=0x2f) => {
                self.state = State::Designation;
                return;
            }
            (State::Escape, b'=') => modes.application_keypad = true,
            (State::Escape, b'>') => modes.application_keypad = false,
            (State::Escape, b'c') => *modes = KeyModes::default(),
            (State::Escape | State::Designation, _) => {}
            (State::Control(control), 0x20..=0x3f) => {
                control.take(byte);
                return;
            }
            (State::Control(control), last) => control.apply(last, modes),
        }
        self.state = State::Ground;
    }
}

impl Control {
    fn take(&mut self, byte: u8) {
        match byte {
            b'0'..=b'9' => {
                if self.numbers.is_empty() {
                    self.numbers.push(0);
                }
                if let Some(number) = self.numbers.last_mut() {
                    *number = number.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                }
            }
            b';' | b':' if self.numbers.len() < NUMBERS_MAX => self.numbers.push(0),
            b'<'..=b'?' => self.private = Some(byte),
            0x20..=0x2f => self.intermediate = Some(byte),
            _ => {}
        }
    }

    fn apply(&self, last: u8, modes: &mut KeyModes) {
        match (self.private, self.intermediate, last) {
            (Some(b'?'), None, b'h' | b'l') => {
                for number in &self.numbers {
                    match number {
                        1 => modes.application_cursor = last == b'h',
                        66 => modes.application_keypad = last == b'h',
                        2004 => modes.bracketed_paste = last == b'h',
                        _ => {}
                    }
                }
            }
            // A soft reset.
            (None, Some(b'!'), b'p') => {
                modes.application_cursor = false;
                modes.application_keypad = false;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn modes(cursor: bool, keypad: bool, paste: bool) -> KeyModes {
        KeyModes { application_cursor: cursor, application_keypad: keypad, bracketed_paste: paste }
    }

    fn after(output: &[u8]) -> KeyModes {
        let mut modes = KeyModes::default();
        ModeTracker::default().feed(output, &mut modes);
        modes
    }

    #[test]
    fn modes_follow_the_output() {
        for (output, expected) in [
            ("", modes(false, false, false)),
            ("text \x1b[31mred\x1b[0m", modes(false, false, false)),
            ("\x1b[?1h\x1b=", modes(true, true, false)),
            ("\x1b[?1h\x1b=\x1b[?1l\x1b>", modes(false, false, false)),
            ("\x1b[?2004h$ ", modes(false, false, true)),
            ("\x1b[?25l;\x1b[?1;25;2004h", modes(true, false, true)),
            ("\x1b[?66h", modes(false, true, false)),
            // Not the private mode 1, and no mode at all.
            ("\x1b[1h\x1b[>1h\x1b[?1$p\x1b[?11h\x1b[?12004h", modes(false, false, false)),
            // A character set whose name is `=`.
            ("\x1b(=\x1b)>", modes(false, false, false)),
            ("\x1b[?1h\x1b=\x1b[!p", modes(false, false, false)),
            ("\x1b[?2004h\x1b[!p", modes(false, false, true)),
            ("\x1b[?1;2004h\x1b=\x1bc", modes(false, false, false)),
            // Cancelled, broken off, and with a control character within.
            ("\x1b[?1\x18h", modes(false, false, false)),
            ("\x1b[?1\x1b[?2004h", modes(false, false, true)),
            ("\x1b[?\r1\nh", modes(true, false, false)),
            ("\x1b]0;title\x07\x1b[?1h", modes(true, false, false)),
        ] {
            assert_eq!(after(output.as_bytes()), expected, "{output:?}");
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_output_is_cut(
            parts in prop::collection::vec(prop::sample::select(vec![
                "\x1b", "[", "?", "1", "2004", ";", "h", "l", "=", ">", "c", "(", "!p", "\x18", "x", "\u{9b}",
            ]), 0..60),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let output = parts.concat().into_bytes();
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(output.len() + 1)).collect();
            ends.push(output.len());
            ends.sort_unstable();
            let (mut tracker, mut modes, mut from) = (ModeTracker::default(), KeyModes::default(), 0);
            for end in ends {
                tracker.feed(&output[from..end], &mut modes);
                from = end;
            }
            prop_assert_eq!(modes, after(&output));
        }

        #[test]
        fn any_bytes_are_output(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _modes = after(&bytes);
        }
    }
}
