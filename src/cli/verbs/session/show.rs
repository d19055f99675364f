//! `callboard session show`.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use super::reading::{glimpse, now};
use crate::cli::coordinator::Shelved;
use crate::cli::failure::{Failure, Kind};
use crate::cli::sessions::{Found, State, Which, why_words};
use crate::cli::table::table;
use crate::cli::{exit, output};
use crate::control::SessionLine;
use crate::domain::ids::CommandId;
use crate::domain::outcome::CommandState;
use crate::domain::result::{CommandResult, SCHEMA_VERSION};
use crate::report::words::{reason_words, span};

/// How many commands are shown, the latest.
const COMMANDS_MAX: usize = 100;
/// Head and tail of each text of each, in bytes.
const KEEP: usize = 16 * 1024;
/// The same where one command was asked for.
const KEEP_ONE: usize = 64 * 1024;

/// Show a session and what its commands came to
///
/// Also after its end, until the retention is over (`retention` of agents.toml, 7 days by default);
/// then it is `session_expired`. With ID.N, as in a result's `command_id`, that command alone.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    #[command(flatten)]
    which: Which,
    /// Print one JSON document: the session, and each command's result
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    session: &'a SessionLine,
    /// The results of its latest commands, oldest first.
    commands: &'a [CommandResult],
    /// Earlier ones that are not among them.
    commands_omitted: usize,
}

impl Show {
    /// Shows it.
    ///
    /// # Errors
    /// When there is no such session, or no such command in it.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let Found { id, command, shelf, state, .. } = self.which.find()?;
        let (line, shelved, running) = match state {
            State::Past(shelved) => (shelved.session.clone(), Some(*shelved), None),
            State::Open { line, mut connection } => {
                let running = glimpse(&mut connection, &id)?.and_then(|view| view.command);
                (*line, shelf.read(&id)?, running)
            }
        };
        let (mut results, omitted) = match (&shelved, &command) {
            (Some(shelved), Some(command)) => (vec![one(shelved, command)?], 0),
            (Some(shelved), None) => latest(shelved),
            (None, Some(command)) => return Err(no_command(command)),
            (None, None) => (Vec::new(), 0),
        };
        // The record says that a command began and that it ended; where it stands, its holder says.
        if let Some(running) = running.filter(|running| running.end.is_none())
            && let Some(result) = results.iter_mut().find(|r| r.command_id == running.command_id)
        {
            result.state = running.state;
            result.awaiting = running.awaiting;
        }
        if self.json {
            output::print_json(&Document {
                schema_version: SCHEMA_VERSION,
                session: &line,
                commands: &results,
                commands_omitted: omitted,
            })?;
        } else {
            output::print(words(&line, &results, command.is_some()))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

fn one(shelved: &Shelved, command: &CommandId) -> Result<CommandResult, Failure> {
    let index = shelved.command_ids().position(|id| id == command);
    let result = index.and_then(|index| shelved.result(index, KEEP_ONE, now()));
    result.ok_or_else(|| no_command(command))
}

fn latest(shelved: &Shelved) -> (Vec<CommandResult>, usize) {
    let count = shelved.command_count();
    let omitted = count.saturating_sub(COMMANDS_MAX);
    let at = now();
    let results = (omitted..count).filter_map(|index| shelved.result(index, KEEP, at)).collect();
    (results, omitted)
}

fn no_command(command: &CommandId) -> Failure {
    Failure::new(Kind::NotFound, format!("no command `{command}` is known"))
        .hint("one that is still in the queue is shown once it has begun")
}

fn words(line: &SessionLine, results: &[CommandResult], with_output: bool) -> String {
    let mut text = format!("session {}", line.session_id);
    let mut add = |words: String| text.push_str(&words);
    if let Some(name) = &line.name {
        add(format!(" ({name})"));
    }
    add(format!(": {}\n", line.state));
    add(format!("opened {} in {}, shell {}\n", line.opened_at, line.cwd, line.shell.name()));
    match (&line.closed, line.ttl_ms) {
        (Some(closed), _) => add(format!("ended {}: {}\n", closed.at, why_words(closed.why))),
        (None, Some(ttl)) => {
            add(format!("used {}, closes when unused for {}\n", line.used_at, span(ttl)));
        }
        (None, None) => {}
    }
    let rows: Vec<_> = results
        .iter()
        .map(|result| {
            vec![
                result.command_id.to_string(),
                state(result),
                span(result.duration_ms),
                result.command.lines().next().unwrap_or_default().to_owned(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let _infallible = write!(text, "\n{}", table(&["COMMAND", "STATE", "TOOK", "TEXT"], &rows));
    }
    if let (true, Some(result)) = (with_output, results.first()) {
        let _infallible = write!(text, "\n{}", result.output);
    }
    text
}

fn state(result: &CommandResult) -> String {
    match (&result.state, &result.reason) {
        (CommandState::Completed, _) => "completed".to_owned(),
        (CommandState::AwaitingInput, _) => "awaiting input".to_owned(),
        (_, Some(reason)) => reason_words(reason),
        (CommandState::Pending, None) => "pending".to_owned(),
        (_, None) => "running".to_owned(),
    }
}
