//! `callboard session send`.

use std::io::{self, BufRead, IsTerminal};
use std::os::fd::AsFd;

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde::Serialize;

use crate::cli::client::WireError;
use crate::cli::failure::{Failure, Kind, reason};
use crate::cli::sessions::Which;
use crate::cli::{exit, output, sources};
use crate::control::{Answer, Call};
use crate::domain::ids::SessionId;
use crate::domain::key::{Input, Key, Written};
use crate::domain::result::SCHEMA_VERSION;

/// Type into a session: text, keys, a paste or a secret
///
/// For the command that runs in it; an idle session takes nothing. TEXT is sent byte for byte, and
/// --enter presses Enter after it. A secret is read from the terminal without being shown, or from
/// stdin when that is no terminal; it is sent only where the program has turned the echo off, and it
/// is never written down.
///
/// Returns once the terminal has taken it; exit code 1 when it has not, or not all. `read` waits for
/// what follows.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["text", "key", "paste", "secret"]))]
#[command(after_help = "Examples:\n  callboard session send build yes --enter\n  callboard \
    session send editor --key esc --key : --key w --key q --key enter\n  callboard session send \
    db --secret <password.txt")]
pub(in crate::cli) struct Send {
    #[command(flatten)]
    which: Which,
    /// Text, byte for byte
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Press Enter after it
    #[arg(long, conflicts_with_all = ["key", "secret"])]
    enter: bool,
    /// Press a key, as in enter, up, f5, ctrl-c, alt-x, shift-tab, or a character (repeatable)
    #[arg(long, value_name = "K")]
    key: Vec<Key>,
    /// Text that is marked as pasted where the program asked for such marks
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    paste: Option<String>,
    /// A secret, from the terminal or stdin; Enter follows it
    #[arg(long)]
    secret: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Document {
    schema_version: u32,
    session_id: SessionId,
    input: Written,
    /// Where in the transcript what follows begins, at the earliest.
    offset: u64,
}

impl Send {
    /// Sends it.
    ///
    /// # Errors
    /// When the session is not open.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let mut found = self.which.find_open()?;
        let input = self.input()?;
        let session = found.id.clone();
        let call = Call::Input { session: session.clone(), command: found.command.clone(), input };
        let Answer::Written { written, offset } = found.ask(call)? else {
            return Err(WireError::Unexpected { call: "input" }.into());
        };
        let code = if written.refused.is_some() { exit::FAILED } else { exit::SUCCEEDED };
        if let Some(refused) = &written.refused {
            output::note(format!("callboard: {} bytes were sent: {refused}\n", written.written));
        }
        if self.json {
            output::print_json(&Document {
                schema_version: SCHEMA_VERSION,
                session_id: session,
                input: written,
                offset,
            })?;
        }
        Ok(code)
    }

    fn input(&self) -> Result<Input, Failure> {
        // What Enter sends; in line mode the terminal makes a line end of it.
        let enter = if self.enter { "\r" } else { "" };
        if let Some(text) = &self.text {
            return Ok(Input::Text { text: format!("{text}{enter}") });
        }
        if let Some(text) = &self.paste {
            return Ok(Input::Paste { text: format!("{text}{enter}") });
        }
        if self.secret {
            return Ok(Input::Secret { text: secret()? });
        }
        Ok(Input::Keys { keys: self.key.clone() })
    }
}

/// The secret with its line end.
fn secret() -> Result<String, Failure> {
    let bytes = if io::stdin().is_terminal() { ask_for_secret()? } else { sources::read_stdin()? };
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage("the secret is not UTF-8, and cannot be sent"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains(['\n', '\r']) {
        return Err(Failure::usage("the secret has several lines: send one at a time"));
    }
    Ok(format!("{line}\r"))
}

/// Asks at the terminal, which shows nothing of the answer.
fn ask_for_secret() -> Result<Vec<u8>, Failure> {
    let told = |error: io::Error| {
        Failure::new(Kind::Machine, format!("cannot read from the terminal: {}", reason(&error)))
    };
    let stdin = io::stdin();
    let before = tcgetattr(stdin.as_fd()).map_err(|error| told(error.into()))?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(stdin.as_fd(), OptionalActions::Flush, &silent).map_err(|e| told(e.into()))?;
    output::note("secret: ");
    let mut line = Vec::new();
    let read = stdin.lock().read_until(b'\n', &mut line);
    // Whatever came of it, the terminal is as it was.
    let restored = tcsetattr(stdin.as_fd(), OptionalActions::Now, &before);
    output::note("\n");
    read.map_err(told)?;
    restored.map_err(|error| told(error.into()))?;
    Ok(line)
}
