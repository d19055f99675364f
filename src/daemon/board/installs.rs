//! What commands have installed, put on the board once they have succeeded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::locks;
use crate::daemon::desk::Desk;
use crate::domain::board::BoardEntry;
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::outcome::CommandState;
use crate::domain::time::Timestamp;
use crate::policy::install::{Folder, Install, What, installs};
use crate::session::wire::CommandEnd;

impl Desk {
    /// A command has ended: what it has installed goes on the board.
    pub(in crate::daemon) fn note_installs(
        &mut self,
        id: &SessionId,
        end: &CommandEnd,
        now: Timestamp,
    ) {
        if end.state == CommandState::Completed
            && let Some((text, cwd)) = self.text_and_cwd(id, &end.command)
        {
            let found = installs(&text, &cwd);
            if !found.is_empty() {
                self.post_installs(id, found, now);
            }
        }
        self.check_locks(now);
    }

    /// A command's text, and the folder in which it began.
    fn text_and_cwd(&self, id: &SessionId, command: &CommandId) -> Option<(String, PathBuf)> {
        let session = self.sessions.get(id)?;
        let at = session.index_of(command)?;
        let before = session.commands[..at].iter().rev().filter_map(|record| record.end.as_ref());
        let cwd = before.map(|end| &end.cwd).find(|cwd| !cwd.is_empty());
        let cwd = cwd.map_or_else(|| session.cwd.clone(), PathBuf::from);
        Some((session.commands[at].text.clone(), cwd))
    }

    fn post_installs(&mut self, id: &SessionId, found: Vec<Install>, now: Timestamp) {
        let root = self.folders.root.clone();
        let writer = self.writer_of(id);
        let by = writer.task.clone().unwrap_or_else(|| format!("session {id}"));
        let mut grown: BTreeSet<PathBuf> = BTreeSet::new();
        for Install { ecosystem, what, folder, locks } in found {
            let (cwd, lock) = match &folder {
                Folder::Project(folder) => {
                    (Some(below(&root, folder)), locks::find(folder, &locks, &root))
                }
                Folder::Machine | Folder::Unknown => (None, None),
            };
            let sha256 = lock.as_deref().and_then(|file| self.locks.look(file));
            let named = lock.as_deref().map(|file| below(&root, file));
            grown.extend(lock);
            let (name, version) = match what {
                What::Package { name, version } => (name, version),
                What::Locked => match named.clone().or_else(|| locks.first().cloned()) {
                    // One outside of the root has its whole path.
                    Some(name) => (name.trim_start_matches('/').to_owned(), None),
                    None => continue,
                },
                What::Removed { name } => {
                    let key = format!("dep/{ecosystem}/{name}");
                    if self.board.get(&key).is_some() {
                        self.post(key, None, writer.clone(), now);
                    }
                    continue;
                }
            };
            let lock = named.map(|file| json!({ "file": file, "sha256": sha256 }));
            let value = json!({ "version": version, "by": by, "cwd": cwd, "lock": lock });
            self.post(format!("dep/{ecosystem}/{name}"), Some(value), writer.clone(), now);
        }
        for file in grown {
            self.restamp(&file, now);
        }
    }

    /// An install has changed a lock file: what was installed before is so still.
    fn restamp(&mut self, file: &Path, now: Timestamp) {
        let name = below(&self.folders.root, file);
        let sha256 = self.locks.look(file);
        let entries: Vec<BoardEntry> = self.of_lock(&name).cloned().collect();
        for mut entry in entries {
            let Some(value) = &mut entry.value else { continue };
            if value["lock"]["sha256"].as_str() != sha256.as_deref() {
                value["lock"]["sha256"] = json!(sha256);
                self.post(entry.key, entry.value, entry.writer, now);
            }
        }
    }

    /// Takes entries down whose lock file has changed.
    pub(in crate::daemon) fn check_locks(&mut self, now: Timestamp) {
        for moved in self.locks.moved() {
            let name = below(&self.folders.root, &moved.file);
            let stale = self.of_lock(&name).filter(|entry| {
                let known = entry.value.as_ref().and_then(|value| value["lock"]["sha256"].as_str());
                known != moved.sha256.as_deref()
            });
            let stale: Vec<(String, crate::domain::board::Writer)> =
                stale.map(|entry| (entry.key.clone(), entry.writer.clone())).collect();
            for (key, writer) in stale {
                self.post(key, None, writer, now);
            }
        }
    }

    /// Looks after the lock files that the board knows of.
    pub(in crate::daemon) fn recall_locks(&mut self) {
        let mut known: Vec<(PathBuf, Option<String>)> = Vec::new();
        for entry in self.board.beginning("dep/") {
            let Some(lock) = entry.value.as_ref().map(|value| &value["lock"]) else { continue };
            if let Some(file) = lock["file"].as_str() {
                let sha256 = lock["sha256"].as_str().map(str::to_owned);
                known.push((self.folders.root.join(file), sha256));
            }
        }
        for (file, sha256) in known {
            self.locks.know(&file, sha256);
        }
    }

    fn of_lock<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a BoardEntry> {
        self.board.beginning("dep/").filter(move |entry| {
            entry.value.as_ref().and_then(|value: &Value| value["lock"]["file"].as_str())
                == Some(name)
        })
    }
}

/// A path relative to the root, where it is below; `.` for the root itself.
pub(super) fn below(root: &Path, path: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.to_string_lossy().into_owned(),
        Err(_) => path.to_string_lossy().into_owned(),
    }
}
