//! The command line: a file a verb, each with its arguments (whose doc comments are the help text)
//! and one function that answers with an exit code.
//!
//! `dispatch` turns argv into a verb. What a verb has to tell goes out through `output`; what goes
//! wrong becomes a `Failure`, and words, hints and exit codes are made of it there and nowhere
//! else. Verbs that need the coordinator get a `client::Connection` from `coordinator`; those that
//! only read do without one where none runs, from what the state folder holds (`records`).

mod arguments;
mod client;
mod coordinator;
mod dispatch;
pub mod exit;
mod failure;

mod attempts;
mod base64;
mod examples;
mod follow;
mod inbox;
mod interrupt;
mod output;
mod progress;
mod quote;
mod records;
mod reports;
mod root;
mod sessions;
mod sources;
mod starter;
mod summary;
mod table;
mod tape;
mod tasks;
mod terminal;
mod ticket;
mod verbs;
mod waves;
mod words;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod stand_in;

pub use dispatch::main;
