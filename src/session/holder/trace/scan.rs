//! Where the kernel does not tell: what was changed is inferred at a command's end, from the times
//! at which the workspace's files were last changed, and from the names that are missing since the
//! scan before. The holder does nothing else meanwhile, so a scan has a bound in time and number.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ignore::WalkBuilder;

use super::ignored::Ignored;
use super::noise::{self, Kind};
use super::seen::{file_key, git_key};
use crate::domain::result::{How, Touched};

/// Names that a scan looks at.
const NAMES_MAX: usize = 20_000;
/// How long a scan may take, and the part of the command's time that is added to it,
const SCAN: Duration = Duration::from_millis(20);
const SCAN_PART: u32 = 10;
/// up to this.
const SCAN_MAX: Duration = Duration::from_millis(200);
/// Files carry the time of the kernel's last tick, which lies before the true one.
const TICK: Duration = Duration::from_millis(10);

/// Seconds and nanoseconds since 1970.
type Time = (i64, i64);

/// What is known of the workspace's files.
pub(super) struct Scan {
    root: PathBuf,
    /// The names at the last scan; `None` where that was not whole.
    names: Option<HashSet<PathBuf>>,
    /// What was told at the last one, and when it had been changed.
    told: HashMap<PathBuf, Time>,
    began: Instant,
    since: Time,
}

/// What a scan has found.
pub(super) struct Found {
    /// In the order of their names.
    pub touched: Vec<Touched>,
    /// False where there was more to look at than may be.
    pub is_whole: bool,
}

impl Scan {
    /// The first one: the names alone.
    pub(super) fn before(root: &Path) -> Self {
        let mut scan = Self {
            root: root.to_owned(),
            names: None,
            told: HashMap::new(),
            began: Instant::now(),
            since: (0, 0),
        };
        let mut names = HashSet::new();
        let is_whole = scan.walk(SCAN, |path, _| {
            names.insert(path.to_owned());
        });
        scan.names = is_whole.then_some(names);
        scan
    }

    /// A command begins.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = now.saturating_sub(TICK);
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        self.since = (seconds, i64::from(since.subsec_nanos()));
    }

    /// It has ended.
    pub(super) fn end(&mut self, ignored: &mut Ignored, now_ms: u64) -> Found {
        let limit = (SCAN + self.began.elapsed() / SCAN_PART).min(SCAN_MAX);
        let (mut names, mut changed, mut told) = (HashSet::new(), Vec::new(), HashMap::new());
        let mut is_whole = self.walk(limit, |path, changed_at| {
            names.insert(path.to_owned());
            if let Some(at) = changed_at.filter(|at| *at >= self.since) {
                if self.told.get(path) != Some(&at) {
                    changed.push(path.to_owned());
                }
                told.insert(path.to_owned(), at);
            }
        });
        changed.sort();
        let touch = |resource: String, mode: &str| Touched {
            resource,
            mode: mode.to_owned(),
            how: How::Inferred,
        };
        let mut touched: Vec<Touched> =
            changed.iter().map(|path| touch(file_key(path), "write")).collect();
        match self.names.as_ref().filter(|_| is_whole) {
            Some(before) => {
                let mut gone: Vec<&PathBuf> = before.difference(&names).collect();
                // One that has only become ignored is there.
                gone.retain(|path| !ignored.holds(path, false, now_ms));
                gone.sort();
                touched.extend(gone.into_iter().map(|path| touch(file_key(path), "remove")));
            }
            None => is_whole = false,
        }
        if self.has_new_head() {
            touched.push(touch(git_key(Path::new("")), "write"));
        }
        self.told = told;
        self.names = is_whole.then_some(names);
        Found { touched, is_whole }
    }

    /// Whether the repository of the root has another index or head since the command began.
    fn has_new_head(&mut self) -> bool {
        ["HEAD", "index"].iter().any(|name| {
            let found = self.root.join(".git").join(name).symlink_metadata().ok();
            found.is_some_and(|found| (found.ctime(), found.ctime_nsec()) >= self.since)
        })
    }

    /// Walks the files that can be resources, with the time of each one's last change; false where
    /// it had to stop.
    fn walk(&self, limit: Duration, mut take: impl FnMut(&Path, Option<Time>)) -> bool {
        let until = Instant::now() + limit;
        let root = self.root.clone();
        let walk = WalkBuilder::new(&self.root)
            .hidden(false)
            .ignore(false)
            .parents(false)
            .git_global(false)
            .require_git(false)
            .filter_entry(move |entry| {
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                let relative = entry.path().strip_prefix(&root).unwrap_or(Path::new(""));
                relative.as_os_str().is_empty() || noise::kind(relative, is_folder) == Kind::File
            })
            .build();
        for (number, entry) in walk.enumerate() {
            if number >= NAMES_MAX || Instant::now() >= until {
                return false;
            }
            let Ok(entry) = entry else { continue };
            if entry.file_type().is_none_or(|kind| kind.is_dir()) {
                continue;
            }
            let Ok(relative) = entry.path().strip_prefix(&self.root) else { continue };
            let found = entry.metadata().ok();
            take(relative, found.map(|found| (found.ctime(), found.ctime_nsec())));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(scan: &mut Scan, root: &Path) -> Vec<String> {
        let found = scan.end(&mut Ignored::of(root), 0);
        assert!(found.is_whole);
        found
            .touched
            .into_iter()
            .map(|touched| format!("{} {}", touched.mode, touched.resource))
            .collect()
    }

    #[test]
    fn what_was_changed_since_the_command_began() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str| std::fs::write(root.join(name), "x").unwrap();
        std::fs::create_dir(root.join("target")).unwrap();
        for name in ["old", "goes", ".gitignore"] {
            write(name);
        }
        std::fs::write(root.join(".gitignore"), "*.log\n").unwrap();
        std::thread::sleep(2 * TICK);
        let mut scan = Scan::before(root);
        scan.begin();
        write("new");
        write("a.log");
        write("target/x");
        std::fs::remove_file(root.join("goes")).unwrap();
        assert_eq!(resources(&mut scan, root), ["write file/new", "remove file/goes"]);
        scan.begin();
        assert_eq!(resources(&mut scan, root), [""; 0], "what was told is not told again");
        write("old");
        assert_eq!(resources(&mut scan, root), ["write file/old"]);
    }
}
