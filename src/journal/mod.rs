//! The journal: every event of a workspace, in order, on disk. It is the truth (design, section 5);
//! the board and all else are folds of it.
//!
//! A folder of segments, each named by the number of its first line: `00000000000000000001.jsonl`.
//! A segment is lines of JSON, one event each:
//!
//! ```text
//! {"seq":7,"at":"2025-11-30T23:00:00.123Z","prev":"<64 hex>","event":"run_ended",…,"sum":"<16 hex>"}
//! ```
//!
//! * `seq` counts from 1 over all segments, without a gap; `at` is the event's own time.
//! * `prev` is the SHA-256 of the whole line before, without its newline; 64 zeros for the first.
//!   Whoever changes, drops or inserts a line has to rewrite all lines after it.
//! * then the fields of `domain::event::Event`; the order of all is fixed, since reading goes by bytes.
//! * `sum` is the first 8 bytes of the SHA-256 of the line up to it: the last line has no later one
//!   to vouch for it.
//!
//! # Writing
//!
//! One thread writes. It takes whatever has queued since its last look (at most
//! `queue::EVENTS_MAX` wait), writes it at once and, if anybody asked for durability, calls
//! `fdatasync` once for all. What nobody asked it for is synced within 50 ms.
//!
//! ```text
//! append ─▶ queue ─▶ encode, chain ─▶ one write ─▶ one fdatasync ─▶ commits resolve
//!                         └── failed: cut back to the last good end, chain as before ──▶ error
//! ```
//!
//! A failed write or sync is told to those it concerns and undone. What was acknowledged without
//! durability is kept until it is synced: the kernel forgets dirty pages after a failed sync.
//!
//! # Reading
//!
//! A torn tail (the last line of the last segment, incomplete or damaged) is what a crash leaves;
//! it is cut and reported. Anything else that is wrong is refused with segment, offset and cause.
//! Whole lines lost at the end only the board shows. A start reads the latest snapshot first;
//! segments that only the past needs can go (`spare`), and a full disk takes outcomes (`room`).

mod append;
mod disk;
mod error;
mod line;
mod queue;
mod reading;
mod room;
mod segment;
pub mod snapshot;
mod spare;
mod writer;

#[cfg(test)]
mod tests;

pub use append::{Commit, Committed, Journal};
pub use error::{AppendError, JournalError};
pub use line::{Line, LineFault};
pub use reading::{Replay, Torn, check_tail, read, read_whole, verify};
pub use spare::{Spare, remove_spare, spare_segments};
