//! The last line of what a command has printed: the question, when it waits for an answer.

use super::clean::clean;
use super::decode::{Hint, decode};
use super::seam::tail_start;
use crate::domain::session::Size;

/// As much of the end as is looked at.
pub const PROMPT_WINDOW: usize = 4096;
/// Longest prompt, in bytes.
const PROMPT_KEPT: usize = 1024;

/// The last line that is not blank, clean; empty when there is none. `bytes` is the end of the
/// command's output, of which the last `PROMPT_WINDOW` bytes are looked at.
pub fn last_line(bytes: &[u8], hint: &Hint, size: Size) -> String {
    let early = bytes.len().saturating_sub(PROMPT_WINDOW);
    let start = if early == 0 { 0 } else { tail_start(bytes, early) };
    let text = clean(&decode(&bytes[start..], hint), size).text;
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    line[line.ceil_char_boundary(line.len().saturating_sub(PROMPT_KEPT))..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts() {
        let long = format!("{}\nAgain? ", "x".repeat(10_000));
        for (text, prompt) in [
            ("", ""),
            ("\r\n \r\n", ""),
            ("working\r\nUsername: ", "Username: "),
            ("\x1b[1mContinue?\x1b[0m [y/N] ", "Continue? [y/N] "),
            ("\r\x1b[2K? Pick one\r\n> a\r\n  b\r\n", "  b"),
            ("Password: \r\n", "Password: "),
            (long.as_str(), "Again? "),
        ] {
            assert_eq!(last_line(text.as_bytes(), &Hint::default(), Size::default()), prompt);
        }
        let endless = last_line(&[b'x'; 10_000], &Hint::default(), Size::default());
        assert_eq!(endless.len(), PROMPT_KEPT);
    }
}
