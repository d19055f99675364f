//! Names that a client chooses for what it asks for, so that it finds it again after the coordinator
//! was lost: unguessable, for whoever knows one may claim what it stands for.

use rand::RngExt;

use crate::domain::ids::RunId;
use crate::domain::letters::{RUN_LETTERS, TICKET_LETTERS, letters};

/// A run's id.
pub(super) fn run() -> RunId {
    RunId::new(format!("r-{}", random(RUN_LETTERS)))
}

/// A command's ticket.
pub(super) fn command() -> String {
    random(TICKET_LETTERS)
}

/// The session that a coordinator makes for a command with this ticket, if it makes one: with it
/// what was printed can be read whatever else was lost.
pub(super) fn session(ticket: &str) -> String {
    format!("s-{}", ticket.get(..16).unwrap_or(ticket))
}

fn random(count: usize) -> String {
    let mut rng = rand::rng();
    letters((0..count).map(|_| rng.random()))
}
