//! Sessions that are opened ahead of the attempts that come next, so that a short task does not
//! wait for its shell. Nothing runs in one before its attempt's start is durable, as in any other;
//! a wrong guess is closed.

use super::desk::Desk;
use super::names;
use super::sessions::{Owner, SessionState};
use crate::control::ClosedWhy;
use crate::domain::ids::{RunId, SessionId};
use crate::domain::time::Timestamp;
use crate::scheduler::Upcoming;

/// Where attempts take longer, what their sessions take to open is nothing to them. And a session
/// that has waited for longer is not used: `SECONDS` and the like would tell its age.
pub(super) const BRISK_MS: u64 = 1_000;

/// A session opened ahead.
#[derive(Debug)]
pub(super) struct Warm {
    /// For which attempt.
    next: Upcoming,
    session: SessionId,
    since: Timestamp,
}

impl Desk {
    /// Opens the sessions of the attempts that come next, and closes those of attempts that do not
    /// come next any more.
    pub(super) fn warm_ahead(&mut self, id: &RunId, now: Timestamp) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let mut upcoming =
            if run.brisk && self.has_room { run.schedule.upcoming() } else { Vec::new() };
        // A folder that what runs now makes anew would not be the one that the shell stands in.
        upcoming.retain(|next| run.plan.tasks[next.task].cwd.is_none());
        // And one of its own is made when its attempt begins.
        upcoming.retain(|next| run.plan.tasks[next.task].isolation.is_shared());
        let stale: Vec<Warm> =
            run.warm.extract_if(.., |warm| !upcoming.contains(&warm.next)).collect();
        upcoming.retain(|next| run.warm.iter().all(|warm| warm.next != *next));
        for warm in stale {
            self.close_session(&warm.session, ClosedWhy::Closed, now);
        }
        for next in upcoming {
            let session = names::session();
            let Some(run) = self.runs.get_mut(id) else { return };
            run.warm.push(Warm { next, session: session.clone(), since: now });
            let attempt = run.attempt_id(next.task, next.attempt);
            let owner = Owner::Upcoming { label: run.label(next.task), attempt };
            self.open_for(id, next, session, owner, now);
        }
    }

    /// The session that was opened ahead for this attempt, if it can be used.
    pub(super) fn take_warm(
        &mut self,
        id: &RunId,
        next: Upcoming,
        now: Timestamp,
    ) -> Option<SessionId> {
        let warm = &mut self.runs.get_mut(id)?.warm;
        let at = warm.iter().position(|warm| warm.next == next)?;
        let warm = warm.remove(at);
        let state = self.sessions.get(&warm.session)?.state;
        let is_whole = matches!(state, SessionState::Starting | SessionState::Idle);
        if is_whole && now.ms_since(warm.since) <= BRISK_MS {
            return Some(warm.session);
        }
        self.close_session(&warm.session, ClosedWhy::Closed, now);
        None
    }
}
