//! Where a text may be cut: never within a character, and not within an escape sequence.

use super::tokens::sequence_len;

/// How far back an open sequence is looked for.
const REACH: usize = 4096;

/// How many bytes at the end belong to a character or a sequence that is not complete.
pub fn open_end(bytes: &[u8]) -> usize {
    let window = &bytes[bytes.len().saturating_sub(REACH)..];
    let mut at = 0;
    while let Some(next) = memchr::memchr(0x1b, &window[at..]) {
        let start = at + next;
        match sequence_len(&window[start..]) {
            Some(len) => at = start + len,
            None => return window.len() - start,
        }
    }
    open_character(bytes)
}

/// How many bytes at the end belong to a UTF-8 character that is not complete.
fn open_character(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3).position(|byte| !matches!(byte, 0x80..=0xbf));
    let Some(back) = last.map(|back| back + 1) else { return 0 };
    let whole = match bytes[bytes.len() - back] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 0,
    };
    if back < whole { back } else { 0 }
}

/// The end of a head: the end of its last line where that is near, or else before what is open.
pub(super) fn head_end(bytes: &[u8]) -> usize {
    let near = bytes.len() - bytes.len() / 4;
    match memchr::memrchr(b'\n', &bytes[near..]) {
        Some(at) => near + at + 1,
        None => bytes.len() - open_end(bytes),
    }
}

/// The beginning of a tail that may begin at `at` or later: the beginning of a line where one is
/// near, or else after the sequence or character that reaches across.
pub(super) fn tail_start(bytes: &[u8], at: usize) -> usize {
    let at = at.min(bytes.len());
    let near = at + (bytes.len() - at) / 4;
    if let Some(line) = memchr::memchr(b'\n', &bytes[at.saturating_sub(1)..near]) {
        return at.saturating_sub(1) + line + 1;
    }
    let mut start = at;
    let mut seen = 0;
    while let Some(next) = memchr::memchr(0x1b, &bytes[seen..at]) {
        seen += next;
        seen += sequence_len(&bytes[seen..]).unwrap_or(bytes.len() - seen);
        if seen >= at {
            start = seen;
            break;
        }
    }
    let rest = bytes[start..].iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf));
    start + rest.count()
}

/// What the first switch of the screen in `bytes` does: `Some(true)` turns the alternate one on.
pub(super) fn first_switch(bytes: &[u8]) -> Option<bool> {
    memchr::memmem::find_iter(bytes, b"\x1b[?").find_map(|at| {
        let rest = &bytes[at + 3..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
        let (modes, rest) = rest.split_at(digits);
        let screen =
            modes.split(|&byte| byte == b';').any(|mode| matches!(mode, b"47" | b"1047" | b"1049"));
        match rest.first() {
            Some(b'h') if screen => Some(true),
            Some(b'l') if screen => Some(false),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_ends() {
        for (bytes, open) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("a€".as_bytes(), 0),
            (b"a\xe2\x82", 2),
            (b"a\xf0", 1),
            (b"a\xf0\x9f\x98", 3),
            (b"\x80\x80\x80\x80", 0),
            (b"a\x1b", 1),
            (b"a\x1b[31", 4),
            (b"a\x1b[31m", 0),
            (b"a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b", 6),
        ] {
            assert_eq!(open_end(bytes), open, "{bytes:x?}");
        }
    }

    #[test]
    fn ends_of_heads() {
        assert_eq!(head_end(b"one\ntwo\nthree\nfou"), 14);
        assert_eq!(head_end(b"one\ntwo is a long line"), 22);
        assert_eq!(head_end(b"a long line \x1b[3"), 12);
    }

    #[test]
    fn starts_of_tails() {
        for (text, at, rest) in [
            ("line one\nline two\nthree", 9, "line two\nthree"),
            ("line one\nline two, longer and longer", 6, "line two, longer and longer"),
            ("no line \x1b[1;31mred and on and on", 10, "red and on and on"),
            ("no line \x1b[1;31mred and on and on", 4, "ine \x1b[1;31mred and on and on"),
            ("€€€€€€€€€€", 4, "€€€€€€€€"),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&text.as_bytes()[tail_start(text.as_bytes(), at)..]),
                rest
            );
        }
    }

    #[test]
    fn switches() {
        assert_eq!(first_switch(b"x\x1b[?25l\x1b[?1049hy\x1b[?1049l"), Some(true));
        assert_eq!(first_switch(b"x\x1b[?25;47l"), Some(false));
        assert_eq!(first_switch(b"x\x1b[?25l\x1b[?104"), None);
    }
}
