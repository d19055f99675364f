//! What an earlier coordinator has left: sessions whose holders go on and wait at their doors, and
//! sessions of which only files are left. Everything is looked at before the desk decides anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::desk::Folders;
use super::shelf::{self, Shelved};
use crate::domain::ids::SessionId;
use crate::domain::process::ProcessIdentity;
use crate::domain::session::SessionOwner;
use crate::session::link::{self, HolderLink};
use crate::session::wire::{Ask, Fact, FactBody, Present};
use crate::session::{door, identity, unheard};

/// How long a holder may take to answer at its door.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long a holder that lives is waited for that is not at its door. One that is stopped or hangs
/// is ended after it.
const HOLDER_MAX: Duration = Duration::from_secs(10);
/// How long a session is waited for that nobody has heard of: its holder was only being made.
const UNHEARD_MAX: Duration = Duration::from_millis(500);
/// How long a straggler may take to end.
const CLOSING_MAX: Duration = Duration::from_secs(20);
/// At how many doors it is knocked at the same time.
const KNOCKS_MAX: usize = 64;
const PAUSE: Duration = Duration::from_millis(5);

/// A session that the journal says is open.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Whose it is.
    pub owner: SessionOwner,
    /// Its holder, once that has said who it is.
    pub holder: Option<ProcessIdentity>,
}

/// A session whose holder goes on.
#[derive(Debug)]
pub(super) struct Found {
    /// What its holder says of it.
    pub present: Present,
    /// Its record, as far as it was written.
    pub record: Option<Shelved>,
}

/// A session whose holder is gone.
#[derive(Debug)]
pub(super) struct Gone {
    /// Which.
    pub session: SessionId,
    /// Whose it was.
    pub owner: SessionOwner,
    /// Its holder.
    pub holder: Option<ProcessIdentity>,
    /// Its record, as far as it was written.
    pub record: Option<Shelved>,
    /// What its holder said while nobody heard it.
    pub unheard: Vec<Fact>,
}

impl Gone {
    /// True when its record tells of its end.
    pub(super) fn is_on_record(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.session.closed.is_some())
    }
}

/// All that was left.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Sessions that go on.
    pub found: Vec<Found>,
    /// Sessions that do not.
    pub gone: Vec<Gone>,
}

/// Adopts every session that waits at a door, and waits for those whose holders live. Each failure
/// is one session's own.
pub(super) async fn adopt(
    folders: &Folders,
    epoch: u64,
    mut expected: BTreeMap<SessionId, Expected>,
) -> (Left, Vec<(SessionId, HolderLink)>) {
    let started = Instant::now();
    let (mut left, mut links) = (Left::default(), Vec::new());
    let mut silent = BTreeSet::new();
    loop {
        let mut waiting = door::waiting(&folders.doors).unwrap_or_default();
        waiting.retain(|session| !silent.contains(session));
        for (session, answer) in knock(&folders.doors, waiting, epoch).await {
            match answer {
                Ok((link, present)) => {
                    expected.remove(&session);
                    tracing::info!(%session, holder = present.holder.pid, "adopted");
                    let record = shelf::go_on(&folders.sessions, &session).ok();
                    left.found.push(Found { present, record });
                    links.push((session, link));
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "nobody answers at a session's door");
                    // Only whoever owns the workspace comes here, and it is nobody's.
                    if error.kind() == std::io::ErrorKind::ConnectionRefused {
                        door::remove(&folders.doors, &session);
                    } else {
                        silent.insert(session);
                    }
                }
            }
        }
        if !expected.values().any(|session| may_come(session, started.elapsed())) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    left.gone = expected.into_iter().map(|(session, e)| gone(folders, session, e)).collect();
    (left, links)
}

type Answer = std::io::Result<(HolderLink, Present)>;

/// Knocks at doors, at many at once: one that hangs makes no other wait.
async fn knock(doors: &Path, waiting: Vec<SessionId>, epoch: u64) -> Vec<(SessionId, Answer)> {
    let mut answers = Vec::with_capacity(waiting.len());
    for some in waiting.chunks(KNOCKS_MAX) {
        let mut knocks = JoinSet::new();
        for session in some.iter().cloned() {
            let doors = doors.to_owned();
            knocks.spawn(async move {
                let answer = link::adopt(&doors, &session, epoch, ANSWER_MAX).await;
                (session, answer)
            });
        }
        answers.extend(knocks.join_all().await);
    }
    answers
}

/// Removes the private folders of sessions that nobody has heard of: they were only being opened, or
/// their end was all but done. Which these are is made out at once, before there are new ones.
pub(super) fn clear_private(folder: &Path, left: &Left) {
    let found = left.found.iter().map(|found| &found.present.spec.id);
    let known: BTreeSet<&str> =
        found.chain(left.gone.iter().map(|gone| &gone.session)).map(SessionId::as_str).collect();
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let spare: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            // A shell's driver lies beside the folder, under its name with something behind it.
            let name = entry.file_name();
            let session = name.to_str().and_then(|name| name.split('.').next());
            session.is_some_and(|session| !known.contains(session))
        })
        .map(|entry| entry.path())
        .collect();
    tokio::task::spawn_blocking(move || {
        for folder in spare {
            let removed =
                std::fs::remove_dir_all(&folder).or_else(|_| std::fs::remove_file(&folder));
            if let Err(error) = removed {
                tracing::warn!(folder = %folder.display(), %error, "cannot remove a private folder");
            }
        }
    });
}

/// Closes sessions that came to their doors after everything was decided: their attempts were given
/// up, and nobody hears what they have to say.
pub(super) async fn close_stragglers(doors: PathBuf, epoch: u64, known: BTreeSet<SessionId>) {
    for session in door::waiting(&doors).unwrap_or_default() {
        if known.contains(&session) {
            continue;
        }
        let Ok((mut link, _)) = link::adopt(&doors, &session, epoch, ANSWER_MAX).await else {
            continue;
        };
        tracing::warn!(%session, "a straggler is closed");
        drop(link.send(&Ask::Close));
        let end = tokio::time::timeout(CLOSING_MAX, async {
            while let Some(fact) = link.facts.recv().await {
                if matches!(fact.body, FactBody::Closed { .. }) {
                    return;
                }
            }
        });
        if end.await.is_ok() {
            drop(link.send(&Ask::Ack { through: u64::MAX }));
        }
    }
}

fn may_come(session: &Expected, waited: Duration) -> bool {
    match &session.holder {
        Some(holder) => waited < HOLDER_MAX && identity::lives(holder),
        None => waited < UNHEARD_MAX,
    }
}

fn gone(folders: &Folders, session: SessionId, expected: Expected) -> Gone {
    let Expected { owner, holder } = expected;
    let folder = folders.sessions.join(session.as_str());
    let record = shelf::go_on(&folders.sessions, &session).ok();
    Gone { unheard: read_unheard(&folder), session, owner, holder, record }
}

fn read_unheard(folder: &Path) -> Vec<Fact> {
    unheard::read(folder).unwrap_or_else(|error| {
        tracing::warn!(folder = %folder.display(), %error, "what a holder said cannot be read");
        Vec::new()
    })
}
