//! Does a command wait for input? The decision, from what the kernel showed of the processes in
//! the foreground (design, section 3; the probing itself is the session's).

use crate::domain::result::{Awaiting, Certainty, Evidence};

/// What a look at the foreground group showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Nobody there waits for the terminal.
    Busy,
    /// The shell itself stands at a prompt of its own instead of in the driver's loop.
    ShellPrompt,
    /// A process waits for the terminal.
    Waits(Wait),
    /// A process there may not be examined (another uid).
    Hidden {
        /// Terminal in line mode without echo.
        secret: bool,
    },
}

/// A process that waits for the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What shows it.
    pub evidence: Evidence,
    /// Terminal in line mode without echo: a password.
    pub secret: bool,
    /// Differs between two waits of the same process: its pid and its count of voluntary
    /// context switches.
    pub token: (i32, u64),
    /// True when the process took the shell's place (`exec`).
    pub replaced: bool,
}

/// A process in poll waits in earnest only when nothing has come for so long.
pub const POLL_QUIET_MS: u64 = 500;
/// The founding text's rule, where the process cannot be examined.
pub const PROMPT_QUIET_MS: u64 = 2_000;

/// What the sight means, `quiet_ms` after the last output.
pub fn judge(sight: Sight, last_line: &str, quiet_ms: u64) -> Option<Wait> {
    match sight {
        Sight::Busy | Sight::ShellPrompt => None,
        Sight::Waits(wait) => match wait.evidence {
            Evidence::TtyRead => Some(wait),
            Evidence::TtyPoll | Evidence::QuietPrompt => {
                (quiet_ms >= POLL_QUIET_MS).then_some(wait)
            }
        },
        Sight::Hidden { secret } => {
            let asks = secret || looks_like_a_prompt(last_line);
            (asks && quiet_ms >= PROMPT_QUIET_MS).then_some(Wait {
                evidence: Evidence::QuietPrompt,
                secret,
                token: (0, 0),
                replaced: false,
            })
        }
    }
}

/// The record of it.
pub fn describe(wait: Wait, last_line: &str, quiet_ms: u64) -> Awaiting {
    Awaiting {
        prompt: last_line.to_owned(),
        secret: wait.secret,
        evidence: wait.evidence,
        certainty: match wait.evidence {
            Evidence::TtyRead => Certainty::Certain,
            Evidence::TtyPoll | Evidence::QuietPrompt => Certainty::Possible,
        },
        idle_ms: quiet_ms,
    }
}

/// A line that has not ended and stops at a sign with which questions stop.
fn looks_like_a_prompt(last_line: &str) -> bool {
    let line = last_line.trim_end_matches([' ', '\t']);
    line.ends_with([':', '?', '>', '$', '#', '%', ']', ')'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(evidence: Evidence) -> Sight {
        Sight::Waits(Wait { evidence, secret: false, token: (7, 1), replaced: false })
    }

    #[test]
    fn evidence_counts_by_its_strength() {
        let rows = [
            (waits(Evidence::TtyRead), "", 0, true),
            (waits(Evidence::TtyPoll), "", 499, false),
            (waits(Evidence::TtyPoll), "", 500, true),
            (Sight::Busy, "Password: ", 60_000, false),
            (Sight::ShellPrompt, "$ ", 60_000, false),
            (Sight::Hidden { secret: false }, "Password: ", 1_999, false),
            (Sight::Hidden { secret: false }, "Password: ", 2_000, true),
            (Sight::Hidden { secret: true }, "", 2_000, true),
            (Sight::Hidden { secret: false }, "compiling", 60_000, false),
        ];
        for (sight, line, quiet_ms, expected) in rows {
            assert_eq!(
                judge(sight, line, quiet_ms).is_some(),
                expected,
                "{sight:?} {line} {quiet_ms}"
            );
        }
    }
}
