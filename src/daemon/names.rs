//! Fresh names for runs and sessions: unguessable, short enough to read aloud.

use rand::RngExt;

use crate::domain::ids::{CommandId, EscalationId, RunId, SessionId};
use crate::domain::letters::{ALPHABET, RUN_LETTERS, letters};

/// Letters of a session's id: 80 bits.
const SESSION_LETTERS: usize = 16;

/// A run.
pub(super) fn run() -> RunId {
    RunId::new(format!("r-{}", random_letters(RUN_LETTERS)))
}

/// An escalation.
pub(super) fn escalation() -> EscalationId {
    EscalationId::new(format!("e-{}", random_letters(RUN_LETTERS)))
}

/// A session: 80 bits, since whoever knows it may use it.
pub(super) fn session() -> SessionId {
    SessionId::new(format!("s-{}", random_letters(SESSION_LETTERS)))
}

/// The session of an `exec` with a ticket: unguessable, as the ticket is. `None` for a ticket that
/// is too short, or of other letters.
pub(super) fn of_ticket(ticket: &str) -> Option<SessionId> {
    let letters = ticket.get(..SESSION_LETTERS)?;
    let ours = letters.bytes().all(|byte| ALPHABET.contains(&byte));
    ours.then(|| SessionId::new(format!("s-{letters}")))
}

/// The `n`-th command of a session.
pub(super) fn command(session: &SessionId, n: u32) -> CommandId {
    CommandId::new(format!("{session}.{n}"))
}

/// A person's stay at a session's terminal: among its commands, but numbered apart from a task's.
pub(super) fn stay(session: &SessionId, n: u32) -> CommandId {
    CommandId::new(format!("{session}.t{n}"))
}

/// True for the name of such a stay.
pub(super) fn is_stay(command: &CommandId) -> bool {
    command.as_str().rsplit_once('.').is_some_and(|(_, n)| n.starts_with('t'))
}

/// A seed for a run's jitter.
pub(super) fn seed() -> u64 {
    rand::rng().random()
}

fn random_letters(count: usize) -> String {
    let mut rng = rand::rng();
    letters((0..count).map(|_| rng.random()))
}
