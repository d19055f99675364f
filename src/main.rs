//! The callboard binary: argv to exit code.

fn main() {}
