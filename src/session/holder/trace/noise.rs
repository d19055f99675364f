//! What in a workspace is a resource, by its name alone (design, section 6). `.gitignore` is asked
//! apart from this.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A resource of its own.
    File,
    /// Nobody's business.
    Noise,
    /// What git moves into place when it has changed this repository's index or head.
    Git(PathBuf),
}

/// Folders in which nothing is a resource.
const FOLDERS: &[&str] = &[
    "node_modules",
    "target",
    "__pycache__",
    ".callboard",
    ".cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
];

/// Lists of what is installed, which are written by people and programs alike, and no locks.
const KEPT_LOCKS: &[&str] = &[
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "mix.lock",
    "pdm.lock",
    "pixi.lock",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

/// Ends of names that programs keep beside a file while they work on it.
const ENDS: &[&[u8]] =
    &[b"-wal", b"-shm", b"-journal", b".lck", b".pyc", b".swp", b".swo", b".swx", b"~"];

/// Starts of such names.
const STARTS: &[&[u8]] = &[b".#", b".~lock."];

/// What is at `path`, relative to the root.
pub(super) fn kind(path: &Path, is_folder: bool) -> Kind {
    let mut before = PathBuf::new();
    let mut components = path.components().peekable();
    if components.peek().is_none() {
        return Kind::Noise;
    }
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { return Kind::Noise };
        let is_last = components.peek().is_none();
        if name == ".git" {
            let rest: PathBuf = components.collect();
            return if is_head(&rest) { Kind::Git(before) } else { Kind::Noise };
        }
        let is_noise =
            if is_last && !is_folder { is_noisy_name(name) } else { is_noisy_folder(name) };
        if is_noise {
            return Kind::Noise;
        }
        before.push(name);
    }
    Kind::File
}

/// The index and the heads are a working tree's own. A branch is not: two worktrees may each commit
/// to theirs.
fn is_head(inside: &Path) -> bool {
    ["HEAD", "index", "ORIG_HEAD", "MERGE_HEAD"].iter().any(|name| inside == Path::new(name))
}

fn is_noisy_folder(name: &OsStr) -> bool {
    FOLDERS.iter().any(|folder| name == *folder)
}

fn is_noisy_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let is_lock = bytes.ends_with(b".lock") && !KEPT_LOCKS.iter().any(|kept| name == *kept);
    is_lock
        || ENDS.iter().any(|end| bytes.ends_with(end))
        || STARTS.iter().any(|start| bytes.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let git = |repository: &str| Kind::Git(repository.into());
        for (path, expected) in [
            ("a.txt", Kind::File),
            ("src/main.rs", Kind::File),
            ("ключ/файл", Kind::File),
            ("target", Kind::File),
            ("target/debug/x", Kind::Noise),
            ("crates/a/target/x", Kind::Noise),
            ("targets/x", Kind::File),
            ("node_modules/left-pad/index.js", Kind::Noise),
            ("a/__pycache__/m.cpython-313.pyc", Kind::Noise),
            ("m.pyc", Kind::Noise),
            (".callboard/lock", Kind::Noise),
            (".git/HEAD", git("")),
            (".git/index", git("")),
            ("sub/repo/.git/HEAD", git("sub/repo")),
            (".git/index.lock", Kind::Noise),
            (".git/objects/ab/cdef", Kind::Noise),
            (".git/refs/heads/main", Kind::Noise),
            (".git/worktrees/w/HEAD", Kind::Noise),
            (".git", Kind::Noise),
            (".gitignore", Kind::File),
            (".github/workflows/ci.yml", Kind::File),
            ("data.db", Kind::File),
            ("data.db-wal", Kind::Noise),
            ("data.db-shm", Kind::Noise),
            ("Cargo.lock", Kind::File),
            ("web/yarn.lock", Kind::File),
            ("package-lock.json", Kind::File),
            ("build.lock", Kind::Noise),
            (".#notes.txt", Kind::Noise),
            (".notes.txt.swp", Kind::Noise),
            ("notes.txt~", Kind::Noise),
            ("a\u{fffd}b", Kind::File),
            ("", Kind::Noise),
            ("../x", Kind::Noise),
            ("/x", Kind::Noise),
        ] {
            assert_eq!(kind(Path::new(path), false), expected, "{path}");
        }
    }

    #[test]
    fn folders() {
        for (path, expected) in [
            ("target", Kind::Noise),
            ("node_modules", Kind::Noise),
            ("src", Kind::File),
            ("x.lock", Kind::File),
            (".git", Kind::Noise),
        ] {
            assert_eq!(kind(Path::new(path), true), expected, "{path}");
        }
    }
}
