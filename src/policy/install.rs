//! What a script installs, as far as its text tells: `npm i react@18` installs react.
//!
//! Told from the text alone, and true only when the script has succeeded. The script is read as rules
//! read it (`script`): behind `sudo`, `env` and `sh -c`, after `cd`. Not told is what runs in the
//! background, what a function that is only defined would do, and what an expansion decides. A script
//! that may take long to read is looked at line by line.

mod families;
mod managers;
mod packages;
mod tables;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use self::managers::read;
use super::invocation::Invocation;
use super::script::{Contents, contents, is_quickly_read};

/// Of one script no more are told than this.
pub const INSTALLS_MAX: usize = 256;
/// Of a script that is looked at line by line, so many lines at most.
const LINES_MAX: usize = 2_000;

/// Something that a script installs, or removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// `npm`, `pip`, `cargo`, `go`, `apt`, `gem`, `composer` or `maven`.
    pub ecosystem: &'static str,
    /// What.
    pub what: What,
    /// For which folder.
    pub folder: Folder,
    /// Where what is installed is written down, in the folder or above: the first that is there.
    pub locks: Vec<String>,
}

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A package.
    Package {
        /// Its name, without its version.
        name: String,
        /// The version as it was asked for, if it was.
        version: Option<String>,
    },
    /// A package is removed.
    Removed {
        /// Its name.
        name: String,
    },
    /// Everything that the lock file names.
    Locked,
}

/// Where something is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// For the project in this folder.
    Project(PathBuf),
    /// For the whole machine, or the user.
    Machine,
    /// An expansion decides.
    Unknown,
}

/// What a script that ran in `cwd` has installed, if it succeeded; in order, each once.
#[must_use]
pub fn installs(text: &str, cwd: &Path) -> Vec<Install> {
    let mut found = Vec::new();
    if !managers::may_name_one(text) {
        return found;
    }
    if is_quickly_read(text) {
        take(&contents(text), cwd, &mut found);
    } else {
        for line in text.lines().filter(|line| managers::may_name_one(line)).take(LINES_MAX) {
            if is_quickly_read(line) {
                take(&contents(line), cwd, &mut found);
            }
        }
    }
    found.truncate(INSTALLS_MAX);
    found
}

fn take(contents: &Contents, cwd: &Path, found: &mut Vec<Install>) {
    let mut place = Folder::Project(cwd.to_owned());
    // Where the shells outside of this one stand, and when each goes on.
    let mut outer: Vec<(usize, Folder)> = Vec::new();
    for (at, invocation) in contents.invocations.iter().enumerate() {
        while outer.last().is_some_and(|(end, _)| *end <= at) {
            if let Some((_, before)) = outer.pop() {
                place = before;
            }
        }
        let mut begins: Vec<usize> = contents
            .scoped
            .iter()
            .filter(|scope| scope.start == at)
            .map(|scope| scope.end)
            .collect();
        begins.sort_unstable_by(|a, b| b.cmp(a));
        outer.extend(begins.into_iter().map(|end| (end, place.clone())));
        if contents.untold.iter().any(|untold| untold.contains(&at)) {
            continue;
        }
        match invocation.name() {
            Some("cd" | "pushd") => place = entered(&place, invocation),
            Some("popd") => place = Folder::Unknown,
            _ => {
                for install in read(invocation, &place) {
                    if !found.contains(&install) {
                        found.push(install);
                    }
                }
            }
        }
    }
}

/// Where `cd` leads.
fn entered(place: &Folder, invocation: &Invocation) -> Folder {
    let mut operands = invocation
        .arguments()
        .iter()
        .filter(|word| word.known().is_none_or(|text| text == "-" || !text.starts_with('-')));
    match operands.next().map(|word| word.known()) {
        Some(Some(told)) if !told.starts_with(['~', '-']) => below(place, told),
        _ => Folder::Unknown,
    }
}

/// A path as it is told in a folder; `..` is followed by its letters alone.
fn below(place: &Folder, told: &str) -> Folder {
    let base = match place {
        _ if told.starts_with('/') => Path::new("/"),
        Folder::Project(folder) => folder.as_path(),
        other => return other.clone(),
    };
    let mut path = PathBuf::new();
    for part in base.join(told).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    Folder::Project(path)
}
