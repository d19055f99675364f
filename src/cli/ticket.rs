//! A request's own name: unguessable, since whoever knows it may have the answer.

use rand::RngExt as _;

/// Crockford's base 32, lower case.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 26 letters have 130 bits.
const LETTERS: usize = 26;

/// A fresh one.
pub(super) fn fresh() -> String {
    let mut rng = rand::rng();
    (0..LETTERS).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}

/// The session that a coordinator makes for an `exec` with this ticket, if it makes one of its own:
/// with it what was printed can be read whatever else was lost.
pub(super) fn session(ticket: &str) -> String {
    format!("s-{}", ticket.get(..16).unwrap_or(ticket))
}
