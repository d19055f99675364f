//! A window that changes its size while something is drawn in it.

use super::page::Page;
use crate::domain::session::Size;

impl Page {
    /// The window has another size from here on. Lines that are wrapped are wrapped anew, and the
    /// cursor stays on its character, as terminals do that keep lines and not rows.
    pub(crate) fn resize(&mut self, size: Size) {
        let new = Self::new(size);
        let cursor = (!self.window.is_empty()).then(|| {
            self.fill();
            self.join_rows();
            self.cursor_in_lines()
        });
        if cursor.is_some() {
            self.put_back();
        }
        (self.cols, self.rows) = (new.cols, new.rows);
        self.region = None;
        if let Some(tabs) = &mut self.tabs {
            tabs.resize(self.cols);
        }
        if let Some(saved) = &mut self.saved {
            saved.row = saved.row.min(self.rows - 1);
            saved.col = saved.col.min(self.cols - 1);
        }
        if let Some((lines_below, cells)) = cursor {
            self.seek(lines_below, cells);
        }
    }

    /// Leaves only those rows wrapped that still go on in the next.
    fn join_rows(&mut self) {
        for row in 0..self.window.len() {
            self.window[row].wrapped = self.goes_on(row);
        }
    }

    /// How many lines lie below the cursor's in the window, and how many columns of its line
    /// before it.
    fn cursor_in_lines(&self) -> (usize, usize) {
        let ends = |rows: std::ops::Range<usize>| {
            self.window[rows].iter().filter(|row| !row.wrapped).count()
        };
        let last = self.window.len() - 1;
        let first = (0..self.row).rev().find(|&row| !self.window[row].wrapped);
        let first = first.map_or(0, |row| row + 1);
        let before: usize = self.window[first..self.row].iter().map(super::row::Row::len).sum();
        (ends(self.row..last), before + self.col)
    }

    /// Puts all rows into the text, wrapped or not as they say.
    fn put_back(&mut self) {
        for row in std::mem::take(&mut self.window) {
            row.write_to(&mut self.text);
            if !row.wrapped {
                self.text.push('\n');
            }
        }
        // The last row has no line end.
        if self.text.ends_with('\n') {
            self.text.pop();
        }
        (self.row, self.col) = (0, 0);
    }

    fn seek(&mut self, lines_below: usize, cells: usize) {
        let returned = self.returned.take();
        self.fill();
        self.returned = returned;
        let line_ends = |row: &usize| !self.window[*row].wrapped;
        let last = self.window.len() - 1;
        let mut ends = (0..last).rev().filter(line_ends);
        let line_end = match lines_below.checked_sub(1) {
            None => last,
            Some(below) => ends.nth(below).unwrap_or(0),
        };
        let first = (0..line_end).rev().find(|row| !self.window[*row].wrapped);
        self.row = first.map_or(0, |row| row + 1);
        self.col = cells;
        while self.row < line_end && self.col >= self.window[self.row].len().max(1) {
            self.col -= self.window[self.row].len();
            self.row += 1;
        }
        self.col = self.col.min(self.cols);
    }
}

#[cfg(test)]
mod tests {
    use super::super::clean::Cleaner;
    use super::*;

    fn resized(before: &str, cols: u16, after: &str) -> String {
        let mut cleaner = Cleaner::new(Size { cols: 10, rows: 4 });
        cleaner.feed(before);
        cleaner.resize(Size { cols, rows: 4 });
        cleaner.feed(after);
        cleaner.finish().text
    }

    #[test]
    fn the_cursor_stays_on_its_character() {
        let long = "0123456789abcdef";
        for (before, cols, after, expected) in [
            // Nothing is redrawn: nothing is there to wrap.
            (long, 20, "gh\n", "0123456789abcdefgh\n"),
            (long, 20, "\rX", "X123456789abcdef"),
            (long, 6, "\rX", "0123456789abXdef"),
            ("x\r0123456789abcdef", 20, "\x1b[2DX\n", "0123456789abcdXf\n"),
            ("x\r0123456789abcdef", 6, "\x1b[2DX\n", "0123456789abcdXf\n"),
            ("one\ntwo\nthree\x1b[1A", 20, "\rT\n", "one\nTwo\nthree"),
            ("one\n0123456789abc\nthree\x1b[1A", 20, "\rT\n", "one\nT123456789abc\nthree"),
            ("\x1b[3;1Hx", 20, "y", "\n\nxy"),
        ] {
            assert_eq!(resized(before, cols, after), expected, "{before:?} {cols} {after:?}");
        }
    }
}
