//! Decoding while the bytes still come.
//!
//! UTF-8 is handed out as soon as its characters are complete. What is not UTF-8 is held until its
//! line ends, so that the detector has something to go by; no more than a long line of it is held.
//! Earlier lines that were not UTF-8 help with the next one.

use std::borrow::Cow;

use super::decode::{Hint, Reading};

/// Most bytes that are held of a line which is not UTF-8.
const HELD: usize = 4096;
/// So much of earlier lines is enough to tell an encoding.
const ENOUGH: usize = 512;

/// A decoder that keeps its place between pieces of any size. However the bytes are cut, the text
/// is the same.
#[derive(Clone, Debug)]
pub struct LiveDecoder {
    hint: Hint,
    held: Vec<u8>,
    /// True when `held` is not merely the beginning of a character.
    foreign: bool,
    /// Earlier lines that were not UTF-8.
    seen: Vec<u8>,
    /// How such lines are read, once enough of them were seen.
    settled: Option<Reading>,
}

impl LiveDecoder {
    /// A decoder for output of a session of this locale.
    pub fn new(hint: Hint) -> Self {
        Self { hint, held: Vec::new(), foreign: false, seen: Vec::new(), settled: None }
    }

    /// Reads on and appends what can be told by now.
    pub fn feed(&mut self, bytes: &[u8], text: &mut String) {
        let held = std::mem::take(&mut self.held);
        let joined;
        let mut rest = if held.is_empty() {
            bytes
        } else {
            joined = [held.as_slice(), bytes].concat();
            joined.as_slice()
        };
        loop {
            let before = (rest.len(), self.foreign);
            rest = if self.foreign { self.foreign(rest, text) } else { self.utf8(rest, text) };
            if (rest.len(), self.foreign) == before {
                break;
            }
        }
        self.held = rest.to_vec();
    }

    /// The rest, when nothing follows.
    pub fn finish(mut self, text: &mut String) {
        let held = std::mem::take(&mut self.held);
        text.push_str(&self.read(&held));
    }

    /// What is held of a line that is not UTF-8, as far as it can be told before its end.
    pub fn pending(&self) -> Option<Cow<'_, str>> {
        self.foreign.then(|| self.read(&self.held))
    }

    fn read<'a>(&self, bytes: &'a [u8]) -> Cow<'a, str> {
        let reading =
            self.settled.unwrap_or_else(|| Reading::of([self.seen.as_slice(), bytes], &self.hint));
        reading.decode(bytes)
    }

    fn learn(&mut self, line: &[u8]) {
        if self.settled.is_none() {
            self.seen.extend_from_slice(line);
            self.seen.push(b'\n');
            if self.seen.len() >= ENOUGH {
                self.settled = Some(Reading::of([self.seen.as_slice()], &self.hint));
                self.seen = Vec::new();
            }
        }
    }

    fn utf8<'a>(&mut self, bytes: &'a [u8], text: &mut String) -> &'a [u8] {
        let (valid, rest) = match std::str::from_utf8(bytes) {
            Ok(all) => (all, &bytes[bytes.len()..]),
            Err(error) => {
                self.foreign = error.error_len().is_some();
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), rest)
            }
        };
        text.push_str(valid);
        rest
    }

    fn foreign<'a>(&mut self, bytes: &'a [u8], text: &mut String) -> &'a [u8] {
        let window = &bytes[..bytes.len().min(HELD)];
        let end = match memchr::memchr(b'\n', window) {
            Some(at) => at,
            None if window.len() == HELD => HELD,
            None => return bytes,
        };
        text.push_str(&self.read(&bytes[..end]));
        self.learn(&bytes[..end]);
        self.foreign = false;
        &bytes[end..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(pieces: &[&[u8]], hint: &str) -> Vec<String> {
        let mut decoder = LiveDecoder::new(Hint::of_locale(hint));
        let mut texts = Vec::new();
        for piece in pieces {
            let mut text = String::new();
            decoder.feed(piece, &mut text);
            texts.push(text);
        }
        let mut text = String::new();
        decoder.finish(&mut text);
        texts.push(text);
        texts
    }

    #[test]
    fn characters_wait_until_they_are_whole() {
        assert_eq!(texts(&[b"a\xe2\x82", b"\xac\n"], ""), ["a", "€\n", ""]);
        assert_eq!(texts(&[b"a\xe2\x82"], ""), ["a", "\u{fffd}"]);
    }

    #[test]
    fn short_lines_are_judged_with_those_before() {
        let (long, ..) = encoding_rs::GBK.encode("错误：找不到文件或目录\n");
        assert_eq!(texts(&[&long, b"\xc4\xe3\xba\xc3\n"], "")[1], "你好\n");
    }

    #[test]
    fn a_prompt_can_be_seen_before_its_line_ends() {
        let mut decoder = LiveDecoder::new(Hint::of_locale("zh_CN.GBK"));
        let mut text = String::new();
        decoder.feed(b"ok \xb3\xc9\xb9\xa6? ", &mut text);
        assert_eq!((text.as_str(), decoder.pending().as_deref()), ("ok ", Some("成功? ")));
        decoder.feed(b"\n", &mut text);
        assert_eq!((text.as_str(), decoder.pending()), ("ok 成功? \n", None));
    }

    #[test]
    fn foreign_lines_wait_for_their_end() {
        let pieces: [&[u8]; 3] = [b"ok \xb3\xc9", b"\xb9\xa6", b"\nnext"];
        assert_eq!(texts(&pieces, "zh_CN.GBK"), ["ok ", "", "成功\nnext", ""]);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_text(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(b'\n'), Just(0xe2), Just(0x82), Just(0xac)], 0..200),
            piece in 1usize..20,
        ) {
            let pieces: Vec<_> = bytes.chunks(piece).collect();
            let whole = texts(&[&bytes], "zh_CN.GBK").concat();
            prop_assert_eq!(texts(&pieces, "zh_CN.GBK").concat(), whole);
        }

        #[test]
        fn utf_8_is_itself(text in "\\PC{0,60}", piece in 1usize..9) {
            let pieces: Vec<_> = text.as_bytes().chunks(piece).collect();
            prop_assert_eq!(texts(&pieces, "").concat(), text);
        }

        #[test]
        fn little_is_held(bytes in prop::collection::vec(0x80u8.., 0..20_000)) {
            let mut decoder = LiveDecoder::new(Hint::default());
            decoder.feed(&bytes, &mut String::new());
            prop_assert!(decoder.held.len() <= HELD);
        }
    }
}
