//! The verbs: a file each, with its arguments and one function.

pub mod exec;
pub mod explain_env;
pub mod init;
pub mod plan;
pub mod report;
pub mod run;
pub mod run_lines;
pub mod serve;
pub mod status;
