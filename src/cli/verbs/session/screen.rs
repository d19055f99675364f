//! `callboard session screen`.

use clap::Args;
use serde::Serialize;

use super::picture::present;
use super::reading::look;
use crate::cli::failure::Failure;
use crate::cli::sessions::{Found, State, Which};
use crate::cli::tape::Tape;
use crate::cli::{exit, output};
use crate::domain::ids::SessionId;
use crate::domain::result::SCHEMA_VERSION;
use crate::transcript::screen::{Screen as Picture, Terminal};

/// Show a session's screen as a person would see it now
///
/// For full-screen programs; `read` has what was printed.
#[derive(Debug, Args)]
pub(in crate::cli) struct Screen {
    #[command(flatten)]
    which: Which,
    /// Print one JSON document: lines, cursor, title, size, whether it is full-screen
    #[arg(long)]
    pub(super) json: bool,
}

impl Screen {
    /// Shows it.
    ///
    /// # Errors
    /// When there is no such session, or its transcript cannot be read.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            session_id: &'a SessionId,
            offset: u64,
            #[serde(flatten)]
            screen: &'a Picture,
        }
        let Found { id, shelf, state, .. } = self.which.find()?;
        let size = match state {
            State::Open { mut connection, .. } => look(&mut connection, &id)?.session.size,
            State::Past(shelved) => shelved.session.size,
        };
        let (terminal, end) = match Tape::open(&shelf.folder(&id))? {
            Some(tape) => {
                let charset = shelf.read(&id)?.and_then(|shelved| shelved.charset);
                present(&tape, size, charset.as_deref())?
            }
            None => (Terminal::new(size), 0),
        };
        let screen = terminal.screen();
        if self.json {
            let document = Document {
                schema_version: SCHEMA_VERSION,
                session_id: &id,
                offset: end,
                screen: &screen,
            };
            output::print_json(&document)?;
        } else {
            output::print(words(&screen))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

/// The rows down to the last that has anything on it.
fn words(screen: &Picture) -> String {
    let used = screen.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let mut text = screen.lines[..used].join("\n");
    text.push('\n');
    text
}
