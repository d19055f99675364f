//! Output as lines, as far as patterns need it: escape sequences dropped, the last line kept even
//! before it ends. Only fed where a command has patterns; results are cleaned elsewhere.

use regex::Regex;
use vte::{Parser, Perform};

/// A line longer than this is matched by its first bytes alone.
const LINE_BYTES_MAX: usize = 16 * 1024;

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
        ] {
            assert_eq!(last_line(tail), prompt, "{tail:?}");
        }
    }
}
