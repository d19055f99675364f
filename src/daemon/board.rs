//! The board as clients ask for it: reading, writing, following. What fills it by itself is in the
//! files below.

pub(super) mod installs;
pub(super) mod locks;
pub(super) mod observed;
pub(super) mod publishing;
pub(super) mod watchers;

#[cfg(test)]
mod tests;

use super::action::Action;
use super::desk::{Desk, no_room, not_found};
use super::sessions::{Asker, Owner};
use crate::control::{Answer, Failure, FailureKind};
use crate::domain::board::key::{self, BOARD_BYTES_MAX, ENTRIES_MAX, covers};
use crate::domain::board::{BoardEntry, Version};
use crate::domain::ids::SessionId;
use crate::domain::time::Timestamp;
use crate::policy::role::Whose;

impl Desk {
    /// Answers with what a key or prefix speaks of.
    pub(super) fn read_board(&mut self, asker: Asker, told: String, now: Timestamp) {
        self.check_locks(now);
        self.note_reading(asker, &told);
        self.act(Action::SendBoard { asker, told });
    }

    /// Lets a client follow what a key or prefix speaks of.
    pub(super) fn watch_board(
        &mut self,
        asker: Asker,
        told: String,
        since: Option<Version>,
        now: Timestamp,
    ) {
        self.check_locks(now);
        self.note_reading(asker, &told);
        self.act(Action::WatchBoard { asker, told, since });
    }

    /// Sets or removes an entry; answered behind the journal.
    pub(super) fn write_entry(
        &mut self,
        asker: Asker,
        key: String,
        value: Option<serde_json::Value>,
        now: Timestamp,
    ) {
        if let Err(failure) = self.may_write(&key, value.as_ref()) {
            return self.refuse_asker(asker, failure);
        }
        let inside = self.inside(asker.connection);
        let writer = inside.map(|session| self.writer_of(&session)).unwrap_or_default();
        self.post(key.clone(), value, writer, now);
        self.decision.durable = true;
        // What `post` has just made of it; a removed one is no entry any more.
        let posted = self.decision.actions.iter().rev().find_map(|action| match action {
            Action::Post { entry, .. } if entry.key == key => Some(Box::new(entry.clone())),
            _ => None,
        });
        match posted {
            Some(entry) => {
                self.reply(asker.connection, asker.request, Answer::EntryWritten { entry });
            }
            None => self.refuse_asker(asker, full()),
        }
    }

    fn may_write(&self, key: &str, value: Option<&serde_json::Value>) -> Result<(), Failure> {
        let usage = |message: String| Failure {
            kind: FailureKind::Usage,
            message,
            hint: Some("keys look like `note/plan`, `contract/api`, `dep/npm/react`".to_owned()),
        };
        let shown: String = key.chars().take(80).collect();
        key::check(key)
            .map_err(|fault| usage(format!("board key `{}`: {fault}", shown.escape_debug())))?;
        if !self.has_room {
            return Err(no_room());
        }
        let Some(value) = value else {
            let hint = "`callboard board get` shows what there is";
            let missing = || not_found(&format!("board key `{key}`"), hint);
            return self.board.get(key).map(drop).ok_or_else(missing);
        };
        let bytes = value.to_string().len();
        if bytes > key::VALUE_BYTES_MAX {
            let message = format!(
                "the value for `{key}` has {bytes} bytes as JSON: the limit is {}",
                key::VALUE_BYTES_MAX
            );
            let hint = Some("write it to a file, and put the file's name up".to_owned());
            return Err(Failure { kind: FailureKind::Usage, message, hint });
        }
        Ok(())
    }

    /// Whether the board takes one more entry. A removal it always takes.
    pub(super) fn has_board_room(&self, entry: &BoardEntry) -> bool {
        let Some(value) = &entry.value else { return true };
        let (standing, own) = match self.board.get(&entry.key) {
            Some(_) => (1, 0),
            None => (0, 1),
        };
        self.board.len() + own <= ENTRIES_MAX.max(self.board.len() * standing)
            && self.board.bytes() + value.to_string().len() + entry.key.len() <= BOARD_BYTES_MAX
    }

    /// Whose an entry is, for a process of a session: its own task's, another's, or nobody's.
    pub(super) fn whose_entry(&self, key: &str, inside: &SessionId) -> Whose {
        match self.board.get(key) {
            None => Whose::New,
            Some(entry) if entry.writer.task == self.writer_of(inside).task => Whose::Own,
            Some(_) => Whose::Other,
        }
    }

    /// An attempt that reads a contract depends on it from then on.
    fn note_reading(&mut self, asker: Asker, told: &str) {
        let Some(inside) = self.inside(asker.connection) else { return };
        let Some(Owner::Attempt { run, task, .. }) =
            self.sessions.get(&inside).map(|session| &session.owner)
        else {
            return;
        };
        let contracts = self.board.beginning("contract/").map(|entry| entry.key.clone());
        let read: Vec<String> = contracts.filter(|key| covers(told, key)).collect();
        if let Some(live) = self.runs.get_mut(run).and_then(|run| run.attempts.get_mut(task)) {
            live.contracts.extend(read);
        }
    }
}

fn full() -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!(
            "the board is full: it has {ENTRIES_MAX} entries and {} MiB at most",
            BOARD_BYTES_MAX / 1024 / 1024
        ),
        hint: Some("`callboard board rm KEY` makes room".to_owned()),
    }
}
