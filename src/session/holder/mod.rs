//! The process that is a session, and the stage that forks it.
//!
//! ```text
//! coordinator ── one socket ──▶ stage ── fork ──▶ holder ── fork, exec ──▶ bash
//!       └──────────── the holder's own socket ───────┘
//! ```
//!
//! A holder has one thread and one loop (`turn`): poll, take what has come, let the command's
//! machine decide, perform. Nothing in the loop blocks.

mod alone;
mod answers;
mod boundary;
mod capture;
mod capture_files;
mod capture_ring;
mod checker;
mod closing;
mod handback;
mod input;
mod judge;
mod looking;
mod modes;
mod newline;
mod outbox;
mod output;
mod perform;
mod polled;
mod ports;
mod presenting;
mod probe;
pub(super) mod proc;
mod quota;
mod session;
mod shell;
mod stage;
mod takeover;
mod trace;
pub(super) mod tree;
mod turn;
mod typed;
mod usage;

pub(super) use outbox::UNHEARD;
pub use stage::stage_main;
