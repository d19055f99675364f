//! (to come)

pub mod ownership;
pub mod workspace;
pub mod serve;
