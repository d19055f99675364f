//! What a status means.

use crate::domain::outcome::{CommandState, Reason, signal_name};
use crate::domain::result::Note;

use super::event::Fate;

/// SIGPIPE's status: an early writer of a pipeline that nobody read on. Not a failure.
const STATUS_PIPE: i32 = 141;

/// State and reason for a status that the shell reported, or that it ended with of its own will.
pub fn of_status(status: i32) -> (CommandState, Option<Reason>) {
    match status {
        0 => (CommandState::Completed, None),
        129..=192 => {
            let reason = match signal_name(status - 128) {
                Some(name) => Reason::Signal { signal: name.to_owned(), inferred: true },
                // A real-time signal has no name of its own.
                None => {
                    Reason::Signal { signal: format!("RTMIN+{}", status - 162), inferred: true }
                }
            };
            (CommandState::Failed, Some(reason))
        }
        code => (CommandState::Failed, Some(Reason::Exit { code })),
    }
}

/// State, reason and exit code for a shell that ended with the command.
pub fn of_fate(fate: Fate) -> (CommandState, Option<Reason>, Option<i32>) {
    match fate {
        // The shell's own exit is a number that someone chose; nothing is read into it.
        Fate::Exited(0) => (CommandState::Completed, None, Some(0)),
        Fate::Exited(code) => (CommandState::Failed, Some(Reason::Exit { code }), Some(code)),
        Fate::Signalled(number) => {
            let signal = signal_name(number).map_or_else(|| number.to_string(), str::to_owned);
            (
                CommandState::Failed,
                Some(Reason::Signal { signal, inferred: false }),
                Some(128 + number),
            )
        }
    }
}

/// The remark on a pipeline whose last member hid that another one failed.
pub fn masked_failure(status: i32, pipe_status: Option<&[i32]>) -> Option<Note> {
    let members = pipe_status?;
    let hidden = members.iter().any(|&member| member != 0 && member != STATUS_PIPE);
    (status == 0 && members.len() > 1 && hidden)
        .then(|| Note::MaskedFailure { pipe_status: members.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        assert_eq!(of_status(0), (CommandState::Completed, None));
        assert_eq!(of_status(1).1, Some(Reason::Exit { code: 1 }));
        assert_eq!(of_status(128).1, Some(Reason::Exit { code: 128 }));
        assert_eq!(of_status(193).1, Some(Reason::Exit { code: 193 }));
        assert_eq!(
            of_status(137).1,
            Some(Reason::Signal { signal: "KILL".to_owned(), inferred: true })
        );
        assert_eq!(
            of_status(163).1,
            Some(Reason::Signal { signal: "RTMIN+1".to_owned(), inferred: true })
        );
    }

    #[test]
    fn fates() {
        assert_eq!(of_fate(Fate::Exited(0)), (CommandState::Completed, None, Some(0)));
        assert_eq!(of_fate(Fate::Exited(137)).1, Some(Reason::Exit { code: 137 }));
        let (_, reason, code) = of_fate(Fate::Signalled(9));
        assert_eq!(reason, Some(Reason::Signal { signal: "KILL".to_owned(), inferred: false }));
        assert_eq!(code, Some(137));
    }

    #[test]
    fn only_hidden_failures_are_remarked_on() {
        for (status, members, remarked) in [
            (0, vec![1, 0], true),
            (0, vec![141, 0], false),
            (0, vec![0, 0], false),
            (1, vec![1, 1], false),
            (0, vec![0], false),
        ] {
            assert_eq!(masked_failure(status, Some(&members)).is_some(), remarked, "{members:?}");
        }
        assert_eq!(masked_failure(0, None), None);
    }
}
