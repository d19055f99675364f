//! Terminal output as a person would last see it: text without escape sequences, with redrawn
//! lines in their last form and wrapped ones joined.
//!
//! What a full-screen program draws on the alternate screen is left out; that it did is told.

use super::page::Page;
use super::tokens::{Csi, Sink, Tokens, plain_prefix};
use crate::domain::session::Size;

const STEP: usize = 16 * 1024;

/// Clean text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// The text: valid UTF-8 with no control character but LF and HT.
    pub text: String,
    /// True when a program used the alternate screen.
    pub full_screen: bool,
}

/// Cleans a whole text.
pub fn clean(text: &str, size: Size) -> Cleaned {
    let mut cleaner = Cleaner::new(size);
    cleaner.feed(text);
    cleaner.finish()
}

/// Cleans text in pieces. However it is cut, the outcome is the same.
#[derive(Clone, Debug)]
pub struct Cleaner {
    tokens: Tokens,
    drawing: Drawing,
}

impl Cleaner {
    /// A cleaner for output of a terminal of this size.
    pub fn new(size: Size) -> Self {
        Self { tokens: Tokens::default(), drawing: Drawing::new(size) }
    }

    /// The same, for output that begins while the alternate screen is on.
    #[must_use]
    pub fn on_alternate_screen(mut self) -> Self {
        self.drawing.alternate = true;
        self.drawing.full_screen = true;
        self
    }

    /// True while the alternate screen is on.
    pub fn is_on_alternate_screen(&self) -> bool {
        self.drawing.alternate
    }

    /// Reads on.
    pub fn feed(&mut self, mut text: &str) {
        while !text.is_empty() {
            let drawing = &mut self.drawing;
            if self.tokens.is_ground() && !drawing.alternate && drawing.page.is_at_end() {
                // In steps that fit the nearest cache: the bytes are looked at three times.
                let step = text.floor_char_boundary(STEP);
                let (plain, rest) = text.split_at(plain_prefix(&text.as_bytes()[..step]));
                drawing.page.append(plain);
                text = rest;
                if plain.len() == step {
                    continue;
                }
            }
            text = &text[self.tokens.step(text, &mut self.drawing)..];
        }
    }

    /// The window has another size from here on.
    pub fn resize(&mut self, size: Size) {
        self.drawing.page.resize(size);
    }

    /// The text as it stands. A sequence that is still open is dropped.
    pub fn finish(self) -> Cleaned {
        let Drawing { page, full_screen, .. } = self.drawing;
        Cleaned { text: page.finish(), full_screen }
    }
}

/// Carries the tokens out on the page.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    pub(super) page: Page,
    pub(super) alternate: bool,
    full_screen: bool,
}

impl Sink for Drawing {
    fn text(&mut self, run: &str) {
        if !self.alternate {
            self.page.print(run);
        }
    }

    fn control(&mut self, code: u8) {
        if self.alternate {
            return;
        }
        match code {
            0x08 => self.page.left(1),
            b'\t' => self.page.tab(),
            b'\n' | 0x0b | 0x0c => self.page.line_feed(),
            b'\r' => self.page.carriage_return(),
            0x0e | 0x0f => self.page.shift_charset(code == 0x0e),
            _ => {}
        }
    }

    fn escape(&mut self, intermediate: u8, last: u8) {
        if (intermediate, last) == (0, b'c') {
            self.alternate = false;
        }
        if !self.alternate {
            self.page.escape(intermediate, last);
        }
    }

    fn csi(&mut self, csi: &Csi, last: u8) {
        match (csi.private, last) {
            (b'?', b'h' | b'l') => self.private_mode(csi, last == b'h'),
            _ if self.alternate => {}
            (b'?', b'W') if csi.get(0, 0) == 5 => self.page.tabs = None,
            (0, _) => self.page.csi(csi, last),
            _ => {}
        }
    }
}

impl Drawing {
    pub(super) fn new(size: Size) -> Self {
        Self { page: Page::new(size), alternate: false, full_screen: false }
    }

    fn private_mode(&mut self, csi: &Csi, on: bool) {
        for mode in csi.all() {
            match mode {
                47 | 1047 | 1049 => {
                    self.alternate = on;
                    self.full_screen |= on;
                }
                _ if self.alternate => {}
                6 => self.page.set_origin(on),
                7 => self.page.no_wrap = !on,
                1048 if on => self.page.save(),
                1048 => self.page.restore(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "clean_tests.rs"]
mod tests;
