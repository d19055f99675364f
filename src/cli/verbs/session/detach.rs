//! The keys that leave a session's terminal, found among what is typed.

use std::str::FromStr;

use crate::domain::key::{Key, KeyModes};

/// Keys one after the other, as in `ctrl-\\ d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DetachKey {
    bytes: Vec<u8>,
}

impl FromStr for DetachKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = Vec::new();
        for name in text.split_ascii_whitespace() {
            let key = name.parse::<Key>().map_err(|error| error.to_string())?;
            bytes.extend(key.bytes(KeyModes::default()));
        }
        if bytes.is_empty() { Err("it has no key".to_owned()) } else { Ok(Self { bytes }) }
    }
}

/// Looks for the keys. What may be their beginning is held back until the next key.
#[derive(Debug)]
pub(super) struct Leaving {
    key: DetachKey,
    seen: usize,
}

impl Leaving {
    /// Nothing was typed yet.
    pub(super) fn new(key: DetachKey) -> Self {
        Self { key, seen: 0 }
    }

    /// What goes to the session of what was typed, and whether the keys were among it: nothing
    /// after them goes anywhere.
    pub(super) fn typed(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut through = Vec::with_capacity(bytes.len());
        for byte in bytes {
            while self.seen > 0 && self.key.bytes[self.seen] != *byte {
                // The first of what was held back goes through; the rest may begin the keys anew.
                let held = self.key.bytes[..self.seen].to_vec();
                through.push(held[0]);
                self.seen = (0..self.seen)
                    .rev()
                    .find(|&length| held.ends_with(&self.key.bytes[..length]))
                    .unwrap_or(0);
                through.extend(&held[1..held.len() - self.seen]);
            }
            if self.key.bytes[self.seen] != *byte {
                through.push(*byte);
                continue;
            }
            self.seen += 1;
            if self.seen == self.key.bytes.len() {
                self.seen = 0;
                return (through, true);
            }
        }
        (through, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(key: &str, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut leaving = Leaving::new(key.parse().unwrap());
        let mut all = Vec::new();
        for piece in pieces {
            let (through, left) = leaving.typed(piece);
            all.extend(through);
            if left {
                return (all, true);
            }
        }
        (all, false)
    }

    #[test]
    fn the_keys_leave_and_nothing_else_does() {
        type Row = (&'static str, &'static [&'static [u8]], &'static [u8], bool);
        let rows: [Row; 7] = [
            ("ctrl-\\ d", &[b"ab\x1c", b"dxyz"], b"ab", true),
            ("ctrl-\\ d", &[b"ab\x1c", b"x"], b"ab\x1cx", false),
            ("ctrl-\\ d", &[b"\x1c\x1c", b"d"], b"\x1c", true),
            ("ctrl-\\ d", &[b"\x1c"], b"", false),
            ("ctrl-a ctrl-a d", &[b"\x01\x01\x01d"], b"\x01", true),
            ("ctrl-]", &[b"x\x1dy"], b"x", true),
            ("up x", &[b"\x1b[", b"A", b"x"], b"", true),
        ];
        for (key, pieces, through, left) in rows {
            assert_eq!(typed(key, pieces), (through.to_vec(), left), "{key} {pieces:?}");
        }
        for wrong in ["", " ", "ctrl-nothing"] {
            assert!(wrong.parse::<DetachKey>().is_err(), "{wrong:?}");
        }
    }

    proptest! {
        /// Nothing is lost or changed, but for what is still held back.
        #[test]
        fn all_that_is_typed_goes_through_in_order(
            bytes in prop::collection::vec(prop_oneof![Just(1u8), Just(2), Just(b'd')], 0..60),
            piece in 1usize..9,
        ) {
            let mut leaving = Leaving::new("ctrl-a ctrl-b ctrl-a d".parse().unwrap());
            let mut all = Vec::new();
            for part in bytes.chunks(piece) {
                let (through, left) = leaving.typed(part);
                all.extend(through);
                if left {
                    all.extend_from_slice(b"\x01\x02\x01d");
                    prop_assert!(bytes.starts_with(&all));
                    return Ok(());
                }
            }
            all.extend(&leaving.key.bytes[..leaving.seen]);
            prop_assert_eq!(all, bytes);
        }
    }
}
