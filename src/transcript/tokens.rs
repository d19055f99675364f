//! Cuts terminal output into text, controls and escape sequences (ECMA-48, as xterm reads it).
//!
//! Two rules differ from a terminal's, both for the sake of the text. A control character inside a
//! sequence ends it instead of being carried out within; so a title or a hyperlink that was never
//! closed ends with its line and swallows nothing after it. And the 8-bit controls U+0080 to U+009F
//! are read as their two-character forms.
//!
//! Pictures are the exception to the first: sixels are sent in many lines, and go on for as long as
//! all that comes is in their alphabet.

/// Longest part of an operating-system command that is kept.
const OSC_KEPT: usize = 4096;
/// Longest string in bytes, pictures apart. What comes after it is text: it was never closed.
const STRING_MAX: usize = 4 * 1024 * 1024;
const PARAMS: usize = 16;

/// Who takes the tokens.
pub(crate) trait Sink {
    /// Printable text, free of controls.
    fn text(&mut self, run: &str);
    /// One of the controls U+0000 to U+001F, never ESC.
    fn control(&mut self, code: u8);
    /// `ESC`, perhaps an intermediate, and a last byte.
    fn escape(&mut self, intermediate: u8, last: u8);
    /// A control sequence and its last byte.
    fn csi(&mut self, csi: &Csi, last: u8);
    /// An operating-system command that was properly closed.
    fn osc(&mut self, _content: &str) {}
}

/// The parameters of a control sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Csi {
    params: [u16; PARAMS],
    last: usize,
    /// `?`, `<`, `=` or `>`; 0 when there is none.
    pub(crate) private: u8,
    /// 0 when there is none.
    pub(crate) intermediate: u8,
}

impl Csi {
    /// The parameter at `index`; `default` when it is absent or 0.
    pub(crate) fn get(&self, index: usize, default: usize) -> usize {
        match self.params.get(index) {
            Some(0) | None => default,
            Some(&value) => usize::from(value),
        }
    }

    /// All parameters; at least one.
    pub(crate) fn all(&self) -> &[u16] {
        &self.params[..=self.last.min(PARAMS - 1)]
    }

    fn digit(&mut self, digit: u8) {
        if let Some(param) = self.params.get_mut(self.last) {
            *param = param.saturating_mul(10).saturating_add(u16::from(digit));
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape {
        intermediate: u8,
    },
    Csi,
    /// Inside a string.
    Text(Kind),
    /// An ESC inside one: its end, if `\` follows.
    TextEscape(Kind),
}

/// The strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// OSC: kept.
    Command,
    /// SOS, PM, APC, and DCS that are no pictures: dropped.
    Other,
    /// DCS of which only numbers have come.
    Device,
    /// DCS with a picture in it.
    Sixels,
}

/// The cutter. It keeps its place between pieces of any size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    state: State,
    csi: Csi,
    content: String,
    string_len: usize,
}

impl Tokens {
    /// True when no sequence is open.
    pub(crate) fn is_ground(&self) -> bool {
        self.state == State::Ground
    }

    /// Takes all of `text`.
    pub(crate) fn feed(&mut self, mut text: &str, sink: &mut impl Sink) {
        while !text.is_empty() {
            text = &text[self.step(text, sink)..];
        }
    }

    /// Takes the next token or part of a sequence off a text that is not empty; answers with how
    /// many bytes it took: none where a byte ends a sequence and is a token of its own.
    pub(crate) fn step(&mut self, text: &str, sink: &mut impl Sink) -> usize {
        let Some(&byte) = text.as_bytes().first() else { return 0 };
        match self.state {
            State::Ground => self.ground(text, sink),
            State::Escape { intermediate } => self.escape(byte, intermediate, sink),
            State::Csi => self.sequence(byte, sink),
            State::Text(Kind::Device) => self.device(byte),
            State::Text(Kind::Sixels) => self.sixels(text.as_bytes()),
            State::Text(kind) => self.string(text, kind, sink),
            State::TextEscape(kind) => {
                self.state = State::Escape { intermediate: 0 };
                if byte != b'\\' {
                    return 0;
                }
                self.close(kind, sink);
                1
            }
        }
    }

    fn ground(&mut self, text: &str, sink: &mut impl Sink) -> usize {
        let run = printable_prefix(text.as_bytes());
        if run > 0 {
            sink.text(&text[..run]);
            return run;
        }
        match *text.as_bytes() {
            [0x1b, ..] => self.state = State::Escape { intermediate: 0 },
            [0x7f, ..] => {}
            // An 8-bit control.
            [0xc2, second, ..] => {
                self.escape(second - 0x40, 0, sink);
                return 2;
            }
            // A line or paragraph separator: not shown, and a trap in JSON read as JavaScript.
            [0xe2, ..] => return 3,
            [control, ..] => sink.control(control),
            [] => {}
        }
        1
    }

    fn escape(&mut self, byte: u8, intermediate: u8, sink: &mut impl Sink) -> usize {
        self.state = State::Ground;
        match (byte, intermediate) {
            (0x1b, _) => self.state = State::Escape { intermediate: 0 },
            (0x20..=0x2f, _) => self.state = State::Escape { intermediate: byte },
            (b'[', 0) => {
                self.csi = Csi::default();
                self.state = State::Csi;
            }
            (b']', 0) => self.open(Kind::Command),
            (b'P', 0) => self.open(Kind::Device),
            // `k` is the title of screen and tmux.
            (b'X' | b'^' | b'_' | b'k', 0) => self.open(Kind::Other),
            (0x30..=0x7e, _) => sink.escape(intermediate, byte),
            (0x18 | 0x1a, _) => {}
            _ => return 0,
        }
        1
    }

    fn sequence(&mut self, byte: u8, sink: &mut impl Sink) -> usize {
        match byte {
            b'0'..=b'9' => self.csi.digit(byte - b'0'),
            b':' | b';' => self.csi.last += 1,
            0x3c..=0x3f => self.csi.private = byte,
            0x20..=0x2f => self.csi.intermediate = byte,
            0x40..=0x7e => {
                self.state = State::Ground;
                sink.csi(&self.csi, byte);
            }
            0x18 | 0x1a => self.state = State::Ground,
            0x1b => self.state = State::Escape { intermediate: 0 },
            _ => {
                self.state = State::Ground;
                return 0;
            }
        }
        1
    }

    fn open(&mut self, kind: Kind) {
        self.content.clear();
        self.string_len = 0;
        self.state = State::Text(kind);
    }

    /// The numbers before the letter that says what a device control string is.
    fn device(&mut self, byte: u8) -> usize {
        match byte {
            b'0'..=b'9' | b';' => return 1,
            b'q' => self.state = State::Text(Kind::Sixels),
            _ => self.state = State::Text(Kind::Other),
        }
        0
    }

    fn sixels(&mut self, bytes: &[u8]) -> usize {
        let drawn = |byte: &u8| matches!(byte, b'?'..=b'~' | b'0'..=b'9' | b'"' | b'#' | b'!' | b'$' | b'-' | b';');
        let stop = bytes.iter().position(|byte| !drawn(byte) && !matches!(byte, b'\n' | b'\r'));
        let Some(stop) = stop else { return bytes.len() };
        self.state = match bytes[stop] {
            0x1b => State::TextEscape(Kind::Sixels),
            _ => State::Ground,
        };
        let ends = matches!(bytes[stop], 0x07 | 0x18 | 0x1a | 0x1b);
        // An 8-bit end is dropped as a control without a meaning.
        stop + usize::from(ends)
    }

    fn string(&mut self, text: &str, kind: Kind, sink: &mut impl Sink) -> usize {
        let room = text.floor_char_boundary(STRING_MAX.saturating_sub(self.string_len));
        let bytes = &text.as_bytes()[..room];
        let stop = string_stop(bytes).unwrap_or(room);
        self.string_len += stop;
        if kind == Kind::Command {
            let room = OSC_KEPT.saturating_sub(self.content.len()).min(stop);
            self.content.push_str(&text[..text.floor_char_boundary(room)]);
        }
        let end = match bytes[stop..] {
            [] => {
                if room < text.len() {
                    self.state = State::Ground;
                }
                return stop;
            }
            [0x1b, ..] => {
                self.state = State::TextEscape(kind);
                return stop + 1;
            }
            [b'\n' | b'\r', ..] => {
                self.state = State::Ground;
                return stop;
            }
            [0x18 | 0x1a, ..] => {
                self.state = State::Ground;
                return stop + 1;
            }
            [0xc2, ..] => 2,
            _ => 1,
        };
        self.close(kind, sink);
        stop + end
    }

    fn close(&mut self, kind: Kind, sink: &mut impl Sink) {
        self.state = State::Ground;
        if kind == Kind::Command {
            sink.osc(&self.content);
            self.content.clear();
        }
    }
}

fn string_stop(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let found = bytes[from..]
            .iter()
            .position(|byte| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b | b'\n' | b'\r' | 0xc2))?;
        let at = from + found;
        if bytes[at] != 0xc2 || bytes.get(at + 1) == Some(&0x9c) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// How long the escape sequence at the start of `bytes` is; `None` when it is not complete.
pub(crate) fn sequence_len(bytes: &[u8]) -> Option<usize> {
    let kind = *bytes.get(1)?;
    match kind {
        b'[' => bytes[2..].iter().position(|byte| !matches!(byte, 0x20..=0x3f)).map(|n| n + 3),
        b']' | b'P' | b'X' | b'^' | b'_' | b'k' => {
            let stop = 2 + string_stop(&bytes[2..])?;
            match bytes[stop] {
                0x1b => bytes.get(stop + 1).map(|_| stop + 2),
                _ => Some(stop + 1),
            }
        }
        0x20..=0x2f => {
            bytes[2..].iter().position(|byte| !matches!(byte, 0x20..=0x2f)).map(|n| n + 3)
        }
        _ => Some(2),
    }
}

/// Length of the longest prefix that a terminal prints as it is. `bytes` is valid UTF-8.
pub(crate) fn printable_prefix(bytes: &[u8]) -> usize {
    prefix(bytes, |_| false)
}

/// The same, with line ends and tabs: text that moves the cursor only onwards. A CR is taken only
/// with the LF after it.
pub(crate) fn plain_prefix(bytes: &[u8]) -> usize {
    let end = prefix(bytes, |byte| matches!(byte, b'\n' | b'\t' | b'\r'));
    lone_cr(&bytes[..end], bytes.get(end)).unwrap_or(end)
}

/// Where the first CR is that no LF follows.
fn lone_cr(bytes: &[u8], next: Option<&u8>) -> Option<usize> {
    memchr::memchr_iter(b'\r', bytes).find(|&at| {
        bytes.get(at + 1).or(if at + 1 == bytes.len() { next } else { None }) != Some(&b'\n')
    })
}

const BLOCK: usize = 64;

fn prefix(bytes: &[u8], also: impl Fn(u8) -> bool + Copy) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        let block = &bytes[at..(at + BLOCK).min(bytes.len())];
        // Without branches, so that the whole block is looked at in a few instructions.
        let mut odd = false;
        for &byte in block {
            odd |= ((byte < 0x20) & !also(byte)) | (byte == 0x7f) | (byte == 0xc2) | (byte == 0xe2);
        }
        if odd && let Some(found) = first_special(bytes, at, block.len(), also) {
            return found;
        }
        at += block.len();
    }
    bytes.len()
}

fn first_special(
    bytes: &[u8],
    from: usize,
    len: usize,
    also: impl Fn(u8) -> bool,
) -> Option<usize> {
    (from..from + len).find(|&at| match bytes[at..] {
        [0xc2, second, ..] => second < 0xa0,
        [0xe2, 0x80, third, ..] => matches!(third, 0xa8 | 0xa9),
        [byte, ..] => byte == 0x7f || (byte < 0x20 && !also(byte)),
        [] => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log(Vec<String>);

    impl Sink for Log {
        fn text(&mut self, run: &str) {
            self.0.push(run.to_owned());
        }
        fn control(&mut self, code: u8) {
            self.0.push(format!("^{code:02x}"));
        }
        fn escape(&mut self, intermediate: u8, last: u8) {
            self.0.push(format!("esc {} {}", intermediate as char, last as char));
        }
        fn csi(&mut self, csi: &Csi, last: u8) {
            self.0.push(format!("csi {:?} {}", csi.all(), last as char));
        }
        fn osc(&mut self, content: &str) {
            self.0.push(format!("osc {content}"));
        }
    }

    fn tokens(text: &str) -> String {
        let mut log = Log::default();
        Tokens::default().feed(text, &mut log);
        log.0.join("|")
    }

    #[test]
    fn cuts() {
        for (text, expected) in [
            ("ab\x07c", "ab|^07|c"),
            ("\x1b[1;31mred\x1b[m", "csi [1, 31] m|red|csi [0] m"),
            ("\x1b[?1049h", "csi [1049] h"),
            ("\x1b[38:2::1:2:3mx", "csi [38, 2, 0, 1, 2, 3] m|x"),
            ("\x1b]0;t\x07a\x1b]8;;u\x1b\\b", "osc 0;t|a|osc 8;;u|b"),
            ("\u{9d}0;t\u{9c}a\u{9b}2Kb\u{85}c", "osc 0;t|a|csi [2] K|b|esc \0 E|c"),
            ("\x1b]0;abc\nnext", "^0a|next"),
            ("\x1bPq#0\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d", "a|b|c|d"),
            ("\x1b]0;a\x1b[Kb", "csi [0] K|b"),
            ("\x1bktitle\x1b\\$ ", "$ "),
            ("\x1bP0;1q\"1;1#0~~\n-!7?\r\n$\x1b\\a", "a"),
            ("\x1bPq#0~\nleft open\n", " open|^0a"),
            ("\x1bP$q\"p\x1b\\\x1bP+q54\nb", "^0a|b"),
            ("\x1b(0q\x1b7", "esc ( 0|q|esc \0 7"),
            ("\x1b[3\nx\x1b\ny", "^0a|x|^0a|y"),
            ("\x1b[3é", "é"),
            ("\x1b[3\x18x", "x"),
            ("a\u{7f}b\u{2028}c«»–", "a|b|c«»–"),
            ("\x1b[99999999999A", "csi [65535] A"),
        ] {
            assert_eq!(tokens(text), expected, "{text:?}");
        }
    }

    #[test]
    fn many_parameters() {
        let text = format!("\x1b[{}m.", "1;".repeat(40));
        assert_eq!(tokens(&text), format!("csi [{}1] m|.", "1, ".repeat(15)));
    }

    #[test]
    fn prefixes() {
        let long = "x".repeat(150);
        for (text, printable, plain) in [
            ("", 0, 0),
            ("ab\ncd", 2, 5),
            ("ab\r\ncd\r", 2, 6),
            ("ab\rcd", 2, 2),
            ("a\r\r\n", 1, 1),
            ("a\tb\x1b", 1, 3),
            ("é«»—\u{9b}", 9, 9),
            ("a\u{2028}", 1, 1),
        ] {
            assert_eq!(printable_prefix(text.as_bytes()), printable, "{text:?}");
            assert_eq!(plain_prefix(text.as_bytes()), plain, "{text:?}");
            let shifted = format!("{long}{text}");
            assert_eq!(printable_prefix(shifted.as_bytes()), 150 + printable, "{text:?}");
        }
    }

    #[test]
    fn lengths() {
        for (text, len) in [
            ("\x1b", None),
            ("\x1b[", None),
            ("\x1b[31", None),
            ("\x1b[31mx", Some(5)),
            ("\x1b]0;t", None),
            ("\x1b]0;t\x1b", None),
            ("\x1b]0;t\x1b\\x", Some(7)),
            ("\x1b]0;t\x07x", Some(6)),
            ("\x1b(", None),
            ("\x1b(0x", Some(3)),
            ("\x1b7x", Some(2)),
        ] {
            assert_eq!(sequence_len(text.as_bytes()), len, "{text:?}");
        }
    }
}
