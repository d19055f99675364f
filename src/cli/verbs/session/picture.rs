//! The picture on a session's terminal, drawn from the end of its transcript.

use super::reading::hint;
use crate::cli::failure::Failure;
use crate::cli::tape::{Piece, Tape};
use crate::domain::session::Size;
use crate::transcript::screen::{Lead, SCREEN_WINDOW, Tail, Terminal, of_tail};

/// How far before that it is looked for what still holds: a title, which screen is on.
const LEAD_BYTES: u64 = 16 * 1024 * 1024;
/// How much is read at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// The terminal as it stands at the end of the transcript, and that end. Its window is what the
/// index says, with each change where it came; `size` where it says nothing.
///
/// # Errors
/// When the transcript cannot be read.
pub(super) fn present(
    tape: &Tape,
    size: Size,
    charset: Option<&str>,
) -> Result<(Terminal, u64), Failure> {
    let hint = hint(charset);
    let end = tape.end()?;
    let start = end.saturating_sub(SCREEN_WINDOW as u64);
    let mut before = None;
    if start > 0 {
        let mut lead = Lead::new(&hint);
        read(tape, start.saturating_sub(LEAD_BYTES)..start, |_, bytes| lead.feed(bytes))?;
        before = Some(lead);
    }
    let mut sizes = tape.sizes()?.into_iter().peekable();
    let mut size = sizes.peek().map_or(size, |first| first.size);
    while let Some(resize) = sizes.next_if(|resize| resize.offset <= start) {
        size = resize.size;
    }
    let mut bytes = Vec::new();
    let mut resizes = Vec::new();
    read(tape, start..end, |offset, piece| {
        // What is not stored has no place among the bytes that are.
        let piece_end = offset + piece.len() as u64;
        while let Some(resize) = sizes.next_if(|resize| resize.offset < piece_end) {
            let into = usize::try_from(resize.offset.saturating_sub(offset)).unwrap_or(0);
            resizes.push((bytes.len() + into, resize.size));
        }
        bytes.extend_from_slice(piece);
    })?;
    resizes.extend(sizes.map(|resize| (bytes.len(), resize.size)));
    let tail = Tail { bytes: &bytes, before, size, resizes: &resizes };
    Ok((of_tail(&tail, &hint), end))
}

/// Hands over what is stored of a part of the transcript.
fn read(
    tape: &Tape,
    part: std::ops::Range<u64>,
    mut each: impl FnMut(u64, &[u8]),
) -> Result<(), Failure> {
    let mut at = part.start;
    while at < part.end {
        let (pieces, next) = tape.read(at, part.end, CHUNK_BYTES)?;
        if next == at {
            break;
        }
        for piece in pieces {
            if let Piece::Bytes { offset, bytes } = piece {
                each(offset, &bytes);
            }
        }
        at = next;
    }
    Ok(())
}
