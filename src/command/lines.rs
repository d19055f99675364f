//! Output as lines, as far as patterns need it: escape sequences dropped, the last line kept even
//! before it ends. Only fed where a command has patterns; results are cleaned elsewhere.

use regex::Regex;
use vte::{Params, Parser, Perform};

/// A line longer than this is matched by its first bytes alone.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// The cursor is moved over more cells than this only to draw.
const BLANKS_MAX: u16 = 200;

/// Follows the lines of an output and looks for patterns in them.
pub struct Lines {
    parser: Parser,
    line: Line,
}

#[derive(Default)]
struct Line {
    text: String,
    complete: Vec<String>,
    /// A carriage return was seen: what comes next draws over the line.
    returned: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self { parser: Parser::new(), line: Line::default() }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("pending", &self.line.text).finish_non_exhaustive()
    }
}

impl Lines {
    /// Takes bytes; gives the index of the first of `stops` and whether any of `ready` is found in
    /// a line completed by them, or in the pending one.
    pub fn search(
        &mut self,
        bytes: &[u8],
        stops: &[Regex],
        ready: &[Regex],
    ) -> (Option<usize>, bool) {
        self.parser.advance(&mut self.line, bytes);
        let complete = std::mem::take(&mut self.line.complete);
        let found = |pattern: &Regex| {
            complete.iter().any(|line| pattern.is_match(line)) || pattern.is_match(&self.line.text)
        };
        (stops.iter().position(found), ready.iter().any(found))
    }
}

impl Perform for Line {
    fn print(&mut self, c: char) {
        if self.returned {
            self.text.clear();
            self.returned = false;
        }
        if self.text.len() < LINE_BYTES_MAX {
            self.text.push(c);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.returned = false;
                self.complete.push(std::mem::take(&mut self.text));
            }
            b'\r' => {
                // The line so far was whole for whoever watched it: progress lines match too.
                if !self.returned && !self.text.is_empty() {
                    self.complete.push(self.text.clone());
                }
                self.returned = true;
            }
            b'\t' => self.print('\t'),
            0x08 => {
                self.text.pop();
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: char) {
        let first = params.iter().next().and_then(|param| param.first().copied()).unwrap_or(0);
        match action {
            // Elsewhere on the screen another line begins.
            'H' | 'f' | 'd' | 'A' | 'B' | 'E' | 'F' if !self.text.is_empty() => {
                self.execute(b'\n');
            }
            'G' if first <= 1 => self.execute(b'\r'),
            'C' => (0..first.clamp(1, BLANKS_MAX)).for_each(|_| self.print(' ')),
            'K' | 'J' if self.returned && first != 1 => {
                self.text.clear();
                self.returned = false;
            }
            _ => {}
        }
    }
}

/// The last line of raw output without escape sequences, as a person sees it: the prompt.
pub fn last_line(tail: &[u8]) -> String {
    let mut parser = Parser::new();
    let mut line = Line::default();
    parser.advance(&mut line, tail);
    if line.text.is_empty() { line.complete.pop().unwrap_or_default() } else { line.text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_clean_lines_however_they_are_cut() {
        let error = Regex::new("^error: full$").unwrap();
        let bytes = b"ok\r\n\x1b[1;31merror\x1b[0m: full\r\n";
        for cut in 1..bytes.len() {
            let mut lines = Lines::default();
            let found = bytes
                .chunks(cut)
                .any(|part| lines.search(part, std::slice::from_ref(&error), &[]).0 == Some(0));
            assert!(found, "cut {cut}");
        }
    }

    #[test]
    fn the_pending_line_counts() {
        let ready = Regex::new("listening").unwrap();
        assert_eq!(
            Lines::default().search(b"now listening", &[], std::slice::from_ref(&ready)),
            (None, true)
        );
        assert_eq!(Lines::default().search(b"now lis\ntening", &[], &[ready]), (None, false));
    }

    #[test]
    fn prompts() {
        for (tail, prompt) in [
            (&b"a\r\nName: "[..], "Name: "),
            (b"\x1b]0;t\x07\x1b[32m? \x1b[0mok", "? ok"),
            (b"10%\r20%", "20%"),
            (b"Continue [y/n]\r\n", "Continue [y/n]"),
            (b"", ""),
            (b"~    \x1b[24;63H0,0-1\x1b[3CAll\x1b[1;1H", "0,0-1   All"),
            (b"\xe2\xa0\x99\x1b[1G\x1b[0Jname: (x) \x1b[11G", "name: (x) "),
            (b"old prompt\r\x1b[K? ", "? "),
        ] {
            assert_eq!(last_line(tail), prompt, "{tail:?}");
        }
    }
}
