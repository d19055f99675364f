//! The package managers: how each is called, and which of its words are packages.

use super::packages::{self, Named};
use super::tables::Does::{self, Adds, AddsOrLocks, Follows, Locks, Removes};
use super::tables::{Installer, MANAGERS};
use super::{Folder, Install, What, below};
use crate::policy::invocation::{Invocation, Word};

/// Whether it is worth reading a text at all.
pub(super) fn may_name_one(text: &str) -> bool {
    MANAGERS.iter().flat_map(|manager| manager.names).any(|name| text.contains(name))
}

/// What an invocation installs in a place.
pub(super) fn read(invocation: &Invocation, place: &Folder) -> Vec<Install> {
    let Some(name) = invocation.name() else { return Vec::new() };
    let mut words = invocation.arguments();
    let mut name = name;
    if packages::is_numbered(name, "python") || name == "py" {
        // `python -m pip install …`
        let module = words.iter().position(|word| word.known() == Some("-m"));
        let Some(at) = module.filter(|at| *at < 3) else { return Vec::new() };
        let Some(told) = words.get(at + 1).and_then(Word::known) else { return Vec::new() };
        (name, words) = (told, &words[at + 2..]);
    }
    if packages::is_numbered(name, "pip") {
        name = "pip";
    }
    let manager = MANAGERS.iter().find(|manager| manager.names.contains(&name));
    manager.map_or_else(Vec::new, |manager| manager.read(words, place))
}

/// The words of a call, sorted.
#[derive(Default)]
struct Sorted<'a> {
    /// Words that are no options, as far as they are known.
    plain: Vec<&'a str>,
    /// True where there are some that are not.
    hidden: bool,
    folder: Option<&'a str>,
    files: Vec<&'a str>,
    version: Option<&'a str>,
    machine: bool,
    idle: bool,
}

impl Installer {
    fn read(&self, words: &[Word], place: &Folder) -> Vec<Install> {
        let sorted = self.sorted(words);
        let Some((taken, does)) = self.verb(&sorted.plain).filter(|_| !sorted.idle) else {
            return Vec::new();
        };
        let machine =
            sorted.machine || sorted.plain[..taken].iter().any(|word| self.machine.contains(word));
        let folder = match sorted.folder {
            _ if machine => Folder::Machine,
            // A file in it names the folder as well.
            Some(told) => match told.rsplit_once('/') {
                Some((folder, file)) if file.contains('.') => below(place, folder),
                None if told.contains(".toml") || told.contains(".xml") || told == "Gemfile" => {
                    place.clone()
                }
                _ => below(place, told),
            },
            None => place.clone(),
        };
        let locks = if machine { Vec::new() } else { owned(self.locks) };
        let install = |what, locks| Install {
            ecosystem: self.ecosystem,
            what,
            folder: folder.clone(),
            locks,
        };
        let mut found: Vec<Install> = sorted
            .files
            .iter()
            .map(|file| install(What::Locked, vec![(*file).to_owned()]))
            .collect();
        let operands = &sorted.plain[taken..];
        match does {
            Locks => found.push(install(What::Locked, locks)),
            Follows => {
                let files = operands.iter().map(|file| vec![(*file).to_owned()]);
                found.extend(files.map(|file| install(What::Locked, file)));
            }
            Adds | AddsOrLocks | Removes => {
                let named: Vec<Named> =
                    operands.iter().filter_map(|word| (self.package)(word)).collect();
                let nothing_told =
                    named.is_empty() && operands.iter().all(|word| word.starts_with('.'));
                if does == AddsOrLocks && nothing_told && !sorted.hidden {
                    found.push(install(What::Locked, locks.clone()));
                }
                let one = named.len() == 1;
                for named in named {
                    let told = sorted.version.filter(|_| one).map(str::to_owned);
                    let version = named.version.or(told);
                    let gone = does == Removes || named.is_removed;
                    let what = match named.name {
                        name if gone => What::Removed { name },
                        name => What::Package { name, version },
                    };
                    found.push(install(what, locks.clone()));
                }
            }
        }
        found
    }

    fn sorted<'a>(&self, words: &'a [Word]) -> Sorted<'a> {
        let mut sorted = Sorted::default();
        let mut words = words.iter();
        let mut only_plain = false;
        while let Some(word) = words.next() {
            let Some(text) = word.known() else {
                sorted.hidden = true;
                continue;
            };
            if only_plain || !text.starts_with('-') || text == "-" {
                // `cargo +nightly add`
                if !(sorted.plain.is_empty() && text.starts_with('+')) {
                    sorted.plain.push(text);
                }
                continue;
            }
            if text == "--" {
                only_plain = true;
                continue;
            }
            let (option, value) = match text.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (text, None),
            };
            let takes = self.values.contains(&option) || self.files.contains(&option);
            sorted.idle |= self.idle.contains(&option) && !takes;
            sorted.machine |= self.machine.contains(&option);
            let value = match value {
                None if takes => match words.next() {
                    Some(next) => next.known(),
                    None => None,
                },
                value => value,
            };
            if let Some(value) = value {
                if self.folders.contains(&option) {
                    sorted.folder = Some(value);
                } else if self.files.contains(&option) {
                    sorted.files.push(value);
                } else if matches!(option, "-v" | "--version" | "--vers") {
                    sorted.version = Some(value);
                }
            }
        }
        sorted
    }

    /// How many words its verb has, and what it does.
    fn verb(&self, plain: &[&str]) -> Option<(usize, Does)> {
        let fits = |verb: &[&str]| {
            verb.len() <= plain.len()
                && verb.iter().zip(plain).all(|(wanted, word)| *wanted == "*" || wanted == word)
                && (!verb.is_empty() || plain.is_empty())
        };
        let (verb, does) = self.verbs.iter().find(|(verb, _)| fits(verb))?;
        Some((verb.len(), *does))
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
