//! The line end that an interactive bash prints when an interrupt has ended its job: no command
//! wrote it, so it belongs to none.

use crate::transcript::index::Stream;

/// Holds back a line end that is the last thing to come after our interrupt.
#[derive(Default)]
pub(super) struct Newline {
    /// An interrupt was sent, and whether what has come since is at a line's beginning.
    at_start: Option<bool>,
    held: Option<&'static [u8]>,
}

impl Newline {
    /// An interrupt was sent.
    pub(super) fn expect(&mut self) {
        self.at_start = Some(true);
    }

    /// What of these bytes, and of what was held back before, is the command's by now. `None`: all
    /// of the bytes and no more.
    pub(super) fn hold_back(&mut self, stream: Stream, bytes: &[u8]) -> Option<Vec<u8>> {
        let at_start = self.at_start.filter(|_| stream == Stream::Main && !bytes.is_empty())?;
        let before = self.held.take().unwrap_or_default();
        let (rest, end) = split_line_end(bytes);
        let is_empty_line = if rest.is_empty() { at_start } else { rest.ends_with(b"\n") };
        self.held = end.filter(|_| is_empty_line);
        self.at_start = Some(bytes.ends_with(b"\n"));
        let kept = if self.held.is_some() { rest } else { bytes };
        Some([before, kept].concat())
    }

    /// The command is over: what is still held back is not its own.
    pub(super) fn take(&mut self) -> Option<&'static [u8]> {
        std::mem::take(self).held
    }
}

fn split_line_end(bytes: &[u8]) -> (&[u8], Option<&'static [u8]>) {
    if let Some(rest) = bytes.strip_suffix(b"\r\n") {
        return (rest, Some(b"\r\n"));
    }
    bytes.strip_suffix(b"\n").map_or((bytes, None), |rest| (rest, Some(b"\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lone_line_end_at_the_very_end_is_held_back() {
        type Row = (&'static [&'static [u8]], &'static [u8], Option<&'static [u8]>);
        let rows: [Row; 9] = [
            (&[b"\r\n"], b"", Some(b"\r\n")),
            (&[b"\n"], b"", Some(b"\n")),
            (&[b"bye\r\n"], b"bye\r\n", None),
            (&[b"bye", b"\r\n"], b"bye\r\n", None),
            (&[b"y\r\ny\r\n\r\n"], b"y\r\ny\r\n", Some(b"\r\n")),
            (&[b"y\r\n", b"\r\n"], b"y\r\n", Some(b"\r\n")),
            (&[b"\r\n", b"more"], b"\r\nmore", None),
            (&[b"\r\n", b"\r\n"], b"\r\n", Some(b"\r\n")),
            (&[], b"", None),
        ];
        for (chunks, kept, held) in rows {
            let mut newline = Newline::default();
            assert_eq!(newline.hold_back(Stream::Main, b"\r\n"), None, "nothing was sent");
            newline.expect();
            let mut seen = Vec::new();
            for chunk in chunks {
                seen.extend(newline.hold_back(Stream::Main, chunk).unwrap());
                assert_eq!(newline.hold_back(Stream::Stderr, b"\n"), None);
            }
            assert_eq!((&*seen, newline.take()), (kept, held), "{chunks:?}");
            assert_eq!(newline.hold_back(Stream::Main, b"\r\n"), None, "over");
        }
    }
}
