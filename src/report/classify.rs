//! What kind of failure it was: the environment's or the task's own (design, section 7.1).

use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::CommandResult;

use super::words::last_lines;

/// The class of failures that are the environment's.
pub const ENVIRONMENT: &str = "environment";
/// The class of successes that needed more than one try.
pub const FLAKY: &str = "flaky";

/// The class of attempts during which a contract changed that they depend on.
pub const STALE: &str = "stale-config suspect";

/// `EX_UNAVAILABLE` and `EX_TEMPFAIL` of sysexits.h: a program's own way to say so.
const UNAVAILABLE: [i32; 2] = [69, 75];
/// What a shell says of a program that it cannot find, with status 127.
const NOT_FOUND: [&str; 4] =
    ["command not found", ": not found", "No such file or directory", "Unknown command"];
/// What programs say of a full disk and of a taken port.
const WANTING: [&str; 5] = [
    "No space left on device",
    "Disk quota exceeded",
    "ENOSPC",
    "Address already in use",
    "EADDRINUSE",
];
/// As many lines at the end are taken for the command's last words.
const LAST_WORDS: usize = 20;

/// True when a command failed for want of something outside of it.
pub fn is_environment(result: &CommandResult) -> bool {
    if result.state != CommandState::Failed {
        return false;
    }
    match &result.reason {
        Some(Reason::StartFailed { .. } | Reason::WorkspaceMissing) => true,
        Some(Reason::Exit { code }) => {
            UNAVAILABLE.contains(code)
                || says(result, &WANTING)
                || (*code == 127 && says(result, &NOT_FOUND))
        }
        _ => false,
    }
}

fn says(result: &CommandResult, any: &[&str]) -> bool {
    let says = |text: &str| {
        let lines = last_lines(text, LAST_WORDS);
        lines.iter().any(|line| any.iter().any(|words| line.contains(words)))
    };
    says(&result.stderr) || says(&result.output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn whose_failure() {
        let exit = |code| Some(Reason::Exit { code });
        let start_failed = Some(Reason::StartFailed { message: "no ptys".to_owned() });
        for (reason, stderr, environment) in [
            (exit(1), "assertion failed", false),
            (exit(127), "bash: line 1: cargoo: command not found\n", true),
            (exit(127), "sh: 1: cargoo: not found", true),
            (exit(127), "it returned 127 of its own", false),
            (exit(1), "bash: line 1: cargoo: command not found\n", false),
            (exit(69), "", true),
            (exit(75), "", true),
            (exit(1), "write: No space left on device", true),
            (exit(1), "OSError: [Errno 98] Address already in use\n", true),
            (start_failed, "", true),
            (Some(Reason::INTERRUPT), "No space left on device", false),
        ] {
            let mut result = sample::command("x", CommandState::Failed, reason);
            stderr.clone_into(&mut result.stderr);
            assert_eq!(is_environment(&result), environment, "{result:?}");
            result.state = CommandState::Completed;
            assert!(!is_environment(&result));
        }
    }

    #[test]
    fn only_last_words_count() {
        let mut result = sample::command("x", CommandState::Failed, Some(Reason::Exit { code: 1 }));
        result.stderr = format!("retrying: Address already in use\n{}", "fine\n".repeat(30));
        assert!(!is_environment(&result));
    }
}
