//! The shells that a session can have, and what differs between them.
//!
//! bash is given its commands over descriptors (`session::driver`). zsh, fish and sh are given
//! theirs through a folder of named pipes that they open for each command (`folder`): none of them
//! can keep a descriptor to itself. Each has its driver's text beside it; `table` says the rest,
//! and a holder asks the table alone.

mod bash;
pub(in crate::session) mod find;
mod fish;
pub(in crate::session) mod folder;
mod sh;
pub(in crate::session) mod table;
mod zsh;

pub use folder::driver_folder;
