//! Lock files: what package managers write down of what is installed. An entry of the board that
//! hangs on one lives until the file changes by anything but another install.
//!
//! They are looked at (a `stat` each; their content only where that differs) before and after every
//! command, and when the board is read.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// A file of more bytes is told by its size and time alone.
const READ_MAX: u64 = 32 * 1024 * 1024;
/// So many lock files are looked after.
const LOCKS_MAX: usize = 256;

/// The lock files that entries hang on, by path.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Locks(BTreeMap<PathBuf, Lock>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lock {
    stat: Option<Stat>,
    sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    size: u64,
    modified_ns: (i64, i64),
    inode: u64,
}

/// A lock file that is not as it was known.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Moved {
    pub(in crate::daemon) file: PathBuf,
    /// Its content's hash, in hexadecimal; `None` when it is gone.
    pub(in crate::daemon) sha256: Option<String>,
}

impl Locks {
    /// Begins to look after a file, known by this hash.
    pub(in crate::daemon) fn know(&mut self, file: &Path, sha256: Option<String>) {
        if self.0.len() < LOCKS_MAX || self.0.contains_key(file) {
            // The time that belongs to that content is not known: it is looked at once.
            self.0.insert(file.to_owned(), Lock { stat: None, sha256 });
        }
    }

    /// Looks at a file, and knows it as it is now.
    pub(in crate::daemon) fn look(&mut self, file: &Path) -> Option<String> {
        let lock = looked_at(file);
        let sha256 = lock.sha256.clone();
        if self.0.len() < LOCKS_MAX || self.0.contains_key(file) {
            self.0.insert(file.to_owned(), lock);
        }
        sha256
    }

    /// Those that have changed since they were looked at last.
    pub(in crate::daemon) fn moved(&mut self) -> Vec<Moved> {
        let mut moved = Vec::new();
        for (file, known) in &mut self.0 {
            let stat = stat_of(file);
            if stat == known.stat && (stat.is_some() || known.sha256.is_none()) {
                continue;
            }
            let now = looked_at(file);
            if now.sha256 != known.sha256 {
                moved.push(Moved { file: file.clone(), sha256: now.sha256.clone() });
            }
            *known = now;
        }
        self.0.retain(|_, lock| lock.stat.is_some());
        moved
    }
}

/// The first of these names that is a file in the folder, or in one above it up to `root`.
pub(in crate::daemon) fn find(folder: &Path, names: &[String], root: &Path) -> Option<PathBuf> {
    let above = folder.ancestors().take_while(|above| *above == folder || above.starts_with(root));
    let mut files = above.flat_map(|folder| names.iter().map(|name| folder.join(name)));
    files.find(|file| file.is_file())
}

fn stat_of(file: &Path) -> Option<Stat> {
    let found = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    let modified_ns = (found.mtime(), found.mtime_nsec());
    Some(Stat { size: found.size(), modified_ns, inode: found.ino() })
}

fn looked_at(file: &Path) -> Lock {
    let stat = stat_of(file);
    let sha256 = stat.as_ref().and_then(|stat| match stat.size {
        0..READ_MAX => hash(file).ok(),
        size => Some(format!("size {size}, time {:?}", stat.modified_ns)),
    });
    Lock { stat, sha256 }
}

fn hash(file: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(READ_MAX).read_to_end(&mut bytes)?;
    hasher.update(&bytes);
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_is_found_and_its_changes_are_seen() {
        let root = tempfile::tempdir().unwrap();
        let sub = root.path().join("a/b");
        std::fs::create_dir_all(&sub).unwrap();
        let names = ["x.lock".to_owned(), "x.json".to_owned()];
        assert_eq!(find(&sub, &names, root.path()), None);
        std::fs::write(root.path().join("x.json"), "{}").unwrap();
        assert_eq!(find(&sub, &names, root.path()), Some(root.path().join("x.json")));
        let file = sub.join("x.lock");
        std::fs::write(&file, "1").unwrap();
        assert_eq!(find(&sub, &names, root.path()), Some(file.clone()));
        let mut locks = Locks::default();
        let first = locks.look(&file);
        assert_eq!(first.as_deref().map(str::len), Some(64));
        assert_eq!(locks.moved(), []);
        std::fs::write(&file, "22").unwrap();
        let moved = locks.moved();
        assert!(moved[0].file == file && moved[0].sha256 != first);
        assert_eq!(locks.moved(), []);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(locks.moved(), [Moved { file: file.clone(), sha256: None }]);
        assert_eq!(locks.moved(), []);
        // Written anew with what an entry knows: nothing has changed.
        std::fs::write(&file, "1").unwrap();
        locks.know(&file, first);
        assert_eq!(locks.moved(), []);
    }
}
