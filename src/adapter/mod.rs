//! How each kind of agent is started and read.
//!
//! An agent whose adapter is the shell has no program of its own: its session's shell runs what
//! the task says. Agents that are programs get theirs here too, once there are any.

mod shell;
mod steps;

pub use steps::command;
