//! How long sessions stay, and how many there may be.

use super::action::Action;
use super::desk::Desk;
use super::sessions::{Owner, Session};
use crate::control::{ClosedWhy, Failure, FailureKind};
use crate::domain::ids::SessionId;
use crate::domain::session::SessionDefaults;
use crate::domain::time::Timestamp;

/// A kept session that nobody uses is closed after this long, when nobody said.
pub(super) const TTL_MS: u64 = 30 * 60_000;
/// How many sessions may be open, those of tasks left out, when nobody said. Two hundred idle
/// ones cost next to nothing; each is a shell and two ptys.
pub(super) const SESSIONS_MAX: u32 = 256;
/// How long what a session said is kept after its end, when nobody said.
pub const RETENTION_MS: u64 = 7 * 24 * 60 * 60_000;
/// How often orphans and old transcripts are looked for while the coordinator runs, at most.
const SWEEP_EVERY_MS: u64 = 60_000;
/// And at least, where things are kept for a short time only.
const SWEEP_EVERY_MIN_MS: u64 = 500;

/// What holds for sessions in this workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// How many may be open, those of tasks left out.
    pub sessions_max: u32,
    /// How long what one said is kept after its end, in ms.
    pub retention_ms: u64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { sessions_max: SESSIONS_MAX, retention_ms: RETENTION_MS }
    }
}

impl Desk {
    /// Takes over what a client has read in `agents.toml`: the latest word holds.
    pub(super) fn heed(&mut self, defaults: SessionDefaults) {
        self.terms = Terms {
            sessions_max: defaults.max_sessions.unwrap_or(SESSIONS_MAX),
            retention_ms: defaults.retention_ms.unwrap_or(RETENTION_MS),
        };
    }

    /// How long a new session may stay unused.
    pub(super) fn set_ttl(&mut self, id: &SessionId, defaults: SessionDefaults) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.ttl_ms = Some(defaults.ttl_ms.unwrap_or(TTL_MS));
        }
    }

    /// Whether one more session may be opened.
    ///
    /// # Errors
    /// When as many are open as may be: which of them has been unused for longest.
    pub(super) fn room_for_session(&self, now: Timestamp) -> Result<(), Failure> {
        let counted = self
            .sessions
            .values()
            .filter(|session| matches!(session.owner, Owner::Call { .. } | Owner::Kept { .. }));
        if counted.count() < self.terms.sessions_max as usize {
            return Ok(());
        }
        let idle = self.sessions.values().filter(|s| s.is_kept() && s.is_idle());
        let longest = idle.min_by_key(|session| (session.used, session.id.clone()));
        let hint = match longest {
            Some(session) => {
                let name = session.name().unwrap_or(session.id.as_str());
                format!(
                    "`{name}` is idle longest, for {} s: `callboard session close {name}`; or \
                     raise `max_sessions` in agents.toml",
                    now.ms_since(session.used) / 1000
                )
            }
            None => "none of them is idle: wait, or raise `max_sessions` in agents.toml".to_owned(),
        };
        let message = format!("{} sessions are open, as many as may be", self.terms.sessions_max);
        Err(Failure { kind: FailureKind::SessionLimit, message, hint: Some(hint) })
    }

    /// Closes what nobody uses any more.
    pub(super) fn close_unused(&mut self, now: Timestamp) {
        let unused: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| session.unused_at().is_some_and(|at| at <= now))
            .map(|session| session.id.clone())
            .collect();
        for session in unused {
            self.close_session(&session, ClosedWhy::Unused, now);
        }
    }

    /// When the next session will have been unused for its whole time.
    pub(super) fn next_unused(&self) -> Option<Timestamp> {
        self.sessions.values().filter_map(Session::unused_at).min()
    }

    /// A command that was typed at has had its time to take it in: if it waits still, it waits.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let due: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| settles_at(session).is_some_and(|at| at <= now))
            .map(|session| session.id.clone())
            .collect();
        for id in due {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.commands.iter_mut().for_each(|record| record.settles_at = None);
            }
            self.changed(&id, now);
        }
    }

    /// When the next such time is over.
    pub(super) fn next_settling(&self) -> Option<Timestamp> {
        self.sessions.values().filter_map(settles_at).min()
    }

    /// Looks for orphans and old transcripts from time to time.
    pub(super) fn sweep_when_due(&mut self, now: Timestamp) {
        if self.swept_at.is_some_and(|at| now < at.plus_ms(self.sweep_pause_ms())) {
            return;
        }
        let is_first = self.swept_at.is_none();
        self.swept_at = Some(now);
        self.act(Action::Tidy {
            open: self.sessions.keys().cloned().collect(),
            retention_ms: self.terms.retention_ms,
            orphans: is_first || !self.sessions.is_empty(),
            now,
        });
    }

    /// When that is next.
    pub(super) fn next_sweep(&self) -> Option<Timestamp> {
        Some(self.swept_at.map_or(self.since, |at| at.plus_ms(self.sweep_pause_ms())))
    }

    fn sweep_pause_ms(&self) -> u64 {
        (self.terms.retention_ms / 2).clamp(SWEEP_EVERY_MIN_MS, SWEEP_EVERY_MS)
    }
}

fn settles_at(session: &Session) -> Option<Timestamp> {
    session.commands.iter().rev().find_map(|record| record.settles_at)
}
