//! Sessions: one process each.
//!
//! The coordinator's end is `link`; `wire` is what the two ends say. A `holder` is the process
//! that is a session, forked by a small **stage** process (`holder::stage`); `os` is what is
//! Linux's alone. `shells` holds what differs between shells.

pub mod cgroup;
pub mod door;
mod driver;
pub mod holder;
pub mod identity;
pub mod link;
pub mod machine;
mod os;
mod profile;
pub mod shells;
pub mod stream;
pub mod sweep;
pub mod unheard;
pub mod wire;
