//! Runs a machine's commands until it is over. A lock that somebody else has for a moment is waited
//! for, a bounded number of times.

use std::time::Duration;

use super::command::{Git, Machine, Output, Step};
use super::git;

pub use super::git::pause;

/// How often a command is tried whose lock somebody has: for about 6 s.
const TRIES_MAX: u32 = 8;
const PAUSE: Duration = Duration::from_millis(25);
/// More commands than any undertaking needs.
const STEPS_MAX: usize = 400;

/// Runs it to its end; `None` when it does not come to one.
pub fn drive<M: Machine>(machine: &mut M) -> Option<M::End> {
    let mut step = machine.begin();
    for _ in 0..STEPS_MAX {
        match step {
            Step::Done(end) => return Some(end),
            Step::Git(git) => step = machine.hears(&patiently(&git)),
        }
    }
    tracing::error!("more git commands than there can be");
    None
}

fn patiently(call: &Git) -> Output {
    let mut pause = PAUSE;
    for _ in 1..TRIES_MAX {
        let output = git::run(call);
        if output.is_ok() || !is_locked_out(&output.stderr) {
            return output;
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
    git::run(call)
}

/// Whether a command did nothing since somebody else held a lock. A reference that has another value
/// than was expected is no lock.
fn is_locked_out(words: &str) -> bool {
    let names_lock = words.contains(".lock'") && words.contains("File exists");
    names_lock || words.contains("could not lock config file")
}

#[cfg(test)]
mod tests {
    use super::is_locked_out;

    #[test]
    fn a_lock_is_waited_for_and_a_race_that_was_lost_is_not() {
        for (words, is_lock) in [
            ("error: could not lock config file .git/config: File exists", true),
            ("fatal: Unable to create '/r/.git/index.lock': File exists.", true),
            (
                "fatal: cannot lock ref 'refs/heads/a': Unable to create '/r/.git/refs/heads/a.lock': File exists.",
                true,
            ),
            ("fatal: cannot lock ref 'refs/heads/a': is at 1 but expected 2", false),
            ("fatal: cannot lock ref 'refs/heads/a': reference already exists", false),
            ("", false),
        ] {
            assert_eq!(is_locked_out(words), is_lock, "{words}");
        }
    }
}
