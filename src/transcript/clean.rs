//! Terminal output as a person would last see it: text without escape sequences, with redrawn
//! lines in their last form and wrapped ones joined.
//!
//! What a full-screen program draws on the alternate screen is left out; that it did is told.

use super::page::Page;
use super::row::Row;
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
        let drawing = Drawing { page: Page::new(size), alternate: false, full_screen: false };
        Self { tokens: Tokens::default(), drawing }
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

    /// The text as it stands. A sequence that is still open is dropped.
    pub fn finish(self) -> Cleaned {
        let Drawing { page, full_screen, .. } = self.drawing;
        Cleaned { text: page.finish(), full_screen }
    }
}

/// Carries the tokens out on the page.
#[derive(Clone, Debug)]
struct Drawing {
    page: Page,
    alternate: bool,
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
        if csi.private == b'?' && matches!(last, b'h' | b'l') {
            return self.private_mode(csi, last == b'h');
        }
        if !self.alternate && csi.private == 0 {
            self.page.csi(csi, last);
        }
    }
}

impl Drawing {
    fn private_mode(&mut self, csi: &Csi, on: bool) {
        for mode in csi.all() {
            match mode {
                47 | 1047 | 1049 => {
                    self.alternate = on;
                    self.full_screen |= on;
                }
                7 if !self.alternate => self.page.no_wrap = !on,
                _ => {}
            }
        }
    }
}

impl Page {
    fn escape(&mut self, intermediate: u8, last: u8) {
        match (intermediate, last) {
            (0, b'7') => self.save(),
            (0, b'8') => self.restore(),
            (0, b'D') => self.index(),
            (0, b'E') => self.line_feed(),
            (0, b'M') => self.reverse_index(),
            (0, b'c') => self.reset(),
            (b'(', set) => self.line_drawing = set == b'0',
            _ => {}
        }
    }

    fn csi(&mut self, csi: &Csi, last: u8) {
        let count = csi.get(0, 1);
        match (csi.intermediate, last) {
            (0, b'A') => self.up(count),
            (0, b'B' | b'e') => self.down(count),
            (0, b'C' | b'a') => self.right(count),
            (0, b'D') => self.left(count),
            (0, b'E') => {
                self.down(count);
                self.move_col(0);
            }
            (0, b'F') => {
                self.up(count);
                self.move_col(0);
            }
            (0, b'G' | b'`') => self.move_col(count - 1),
            (0, b'H' | b'f') => self.move_to(count - 1, csi.get(1, 1) - 1),
            (0, b'd') => {
                self.fill();
                self.move_row(count - 1);
                self.unhang();
            }
            (0, b'I') => (0..count.min(self.cols)).for_each(|_| self.tab()),
            (0, b'Z') => self.tab_back(count),
            (0, b'J') => self.erase_screen(csi.get(0, 0)),
            (0, b'K') => self.erase_line(csi.get(0, 0)),
            (0, b'L' | b'M') => self.shift_rows(count, last == b'L'),
            (0, b'@' | b'P' | b'X') => self.shift_cells(count, last),
            (0, b'b') => self.repeat(count),
            (0, b'r') => self.set_region(count - 1, csi.get(1, self.rows)),
            (0, b's') => self.save(),
            (0, b'u') => self.restore(),
            (0, b'h' | b'l') if csi.all().contains(&4) => self.inserting = last == b'h',
            _ => {}
        }
    }

    /// Up one row; the screen scrolls at its top. Above the first row of a screen that is not full
    /// lies what came before this text.
    fn reverse_index(&mut self) {
        self.fill();
        let (top, bottom) = self.region.unwrap_or((0, self.rows - 1));
        if self.row == top && (self.region.is_some() || self.window.len() == self.rows) {
            self.window.insert(top, Row::default());
            if self.window.len() > bottom + 1 {
                self.window.remove(bottom + 1);
            }
        } else {
            self.up(1);
        }
    }

    fn save(&mut self) {
        self.fill();
        self.saved = Some((self.row, self.col));
    }

    fn restore(&mut self) {
        if let Some((row, col)) = self.saved {
            self.fill();
            self.move_row(row);
            self.returned = None;
            self.col = col;
        }
    }

    fn reset(&mut self) {
        self.region = None;
        self.saved = None;
        self.no_wrap = false;
        self.inserting = false;
        self.line_drawing = false;
        self.erase_screen(2);
        self.move_col(0);
    }

    fn set_region(&mut self, top: usize, end: usize) {
        let end = end.min(self.rows);
        if top + 1 >= end {
            return;
        }
        self.region = (top > 0 || end < self.rows).then_some((top, end - 1));
        // With rows that stay where they are, each has to be there.
        self.fill();
        self.window.resize_with(self.rows, Row::cleared);
        self.move_to(0, 0);
    }

    /// 0: below the cursor; 1: above it; 2: all. What has left the screen stays, and so does 3.
    fn erase_screen(&mut self, what: usize) {
        match what {
            0 => {
                self.erase_line(0);
                if let Some(below) = self.window.get_mut(self.row + 1..) {
                    below.fill(Row::cleared());
                }
            }
            1 => {
                self.fill();
                self.window[..self.row].fill(Row::default());
                self.erase_line(1);
            }
            2 => {
                self.fill();
                self.window.fill(Row::default());
                // Where the cursor is to go follows as a rule; where not, at the top it leaves no
                // empty lines.
                if self.region.is_none() {
                    self.window.truncate(1);
                    self.row = 0;
                    if !self.text.is_empty() && !self.text.ends_with('\n') {
                        self.text.push('\n');
                    }
                    self.floor = self.text.len();
                }
            }
            _ => {}
        }
    }

    /// 0: from the cursor on; 1: up to it; 2: all.
    fn erase_line(&mut self, what: usize) {
        if what == 0 && self.is_at_end() {
            return;
        }
        self.lift();
        let row = &mut self.window[self.row];
        match what {
            0 => row.truncate(self.col),
            1 => row.erase(0, self.col + 1),
            2 => row.truncate(0),
            _ => {}
        }
    }

    fn shift_cells(&mut self, count: usize, how: u8) {
        self.lift();
        self.returned = None;
        self.unhang();
        let (col, cols) = (self.col, self.cols);
        let row = &mut self.window[self.row];
        match how {
            b'@' => row.insert(col, count, cols),
            b'P' => row.delete(col, count),
            _ => row.erase(col, col.saturating_add(count)),
        }
    }

    fn shift_rows(&mut self, count: usize, insert: bool) {
        self.fill();
        let bottom = self.region.map_or(self.rows - 1, |(_, bottom)| bottom);
        if self.row > bottom {
            return;
        }
        // What the row above went on in is elsewhere now.
        if let Some(above) = self.row.checked_sub(1) {
            self.window[above].wrapped = false;
        }
        for _ in 0..count.min(bottom + 1 - self.row) {
            if insert {
                self.window.insert(self.row, Row::default());
                if self.window.len() > bottom + 1 {
                    self.window.remove(bottom + 1);
                }
            } else {
                self.window.remove(self.row);
                let end = self.window.len().min(bottom);
                self.window.insert(end.max(self.row), Row::default());
            }
        }
        self.col = 0;
    }

    fn repeat(&mut self, count: usize) {
        let last = match self.is_at_end() {
            true => self.text.chars().next_back(),
            false => {
                self.lift();
                self.window[self.row].before(self.col)
            }
        };
        if let Some(last) = last.filter(|last| !last.is_control()) {
            let mut buffer = [0; 4];
            let last = last.encode_utf8(&mut buffer);
            self.print(&last.repeat(count.min(self.cols)));
        }
    }
}

#[cfg(test)]
#[path = "clean_tests.rs"]
mod tests;
