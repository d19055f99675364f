//! One command as a machine.

pub mod tier;
