//! What a terminal's main screen leaves behind as text.
//!
//! ```text
//!   text    lines that are done, and while nothing is redrawn the current one too
//!   ----
//!   window  the rows that a cursor move has reached, at most a screenful, as cells
//! ```
//!
//! Output that only goes forward is appended to the text and never becomes cells. A cursor move
//! takes as many lines back into the window as it reaches; a line end below the window puts them
//! back. So redrawing costs what it touches, and nothing that has left the screen can change.

use super::row::{Row, width};
use super::tabs::Tabs;
use crate::domain::session::Size;

/// Longest row where the program has turned wrapping off.
const UNWRAPPED_COLS: usize = 4096;
/// Largest window that is drawn, so that a few bytes cannot ask for very much text.
const COLS_MAX: usize = 4096;
const ROWS_MAX: usize = 1024;

/// The page. Columns and rows count from 0.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(super) text: String,
    pub(super) window: Vec<Row>,
    /// Text up to here is above the screen for good: the screen was cleared since.
    pub(super) floor: usize,
    /// True when the text begins within a line whose beginning was let go of.
    pub(super) severed: bool,
    pub(super) row: usize,
    pub(super) col: usize,
    /// The column before the latest CR, until something else moves the cursor.
    pub(super) returned: Option<usize>,
    pub(super) cols: usize,
    pub(super) rows: usize,
    /// First and last row that scroll, when not all of them do.
    pub(super) region: Option<(usize, usize)>,
    pub(super) saved: Option<Saved>,
    /// Rows are counted from the top of the region.
    pub(super) origin: bool,
    /// Where the tab stops are, when not at every eighth column.
    pub(super) tabs: Option<Tabs>,
    pub(super) no_wrap: bool,
    pub(super) inserting: bool,
    /// Which of the two character sets, G0 and G1, is that for drawing lines.
    pub(super) drawn: [bool; 2],
    /// True while G1 is in use.
    pub(super) shifted: bool,
}

/// What a program has saved to come back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub(super) row: usize,
    pub(super) col: usize,
    pub(super) origin: bool,
    pub(super) drawn: [bool; 2],
    pub(super) shifted: bool,
}

impl Page {
    /// An empty page.
    pub(crate) fn new(size: Size) -> Self {
        Self {
            text: String::new(),
            window: Vec::new(),
            floor: 0,
            severed: false,
            row: 0,
            col: 0,
            returned: None,
            cols: usize::from(size.cols).clamp(2, COLS_MAX),
            rows: usize::from(size.rows).clamp(1, ROWS_MAX),
            region: None,
            saved: None,
            origin: false,
            tabs: None,
            no_wrap: false,
            inserting: false,
            drawn: [false; 2],
            shifted: false,
        }
    }

    /// True when the cursor is at the end of the text and text need only be appended.
    pub(crate) fn is_at_end(&self) -> bool {
        self.window.is_empty()
            && self.returned.is_none()
            && !self.is_drawing()
            && self.tabs.is_none()
    }

    /// True while letters stand for lines.
    fn is_drawing(&self) -> bool {
        self.drawn[usize::from(self.shifted)]
    }

    /// Chooses what G0 or G1 stands for.
    pub(super) fn set_charset(&mut self, second: bool, drawn: bool) {
        self.drawn[usize::from(second)] = drawn;
    }

    /// SO and SI: G1 or G0 from here on.
    pub(super) fn shift_charset(&mut self, second: bool) {
        self.shifted = second;
    }

    /// Appends text in which each CR belongs to a line end. Only while `is_at_end`.
    pub(crate) fn append(&mut self, plain: &str) {
        let mut from = 0;
        for cr in memchr::memchr_iter(b'\r', plain.as_bytes()) {
            self.text.push_str(&plain[from..cr]);
            from = cr + 1;
        }
        self.text.push_str(&plain[from..]);
    }

    /// The text as it stands; nothing is redrawn any more.
    pub(crate) fn finish(mut self) -> String {
        if !self.window.is_empty() {
            // Of empty rows at the end one is kept: the line end of the last row that is not.
            let used = self.window.iter().rposition(|row| !row.is_blank()).map_or(0, |at| at + 1);
            let line_end = usize::from(self.window.get(used).is_some_and(|row| !row.cleared));
            self.window.truncate((used + line_end).max(self.row + 1));
            self.leave_row();
            self.settle();
        }
        self.text
    }

    /// Prints text without controls.
    pub(crate) fn print(&mut self, run: &str) {
        if self.is_at_end() {
            return self.text.push_str(run);
        }
        self.lift();
        self.returned = None;
        let drawing = self.is_drawing();
        if run.is_ascii() && !self.inserting && !drawing {
            return self.print_ascii(run.as_bytes());
        }
        for ch in run.chars() {
            self.print_char(if drawing { line_drawing(ch) } else { ch });
        }
    }

    fn print_ascii(&mut self, mut run: &[u8]) {
        while !run.is_empty() {
            let limit = self.limit();
            if self.col >= limit {
                self.wrap();
            }
            let (part, rest) = run.split_at(run.len().min(limit - self.col));
            self.window[self.row].put_ascii(self.col, part);
            self.col += part.len();
            run = rest;
        }
    }

    fn print_char(&mut self, ch: char) {
        let limit = self.limit();
        let wide = width(ch);
        if wide == 0 {
            return self.window[self.row].mark(self.col, ch);
        }
        if self.col + wide > limit {
            self.wrap();
        }
        if self.inserting {
            self.window[self.row].insert(self.col, wide, limit);
        }
        self.window[self.row].put(self.col, ch, wide);
        self.col += wide;
    }

    fn limit(&self) -> usize {
        if self.no_wrap { UNWRAPPED_COLS.max(self.cols) } else { self.cols }
    }

    fn wrap(&mut self) {
        if self.no_wrap {
            self.col = self.limit() - 2;
            return;
        }
        self.window[self.row].wrapped = true;
        self.down_scrolling();
        self.col = 0;
    }

    /// CR.
    pub(crate) fn carriage_return(&mut self) {
        if self.window.is_empty() {
            // Its column is worked out only if something other than a line end follows.
            self.returned = Some(self.returned.unwrap_or(0));
        } else {
            self.returned = Some(self.returned.unwrap_or(self.col));
            self.col = 0;
        }
    }

    /// LF, with the CR that a terminal adds whether or not its modes say so.
    pub(crate) fn line_feed(&mut self) {
        if self.window.is_empty() {
            self.returned = None;
            return self.text.push('\n');
        }
        self.leave_row();
        let last = self.row + 1 == self.window.len();
        if last && self.region.is_none() && self.saved.is_none() {
            self.settle();
            self.text.push('\n');
        } else {
            self.down_scrolling();
        }
        self.col = 0;
    }

    /// To a column.
    pub(crate) fn move_col(&mut self, col: usize) {
        self.lift();
        self.returned = None;
        self.col = col.min(self.cols - 1);
    }

    /// To the left.
    pub(crate) fn left(&mut self, count: usize) {
        self.lift();
        self.unhang();
        self.move_col(self.col.saturating_sub(count));
    }

    /// To the right.
    pub(crate) fn right(&mut self, count: usize) {
        self.lift();
        self.move_col(self.col.saturating_add(count));
    }

    /// Up, at most to the top of the screen or of the region that scrolls.
    pub(crate) fn up(&mut self, count: usize) {
        self.lift();
        self.returned = None;
        while self.row < count && self.pull() {}
        let top = self.region.map(|(top, _)| top).filter(|top| *top <= self.row).unwrap_or(0);
        self.row = self.row.saturating_sub(count).max(top);
        self.unhang();
    }

    /// Down, at most to the bottom of the screen or of the region that scrolls.
    pub(crate) fn down(&mut self, count: usize) {
        self.lift();
        self.returned = None;
        if self.row + count >= self.window.len() {
            self.fill();
        }
        let bottom = self.region.map(|(_, bottom)| bottom).filter(|bottom| self.row <= *bottom);
        self.move_row(self.row.saturating_add(count).min(bottom.unwrap_or(self.rows - 1)));
        self.unhang();
    }

    /// A cursor that hangs behind the last column, waiting to wrap, is back on it once it moves.
    pub(super) fn unhang(&mut self) {
        if !self.no_wrap {
            self.col = self.col.min(self.cols - 1);
        }
    }

    /// Down one row; the screen scrolls at its bottom.
    pub(crate) fn index(&mut self) {
        self.lift();
        self.unhang();
        self.down_scrolling();
    }

    /// To a row of the screen and a column.
    pub(crate) fn move_to(&mut self, row: usize, col: usize) {
        self.fill();
        self.move_row(self.row_of(row));
        self.move_col(col);
    }

    /// The row that programs mean by this number.
    pub(super) fn row_of(&self, row: usize) -> usize {
        match self.region {
            Some((top, bottom)) if self.origin => row.saturating_add(top).min(bottom),
            _ => row,
        }
    }

    pub(super) fn move_row(&mut self, row: usize) {
        self.row = row.min(self.rows - 1);
        if self.window.len() <= self.row {
            self.window.resize_with(self.row + 1, Row::default);
        }
    }

    /// Down one row, where a row is added when there is none, and the top one leaves the screen
    /// when it is full.
    fn down_scrolling(&mut self) {
        let (top, bottom) = self.region.unwrap_or((0, self.rows - 1));
        if self.row != bottom {
            return self.move_row(self.row + 1);
        }
        self.move_row(bottom);
        if top == 0 {
            self.commit_row(0);
        }
        self.window[top..=bottom].rotate_left(1);
        self.window[bottom] = Row::default();
    }

    /// A row of the window leaves the screen at its top, those above it being gone already.
    pub(super) fn commit_row(&mut self, row: usize) {
        let gone = std::mem::take(&mut self.window[row]);
        let below = self.window.get_mut(row + 1).map(std::mem::take);
        self.commit(&gone, below.as_ref());
        if let Some(below) = below {
            self.window[row + 1] = below;
        }
    }

    /// The cursor leaves a row for good.
    fn leave_row(&mut self) {
        let end = self.returned.take().unwrap_or(self.col);
        let row = &mut self.window[self.row];
        if row.redrawn {
            row.trim_down_to(end);
        }
    }

    /// Appends a row to the text, and a line end unless it goes on in the row below it. A row that
    /// was cut short or whose other part is gone does not, whatever it did once.
    fn commit(&mut self, row: &Row, below: Option<&Row>) {
        self.write(row);
        if !self.is_one_line(row, below) {
            self.text.push('\n');
        }
    }

    fn is_one_line(&self, row: &Row, below: Option<&Row>) -> bool {
        let is_full = row.len() + 1 >= self.cols;
        row.wrapped && is_full && below.is_some_and(|below| below.len() > 0)
    }

    /// True when the line in this row of the window goes on in the next.
    pub(super) fn goes_on(&self, row: usize) -> bool {
        self.is_one_line(&self.window[row], self.window.get(row + 1))
    }

    fn write(&mut self, row: &Row) {
        // The line above went on in this row, which has been emptied since.
        if row.len() == 0 && self.text.len() > self.floor && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        row.write_to(&mut self.text);
    }

    /// Puts the window back. The cursor is then at the end of the text.
    fn settle(&mut self) {
        let window = std::mem::take(&mut self.window);
        for pair in window.windows(2) {
            self.commit(&pair[0], pair.get(1));
        }
        if let Some(last) = window.last() {
            self.write(last);
        }
        self.row = 0;
        self.col = 0;
    }

    /// Makes sure that the current row is in the window.
    pub(super) fn lift(&mut self) {
        if self.window.is_empty() {
            self.take_line(false);
            self.row = self.window.len() - 1;
            self.col = self.window[self.row].len();
            if self.returned.is_some() {
                self.returned = Some(self.col);
                self.col = 0;
            }
        }
    }

    /// Takes the line above the window into it; false when the screen has no more.
    fn pull(&mut self) -> bool {
        if self.window.len() >= self.rows || self.text.len() <= self.floor {
            return false;
        }
        // Text that does not end a line is the beginning of the window's first row.
        let ends_line = self.text.ends_with('\n');
        if ends_line {
            self.text.pop();
        }
        self.take_line(!ends_line);
        true
    }

    /// Takes the whole screen into the window, so that its rows are the screen's.
    pub(super) fn fill(&mut self) {
        self.lift();
        while self.pull() {}
    }

    fn take_line(&mut self, wrapped: bool) {
        let room = self.rows.saturating_sub(self.window.len()).max(1);
        let above = &self.text.as_bytes()[self.floor..];
        let line = memchr::memrchr(b'\n', above).map_or(0, |at| at + 1) + self.floor;
        // No more of an endless line than could be on the screen.
        let most = room.saturating_mul(self.cols).saturating_mul(4);
        let start = self.text.floor_char_boundary(self.text.len().saturating_sub(most)).max(line);
        let mut rows = Row::of_line(&self.text[start..], self.cols);
        let mut rows = rows.split_off(rows.len().saturating_sub(room));
        if let [(first, _), ..] = rows.as_slice() {
            self.text.truncate(start + first);
        }
        if let [.., (_, last)] = rows.as_mut_slice() {
            last.wrapped = wrapped;
        }
        self.row += rows.len();
        self.window.splice(0..0, rows.into_iter().map(|(_, row)| row));
    }
}

/// The DEC Special Graphics set.
fn line_drawing(ch: char) -> char {
    const DRAWN: [char; 31] = [
        '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─',
        '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
    ];
    let place = u32::from(ch).checked_sub(0x60).and_then(|place| usize::try_from(place).ok());
    place.and_then(|place| DRAWN.get(place)).copied().unwrap_or(ch)
}
