//! The coordinator: the one process that owns a workspace's journal and board.
//!
//! ```text
//!   doors ──┐
//!   links ──┼─► inbox ─► desk (decides) ─► journal (commits) ─► crew (acts)
//!   timers ─┘
//! ```

mod action;
mod adoption;
mod attempts;
mod board;
mod calls;
pub mod checkup;
mod claims;
mod clients;
mod clock;
mod closing;
mod compaction;
mod coordinator;
mod counting;
mod crew;
mod desk;
mod dispatched;
mod dispatching;
mod doors;
mod durations;
mod escalations;
mod execs;
mod facts;
mod finishing;
mod history;
mod holding;
pub mod http;
mod inbox;
mod inputs;
mod lifecycle;
pub mod litter;
mod names;
pub mod ownership;
mod peers;
mod pending;
mod ports;
mod probe;
mod reading;
mod recovery;
mod rejoining;
mod reports;
mod retention;
mod runs;
pub mod serve;
mod session_calls;
mod sessions;
pub mod shelf;
mod stage;
mod story;
mod tasks;
mod touches;
mod views;
mod warming;
pub mod workspace;
mod worktrees;
