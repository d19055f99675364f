//! One run as a machine.

pub mod event;
