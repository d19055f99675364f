//! The integration tests: one binary, so that it links once.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test that cannot go on has failed, and says on stderr what it skips"
)]

mod board;
mod cases_liveness;
mod cases_orchestrator;
mod cases_paths;
mod cases_policy;
mod cases_shells;
mod cases_tasks;
mod cases_terminal;
mod cases_terminal_capture;
mod cases_terminal_input;
mod cases_terminal_limits;
mod cases_terminal_output;
mod cases_terminal_typing;
mod chaos;
mod cli_attach;
mod cli_doctor;
mod cli_documents;
mod cli_env;
mod cli_reports;
mod cli_session;
mod cli_sources;
mod cli_task;
mod clients;
mod conflicts;
mod escalations;
mod examples;
mod floor_plan;
mod house;
mod http;
mod intentions;
mod package;
mod recordings;
mod recovery;
mod rust_source;
mod session;
mod storage;
mod touches;
mod worktrees;
