//! Does a command wait for input? The decision, from what the kernel showed of the processes in
//! the foreground (design, section 3; the probing itself is the session's). `docs/awaiting.md`
//! gives the reasons.

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
    /// A process there may not be examined (another uid); it sleeps.
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
    /// How it polls; `None` for a read.
    pub poll: Option<Poll>,
}

impl Wait {
    /// True for a poll that ends by itself.
    pub fn has_limit(&self) -> bool {
        self.poll.is_some_and(|poll| poll.limit_ms.is_some())
    }
}

/// A poll with the terminal among its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Its time limit; `None`: for ever.
    pub limit_ms: Option<u64>,
    /// It may as well wait for something else: a socket, another process's pipe, a child or a
    /// thread at work.
    pub company: bool,
    /// The terminal is out of line mode: single keys are taken.
    pub keys: bool,
    /// CPU time of its process so far.
    pub cpu_ms: u64,
}

/// The token of a wait that cannot be examined.
pub const HIDDEN: (i32, u64) = (0, 0);

/// A poll that waits for nothing but the terminal does so in earnest after this: a program that
/// is about to print has done so.
pub const ALONE_QUIET_MS: u64 = 40;
/// A terminal without echo.
pub const SECRET_QUIET_MS: u64 = 100;
/// A poll with a limit of its own that takes single keys.
pub const PAUSE_QUIET_MS: u64 = 250;
/// A poll that takes single keys behind a prompt, and may as well wait for something else.
pub const KEYS_PROMPT_QUIET_MS: u64 = 500;
/// A poll that may as well wait for something else, and one that comes back to itself.
pub const COMPANY_QUIET_MS: u64 = 2_000;
/// The founding text's rule, where the process cannot be examined.
pub const PROMPT_QUIET_MS: u64 = 2_000;
/// A longer limit is none.
const LIMIT_MS_MAX: u64 = 10_000;
/// What redraws a screen by itself does so every three seconds or sooner. A longer limit is no
/// clock for the eyes: an editor's for its swap file, a runtime's for its memory.
const CLOCK_MS_MAX: u64 = 3_000;
/// A shorter limit is a tick, not a pause.
const SECRET_LIMIT_MS_MIN: u64 = 1_000;
/// So often a poll with a limit has to come back before it counts by that.
const ROUNDS_MIN: u64 = 3;
/// It may use one part in so many of a processor meanwhile.
const ROUNDS_CPU_PART: u64 = 20;

/// What sights over time show.
#[derive(Debug, Default)]
pub struct Rounds {
    first: Option<(Wait, u64)>,
    enough: bool,
    /// It has printed while its poll counted as a wait, and nobody had answered: its limit is the
    /// clock by which it goes on.
    pub runs_by_clock: bool,
}

impl Rounds {
    /// Takes a sight. A poll with a time limit counts its rounds as long as every look finds it in
    /// that poll, with no output or input and next to no work in between.
    pub fn note(&mut self, sight: Sight, quiet_ms: u64, now_ms: u64) {
        let Sight::Waits(wait @ Wait { poll: Some(poll), token: (thread, round), .. }) = sight
        else {
            *self = Self { runs_by_clock: self.runs_by_clock, ..Self::default() };
            return;
        };
        if let Some((first, since_ms)) = self.first
            && let Some(first_poll) = first.poll
            && first.token.0 == thread
            && quiet_ms >= now_ms.saturating_sub(since_ms)
        {
            let waited_ms = now_ms.saturating_sub(since_ms);
            let worked_ms = poll.cpu_ms.saturating_sub(first_poll.cpu_ms);
            self.enough = round.saturating_sub(first.token.1) >= ROUNDS_MIN
                && waited_ms >= COMPANY_QUIET_MS
                && worked_ms * ROUNDS_CPU_PART <= waited_ms;
            return;
        }
        self.first = Some((wait, now_ms));
        self.enough = false;
    }
}

/// What the sight means, `quiet_ms` after the last output.
pub fn judge(sight: Sight, last_line: &str, quiet_ms: u64, rounds: &Rounds) -> Option<Wait> {
    match sight {
        Sight::Busy | Sight::ShellPrompt => None,
        Sight::Waits(wait) => match wait.poll {
            None => Some(wait),
            Some(poll) => judge_poll(wait, poll, last_line, quiet_ms, rounds),
        },
        Sight::Hidden { secret } => {
            let (evidence, enough_ms) = if secret {
                (Evidence::EchoOff, SECRET_QUIET_MS)
            } else {
                (Evidence::QuietPrompt, PROMPT_QUIET_MS)
            };
            let asks = secret || looks_like_a_prompt(last_line);
            let wait = Wait { evidence, secret, token: HIDDEN, replaced: false, poll: None };
            (asks && quiet_ms >= enough_ms).then_some(wait)
        }
    }
}

fn judge_poll(
    wait: Wait,
    poll: Poll,
    last_line: &str,
    quiet_ms: u64,
    rounds: &Rounds,
) -> Option<Wait> {
    let limit_ms = poll.limit_ms.filter(|&limit_ms| limit_ms < LIMIT_MS_MAX);
    if wait.secret && limit_ms.is_none_or(|limit_ms| limit_ms >= SECRET_LIMIT_MS_MIN) {
        let wait = Wait { evidence: Evidence::EchoOff, ..wait };
        return (quiet_ms >= SECRET_QUIET_MS).then_some(wait);
    }
    let asks = looks_like_a_prompt(last_line);
    let waits = match limit_ms {
        None if !poll.company => quiet_ms >= ALONE_QUIET_MS,
        // In line mode a limited poll is a read that gives up soon.
        Some(_) if !poll.keys || rounds.runs_by_clock => false,
        Some(limit_ms) if limit_ms <= CLOCK_MS_MAX => !poll.company && rounds.enough,
        Some(_) if !poll.company => quiet_ms >= PAUSE_QUIET_MS,
        // Whoever is at the other end may be the one that is waited for, or that asks.
        None | Some(_) if poll.keys && asks => quiet_ms >= KEYS_PROMPT_QUIET_MS,
        None | Some(_) => quiet_ms >= COMPANY_QUIET_MS && (poll.keys || asks),
    };
    waits.then_some(wait)
}

/// The record of it.
pub fn describe(wait: Wait, last_line: &str, quiet_ms: u64) -> Awaiting {
    Awaiting {
        prompt: last_line.to_owned(),
        secret: wait.secret,
        evidence: wait.evidence,
        certainty: match wait.evidence {
            Evidence::TtyRead => Certainty::Certain,
            Evidence::EchoOff | Evidence::TtyPoll | Evidence::QuietPrompt => Certainty::Possible,
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

    fn polls(limit_ms: Option<u64>) -> Poll {
        Poll { limit_ms, company: false, keys: false, cpu_ms: 0 }
    }

    fn waits(poll: Option<Poll>) -> Sight {
        let evidence = if poll.is_none() { Evidence::TtyRead } else { Evidence::TtyPoll };
        Sight::Waits(Wait { evidence, secret: false, token: (7, 1), replaced: false, poll })
    }

    fn secretly(sight: Sight) -> Sight {
        let Sight::Waits(wait) = sight else { panic!() };
        Sight::Waits(Wait { secret: true, ..wait })
    }

    #[test]
    fn evidence_counts_by_its_strength() {
        let alone = polls(None);
        let company = Poll { company: true, ..alone };
        let keys = Poll { keys: true, ..company };
        let vim = Poll { keys: true, ..polls(Some(4_000)) };
        let top = Poll { limit_ms: Some(3_000), ..vim };
        let rows = [
            (waits(None), "", 0, Some(Evidence::TtyRead)),
            (waits(Some(alone)), "", 39, None),
            (waits(Some(alone)), "", 40, Some(Evidence::TtyPoll)),
            (waits(Some(polls(Some(10_000)))), "", 40, Some(Evidence::TtyPoll)),
            (waits(Some(polls(Some(9_999)))), "Password: ", 60_000, None),
            (secretly(waits(Some(alone))), "", 99, None),
            (secretly(waits(Some(alone))), "", 100, Some(Evidence::EchoOff)),
            (secretly(waits(Some(polls(Some(200))))), "", 60_000, None),
            (waits(Some(company)), "building", 60_000, None),
            (waits(Some(company)), "Name: ", 1_999, None),
            (waits(Some(company)), "Name: ", 2_000, Some(Evidence::TtyPoll)),
            (waits(Some(keys)), "name: ", 500, Some(Evidence::TtyPoll)),
            (
                waits(Some(Poll { limit_ms: Some(8_000), ..keys })),
                "",
                2_000,
                Some(Evidence::TtyPoll),
            ),
            (waits(Some(Poll { limit_ms: Some(3_000), ..keys })), "name: ", 60_000, None),
            (waits(Some(keys)), "", 1_999, None),
            (waits(Some(keys)), "", 2_000, Some(Evidence::TtyPoll)),
            (waits(Some(vim)), "", 249, None),
            (waits(Some(vim)), "", 250, Some(Evidence::TtyPoll)),
            (waits(Some(top)), "", 60_000, None),
            (Sight::Busy, "Password: ", 60_000, None),
            (Sight::ShellPrompt, "$ ", 60_000, None),
            (Sight::Hidden { secret: false }, "Password: ", 1_999, None),
            (Sight::Hidden { secret: false }, "Password: ", 2_000, Some(Evidence::QuietPrompt)),
            (Sight::Hidden { secret: true }, "", 99, None),
            (Sight::Hidden { secret: true }, "", 100, Some(Evidence::EchoOff)),
            (Sight::Hidden { secret: false }, "compiling", 60_000, None),
        ];
        for (sight, line, quiet_ms, expected) in rows {
            let judged = judge(sight, line, quiet_ms, &Rounds::default());
            let evidence = judged.map(|wait| wait.evidence);
            assert_eq!(evidence, expected, "{sight:?} {line} {quiet_ms}");
        }
    }

    #[test]
    fn a_limit_that_is_taken_again_and_again_is_a_wait() {
        // Rounds and CPU time after 2 s, whether all looks found it there, and what follows.
        for (rounds_taken, cpu_ms, always, counts) in [
            (20, 10, true, true),
            (2, 0, true, false),
            (20, 200, true, false),
            (20, 10, false, false),
        ] {
            let mut rounds = Rounds::default();
            let at = |round: u64, cpu_ms: u64| {
                let poll = Poll { keys: true, cpu_ms, ..polls(Some(100)) };
                let Sight::Waits(wait) = waits(Some(poll)) else { panic!() };
                Sight::Waits(Wait { token: (7, round), ..wait })
            };
            rounds.note(at(1, 0), 15, 15);
            if !always {
                rounds.note(Sight::Busy, 1_000, 1_000);
            }
            let last = at(1 + rounds_taken, cpu_ms);
            rounds.note(last, 2_100, 2_100);
            assert_eq!(judge(last, "", 2_100, &rounds).is_some(), counts, "{rounds_taken}");
            // Output begins the count anew.
            rounds.note(last, 10, 2_110);
            assert_eq!(judge(last, "", 10, &rounds), None);
        }
    }
}
