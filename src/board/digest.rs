//! What a board is made of, in a few bytes.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A digest of a set: the number of its members and the exclusive or of their hashes. One member
/// can be exchanged without looking at the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Digest {
    pub(super) members: u64,
    mixed: [u64; 2],
}

impl Digest {
    pub(super) fn add(&mut self, member: &[u8]) {
        self.members = self.members.wrapping_add(1);
        self.mix(member);
    }

    pub(super) fn remove(&mut self, member: &[u8]) {
        self.members = self.members.wrapping_sub(1);
        self.mix(member);
    }

    fn mix(&mut self, member: &[u8]) {
        let hash = Sha256::digest(member);
        for (mixed, word) in self.mixed.iter_mut().zip(hash.as_chunks::<8>().0) {
            *mixed ^= u64::from_le_bytes(*word);
        }
    }
}
