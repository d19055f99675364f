//! The board: what everybody in the workspace needs to know, by key. A fold of the journal, kept in
//! sled so that a start need not fold everything again.
//!
//! Writes merge by version (`domain::board::merge`): whatever order they come in, replicas agree.
//! A removal is a write too, a tombstone that outlives what it removed. The hybrid clock hands out
//! versions greater than any seen before.
//!
//! sled can fail to open, or panic, after a kill. The journal has everything, so the folder is then
//! set aside and a new one begun; `Recovered` tells the caller, which folds the journal again.
//! Beside the entries lies a digest of them all, written in the same batch: a folder that opens and
//! yet has lost something is found out as well.
//!
//! sled is read and written on the caller's thread; only `flush` waits for the disk. It is opened on a
//! thread of its own: one that hangs is given up, and one that panics is not heard.

mod digest;
mod error;
mod recovery;
pub mod snapshot;
mod store;

#[cfg(test)]
mod tests;

pub use error::BoardError;
pub use recovery::Recovered;
pub use store::{Applied, Board, Changed, KEY_BYTES_MAX, Next, VALUE_BYTES_MAX, check};
