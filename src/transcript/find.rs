//! Waiting for a pattern while the bytes still come, cut anywhere.
//!
//! **On clean text** a pattern is looked for in one line at a time: the line as a person sees it,
//! wrapped rows joined, escape sequences gone. A line is looked at
//!
//! - when it ends;
//! - before something is drawn over it, so each state of a progress bar counts, not only the last;
//! - when the bytes pause, as far as the cursor has come: a prompt ends no line;
//! - when nothing follows any more.
//!
//! So a pattern is found however the bytes are cut. Only one that says where a line ends (`$`) may
//! also be found in a line that a pause has left unfinished. What a full-screen program draws is no
//! part of the text.
//!
//! **On raw bytes** it is looked for in the bytes themselves, `^` and `$` at line ends. A match that
//! is longer than a few KiB may be missed where pieces meet.
//!
//! Nothing but the screen and a few KiB is kept, however much is read.

use regex::bytes::{Regex as BytesRegex, RegexBuilder as BytesRegexBuilder};
use regex::{Error, Regex, RegexBuilder};

use super::clean::Drawing;
use super::decode::Hint;
use super::live::LiveDecoder;
use super::tokens::{Csi, Sink, Tokens, plain_prefix};
use crate::domain::session::Size;

/// Largest size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Bytes that are read before the line so far is looked at.
const PIECE: usize = 4096;
/// So much of an unfinished line is looked at, in bytes.
const LINE_KEPT: usize = 4096;
/// So many raw bytes are looked at once more with what follows them.
const RAW_KEPT: usize = 4096;

/// How bytes are read.
#[derive(Clone, Debug, PartialEq)]
pub enum As {
    /// As they are.
    Raw,
    /// Decoded and cleaned.
    Text {
        /// What the session's locale says.
        hint: Hint,
        /// The session's window.
        size: Size,
    },
}

/// Where a pattern was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The whole line on clean text; on raw bytes the match.
    pub text: String,
    /// The match itself.
    pub matched: String,
    /// How many bytes had been fed up to there: exact on raw bytes, within 4 KiB on clean text.
    pub end: u64,
}

/// Looks for one pattern. Once found, it stays found.
#[derive(Clone, Debug)]
pub struct Finder {
    search: Search,
    fed: u64,
    found: Option<Found>,
}

#[derive(Clone, Debug)]
enum Search {
    Clean(Box<CleanSearch>),
    Raw(RawSearch),
}

impl Finder {
    /// Looks in bytes that are read like this. The error is the pattern's.
    pub fn new(pattern: &str, reading: &As) -> Result<Self, Error> {
        match reading {
            As::Raw => Self::raw(pattern),
            As::Text { hint, size } => Self::clean(pattern, *size, hint.clone()),
        }
    }

    /// Looks in the clean text of a session with this window and locale. The error is the
    /// pattern's.
    pub fn clean(pattern: &str, size: Size, hint: Hint) -> Result<Self, Error> {
        let search = CleanSearch {
            decoder: LiveDecoder::new(hint),
            tokens: Tokens::default(),
            watch: Watch {
                drawing: Drawing::new(size),
                pattern: RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build()?,
                line: String::new(),
                changed: false,
                found: false,
            },
        };
        Ok(Self { search: Search::Clean(Box::new(search)), fed: 0, found: None })
    }

    /// Looks in the raw bytes. The error is the pattern's.
    pub fn raw(pattern: &str) -> Result<Self, Error> {
        let pattern = BytesRegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES_MAX)
            .multi_line(true)
            .crlf(true)
            .build()?;
        let search = RawSearch { pattern, kept: Vec::new(), severed: false };
        Ok(Self { search: Search::Raw(search), fed: 0, found: None })
    }

    /// Reads on; the first place where the pattern was found by now.
    pub fn feed(&mut self, bytes: &[u8]) -> Option<&Found> {
        for piece in bytes.chunks(PIECE) {
            if self.found.is_some() {
                break;
            }
            self.found = match &mut self.search {
                Search::Clean(search) => search.feed(piece, self.fed),
                Search::Raw(search) => search.feed(piece, self.fed),
            };
            self.fed += piece.len() as u64;
        }
        if let (Search::Clean(search), None) = (&mut self.search, &self.found) {
            self.found = search.pause(self.fed);
        }
        self.found.as_ref()
    }

    /// Nothing follows: the last line is looked at as it stands.
    pub fn finish(mut self) -> Option<Found> {
        if let (Search::Clean(search), None) = (&mut self.search, &self.found) {
            self.found = search.finish(self.fed);
        }
        self.found
    }
}

#[derive(Clone, Debug)]
struct RawSearch {
    pattern: BytesRegex,
    kept: Vec<u8>,
    /// True when `kept` does not begin with the first byte of all.
    severed: bool,
}

impl RawSearch {
    fn feed(&mut self, piece: &[u8], fed: u64) -> Option<Found> {
        let before = fed - self.kept.len() as u64;
        self.kept.extend_from_slice(piece);
        // The first byte only tells whether a line begins after it.
        let first = usize::from(self.severed);
        let found = self.pattern.find_at(&self.kept, first).map(|found| {
            let text = String::from_utf8_lossy(found.as_bytes()).into_owned();
            Found { matched: text.clone(), text, end: before + found.end() as u64 }
        });
        let excess = self.kept.len().saturating_sub(RAW_KEPT);
        self.kept.drain(..excess);
        self.severed |= excess > 0;
        found
    }
}

#[derive(Clone, Debug)]
struct CleanSearch {
    decoder: LiveDecoder,
    tokens: Tokens,
    watch: Watch,
}

impl CleanSearch {
    fn feed(&mut self, piece: &[u8], fed: u64) -> Option<Found> {
        let mut text = String::with_capacity(piece.len());
        self.decoder.feed(piece, &mut text);
        self.read(&text);
        self.watch.drawing.page.let_go();
        self.watch.found(fed + piece.len() as u64)
    }

    fn read(&mut self, mut text: &str) {
        while !text.is_empty() && !self.watch.found {
            let drawing = &self.watch.drawing;
            if self.tokens.is_ground() && !drawing.alternate && drawing.page.is_at_end() {
                let (plain, rest) = text.split_at(plain_prefix(text.as_bytes()));
                if !plain.is_empty() {
                    self.watch.plain(plain);
                    text = rest;
                    continue;
                }
            }
            text = &text[self.tokens.step(text, &mut self.watch)..];
        }
    }

    fn finish(&mut self, fed: u64) -> Option<Found> {
        let mut text = String::new();
        let decoder = std::mem::replace(&mut self.decoder, LiveDecoder::new(Hint::default()));
        decoder.finish(&mut text);
        self.read(&text);
        if !self.watch.found {
            self.watch.look_back();
        }
        self.watch.found(fed)
    }

    /// No more bytes for now.
    fn pause(&mut self, fed: u64) -> Option<Found> {
        if let Some(pending) = self.decoder.pending() {
            // What is held back may be read differently once its line has ended.
            let mut ahead = Self { decoder: LiveDecoder::new(Hint::default()), ..self.clone() };
            ahead.read(&pending);
            ahead.watch.look_ahead();
            return ahead.watch.found(fed);
        }
        self.watch.look_ahead();
        self.watch.found(fed)
    }
}

/// Looks at the lines while they are drawn.
#[derive(Clone, Debug)]
struct Watch {
    drawing: Drawing,
    pattern: Regex,
    line: String,
    /// True when the line has changed since it was looked at.
    changed: bool,
    found: bool,
}

impl Watch {
    fn found(&mut self, end: u64) -> Option<Found> {
        self.found.then(|| {
            let text = std::mem::take(&mut self.line);
            let matched = self.pattern.find(&text).map(|found| found.as_str().to_owned());
            Found { matched: matched.unwrap_or_default(), text, end }
        })
    }

    /// Text that only goes on.
    fn plain(&mut self, plain: &str) {
        let mut rest = plain;
        while let Some(at) = memchr::memchr(b'\n', rest.as_bytes()) {
            let line = rest[..at].trim_end_matches('\r');
            if rest.len() == plain.len() {
                // The first goes on where the text has ended.
                let cut = self.drawing.page.write_line(&mut self.line, true, LINE_KEPT);
                self.line.push_str(line);
                self.look(cut);
            } else if self.pattern.is_match(line) {
                line.clone_into(&mut self.line);
                self.found = true;
            }
            if self.found {
                return;
            }
            rest = &rest[at + 1..];
        }
        self.drawing.page.append(plain);
        self.changed = !rest.is_empty() || (self.changed && rest.len() == plain.len());
    }

    /// Looks at the whole line if it has changed.
    fn look_back(&mut self) {
        if self.changed {
            self.changed = false;
            let cut = self.drawing.page.write_line(&mut self.line, true, LINE_KEPT);
            self.look(cut);
        }
    }

    /// Looks at the line as far as it has come.
    fn look_ahead(&mut self) {
        if self.changed && !self.found {
            let whole = self.drawing.page.is_returned();
            let cut = self.drawing.page.write_line(&mut self.line, whole, LINE_KEPT);
            if !self.line.is_empty() {
                self.look(cut);
            }
        }
    }

    fn look(&mut self, cut: bool) {
        // Where its beginning is missing, what is left does not begin a line.
        let first = if cut { self.line.ceil_char_boundary(1) } else { 0 };
        self.found |= self.pattern.is_match_at(&self.line, first);
    }
}

impl Sink for Watch {
    fn text(&mut self, run: &str) {
        if self.found || self.drawing.alternate {
            return;
        }
        // After anything else that leads back the line has been looked at already.
        if self.drawing.page.is_returned() {
            self.look_back();
        }
        if !self.found {
            self.drawing.text(run);
            self.changed = true;
        }
    }

    fn control(&mut self, code: u8) {
        if matches!(code, 0x08 | b'\n' | 0x0b | 0x0c) {
            // An empty line is one too.
            self.changed |= code != 0x08;
            if !self.drawing.alternate {
                self.look_back();
            }
        }
        if !self.found {
            self.drawing.control(code);
        }
    }

    fn escape(&mut self, intermediate: u8, last: u8) {
        if intermediate == 0 && !self.drawing.alternate {
            self.look_back();
        }
        if !self.found {
            self.drawing.escape(intermediate, last);
        }
    }

    fn csi(&mut self, csi: &Csi, last: u8) {
        let draws = !matches!(last, b'm' | b'h' | b'l' | b'n' | b'c' | b'q' | b't' | b'p');
        if draws && !self.drawing.alternate {
            self.look_back();
        }
        if !self.found {
            self.drawing.csi(csi, last);
            self.changed |= matches!(last, b'J' | b'K' | b'P' | b'X' | b'@' | b'b');
        }
    }
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
