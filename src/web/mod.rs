//! HTTP: who is let in, and what there is to see.
//!
//! Every route lies behind the same `guard`; `server` keeps connections within limits. The daemon
//! makes the socket and the token, and answers what is asked through channels.

pub mod guard;
mod routes;
pub mod server;

pub use routes::{Measure, routes};
