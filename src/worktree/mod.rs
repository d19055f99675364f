//! Git worktrees of tasks: made, merged back, removed. Git is a program of the user's.
//!
//! Each undertaking is a machine (`creation`, `returning`, `removal`, `survey`): it asks for one git
//! command at a time and hears what that came to; it touches nothing itself. `drive` runs the
//! commands, one after the other, with limits (`git`).
//!
//! ```text
//!   machine ── Step::Git ──► drive ──► git …
//!      ▲                       │
//!      └─────── Output ────────┘        until Step::Done
//! ```

mod command;
mod creation;
mod drive;
mod git;
mod merging;
mod publishing;
mod removal;
mod returning;
mod scratch;
mod survey;

#[cfg(test)]
mod tests;

pub use command::{Git, Machine, Output, Step};
pub use creation::{Created, Creation};
pub use drive::{drive, pause};
pub use removal::{Proof, Removal, Removed};
pub use returning::{End, Returning, Work};
pub use survey::Survey;
