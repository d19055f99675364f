//! The line that a page's cursor is in, and letting go of lines that cannot change any more.

use super::page::Page;

/// Text that is kept in any case before lines are let go of, in bytes.
const KEPT_LEAST: usize = 64 * 1024;

impl Page {
    /// True when the cursor was returned to the beginning of its line and nothing was printed yet.
    pub(super) fn is_returned(&self) -> bool {
        self.returned.is_some()
    }

    /// Writes the cursor's line, wrapped rows joined, into `line`: all of it or the part before the
    /// cursor, and of its beginning no more than about `most` bytes before the cursor's row.
    /// Answers with true when the beginning is missing.
    pub(super) fn write_line(&self, line: &mut String, whole: bool, most: usize) -> bool {
        line.clear();
        if self.window.is_empty() {
            return self.write_open_line(line, most);
        }
        let most_rows = most / self.cols;
        let mut first = self.row;
        while first > 0 && self.row - first < most_rows && self.goes_on(first - 1) {
            first -= 1;
        }
        let cut = match first {
            0 => self.write_open_line(line, most),
            first => self.goes_on(first - 1),
        };
        for row in &self.window[first..self.row] {
            row.write_to(line);
        }
        let mut row = self.row;
        if !whole {
            self.window[row].write_up_to(self.col, line);
            return cut;
        }
        self.window[row].write_to(line);
        while self.goes_on(row) && row - self.row < most_rows {
            row += 1;
            self.window[row].write_to(line);
        }
        cut
    }

    /// The end of the text, as far as it ends no line.
    fn write_open_line(&self, line: &mut String, most: usize) -> bool {
        let start = self.text.ceil_char_boundary(self.text.len().saturating_sub(most));
        let end = &self.text[start..];
        match memchr::memrchr(b'\n', end.as_bytes()) {
            Some(at) => line.push_str(&end[at + 1..]),
            None => line.push_str(end),
        }
        let is_whole = line.len() < end.len() || start == 0;
        !is_whole || (start == 0 && line.len() == end.len() && self.severed)
    }

    /// Lets go of text that is too far above for any cursor move to reach it.
    pub(super) fn let_go(&mut self) {
        let reach = self.rows.saturating_mul(self.cols).saturating_mul(16).max(KEPT_LEAST);
        if self.text.len() < reach.saturating_mul(2) {
            return;
        }
        let line = memchr::memrchr_iter(b'\n', self.text.as_bytes()).nth(self.rows);
        let line = line.map_or(0, |at| at + 1);
        let most = self.text.floor_char_boundary(self.text.len() - reach);
        let end = line.max(most).max(self.floor);
        self.severed = !self.text[..end].ends_with('\n');
        self.text.drain(..end);
        self.floor = 0;
    }
}
