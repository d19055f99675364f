//! `callboard session interrupt`.

use clap::Args;
use serde::Serialize;

use crate::cli::client::WireError;
use crate::cli::failure::Failure;
use crate::cli::inbox::{Event, Inbox};
use crate::cli::sessions::Which;
use crate::cli::{exit, output};
use crate::control::{Answer, Call, Response};
use crate::domain::ids::SessionId;
use crate::domain::result::{CommandResult, SCHEMA_VERSION};
use crate::report::words::reason_words;

/// Interrupt what runs in a session
///
/// As Ctrl-C would, then more firmly: TERM after 500 ms, KILL after 2 s more. Returns once the
/// command has ended with all its processes; the session can be used on. That nothing runs is no
/// error.
#[derive(Debug, Args)]
pub(in crate::cli) struct Interrupt {
    #[command(flatten)]
    which: Which,
    /// Print one JSON document: the command's result under `command`, or null
    #[arg(long)]
    pub(super) json: bool,
}

impl Interrupt {
    /// Interrupts it.
    ///
    /// # Errors
    /// When the session is not open.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document {
            schema_version: u32,
            session_id: SessionId,
            command: Option<Box<CommandResult>>,
        }
        let mut found = self.which.find_open()?;
        let session_id = found.id.clone();
        let mut inbox = Inbox::new();
        inbox.hear_wire(&mut found.connection)?;
        let call = Call::Interrupt { session: session_id.clone(), command: found.command.clone() };
        let asked = found.connection.send(call)?;
        let command = loop {
            match inbox.next(std::time::Duration::from_secs(60)) {
                Event::Wire(Ok(Response::Reply { id, answer })) if id == asked => match *answer {
                    Answer::Interrupted { result } => break result,
                    _ => return Err(WireError::Unexpected { call: "interrupt" }.into()),
                },
                Event::Wire(Ok(Response::Refusal { id, failure })) if id == asked => {
                    return Err(found.failure(WireError::Refused(failure)));
                }
                Event::Wire(Err(error)) => return Err(error.into()),
                Event::Wire(Ok(_)) | Event::Quiet | Event::Interrupt | Event::Connected(_) => {}
            }
        };
        if self.json {
            let schema_version = SCHEMA_VERSION;
            output::print_json(&Document { schema_version, session_id, command })?;
        } else {
            output::note(match command {
                None => "nothing runs in this session\n".to_owned(),
                Some(result) => format!(
                    "{}: {}\n",
                    result.command_id,
                    result.reason.as_ref().map_or_else(|| "completed".to_owned(), reason_words)
                ),
            });
        }
        Ok(exit::SUCCEEDED)
    }
}
