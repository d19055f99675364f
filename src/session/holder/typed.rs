//! The policy's word on what is typed at a shell within the session: a line of it is a command like
//! any other. What is read by another program is no command, and is not looked at.

use crate::domain::key::{Input, KeyModes, Refused};
use crate::domain::permission::Verdict;
use crate::policy::{self, Judgement};

use super::judge::{judge, unread};
use super::proc::Process;
use super::session::Session;

/// A line that has not ended yet is no longer than this.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// Shells that take commands from their terminal.
const SHELLS: [&str; 9] = ["bash", "sh", "dash", "zsh", "fish", "ksh", "mksh", "ash", "rbash"];
/// Ctrl-C: the line is thrown away.
const INTERRUPT: char = '\u{3}';

/// What has been typed at a shell and has not been ended by a line end.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    /// A key was typed whose effect on the line is the shell's to know.
    edited: bool,
}

impl Session {
    /// The policy's refusal, if what is typed would be a command that may not run.
    pub(super) fn policy_refuses(&mut self, input: &Input, modes: KeyModes) -> Option<Refused> {
        if self.spec.policy.is_empty() {
            return None;
        }
        if !self.tree.born().iter().any(takes_commands) {
            self.typed = Line::default();
            return None;
        }
        let typed = match input {
            Input::Text { text } | Input::Paste { text } | Input::Secret { text } => text.clone(),
            Input::Keys { keys } => {
                let bytes: Vec<u8> = keys.iter().flat_map(|key| key.bytes(modes)).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        let mut line = std::mem::take(&mut self.typed);
        let refusal = line.take(&typed, |script| judge(&self.spec.policy, script));
        match refusal {
            Some(judgement) => Some(Refused::Policy {
                verdict: judgement.verdict,
                rule: judgement.rule,
                message: judgement.reason,
            }),
            None => {
                self.typed = line;
                None
            }
        }
    }
}

impl Line {
    /// Types on. Whole lines are judged together, so that a loop may be typed at once; what they
    /// are refused for leaves nothing typed.
    fn take(&mut self, typed: &str, judge: impl Fn(&str) -> Judgement) -> Option<Judgement> {
        let mut whole = String::new();
        for character in typed.chars() {
            match character {
                '\r' | '\n' => {
                    whole.push_str(&std::mem::take(&mut self.text));
                    whole.push('\n');
                }
                INTERRUPT => {
                    *self = Self::default();
                    whole.clear();
                }
                _ if character.is_control() => self.edited = true,
                _ => self.text.push(character),
            }
            if self.text.len() > LINE_BYTES_MAX {
                return Some(unread("the line is too long"));
            }
            if self.edited && whole.ends_with('\n') {
                return Some(unread("the line was edited while it was typed"));
            }
        }
        if whole.trim().is_empty() {
            return None;
        }
        let judgement = if policy::is_quickly_read(&whole) {
            judge(&whole)
        } else {
            unread("it takes too long to read")
        };
        (judgement.verdict != Verdict::Allow).then_some(judgement)
    }
}

/// Whether a process is a shell that reads commands from its terminal, and not a script's.
fn takes_commands(process: &Process) -> bool {
    SHELLS.contains(&process.name.as_str()) && reads_commands(&process.arguments())
}

/// Whether a shell with these arguments has been given no script.
fn reads_commands(arguments: &[String]) -> bool {
    arguments.iter().skip(1).all(|argument| {
        argument.starts_with("--") || (argument.starts_with(['-', '+']) && !argument.contains('c'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &mut Line, typed: &str) -> bool {
        let judge = |script: &str| {
            let verdict = if script.contains("touch") { Verdict::Deny } else { Verdict::Allow };
            Judgement { verdict, rule: None, reason: String::new() }
        };
        line.take(typed, judge).is_some()
    }

    #[test]
    fn a_line_is_judged_when_it_ends() {
        for (pieces, expected) in [
            (&["touch x\n"][..], true),
            (&["tou", "ch x", "\r"], true),
            (&["touch x"], false),
            (&["touch x", "\u{3}", "ls\n"], false),
            (&["ls\n", "pwd\n"], false),
            (&["ls\ntouch x\n"], true),
            // History, completion, editing: what the line is then only the shell knows.
            (&["\u{1b}[A", "\n"], true),
            (&["t\t\n"], true),
            (&["\u{12}", "\u{3}", "ls\n"], false),
            (&["\n"], false),
        ] {
            let mut line = Line::default();
            let any = pieces.iter().any(|piece| refused(&mut line, piece));
            assert_eq!(any, expected, "{pieces:?}");
        }
        assert!(refused(&mut Line::default(), &"x".repeat(LINE_BYTES_MAX + 1)));
    }

    #[test]
    fn a_shell_with_a_script_takes_no_commands() {
        for (line, expected) in [
            ("bash", true),
            ("-bash", true),
            ("bash -i", true),
            ("bash --norc -i", true),
            ("bash -c true", false),
            ("bash script.sh", false),
            ("sh -ec true", false),
        ] {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(reads_commands(&arguments), expected, "{line}");
        }
    }
}
