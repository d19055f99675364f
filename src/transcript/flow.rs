//! Output as lines, while it still comes: each line is handed out clean once it is whole, and one
//! that waits for its end, such as a question, as it stands.

use super::clean::Cleaner;
use super::decode::{Hint, decode};
use crate::domain::session::Size;

/// A longer line is handed out in parts.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Bytes in pieces of any size to clean text.
#[derive(Clone, Debug)]
pub struct Flow {
    hint: Hint,
    size: Size,
    /// The line that has no end yet.
    held: Vec<u8>,
    /// How much of it has been handed out.
    shown: String,
    on_alternate_screen: bool,
}

impl Flow {
    /// For output of a session of this locale and window.
    pub fn new(hint: Hint, size: Size) -> Self {
        Self { hint, size, held: Vec::new(), shown: String::new(), on_alternate_screen: false }
    }

    /// How many bytes of what was fed have not been handed out whole.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Reads on. The answer is what can be told by now.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let whole = match memchr::memrchr(b'\n', &self.held) {
            Some(at) => at + 1,
            None if self.held.len() > LINE_BYTES_MAX => self.held.len(),
            None => return String::new(),
        };
        let rest = self.held.split_off(whole);
        let lines = std::mem::replace(&mut self.held, rest);
        let (text, on_alternate_screen) = self.clean(&lines);
        self.on_alternate_screen = on_alternate_screen;
        let shown = std::mem::take(&mut self.shown);
        after(&shown, text)
    }

    /// The line that has no end yet, as far as it has not been handed out.
    pub fn flush(&mut self) -> String {
        if self.held.is_empty() {
            return String::new();
        }
        let (text, _) = self.clean(&self.held);
        let news = after(&self.shown, text.clone());
        self.shown = text;
        news
    }

    fn clean(&self, bytes: &[u8]) -> (String, bool) {
        let mut cleaner = Cleaner::new(self.size);
        if self.on_alternate_screen {
            cleaner = cleaner.on_alternate_screen();
        }
        cleaner.feed(&decode(bytes, &self.hint));
        let on_alternate_screen = cleaner.is_on_alternate_screen();
        (cleaner.finish().text, on_alternate_screen)
    }
}

/// What is new in `text` to somebody who has `shown`; on a line of its own where it was redrawn.
fn after(shown: &str, text: String) -> String {
    match text.strip_prefix(shown) {
        Some(rest) => rest.to_owned(),
        None => format!("\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow::new(Hint::default(), Size::default())
    }

    #[test]
    fn lines_come_whole_and_a_question_as_it_stands() {
        let mut flow = flow();
        assert_eq!(flow.feed(b"one\r\ntw"), "one\n");
        assert_eq!((flow.flush(), flow.held()), ("tw".to_owned(), 2));
        assert_eq!(flow.flush(), "");
        assert_eq!(flow.feed(b"o\r\nName: "), "o\nName: "[..2].to_owned());
        assert_eq!(flow.flush(), "Name: ");
        assert_eq!(flow.feed(b"bob\r\n"), "bob\n");
    }

    #[test]
    fn what_was_shown_and_is_redrawn_is_told_anew() {
        let mut flow = flow();
        flow.feed(b" 50%");
        assert_eq!(flow.flush(), " 50%");
        assert_eq!(flow.feed(b"\r100%\r\n"), "\n100%\n");
        assert_eq!(flow.feed(b" 50%\r100%\r\n"), "100%\n");
    }

    #[test]
    fn little_is_held() {
        let mut flow = flow();
        for _ in 0..100 {
            flow.feed(&[b'x'; 10_000]);
            assert!(flow.held() <= LINE_BYTES_MAX + 10_000);
        }
    }
}
