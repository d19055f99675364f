//! The one grammar that every door speaks.

pub mod grammar;

pub use grammar::*;
