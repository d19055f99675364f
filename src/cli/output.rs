//! Where words go: documents and summaries to stdout, everything else to stderr.
//!
//! A reader that has gone away (`callboard … | head`) is nobody's failure: what it did not want is
//! dropped, and the exit code stays what it would have been.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Writes to stdout.
///
/// # Errors
/// When stdout cannot take it for another reason than a reader that is gone, as on a full disk.
pub(super) fn print(bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    forgive_closed(stdout.write_all(bytes.as_ref()).and_then(|()| stdout.flush()))
}

/// Writes one JSON document and a newline to stdout.
///
/// # Errors
/// Like `print`.
pub(super) fn print_json<T: Serialize>(document: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    print(text)
}

/// Writes to stderr. Where stderr takes nothing there is nobody left to tell.
pub(super) fn note(bytes: impl AsRef<[u8]>) {
    let mut stderr = io::stderr().lock();
    let _unheard = stderr.write_all(bytes.as_ref());
}

fn forgive_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_is_gone_is_forgiven() {
        assert!(forgive_closed(Ok(())).is_ok());
        assert!(forgive_closed(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert!(forgive_closed(Err(ErrorKind::StorageFull.into())).is_err());
    }
}
