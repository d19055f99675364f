//! The manifest and `agents.toml`: bytes in, a checked `Plan` or every problem out.
//!
//! Both files go through the same four steps. `source` decodes the bytes and knows positions,
//! `syntax` makes a TOML tree out of them, the readers (`workspace`, `task`, `agents` and what they
//! stand on) check each value by itself against the tables in `keys`, and `check` looks at what
//! lies between values: ids, dependencies, tags, ports.
//!
//! No step stops at the first problem, so one pass names them all. Where a file cannot be parsed
//! as TOML, what merely follows from that (an id that seems to be missing) is left unsaid.
//!
//! The JSON Schemas in `schemas/` are made from the tables in `keys`; a test compares them.

mod agents;
mod answers;
mod check;
mod findings;
mod graph;
mod keys;
mod links;
mod permissions;
mod publish;

mod read;
mod shape;
mod source;
mod spec;
mod syntax;
mod tags;
mod task;
mod variables;
mod words;
mod workspace;

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;

pub use agents::Agents;
pub use check::{Sources, check, check_agents};
pub use findings::Problem;
pub use source::{FILE_BYTES_MAX, File};
pub(super) use words::Speller;
