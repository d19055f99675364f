//! The form of both wires (client to coordinator, coordinator to holder): a JSON document behind
//! its length, four bytes, big-endian. Pure: bytes in, documents out.
//!
//! What stands in the path of every command names its kind in front of its content
//! (`{"run":{…}}`). With the kind among the content serde would first gather all of a document in
//! a tree of its own.

use serde::{Serialize, de::DeserializeOwned};

/// The longest document either side accepts. The report of a run of 50,000 tasks fits.
pub const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Why bytes were refused. Either way the stream cannot be read on and has to be closed.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length is over the limit: another protocol, or a broken peer.
    #[error("frame of {0} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// Not the document that was expected.
    #[error("frame is not a document of this version: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Appends `document` to `out` as one frame.
///
/// # Errors
/// When the document cannot be written as JSON or is over the limit; `out` is then unchanged.
pub fn encode<T: Serialize>(document: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let written = serde_json::to_writer(&mut *out, document).map_err(FrameError::from);
    let length = out.len() - start - 4;
    let prefix = match written {
        Ok(()) if length <= FRAME_BYTES_MAX => u32::try_from(length).ok(),
        Ok(()) => None,
        Err(error) => {
            out.truncate(start);
            return Err(error);
        }
    };
    let Some(prefix) = prefix else {
        out.truncate(start);
        return Err(FrameError::TooLong(length));
    };
    out[start..start + 4].copy_from_slice(&prefix.to_be_bytes());
    Ok(())
}

/// Bytes as they arrive, and the documents in them.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// Takes bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read == self.buffer.len() {
            self.buffer.clear();
            self.read = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole document; `None` until more bytes have arrived.
    ///
    /// # Errors
    /// When the stream is not one of frames.
    pub fn document<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let before = self.read;
        let Some(body) = self.frame()? else { return Ok(None) };
        match serde_json::from_slice(body) {
            Ok(document) => Ok(Some(document)),
            Err(error) => {
                self.read = before;
                Err(error.into())
            }
        }
    }

    /// The bytes of the next whole document, whatever it is; `None` until more have arrived.
    ///
    /// # Errors
    /// When the stream is not one of frames.
    pub fn frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let pending = &self.buffer[self.read..];
        let Some(prefix) = pending.first_chunk::<4>() else {
            self.compact();
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        if pending.len() < 4 + length {
            self.compact();
            return Ok(None);
        }
        let body = self.read + 4..self.read + 4 + length;
        self.read = body.end;
        Ok(Some(&self.buffer[body]))
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.read);
        self.read = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_survive_any_cut() {
        let mut bytes = Vec::new();
        for n in 0..5_u32 {
            encode(&vec![n; 3], &mut bytes).unwrap();
        }
        for cut in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let mut seen: Vec<Vec<u32>> = Vec::new();
            for part in bytes.chunks(cut) {
                decoder.push(part);
                while let Some(document) = decoder.document().unwrap() {
                    seen.push(document);
                }
            }
            assert_eq!(seen, (0..5).map(|n| vec![n; 3]).collect::<Vec<_>>(), "cut {cut}");
        }
    }

    #[test]
    fn a_foreign_stream_is_refused() {
        let mut decoder = Decoder::default();
        decoder.push(b"GET / HTTP/1.1\r\n\r\n");
        assert!(matches!(decoder.document::<u32>(), Err(FrameError::TooLong(_))));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

        /// No bytes panic, however they are cut; and what can be read of them does not depend on it.
        #[test]
        fn any_bytes_are_documents_or_an_error(
            parts in proptest::collection::vec(proptest::prop_oneof![
                proptest::collection::vec(proptest::prelude::any::<u8>(), 0..24),
                proptest::collection::vec(0..3_u8, 0..6),
                proptest::prelude::Just({
                    let mut bytes = Vec::new();
                    encode(&"a document", &mut bytes).unwrap_or_default();
                    bytes
                }),
            ], 0..8),
            cut in 1..40_usize,
        ) {
            let bytes = parts.concat();
            let read = |cut: usize| {
                let mut decoder = Decoder::default();
                let mut seen = Vec::new();
                for part in bytes.chunks(cut.max(1)) {
                    decoder.push(part);
                    loop {
                        match decoder.document::<String>() {
                            Ok(Some(document)) => seen.push(Some(document)),
                            Ok(None) => break,
                            Err(_) => {
                                seen.push(None);
                                return seen;
                            }
                        }
                    }
                }
                seen
            };
            proptest::prop_assert_eq!(read(cut), read(bytes.len()));
        }
    }
}
