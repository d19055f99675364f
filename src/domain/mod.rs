//! The nouns. No clock, disk, environment, task or socket: every room may use them.

pub mod board;
pub mod claim;
pub mod conflict;
pub mod environment;
pub mod event;
pub mod frame;
pub mod ids;
pub mod key;
pub mod letters;
pub mod machine;
pub mod manifest;
pub mod outcome;
pub mod permission;
pub mod plan;
pub mod process;
pub mod raw_path;
pub mod result;
pub mod session;
pub mod shown_path;
pub mod size;
pub mod time;
pub mod worktree;
