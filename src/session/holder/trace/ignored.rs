//! What `.gitignore` ignores, with or without git: the files of every folder from the root down,
//! and `.git/info/exclude`. The user's own file of ignored names is not read: two people who share
//! a workspace see the same touches.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Folders that are remembered.
const FOLDERS_MAX: usize = 4096;
/// For so long: a `.gitignore` may have been edited.
const REMEMBERED_MS: u64 = 500;
/// A longer file of patterns is not read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The patterns of a root.
pub(super) struct Ignored {
    root: PathBuf,
    folders: HashMap<PathBuf, Folder>,
    since_ms: u64,
}

struct Folder {
    patterns: Option<Gitignore>,
    is_ignored: bool,
}

impl Ignored {
    /// Those of this root.
    pub(super) fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), folders: HashMap::new(), since_ms: 0 }
    }

    /// True when `path`, relative to the root, is ignored.
    pub(super) fn holds(&mut self, path: &Path, is_folder: bool, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.since_ms) > REMEMBERED_MS || self.folders.len() > FOLDERS_MAX
        {
            self.folders.clear();
            self.since_ms = now_ms;
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        self.learn(parent) || self.is_named(path, is_folder)
    }

    /// Learns a folder and those above it; true when it is ignored, and with it all below.
    fn learn(&mut self, folder: &Path) -> bool {
        if let Some(known) = self.folders.get(folder) {
            return known.is_ignored;
        }
        let is_ignored =
            folder.parent().is_some_and(|above| self.learn(above) || self.is_named(folder, true));
        let patterns = (!is_ignored).then(|| self.read(folder)).flatten();
        self.folders.insert(folder.to_owned(), Folder { patterns, is_ignored });
        is_ignored
    }

    /// The nearest file that names it decides.
    fn is_named(&self, path: &Path, is_folder: bool) -> bool {
        for folder in path.ancestors().skip(1) {
            let patterns = self.folders.get(folder).and_then(|known| known.patterns.as_ref());
            match patterns.map(|patterns| patterns.matched(self.root.join(path), is_folder)) {
                Some(Match::Ignore(_)) => return true,
                Some(Match::Whitelist(_)) => return false,
                Some(Match::None) | None => {}
            }
        }
        false
    }

    fn read(&self, folder: &Path) -> Option<Gitignore> {
        let place = self.root.join(folder);
        let mut files = vec![place.join(".gitignore")];
        if folder.as_os_str().is_empty() {
            // Weaker than the other: what is added later counts more.
            files.insert(0, place.join(".git/info/exclude"));
        }
        let mut builder = GitignoreBuilder::new(&place);
        let mut any = false;
        for file in files {
            // Reading what is no file may never end.
            let metadata = std::fs::metadata(&file).ok();
            if metadata.is_some_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX) {
                // Patterns that are wrong are left out, as git does.
                any |= builder.add(&file).is_none();
            }
        }
        any.then(|| builder.build().ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_git_does() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = root.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write(".gitignore", "*.log\n/build\nout/\n!kept.log\ndeep/**/x\n");
        write("sub/.gitignore", "!special.log\n/own\n");
        write(".git/info/exclude", "private\n");
        let mut ignored = Ignored::of(root.path());
        for (path, expected) in [
            ("a.txt", false),
            ("a.log", true),
            ("kept.log", false),
            ("sub/a.log", true),
            ("sub/special.log", false),
            ("sub/own", true),
            ("own", false),
            ("build", true),
            ("build/x/y", true),
            ("sub/build", false),
            ("out", false),
            ("out/kept.log", true),
            ("sub/out/a", true),
            ("deep/a/b/x", true),
            ("private", true),
        ] {
            assert_eq!(ignored.holds(Path::new(path), false, 0), expected, "{path}");
        }
        assert!(ignored.holds(Path::new("out"), true, 0));
        write(".gitignore", "");
        assert!(ignored.holds(Path::new("a.log"), false, REMEMBERED_MS), "it is remembered");
        assert!(!ignored.holds(Path::new("a.log"), false, REMEMBERED_MS + 1), "and learned anew");
    }
}
