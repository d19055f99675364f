//! `callboard session close`.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use crate::cli::client::WireError;
use crate::cli::failure::Failure;
use crate::cli::inbox::{Event, Inbox};
use crate::cli::sessions::{Found, FoundOpen, State, UNATTENDED, Which, past, why_words};
use crate::cli::{exit, output};
use crate::control::{Answer, Call, Response};
use crate::domain::ids::SessionId;
use crate::domain::result::{Child, SCHEMA_VERSION};

/// Close a session, and end everything in it
///
/// Returns once all of its processes are gone; those that cannot be ended are named, and the exit
/// code is 1 then. A session that has ended already is no error.
#[derive(Debug, Args)]
pub(in crate::cli) struct Close {
    #[command(flatten)]
    which: Which,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    session_id: SessionId,
    state: &'static str,
    survivors: Vec<Child>,
}

impl Close {
    /// Closes it.
    ///
    /// # Errors
    /// When there is no such session.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let Found { id, command, shelf, state, .. } = self.which.find()?;
        let survivors = match state {
            State::Open { connection, .. } => {
                close(FoundOpen { id: id.clone(), command, shelf, connection })?
            }
            // It goes on, and waits for a coordinator.
            State::Past(shelved) if shelved.session.state == UNATTENDED => {
                close(self.which.find_open()?)?
            }
            State::Past(shelved) => {
                let closed = shelved.session.closed.as_ref();
                let why = closed.map(|closed| why_words(closed.why)).unwrap_or_default();
                output::note(format!("session {id} has ended already: {why}\n"));
                closed.map(|closed| closed.survivors.clone()).unwrap_or_default()
            }
        };
        let code = if survivors.is_empty() { exit::SUCCEEDED } else { exit::FAILED };
        output::note(words(&survivors));
        if self.json {
            let (schema_version, state) = (SCHEMA_VERSION, "closed");
            output::print_json(&Document { schema_version, session_id: id, state, survivors })?;
        }
        Ok(code)
    }
}

/// Has it closed, however long its processes take to end. An interrupt only ends the waiting.
fn close(mut found: FoundOpen) -> Result<Vec<Child>, Failure> {
    let mut inbox = Inbox::new();
    inbox.hear_wire(&mut found.connection)?;
    let asked = found.connection.send(Call::CloseSession { session: found.id.clone() })?;
    loop {
        match inbox.next(std::time::Duration::from_secs(60)) {
            Event::Wire(Ok(Response::Reply { id, answer })) if id == asked => {
                return match *answer {
                    Answer::SessionClosed { survivors, .. } => Ok(survivors),
                    _ => Err(WireError::Unexpected { call: "close_session" }.into()),
                };
            }
            Event::Wire(Ok(Response::Refusal { id, failure })) if id == asked => {
                // It may have ended between the two questions.
                return match past(&found.id, &found.shelf) {
                    Ok(shelved) if failure.kind == crate::control::FailureKind::SessionClosed => {
                        Ok(shelved.session.closed.map(|c| c.survivors).unwrap_or_default())
                    }
                    _ => Err(failure.into()),
                };
            }
            Event::Wire(Err(error)) => return Err(error.into()),
            Event::Wire(Ok(_)) | Event::Quiet | Event::Interrupt | Event::Connected(_) => {}
        }
    }
}

fn words(survivors: &[Child]) -> String {
    let mut words = String::new();
    for child in survivors {
        let _infallible =
            writeln!(words, "callboard: cannot end process {}: {}", child.pid, child.command);
    }
    words
}
