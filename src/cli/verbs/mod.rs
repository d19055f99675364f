//! The verbs: a file each, with its arguments and one function.

pub(super) mod agent;
pub(super) mod audit;
pub(super) mod board;
pub(super) mod doctor;
pub(super) mod escalation;
pub(super) mod exec;
pub(super) mod explain_env;
pub(super) mod gc;
pub(super) mod init;
pub(super) mod plan;
pub(super) mod policy;
pub(super) mod report;
pub(super) mod run;
pub(super) mod run_lines;
pub(super) mod serve;
pub(super) mod session;
pub(super) mod status;
pub(super) mod task;
mod whose;
