//! callboard: a call board for AI agents, and the stage crew around it.
//!
//! Each module is a room of the house; `tests/it/floor_plan.rs` holds the table of doors.

// The pure rooms: no clock, disk, environment, task or socket.
pub mod command;
pub mod domain;
pub mod policy;
pub mod report;
pub mod scheduler;
pub mod transcript;

// The voices: the grammar and its translations, no sockets.
pub mod control;
pub mod protocol;

// The hands: each touches one outside thing and knows no other hand.
pub mod adapter;
pub mod board;
pub mod journal;
pub mod session;

// The shell.
pub mod daemon;
pub mod web;

// The faces.
pub mod cli;
pub mod tui;
