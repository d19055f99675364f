//! A session's output without the questions that programs ask their terminal: the holder has
//! answered them, and a second terminal that shows the same output must not answer again.

use super::queries::Scanner;

/// What may be a query is held back no longer than this, in bytes.
const HELD_MAX: usize = 128;

/// Takes queries out of output that comes in pieces of any size.
#[derive(Debug, Default)]
pub struct Unasked {
    scanner: Scanner,
    held: Vec<u8>,
}

impl Unasked {
    /// Reads on and appends what is no query. The beginning of what may be one waits for its rest.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.held.is_empty() {
                // 0xc2 begins an 8-bit control as UTF-8 writes it.
                let plain = memchr::memchr2(0x1b, 0xc2, bytes).unwrap_or(bytes.len());
                out.extend_from_slice(&bytes[..plain]);
                bytes = &bytes[plain..];
            }
            let Some((byte, rest)) = bytes.split_first() else { return };
            bytes = rest;
            self.held.push(*byte);
            let mut asked = false;
            self.scanner.feed(&[*byte], |_, _| asked = true);
            if asked {
                self.held.clear();
            } else if !self.scanner.is_inside() || self.held.len() > HELD_MAX {
                out.append(&mut self.held);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unasked(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut filter, mut out) = (Unasked::default(), Vec::new());
        for part in bytes.chunks(piece) {
            filter.feed(part, &mut out);
        }
        out
    }

    #[test]
    fn queries_go_and_everything_else_stays() {
        let rows: [(&[u8], &[u8]); 7] = [
            (b"a\x1b[6nb", b"ab"),
            (b"\x1b[?6n\x1b[c\x1b[5n", b""),
            (b"\x1b]11;?\x07x\x1b]10;?\x1b\\y", b"xy"),
            (b"\x1b[31mred\x1b[0m", b"\x1b[31mred\x1b[0m"),
            (b"\x1b]0;title\x07\x1b]11;#fff\x07", b"\x1b]0;title\x07\x1b]11;#fff\x07"),
            ("\u{a9} \u{9b}6n.".as_bytes(), "\u{a9} .".as_bytes()),
            // What a query cuts short has no effect either.
            (b"\x1b\x1b[6n\x1b7", b"\x1b7"),
        ];
        for (bytes, expected) in rows {
            for piece in 1..=bytes.len() {
                let out = unasked(bytes, piece);
                assert_eq!(
                    String::from_utf8_lossy(&out),
                    String::from_utf8_lossy(expected),
                    "{:?} by {piece}",
                    String::from_utf8_lossy(bytes)
                );
            }
        }
    }

    proptest! {
        /// However it is cut, the same stays; and only little is held back.
        #[test]
        fn any_bytes_in_any_pieces(
            bytes in prop::collection::vec(
                prop_oneof![
                    any::<u8>(), Just(0x1b), Just(b'['), Just(b'6'), Just(b'n'), Just(b']'),
                    Just(b';'), Just(b'?'), Just(0xc2),
                ], 0..300),
            piece in 1usize..40,
        ) {
            let (mut filter, mut whole) = (Unasked::default(), Vec::new());
            filter.feed(&bytes, &mut whole);
            prop_assert_eq!(&whole, &unasked(&bytes, piece));
            prop_assert!(filter.held.len() <= HELD_MAX + 1);
        }
    }
}
