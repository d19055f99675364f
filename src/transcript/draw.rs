//! What escape sequences do to a page.

use super::page::{Page, Saved};
use super::row::Row;
use super::tokens::Csi;

impl Page {
    pub(super) fn escape(&mut self, intermediate: u8, last: u8) {
        match (intermediate, last) {
            (0, b'7') => self.save(),
            (0, b'8') => self.restore(),
            (0, b'D') => self.index(),
            (0, b'E') => self.line_feed(),
            (0, b'H') => self.set_tab(),
            (0, b'M') => self.reverse_index(),
            (0, b'c') => self.reset(),
            (b'(' | b')', set) => self.set_charset(intermediate == b')', set == b'0'),
            _ => {}
        }
    }

    pub(super) fn csi(&mut self, csi: &Csi, last: u8) {
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
                self.move_row(self.row_of(count - 1));
                self.unhang();
            }
            (0, b'I') => (0..count.min(self.cols)).for_each(|_| self.tab()),
            (0, b'Z') => self.tab_back(count),
            (0, b'J') => self.erase_screen(csi.get(0, 0)),
            (0, b'K') => self.erase_line(csi.get(0, 0)),
            (0, b'L' | b'M') => self.shift_rows(count, last == b'L'),
            (0, b'S') => self.scroll(count, false),
            // With more parameters it is about the mouse.
            (0, b'T') if csi.all().len() == 1 => self.scroll(count, true),
            (0, b'g') => self.clear_tabs(csi.get(0, 0)),
            (0, b'W') => match csi.get(0, 0) {
                0 => self.set_tab(),
                2 => self.clear_tabs(0),
                5 => self.clear_tabs(3),
                _ => {}
            },
            (0, b'@' | b'P' | b'X') => self.shift_cells(count, last),
            (0, b'b') => self.repeat(count),
            (0, b'r') => self.set_region(count - 1, csi.get(1, self.rows)),
            (0, b's') => self.save(),
            (0, b'u') => self.restore(),
            (0, b'h' | b'l') if csi.all().contains(&4) => self.inserting = last == b'h',
            (b'!', b'p') => self.soft_reset(),
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

    pub(super) fn save(&mut self) {
        self.fill();
        let Self { row, origin, drawn, shifted, .. } = *self;
        self.saved = Some(Saved { row, col: self.col.min(self.cols - 1), origin, drawn, shifted });
    }

    pub(super) fn restore(&mut self) {
        if let Some(saved) = self.saved {
            self.fill();
            self.move_row(saved.row);
            self.returned = None;
            self.col = saved.col;
            self.origin = saved.origin;
            self.drawn = saved.drawn;
            self.shifted = saved.shifted;
        }
    }

    /// What programs leave behind goes; the picture and the cursor stay.
    fn soft_reset(&mut self) {
        self.region = None;
        self.saved = None;
        self.origin = false;
        self.no_wrap = false;
        self.inserting = false;
        self.drawn = [false; 2];
        self.shifted = false;
    }

    fn reset(&mut self) {
        self.soft_reset();
        self.tabs = None;
        self.erase_screen(2);
        self.move_col(0);
    }

    /// Rows count from the top of the region, and the cursor stays in it.
    pub(super) fn set_origin(&mut self, on: bool) {
        self.origin = on;
        self.move_to(0, 0);
    }

    /// Moves the rows of the region up or down under a cursor that stays where it is.
    fn scroll(&mut self, count: usize, down: bool) {
        self.fill();
        let (top, bottom) = self.region.unwrap_or((0, self.rows - 1));
        self.window.resize_with(self.window.len().max(bottom + 1), Row::cleared);
        let count = count.min(bottom + 1 - top);
        if !down && top == 0 {
            for row in 0..count {
                self.commit_row(row);
            }
        }
        let moved = &mut self.window[top..=bottom];
        if down {
            moved.rotate_right(count);
            moved[..count].fill(Row::default());
        } else {
            moved.rotate_left(count);
            let kept = moved.len() - count;
            moved[kept..].fill(Row::default());
        }
        if let Some(above) = top.checked_sub(1) {
            self.window[above].wrapped = false;
        }
        self.window[bottom].wrapped = false;
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
        let (top, bottom) = self.region.unwrap_or((0, self.rows - 1));
        if !(top..=bottom).contains(&self.row) {
            return;
        }
        // What the row above went on in is elsewhere now.
        if let Some(above) = self.row.checked_sub(1) {
            self.window[above].wrapped = false;
        }
        let (row, rows) = (self.row, self.window.len());
        let count = count.min(bottom + 1 - row);
        let blank = |count| std::iter::repeat_with(Row::default).take(count);
        if insert {
            self.window.splice(row..row, blank(count));
            let pushed_out = rows.saturating_add(count).min(bottom + 1 + count);
            self.window.drain((bottom + 1).min(pushed_out)..pushed_out);
        } else {
            let count = count.min(rows - row);
            self.window.drain(row..row + count);
            let end = rows.min(bottom + 1) - count;
            self.window.splice(end..end, blank(count));
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
