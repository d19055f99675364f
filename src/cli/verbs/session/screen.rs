//! `callboard session screen`.

use clap::Args;
use serde::Serialize;

use super::reading::{hint, look};
use crate::cli::failure::Failure;
use crate::cli::sessions::{Found, State, Which};
use crate::cli::tape::{Piece, Tape};
use crate::cli::{exit, output};
use crate::domain::ids::SessionId;
use crate::domain::result::SCHEMA_VERSION;
use crate::transcript::live::LiveDecoder;
use crate::transcript::screen::{Screen as Picture, Terminal};

/// How much of the transcript's end a screen is drawn from, unless the running command began
/// earlier.
const DRAWN_BYTES: u64 = 1024 * 1024;
/// And at most.
const DRAWN_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much is read at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// Show a session's screen as a person would see it now
///
/// For full-screen programs; `read` has what was printed.
#[derive(Debug, Args)]
pub(in crate::cli) struct Screen {
    #[command(flatten)]
    which: Which,
    /// Print one JSON document: lines, cursor, title, size
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
        let (size, began) = match state {
            State::Open { mut connection, .. } => {
                let view = look(&mut connection, &id)?;
                let running = view.command.filter(|command| command.end.is_none());
                (view.session.size, running.and_then(|command| command.from))
            }
            State::Past(shelved) => (shelved.session.size, None),
        };
        let mut terminal = Terminal::new(size);
        let mut end = 0;
        if let Some(tape) = Tape::open(&shelf.folder(&id))? {
            end = tape.end()?;
            let start = began.unwrap_or(u64::MAX).min(end.saturating_sub(DRAWN_BYTES));
            let start = start.max(end.saturating_sub(DRAWN_BYTES_MAX));
            let charset = shelf.read(&id)?.and_then(|shelved| shelved.charset);
            draw(&tape, start, end, &mut terminal, charset.as_deref())?;
        }
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

/// Draws a part of a transcript.
///
/// # Errors
/// When it cannot be read.
pub(super) fn draw(
    tape: &Tape,
    start: u64,
    end: u64,
    terminal: &mut Terminal,
    charset: Option<&str>,
) -> Result<(), Failure> {
    let mut decoder = LiveDecoder::new(hint(charset));
    let mut at = start;
    while at < end {
        let (pieces, next) = tape.read(at, end, CHUNK_BYTES)?;
        if next == at {
            break;
        }
        for piece in pieces {
            if let Piece::Bytes { bytes, .. } = piece {
                let mut text = String::new();
                decoder.feed(&bytes, &mut text);
                terminal.feed(&text);
            }
        }
        at = next;
    }
    let mut rest = String::new();
    decoder.finish(&mut rest);
    terminal.feed(&rest);
    Ok(())
}

/// The rows down to the last that has anything on it.
fn words(screen: &Picture) -> String {
    let used = screen.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let mut text = screen.lines[..used].join("\n");
    text.push('\n');
    text
}
