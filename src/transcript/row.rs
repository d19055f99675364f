//! One row of a screen as it is redrawn: cells by column.
//!
//! A wide character or a tab is a head cell with tail cells after it; once a part of it is
//! overwritten, the rest of it is blank, as on a terminal.

use unicode_width::UnicodeWidthChar as _;

const TAIL: u32 = 0x11_0000;
const BLANK: u32 = ' ' as u32;
const TAB: u32 = '\t' as u32;
const TAB_STOP: usize = 8;
/// Most marks on one character.
const MARKS_MAX: usize = 8;

/// A row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    cells: Vec<u32>,
    /// Marks without a width of their own, each with the column of the cell it stands on, by column.
    marks: Vec<(usize, char)>,
    /// True when the text goes on in the next row without a line end.
    pub(crate) wrapped: bool,
    /// True once something was drawn over it.
    pub(crate) redrawn: bool,
    /// True for what was cleared away below the cursor and is not there unless something follows.
    pub(crate) cleared: bool,
}

/// Columns that a character takes: 0, 1 or 2.
pub(crate) fn width(ch: char) -> usize {
    if ch.is_ascii() { 1 } else { ch.width().unwrap_or(0) }
}

/// The column of the next tab stop.
pub(crate) fn next_tab(col: usize) -> usize {
    (col / TAB_STOP + 1) * TAB_STOP
}

/// The column of the tab stop before `col`.
pub(crate) fn previous_tab(col: usize) -> usize {
    col.saturating_sub(1) / TAB_STOP * TAB_STOP
}

impl Row {
    /// A row that was cleared away.
    pub(crate) fn cleared() -> Self {
        Self { cleared: true, ..Self::default() }
    }

    /// Columns in use.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// True when a reader would see nothing.
    pub(crate) fn is_blank(&self) -> bool {
        self.marks.is_empty() && self.cells.iter().all(|&cell| cell == BLANK)
    }

    /// The character that covers the column before `col`.
    pub(crate) fn before(&self, col: usize) -> Option<char> {
        if col > self.len() {
            return Some(' ');
        }
        let heads = self.cells[..col].iter().rev();
        heads.copied().find(|&cell| cell != TAIL).and_then(char::from_u32)
    }

    /// Draws printable ASCII.
    pub(crate) fn put_ascii(&mut self, col: usize, run: &[u8]) {
        let end = col + run.len();
        self.make_room(col, end);
        for (cell, &byte) in self.cells[col..end].iter_mut().zip(run) {
            *cell = u32::from(byte);
        }
    }

    /// Draws one character that is `width` columns wide; a tab may be of any width but 0.
    pub(crate) fn put(&mut self, col: usize, ch: char, width: usize) {
        self.make_room(col, col + width);
        self.cells[col] = u32::from(ch);
        self.cells[col + 1..col + width].fill(TAIL);
    }

    /// Puts a mark onto the character that ends before `col`.
    pub(crate) fn mark(&mut self, col: usize, mark: char) {
        let Some(head) = (0..col.min(self.len())).rev().find(|&at| self.cells[at] != TAIL) else {
            return self.put(col, mark, 1);
        };
        // No script stacks this many; a stream of marks must not grow without end.
        let end = self.marks.partition_point(|(at, _)| *at <= head);
        if end - self.marks.partition_point(|(at, _)| *at < head) < MARKS_MAX {
            self.marks.insert(end, (head, mark));
        }
    }

    /// Drops everything from `col` on.
    pub(crate) fn truncate(&mut self, col: usize) {
        if col < self.len() {
            self.redrawn = true;
            self.split_at(col);
            self.cells.truncate(col);
            self.marks.retain(|(at, _)| *at < col);
        }
        self.wrapped = false;
    }

    /// Blanks the columns from `from` up to `to`.
    pub(crate) fn erase(&mut self, from: usize, to: usize) {
        let to = to.min(self.len());
        if from < to {
            self.make_room(from, to);
            self.cells[from..to].fill(BLANK);
        }
    }

    /// Moves what stands at `col` and after it to the right by `count`, up to `cols` columns.
    pub(crate) fn insert(&mut self, col: usize, count: usize, cols: usize) {
        if col < self.len() {
            self.make_room(col, col);
            self.blank_tabs(col);
            let count = count.min(cols.saturating_sub(col));
            self.marks.clear();
            self.cells.splice(col..col, std::iter::repeat_n(BLANK, count));
            self.truncate_keeping_wrap(cols);
        }
    }

    /// Takes `count` columns out at `col`.
    pub(crate) fn delete(&mut self, col: usize, count: usize) {
        let end = (col + count).min(self.len());
        if col < end {
            self.make_room(col, end);
            self.blank_tabs(col);
            self.marks.clear();
            self.cells.drain(col..end);
            self.wrapped = false;
        }
    }

    /// Drops blanks at the end, down to `col`: what an older, longer text was overwritten with.
    pub(crate) fn trim_down_to(&mut self, col: usize) {
        while self.len() > col && self.cells.last() == Some(&BLANK) {
            self.cells.pop();
            self.wrapped = false;
        }
    }

    /// Appends the text of the row.
    pub(crate) fn write_to(&self, text: &mut String) {
        self.write_up_to(self.len(), text);
    }

    /// Appends the text before a column.
    pub(crate) fn write_up_to(&self, col: usize, text: &mut String) {
        let cells = &self.cells[..col.min(self.len())];
        if self.marks.is_empty() {
            text.extend(cells.iter().filter_map(|&cell| char::from_u32(cell)));
            return;
        }
        let mut marks = self.marks.iter().peekable();
        for (col, &cell) in cells.iter().enumerate() {
            text.extend(char::from_u32(cell));
            while let Some((_, mark)) = marks.next_if(|(at, _)| *at <= col) {
                text.push(*mark);
            }
        }
    }

    /// Cuts a line into rows of `cols` columns. Each comes with the byte at which it begins.
    pub(crate) fn of_line(line: &str, cols: usize) -> Vec<(usize, Self)> {
        let mut rows = vec![(0, Self::default())];
        let mut row = Self::default();
        for (at, ch) in line.char_indices() {
            let col = row.len();
            let wide = match ch {
                // A tab does not lead past the last column.
                '\t' => next_tab(col).min(cols - 1).saturating_sub(col),
                _ => width(ch).min(cols),
            };
            if wide == 0 {
                row.mark(col, ch);
                continue;
            }
            if col + wide > cols {
                row.wrapped = true;
                row.redrawn = false;
                if let Some((_, last)) = rows.last_mut() {
                    *last = std::mem::take(&mut row);
                }
                rows.push((at, Self::default()));
            }
            row.put(row.len(), ch, wide);
        }
        row.redrawn = false;
        if let Some((_, last)) = rows.last_mut() {
            *last = row;
        }
        rows
    }

    fn truncate_keeping_wrap(&mut self, col: usize) {
        let wrapped = self.wrapped;
        self.truncate(col);
        self.wrapped = wrapped;
    }

    /// Makes `from..to` exist and free of parts of characters that reach in or out.
    fn make_room(&mut self, from: usize, to: usize) {
        self.redrawn = true;
        if self.len() < to {
            if self.len() < from {
                self.cells.resize(from, BLANK);
            }
            self.split_at(from);
            self.cells.resize(to, BLANK);
        } else {
            self.split_at(from);
            self.split_at(to);
        }
        if !self.marks.is_empty() {
            self.marks.retain(|(at, _)| !(from..to).contains(at));
        }
    }

    /// Turns tabs from `col` on into blanks: they are about to move, and would change their width.
    fn blank_tabs(&mut self, col: usize) {
        let mut in_tab = false;
        for cell in &mut self.cells[col..] {
            in_tab = *cell == TAB || (in_tab && *cell == TAIL);
            if in_tab {
                *cell = BLANK;
            }
        }
    }

    /// Turns a character that lies on both sides of `col` into blanks.
    fn split_at(&mut self, col: usize) {
        if self.cells.get(col) != Some(&TAIL) {
            return;
        }
        let head = (0..col).rev().find(|&at| self.cells[at] != TAIL).unwrap_or(0);
        let tails = self.cells[col..].iter().take_while(|&&cell| cell == TAIL).count();
        self.cells[head..col + tails].fill(BLANK);
        self.marks.retain(|(at, _)| *at != head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Row {
        Row::of_line(line, 200).remove(0).1
    }

    fn text(row: &Row) -> String {
        let mut text = String::new();
        row.write_to(&mut text);
        text
    }

    #[test]
    fn lines_come_back_as_they_were() {
        for line in ["", "abc ", "a\tb\t", "你好 a\u{301}b", "\u{200b}x", "👩\u{200d}💻."] {
            let rows = Row::of_line(line, 5);
            let joined: String = rows.iter().map(|(_, row)| text(row)).collect();
            assert_eq!(joined, line);
            assert!(rows.iter().all(|(_, row)| row.len() <= 5), "{line:?}");
        }
        let starts: Vec<_> = Row::of_line("abcde你好吗x", 5).iter().map(|(at, _)| *at).collect();
        assert_eq!(starts, [0, 5, 11]);
    }

    #[test]
    fn drawing() {
        type Change = fn(&mut Row);
        let cases: [(&str, Change, &str); 11] = [
            ("abc", |row| row.put_ascii(1, b"XYZ"), "aXYZ"),
            ("abc", |row| row.put_ascii(5, b"X"), "abc  X"),
            ("你好", |row| row.put_ascii(1, b"x"), " x好"),
            ("你好", |row| row.put(1, '们', 2), " 们 "),
            ("a\tb", |row| row.put_ascii(3, b"x"), "a  x    b"),
            ("e\u{301}f", |row| row.put_ascii(0, b"x"), "xf"),
            ("abcdef", |row| row.delete(1, 2), "adef"),
            ("abc", |row| row.insert(1, 2, 4), "a  b"),
            ("abcdef", |row| row.erase(1, 3), "a  def"),
            ("abc   ", |row| row.trim_down_to(4), "abc "),
            ("你好", |row| row.truncate(3), "你 "),
        ];
        for (line, change, expected) in cases {
            let mut row = row(line);
            change(&mut row);
            assert_eq!(text(&row), expected, "{line:?}");
        }
    }

    #[test]
    fn tab_stops() {
        assert_eq!([0, 1, 7, 8, 9].map(next_tab), [8, 8, 8, 16, 16]);
        assert_eq!([0, 1, 7, 8, 9].map(previous_tab), [0, 0, 0, 0, 8]);
    }
}
