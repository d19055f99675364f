//! The integration tests: one binary, so that it links once.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests fail by panicking and say on stderr what they skip")]

mod cases_orchestrator;
mod cases_terminal;
mod house;
//! One integration-test binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod floor_plan;
mod package;
mod rust_source;
