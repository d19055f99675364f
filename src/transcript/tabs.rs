//! Tab stops, where a program has set its own, and what tabs do to a page.

use super::page::Page;
use super::row::{next_tab, previous_tab};

/// Tab stops of a program's own. A tab is then no character of the text any more, since it would
/// be read with the usual stops; the columns it passes are blank.
#[derive(Clone, Debug)]
pub(crate) struct Tabs(Vec<bool>);

impl Tabs {
    /// The usual stops.
    fn usual(cols: usize) -> Self {
        Self((0..cols).map(|col| col > 0 && next_tab(col - 1) == col).collect())
    }

    /// The same stops in a window of another width.
    pub(super) fn resize(&mut self, cols: usize) {
        let Self(usual) = Self::usual(cols);
        let known = self.0.len().min(cols);
        self.0.truncate(known);
        self.0.extend(&usual[known..]);
    }

    fn after(&self, col: usize) -> Option<usize> {
        (col + 1..self.0.len()).find(|&at| self.0[at])
    }

    fn before(&self, col: usize) -> usize {
        (0..col.min(self.0.len())).rev().find(|&at| self.0[at]).unwrap_or(0)
    }
}

impl Page {
    /// HT. At the end of a row it is kept as it is.
    pub(crate) fn tab(&mut self) {
        if self.is_at_end() {
            return self.text.push('\t');
        }
        self.lift();
        self.returned = None;
        let last = self.cols - 1;
        if let Some(tabs) = &self.tabs {
            self.col = tabs.after(self.col).unwrap_or(last).min(last).max(self.col.min(last));
            return;
        }
        let stop = next_tab(self.col).min(last);
        let row = &mut self.window[self.row];
        if self.col == row.len() && self.col < stop {
            row.put(self.col, '\t', stop - self.col);
        }
        self.col = self.col.max(stop);
    }

    /// Back by `count` tab stops.
    pub(crate) fn tab_back(&mut self, count: usize) {
        self.lift();
        self.unhang();
        self.returned = None;
        for _ in 0..count {
            if self.col == 0 {
                break;
            }
            self.col = match &self.tabs {
                Some(tabs) => tabs.before(self.col),
                None => previous_tab(self.col),
            };
        }
    }

    /// A stop at the cursor.
    pub(super) fn set_tab(&mut self) {
        self.change_tabs(|tabs, col| {
            if col > 0 {
                tabs[col] = true;
            }
        });
    }

    /// 0: the stop at the cursor goes; 3: all of them.
    pub(super) fn clear_tabs(&mut self, what: usize) {
        match what {
            0 => self.change_tabs(|tabs, col| tabs[col] = false),
            3 => self.tabs = Some(Tabs(vec![false; self.cols])),
            _ => {}
        }
    }

    fn change_tabs(&mut self, change: impl FnOnce(&mut [bool], usize)) {
        self.lift();
        let col = self.col;
        let Tabs(tabs) = self.tabs.get_or_insert_with(|| Tabs::usual(self.cols));
        // A cursor that hangs behind the last column is at none.
        if col < tabs.len() {
            change(tabs, col);
        }
    }
}
