//! One command as a machine: pure, with no clock, process or terminal inside.

mod answer;
pub mod awaiting;
pub mod completeness;
mod ending;

pub mod event;
pub mod lines;
pub mod outcome;
pub mod state;
pub mod step;
pub mod tier;

#[cfg(test)]
mod tests;
