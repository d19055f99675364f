//! The callboard binary: argv to exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    callboard::cli::main()
}
