//! callboard: a call board for AI agents, and the stage crew around it.
//!
//! Each module is a room of the house; `tests/it/floor_plan.rs` holds the table of doors.

// The pure rooms: no clock, disk, environment, task or socket. What they may not call is listed in
// clippy.toml.
#[deny(clippy::disallowed_methods)]
pub mod command;
#[deny(clippy::disallowed_methods)]
pub mod domain;
#[deny(clippy::disallowed_methods)]
pub mod policy;
#[deny(clippy::disallowed_methods)]
pub mod report;
#[deny(clippy::disallowed_methods)]
pub mod scheduler;
#[deny(clippy::disallowed_methods)]
pub mod transcript;

// The voices: the grammar and its translations, no sockets.
#[deny(clippy::disallowed_methods)]
pub mod control;
#[deny(clippy::disallowed_methods)]
pub mod protocol;

// The hands: each touches one outside thing and knows no other hand.
pub mod adapter;
pub mod board;
pub mod journal;
pub mod session;
pub mod worktree;

// The shell.
pub mod daemon;
pub mod web;

// The faces.
pub mod cli;
pub mod tui;
