//! Touches of calls that went on, until it is known whether they happened: looked at after a
//! moment, and then at growing pauses. A call that failed leaves no sign, and after a second, or at
//! the end of its command, it is taken for that.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::seen::{Seen, Sign};
use crate::domain::result::How;

/// Touches that may be open at a time.
const PENDING_MAX: usize = 16 * 1024;
/// A call that went on has happened after so long, unless the machine is busy.
const SETTLES_MS: u64 = 2;
/// A file that was made is often the stand-in for another, and gets that one's name when it is
/// whole: then it alone is the touch.
const MADE_SETTLES_MS: u64 = 100;
/// The first pause until the next look; each further one is twice as long.
const PAUSE_MS: u64 = 20;
/// After so long it is taken for failed.
const GIVE_UP_MS: u64 = 1_000;

/// The open touches, oldest first.
#[derive(Default)]
pub(super) struct Pending {
    entries: BTreeMap<u64, Entry>,
    by_resource: HashMap<String, u64>,
    next: u64,
}

struct Entry {
    seen: Seen,
    how: How,
    since_ms: u64,
    look_ms: u64,
}

impl Entry {
    fn new(seen: Seen, how: How, now_ms: u64) -> Self {
        let settles = match seen.sign {
            Sign::Made(_) => MADE_SETTLES_MS,
            _ => SETTLES_MS,
        };
        Self { seen, how, since_ms: now_ms, look_ms: now_ms + settles }
    }
}

impl Pending {
    /// True when nothing is open.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes one in. False when there is no room for it.
    pub(super) fn push(&mut self, seen: Seen, how: How, now_ms: u64) -> bool {
        if let Some(entry) =
            self.by_resource.get(&seen.resource).and_then(|number| self.entries.get_mut(number))
        {
            // The same again: whatever is the surer sign.
            if !matches!(entry.seen.sign, Sign::Certain) {
                *entry = Entry::new(seen, how, now_ms);
            }
            return true;
        }
        if self.entries.len() >= PENDING_MAX {
            return false;
        }
        self.by_resource.insert(seen.resource.clone(), self.next);
        self.entries.insert(self.next, Entry::new(seen, how, now_ms));
        self.next += 1;
        true
    }

    /// A file that the session has just made, and that nobody has been told of, goes again: neither
    /// was anything. True when that is so.
    pub(super) fn unmake(&mut self, resource: &str, path: &Path) -> bool {
        let Some(number) = self.by_resource.get(resource).copied() else { return false };
        let made = self.entries.get(&number).map(|entry| &entry.seen.sign);
        let is_it = matches!(made, Some(Sign::Made(made)) if made == path);
        if is_it {
            self.remove(number);
        }
        is_it
    }

    /// What is there already need not wait until it is certain to stay.
    pub(super) fn hasten(&mut self, now_ms: u64) {
        self.entries.values_mut().for_each(|entry| entry.look_ms = now_ms);
    }

    /// Takes out those that have happened; `is_last`: whatever has not by now never will.
    pub(super) fn settle(&mut self, is_last: bool, now_ms: u64) -> Vec<(Seen, How)> {
        let due: Vec<u64> = self
            .entries
            .iter()
            .filter(|(_, entry)| is_last || entry.look_ms <= now_ms)
            .map(|(number, _)| *number)
            .collect();
        let mut happened = Vec::new();
        for number in due {
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            let age_ms = now_ms.saturating_sub(entry.since_ms);
            if entry.seen.sign.is_there() {
                happened.extend(self.remove(number).map(|entry| (entry.seen, entry.how)));
            } else if is_last || age_ms >= GIVE_UP_MS {
                self.remove(number);
            } else {
                entry.look_ms = now_ms + age_ms.max(PAUSE_MS);
            }
        }
        happened
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        self.by_resource.remove(&entry.seen.resource);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(path: &Path) -> Seen {
        let sign = Sign::Made(path.to_owned());
        let resource = format!("file/{}", path.display());
        Seen { resource, mode: "write", file: None, sign }
    }

    #[test]
    fn what_has_not_happened_is_waited_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let (late, never) = (folder.path().join("late"), folder.path().join("never"));
        let mut pending = Pending::default();
        assert!(pending.push(made(&late), How::Traced, 0));
        assert!(pending.push(made(&never), How::Traced, 0));
        assert!(pending.settle(false, 99).is_empty(), "too soon to look");
        assert!(pending.settle(false, 100).is_empty());
        std::fs::write(&late, "").unwrap();
        assert!(pending.settle(false, 199).is_empty(), "a pause");
        assert_eq!(pending.settle(false, 200).len(), 1);
        assert!(!pending.is_empty());
        assert!(pending.settle(false, GIVE_UP_MS).is_empty());
        assert!(pending.is_empty(), "given up");
    }

    #[test]
    fn the_surer_sign_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut pending = Pending::default();
        pending.push(made(&path), How::Traced, 0);
        pending.push(Seen { sign: Sign::Certain, ..made(&path) }, How::Traced, 0);
        pending.push(made(&path), How::Traced, 0);
        assert_eq!(pending.settle(true, 0).len(), 1);
        assert!(pending.is_empty());
    }

    #[test]
    fn made_and_gone_is_nothing() {
        let path = Path::new("/nowhere/x");
        let mut pending = Pending::default();
        let seen = made(path);
        pending.push(seen.clone(), How::Traced, 0);
        assert!(!pending.unmake(&seen.resource, Path::new("/other")));
        assert!(pending.unmake(&seen.resource, path));
        assert!(!pending.unmake(&seen.resource, path));
        assert!(pending.is_empty());
    }

    #[test]
    fn there_is_a_bound() {
        let mut pending = Pending::default();
        for number in 0..PENDING_MAX {
            assert!(pending.push(
                made(&Path::new("/nowhere").join(number.to_string())),
                How::Traced,
                0
            ));
        }
        assert!(!pending.push(made(Path::new("/nowhere/more")), How::Traced, 0));
        assert!(pending.push(made(Path::new("/nowhere/1")), How::Traced, 0), "one that is there");
    }
}
