//! The callboard binary: argv to exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "__stage") {
        return callboard::session::holder::stage_main();
    }
    callboard::cli::main()
}
