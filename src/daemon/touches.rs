//! What sessions were seen to change: whose it was, and where it is written down.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use super::desk::Desk;
use super::story::CommandRecord;
use crate::domain::conflict::{Conflict, Touches, Tracing};
use crate::domain::event::Event as Record;
use crate::domain::ids::SessionId;
use crate::domain::machine::Means;
use crate::domain::result::{How, Note, Touched};
use crate::domain::session::SessionSpec;
use crate::domain::time::Timestamp;

/// Touches that a command's result lists.
const LISTED_MAX: usize = 1_000;
/// Resources whose last touch is remembered.
const REMEMBERED_MAX: usize = 64 * 1024;

/// Conflicts of the past that are remembered, for who held what: the latest.
const CONFLICTS_MAX: usize = 1_000;

/// What sessions without an end were seen to touch, as the journal has it.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Session, time and touches, oldest first.
    pub touched: Vec<(SessionId, Timestamp, Vec<Touched>)>,
    /// Who was told to hold what, oldest first. What a holder has not told yet is known by these.
    pub conflicts: VecDeque<Conflict>,
}

impl Past {
    /// Takes a record in, in order.
    pub(super) fn fold(&mut self, at: Timestamp, event: &Record) {
        match event {
            Record::Touched { session, touches } => {
                self.touched.push((session.clone(), at, touches.touched.clone()));
            }
            Record::ConflictSeen { conflict, .. } => {
                if self.conflicts.len() >= CONFLICTS_MAX {
                    self.conflicts.pop_front();
                }
                self.conflicts.push_back((**conflict).clone());
            }
            Record::SessionClosed { session } => {
                self.touched.retain(|(touching, ..)| touching != session);
            }
            _ => {}
        }
    }
}

/// What of this workspace is watched, and by which means.
#[derive(Debug, Default)]
pub(super) struct Watching {
    /// The folder whose files are resources; `None` in the workspace that all commands outside any
    /// other share.
    pub root: Option<PathBuf>,
    /// What tracing takes here.
    pub means: Means,
    /// Who was last told to have touched a resource, and when.
    last: HashMap<String, (SessionId, Timestamp)>,
}

impl Watching {
    /// All of a folder.
    pub(super) fn of(root: Option<PathBuf>, means: Means) -> Self {
        Self { root, means, last: HashMap::new() }
    }

    /// Has a new session watched.
    pub(super) fn apply(&self, tracing: Tracing, spec: &mut SessionSpec) {
        spec.traced = self.root.is_some() && tracing.is_due(self.means);
        spec.root.clone_from(&self.root);
    }

    /// True where somebody else has been told to have done it since this command began: a change
    /// that is seen once is not two people's.
    fn is_another_s(&self, resource: &str, session: &SessionId, began: Timestamp) -> bool {
        self.last.get(resource).is_some_and(|(who, at)| who != session && *at >= began)
    }

    fn note(&mut self, resource: &str, session: &SessionId, now: Timestamp) {
        if self.last.len() >= REMEMBERED_MAX {
            self.last.clear();
        }
        self.last.insert(resource.to_owned(), (session.clone(), now));
    }
}

impl Desk {
    /// A session's processes were seen to change something.
    pub(super) fn touched(&mut self, id: &SessionId, touches: Touches, now: Timestamp) {
        let Touches { command, mut touched } = touches;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let mut record = command.as_ref().and_then(|command| session.command(command));
        let began = record.as_ref().and_then(|record| record.started).map(|(at, _)| at);
        let began = began.unwrap_or(now);
        touched.retain(|touched| {
            touched.how == How::Traced || !self.watching.is_another_s(&touched.resource, id, began)
        });
        if touched.is_empty() {
            return;
        }
        for touched in &touched {
            self.watching.note(&touched.resource, id, now);
        }
        if let Some(record) = &mut record {
            record.list(&touched);
        }
        let (session, touches) = (id.clone(), Touches { command, touched });
        self.post_files(id, &touches, now);
        self.record(Record::Touched { session, touches: touches.clone() }, now);
        self.judge(id, touches.command.as_ref(), &touches.touched, now);
    }
}

impl CommandRecord {
    /// Lists what it has touched. What is told again after a lost acknowledgement is listed once.
    fn list(&mut self, touched: &[Touched]) {
        for one in touched {
            if self.touched.len() >= LISTED_MAX {
                self.unlisted += 1;
            } else if !self.touched.iter().any(|listed| listed.resource == one.resource) {
                self.touched.push(one.clone());
            }
        }
    }

    /// Says in its notes how many touches are not listed: by us, beside those that were never told.
    pub(super) fn say_unlisted(&self, notes: &mut Vec<Note>) {
        if self.unlisted == 0 {
            return;
        }
        let mut all = self.unlisted;
        notes.retain(|note| match note {
            Note::TouchesOmitted { count } => {
                all += count;
                false
            }
            _ => true,
        });
        notes.push(Note::TouchesOmitted { count: all });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(resource: String) -> Touched {
        Touched { resource, mode: "write".to_owned(), how: How::Inferred }
    }

    #[test]
    fn a_change_seen_by_two_is_the_first_one_s() {
        let (one, two) = (SessionId::new("s-1"), SessionId::new("s-2"));
        let mut watching = Watching::default();
        watching.note("file/a", &one, Timestamp(50));
        for (resource, who, began, expected) in [
            ("file/a", &two, 10, true),
            ("file/a", &two, 50, true),
            ("file/a", &two, 51, false),
            ("file/a", &one, 10, false),
            ("file/b", &two, 10, false),
        ] {
            let is = watching.is_another_s(resource, who, Timestamp(began));
            assert_eq!(is, expected, "{resource} {who} {began}");
        }
    }

    #[test]
    fn a_long_list_has_an_end_that_is_told() {
        let mut record = CommandRecord::new("c-1".into(), "x".to_owned());
        let all: Vec<Touched> = (0..1_500).map(|n| touch(format!("file/{n}"))).collect();
        record.list(&all[..10]);
        record.list(&all[..10]);
        assert_eq!(record.touched.len(), 10);
        record.list(&all[10..]);
        assert_eq!(record.touched.len(), LISTED_MAX);
        let mut notes = vec![Note::FullScreen, Note::TouchesOmitted { count: 7 }];
        record.say_unlisted(&mut notes);
        assert_eq!(notes, [Note::FullScreen, Note::TouchesOmitted { count: 507 }]);
    }
}
