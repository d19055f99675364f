//! The package managers: how each is called, and which of its words are packages.

use super::packages::{self, Named};
use super::{Folder, Install, What, below};
use crate::policy::invocation::{Invocation, Word};

/// What a verb of a package manager does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Installs its operands.
    Adds,
    /// Installs its operands; without any, what the lock file names.
    AddsOrLocks,
    /// Installs what the lock file names.
    Locks,
    /// Installs what the files that are its operands name.
    Follows,
    /// Removes its operands.
    Removes,
}

/// A package manager.
struct Manager {
    names: &'static [&'static str],
    ecosystem: &'static str,
    /// Words before the operands, and what they do; the first that fits counts.
    verbs: &'static [(&'static [&'static str], Does)],
    /// Options whose value is the next word.
    values: &'static [&'static str],
    /// Those that name the folder.
    folders: &'static [&'static str],
    /// Those that name a file with what is to be installed.
    files: &'static [&'static str],
    /// Words with which it installs for the whole machine.
    machine: &'static [&'static str],
    /// Options with which it installs nothing.
    idle: &'static [&'static str],
    locks: &'static [&'static str],
    package: fn(&str) -> Option<Named>,
}

use Does::{Adds, AddsOrLocks, Follows, Locks, Removes};

const NPM: Manager = Manager {
    names: &["npm"],
    ecosystem: "npm",
    verbs: &[
        (&["ci"], Locks),
        (&["clean-install"], Locks),
        (&["ic"], Locks),
        (&["install-clean"], Locks),
        (&["install"], AddsOrLocks),
        (&["i"], AddsOrLocks),
        (&["in"], AddsOrLocks),
        (&["add"], AddsOrLocks),
        (&["update"], Locks),
        (&["up"], Locks),
        (&["uninstall"], Removes),
        (&["remove"], Removes),
        (&["rm"], Removes),
        (&["un"], Removes),
    ],
    values: &[
        "--prefix",
        "-C",
        "--registry",
        "--tag",
        "-w",
        "--workspace",
        "--cache",
        "--userconfig",
        "--loglevel",
        "--omit",
        "--include",
        "--before",
    ],
    folders: &["--prefix", "-C"],
    files: &[],
    machine: &["-g", "--global"],
    idle: &["-h", "--help", "--dry-run", "--package-lock-only"],
    locks: &["package-lock.json", "npm-shrinkwrap.json", "package.json"],
    package: packages::npm,
};

const MANAGERS: &[Manager] = &[
    NPM,
    Manager {
        names: &["pnpm"],
        verbs: &[
            (&["install"], AddsOrLocks),
            (&["i"], AddsOrLocks),
            (&["add"], Adds),
            (&["update"], Locks),
            (&["up"], Locks),
            (&["remove"], Removes),
            (&["rm"], Removes),
            (&["uninstall"], Removes),
            (&["un"], Removes),
        ],
        values: &["-C", "--dir", "--filter", "-F", "--registry", "--reporter", "--store-dir"],
        folders: &["-C", "--dir"],
        idle: &["-h", "--help", "--dry-run", "--lockfile-only"],
        locks: &["pnpm-lock.yaml", "package.json"],
        ..NPM
    },
    Manager {
        names: &["yarn", "yarnpkg"],
        verbs: &[
            (&["global", "add"], Adds),
            (&["global", "remove"], Removes),
            (&["add"], Adds),
            (&["install"], Locks),
            (&["up"], Locks),
            (&["upgrade"], Locks),
            (&["remove"], Removes),
            (&["workspace", "*", "add"], Adds),
            (&["workspace", "*", "remove"], Removes),
            (&[], Locks),
        ],
        values: &["--cwd", "--registry", "--cache-folder", "--modules-folder"],
        folders: &["--cwd"],
        machine: &["global"],
        idle: &["-h", "--help", "-v", "--version"],
        locks: &["yarn.lock", "package.json"],
        ..NPM
    },
    Manager {
        names: &["pip"],
        verbs: &[(&["install"], Adds), (&["uninstall"], Removes)],
        files: &["-r", "--requirement"],
        ..PIP
    },
    Manager { names: &["pipx"], machine: &["install", "uninstall"], ..PIP },
    Manager {
        names: &["uv"],
        verbs: &[
            (&["add"], Adds),
            (&["remove"], Removes),
            (&["sync"], Locks),
            (&["pip", "install"], Adds),
            (&["pip", "uninstall"], Removes),
            (&["pip", "sync"], Follows),
            (&["tool", "install"], Adds),
            (&["tool", "uninstall"], Removes),
        ],
        values: &[
            "--directory",
            "--project",
            "--group",
            "--extra",
            "--optional",
            "--index",
            "--python",
            "-p",
            "--default-index",
            "--index-url",
            "-i",
            "--extra-index-url",
            "-c",
            "--constraint",
            "--target",
            "--prefix",
            "--package",
            "--tag",
            "--rev",
            "--branch",
        ],
        folders: &["--directory", "--project"],
        files: &["-r", "--requirements", "--requirement"],
        machine: &["tool", "--system"],
        locks: &["uv.lock", "pyproject.toml", "requirements.txt"],
        ..PIP
    },
    Manager {
        names: &["poetry"],
        verbs: &[
            (&["add"], Adds),
            (&["install"], Locks),
            (&["sync"], Locks),
            (&["update"], Locks),
            (&["remove"], Removes),
        ],
        values: &[
            "-C",
            "--directory",
            "-P",
            "--project",
            "-G",
            "--group",
            "-E",
            "--extras",
            "--python",
            "--platform",
            "--source",
            "--with",
            "--without",
            "--only",
        ],
        folders: &["-C", "--directory", "-P", "--project"],
        idle: &["-h", "--help", "--dry-run", "--lock"],
        locks: &["poetry.lock", "pyproject.toml"],
        ..PIP
    },
    Manager {
        names: &["cargo"],
        ecosystem: "cargo",
        verbs: &[
            (&["add"], Adds),
            (&["install"], Adds),
            (&["fetch"], Locks),
            (&["remove"], Removes),
            (&["rm"], Removes),
            (&["uninstall"], Removes),
        ],
        values: &[
            "-F",
            "--features",
            "--vers",
            "--version",
            "--git",
            "--branch",
            "--tag",
            "--rev",
            "--path",
            "--root",
            "--target",
            "--target-dir",
            "--registry",
            "--index",
            "--rename",
            "--manifest-path",
            "-p",
            "--package",
            "-j",
            "--jobs",
            "--profile",
            "--bin",
            "--color",
            "-C",
            "--config",
            "-Z",
            "--example",
        ],
        folders: &["-C", "--manifest-path"],
        files: &[],
        machine: &["install", "uninstall"],
        idle: &["-h", "--help", "-n", "--dry-run", "--list"],
        locks: &["Cargo.lock", "Cargo.toml"],
        package: packages::plain,
    },
    Manager {
        names: &["go"],
        ecosystem: "go",
        verbs: &[
            (&["get"], AddsOrLocks),
            (&["install"], Adds),
            (&["mod", "download"], Locks),
            (&["mod", "tidy"], Locks),
        ],
        values: &["-C", "-modfile", "-tags", "-ldflags", "-gcflags"],
        folders: &["-C"],
        files: &[],
        machine: &["install"],
        idle: &["-h", "-help", "--help"],
        locks: &["go.sum", "go.mod"],
        package: packages::go,
    },
    Manager {
        names: &["apt", "apt-get", "aptitude"],
        ecosystem: "apt",
        verbs: &[
            (&["install"], Adds),
            (&["reinstall"], Adds),
            (&["remove"], Removes),
            (&["purge"], Removes),
        ],
        values: &["-o", "--option", "-t", "--target-release", "-c", "--config-file", "-a"],
        folders: &[],
        files: &[],
        machine: &["install", "reinstall", "remove", "purge"],
        idle: &[
            "-h",
            "--help",
            "-s",
            "--simulate",
            "--dry-run",
            "--just-print",
            "--no-act",
            "-d",
            "--download-only",
            "--print-uris",
        ],
        locks: &[],
        package: packages::apt,
    },
    Manager {
        names: &["gem"],
        ecosystem: "gem",
        verbs: &[(&["install"], Adds), (&["i"], Adds), (&["uninstall"], Removes)],
        values: &[
            "-v",
            "--version",
            "-i",
            "--install-dir",
            "-n",
            "--bindir",
            "-s",
            "--source",
            "-P",
            "--trust-policy",
            "--platform",
            "-g",
            "--file",
        ],
        folders: &[],
        files: &[],
        machine: &["install", "i", "uninstall"],
        idle: &["-h", "--help", "--explain"],
        locks: &[],
        package: packages::gem,
    },
    Manager {
        names: &["bundle", "bundler"],
        ecosystem: "gem",
        verbs: &[
            (&["install"], Locks),
            (&["update"], Locks),
            (&["add"], Adds),
            (&["remove"], Removes),
            (&[], Locks),
        ],
        values: &[
            "-v",
            "--version",
            "-g",
            "--group",
            "-s",
            "--source",
            "--gemfile",
            "--path",
            "--jobs",
            "-j",
            "--retry",
            "--without",
            "--with",
            "--require",
            "-r",
        ],
        folders: &["--gemfile"],
        files: &[],
        machine: &[],
        idle: &["-h", "--help", "-v"],
        locks: &["Gemfile.lock", "Gemfile"],
        package: packages::gem,
    },
    Manager {
        names: &["composer"],
        ecosystem: "composer",
        verbs: &[
            (&["global", "require"], Adds),
            (&["global", "remove"], Removes),
            (&["require"], Adds),
            (&["install"], Locks),
            (&["i"], Locks),
            (&["update"], Locks),
            (&["remove"], Removes),
        ],
        values: &["-d", "--working-dir"],
        folders: &["-d", "--working-dir"],
        files: &[],
        machine: &["global"],
        idle: &["-h", "--help", "--dry-run", "--no-install"],
        locks: &["composer.lock", "composer.json"],
        package: packages::composer,
    },
    Manager {
        names: &["mvn", "mvnw", "mvnd"],
        verbs: &[
            (&["dependency:resolve"], Locks),
            (&["dependency:go-offline"], Locks),
            (&["*", "dependency:go-offline"], Locks),
            (&["compile"], Locks),
            (&["test"], Locks),
            (&["package"], Locks),
            (&["verify"], Locks),
            (&["install"], Locks),
            (&["clean", "*"], Locks),
        ],
        values: &["-f", "--file", "-pl", "--projects", "-s", "--settings", "-P", "-T", "-rf", "-l"],
        folders: &["-f", "--file"],
        idle: &["-h", "--help", "-v", "--version"],
        locks: &["pom.xml"],
        ..JVM
    },
    Manager {
        names: &["gradle", "gradlew"],
        verbs: &[
            (&["build"], Locks),
            (&["assemble"], Locks),
            (&["test"], Locks),
            (&["check"], Locks),
            (&["dependencies"], Locks),
            (&["classes"], Locks),
            (&["clean", "*"], Locks),
        ],
        values: &[
            "-p",
            "--project-dir",
            "-b",
            "--build-file",
            "-c",
            "-x",
            "--exclude-task",
            "-I",
            "-g",
            "--tests",
            "--console",
            "--max-workers",
        ],
        folders: &["-p", "--project-dir"],
        idle: &["-h", "--help", "-v", "--version", "-m", "--dry-run"],
        locks: &["gradle.lockfile", "build.gradle.kts", "build.gradle"],
        ..JVM
    },
];

const PIP: Manager = Manager {
    names: &[],
    ecosystem: "pip",
    verbs: &[(&["install"], Adds), (&["uninstall"], Removes)],
    values: &[
        "-e",
        "--editable",
        "-c",
        "--constraint",
        "-t",
        "--target",
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "--prefix",
        "--root",
        "--src",
        "--python",
        "--platform",
        "--proxy",
        "--timeout",
        "--retries",
        "--cache-dir",
        "--log",
        "--spec",
    ],
    folders: &[],
    files: &[],
    machine: &[],
    idle: &["-h", "--help", "--dry-run", "--download"],
    locks: &["requirements.txt", "pyproject.toml"],
    package: packages::pip,
};

const JVM: Manager = Manager {
    names: &[],
    ecosystem: "maven",
    verbs: &[],
    values: &[],
    folders: &[],
    files: &[],
    machine: &[],
    idle: &[],
    locks: &[],
    package: packages::plain,
};

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

impl Manager {
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
