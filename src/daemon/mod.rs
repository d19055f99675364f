//! (to come)

pub mod ownership;
pub mod serve;
pub mod workspace;
