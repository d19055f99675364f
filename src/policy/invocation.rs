//! A program that a script would start, and whether a rule speaks of it.

use crate::domain::permission::{Rule, matches};

/// A word of a command: what is known of it before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// This, always.
    Known(String),
    /// One word or several, or none: an expansion decides.
    Unknown,
}

impl Word {
    pub(super) fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown => None,
        }
    }
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invocation {
    /// The program first; never empty.
    pub(super) words: Vec<Word>,
}

/// Whether a rule speaks of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    /// It depends on words that are not known.
    Perhaps,
    No,
}

impl Invocation {
    pub(super) fn program(&self) -> Option<&str> {
        self.words.first()?.known()
    }

    /// The program's name without its folder.
    pub(super) fn name(&self) -> Option<&str> {
        self.program().map(base_name)
    }

    pub(super) fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or(&[])
    }

    /// A rule that forbids or asks: its options may stand anywhere, its other words in their
    /// order, with whatever between them. `rm -r` speaks of `rm -v -fr x`, `git push` of
    /// `git -C there push`.
    pub(super) fn is_struck_by(&self, rule: &Rule) -> Match {
        match self.program() {
            None => return Match::Perhaps,
            Some(program) if !names(rule.program(), program) => return Match::No,
            Some(_) => {}
        }
        let unknown = self.arguments().contains(&Word::Unknown);
        let mut plain = self.arguments().iter().filter_map(Word::known);
        for wanted in rule.arguments() {
            let found = if is_option(wanted) {
                self.has_option(wanted)
            } else {
                plain.any(|argument| matches(wanted, argument))
            };
            if !found {
                // What is not known can stand for this word and for all the rest.
                return if unknown { Match::Perhaps } else { Match::No };
            }
        }
        Match::Yes
    }

    /// A rule that allows: its words are the command's first, none of them unknown. `git status`
    /// speaks of `git status -s`, not of `git -c alias.status=!rm status`.
    pub(super) fn is_covered_by(&self, rule: &Rule) -> bool {
        let Some(program) = self.program() else { return false };
        names(rule.program(), program)
            && rule.arguments().len() <= self.arguments().len()
            && rule.arguments().iter().zip(self.arguments()).all(|(wanted, argument)| {
                argument.known().is_some_and(|argument| matches(wanted, argument))
            })
    }

    fn has_option(&self, wanted: &str) -> bool {
        let mut known = self.arguments().iter().filter_map(Word::known);
        match letters(wanted) {
            Some(wanted_letters) => wanted_letters.chars().all(|letter| {
                let mut known = self.arguments().iter().filter_map(Word::known);
                known.any(|argument| letters(argument).is_some_and(|has| has.contains(letter)))
            }),
            None => known.any(|argument| {
                let name = argument.split_once('=').map_or(argument, |(name, _)| name);
                matches(wanted, argument) || matches(wanted, name)
            }),
        }
    }
}

/// A pattern without a slash speaks of the program in whatever folder.
fn names(pattern: &str, program: &str) -> bool {
    if pattern.contains('/') {
        matches(pattern, program)
    } else {
        matches(pattern, base_name(program))
    }
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// The letters of a cluster of short options, as in `-rf`.
fn letters(word: &str) -> Option<&str> {
    let letters = word.strip_prefix('-')?;
    let is_cluster = !letters.is_empty() && letters.chars().all(char::is_alphanumeric);
    is_cluster.then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(text: &str) -> Invocation {
        let word = |word: &str| match word {
            "$" => Word::Unknown,
            word => Word::Known(word.to_owned()),
        };
        Invocation { words: text.split(' ').map(word).collect() }
    }

    #[test]
    fn rules_that_forbid_are_hard_to_step_around() {
        use Match::{No, Perhaps, Yes};
        for (rule, command, expected) in [
            ("touch", "touch a", Yes),
            ("touch", "/usr/bin/touch a", Yes),
            ("touch", "touchy a", No),
            ("touch", "echo touch", No),
            ("touch", "$ a", Perhaps),
            ("/bin/touch", "/usr/bin/touch a", No),
            ("rm -rf", "rm -v -r x -f", Yes),
            ("rm -rf", "rm -r x", No),
            ("rm -rf", "rm $ x", Perhaps),
            ("rm --recursive", "rm --recursive x", Yes),
            ("curl --output", "curl --output=x", Yes),
            ("git push", "git -C there push origin", Yes),
            ("git push", "git pull", No),
            ("git push", "git $", Perhaps),
            ("git push --force", "git push -f", No),
            ("mkfs*", "mkfs.ext4 /dev/sda", Yes),
            ("rm * /", "rm -rf /", Yes),
            ("npm install *", "npm install left-pad", Yes),
        ] {
            let rule = Rule::parse(rule).unwrap();
            assert_eq!(invocation(command).is_struck_by(&rule), expected, "{rule} on {command}");
        }
    }

    #[test]
    fn rules_that_allow_are_taken_at_their_word() {
        for (rule, command, expected) in [
            ("git status", "git status -s", true),
            ("git status", "git -C there status", false),
            ("git", "git push", true),
            ("git status", "git $", false),
            ("git status", "git", false),
            ("*", "anything", true),
            ("*", "$", false),
            ("/usr/bin/*", "/usr/bin/env", true),
            ("/usr/bin/*", "env", false),
        ] {
            let rule = Rule::parse(rule).unwrap();
            assert_eq!(invocation(command).is_covered_by(&rule), expected, "{rule} on {command}");
        }
    }
}
