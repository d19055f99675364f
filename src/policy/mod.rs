//! May this happen? Claims say who may do what with a terminal. Rules are asked before a command
//! runs: allow, ask or deny.
//!
//! A script is read by a real parser of the shell's language, and every program that it would
//! start is looked at: behind `&&` and newlines, in substitutions, in functions, behind `env`,
//! `sudo`, `xargs` and `sh -c`. What cannot be known before it runs (`$(echo touch) x`) is asked
//! for. That is a guard against accidents and habits, and no boundary: what a program does once it
//! runs is out of its sight (docs/policy.md).

pub mod claim;
#[cfg(test)]
mod claim_tests;
mod follow;
pub mod holdings;
pub mod install;
pub mod intentions;
mod invocation;
pub mod role;
mod script;
#[cfg(test)]
mod tests;
mod verdict;
mod words;
mod wrapped;

pub use script::is_quickly_read;
pub use verdict::{Judgement, judge};
