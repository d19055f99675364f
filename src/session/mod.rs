//! Sessions: one process each.

pub mod wire;
