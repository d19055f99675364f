//! (to come)

pub mod serve;
