//! `callboard escalation`: what waits for a decision, and decisions.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::client::{Connection, WireError};
use crate::cli::failure::{Failure, Kind};
use crate::cli::table::fitted;
use crate::cli::{coordinator, exit, output};
use crate::control::{Answer, Call, EscalationCall, EscalationLine, EscalationState};
use crate::domain::conflict::Answer as Word;
use crate::domain::ids::EscalationId;
use crate::domain::result::SCHEMA_VERSION;

/// List what waits for a decision, and decide.
///
/// A task escalates where nothing that is allowed to it leads on: a question that nobody answered,
/// a `verify` script that failed, a command that the policy asks a person about, a conflict that
/// did not resolve itself. It waits until it is answered, while its run goes on and after its end.
///
/// Exit codes: 0, 2 usage, no such escalation, or an answer that is none to it, 3 the machine
/// cannot, 5 internal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  callboard escalation ls\n  \
    callboard escalation resolve e-k3v9x2ab retry\n  \
    callboard escalation resolve e-k3v9x2ab $'input:yes\\n'")]
pub(in crate::cli) struct Escalation {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Ls(List),
    Resolve(Resolve),
}

/// List the escalations that wait for an answer
///
/// Those of runs that go on, and of the latest runs that ended without success.
#[derive(Debug, Args)]
struct List {
    /// Answered and withdrawn ones, too
    #[arg(long)]
    all: bool,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Answer an escalation
///
/// An escalation is answered once. `retry`: another attempt, counters stay. `skip`: the task is
/// skipped. `fail`: it has failed. `input:TEXT`: another attempt in which the question gets TEXT,
/// byte for byte; no newline is added. `wait` and `force` answer a conflict: another attempt once
/// the resource is free, or one for which it is nobody's. Where the run has ended, `callboard run
/// --resume RUN` goes on with it.
#[derive(Debug, Args)]
struct Resolve {
    /// The escalation: `e-…`
    #[arg(value_name = "ID")]
    id: String,
    /// retry, wait, skip, fail, force or input:TEXT
    #[arg(value_name = "ANSWER")]
    answer: Word,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Escalation {
    /// Whether documents are wanted.
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.action {
            Action::Ls(list) => list.json,
            Action::Resolve(resolve) => resolve.json,
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// When it cannot be done.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        match self.action {
            Action::Ls(list) => list.run(),
            Action::Resolve(resolve) => resolve.run(),
        }
    }
}

impl List {
    fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            escalations: &'a [EscalationLine],
        }
        let mut escalations = match connection(self.workspace.as_deref())? {
            Some(mut connection) => ask(&mut connection, EscalationCall::List)?,
            None => Vec::new(),
        };
        escalations.retain(|line| self.all || waits(line));
        if self.json {
            let document = Document { schema_version: SCHEMA_VERSION, escalations: &escalations };
            output::print_json(&document)?;
        } else if escalations.is_empty() {
            output::note("nothing waits for a decision\n");
        } else {
            output::print(words(&escalations))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

impl Resolve {
    fn run(self) -> Result<u8, Failure> {
        let id = EscalationId::new(self.id.as_str());
        let Some(mut connection) = connection(self.workspace.as_deref())? else {
            let message = format!("no escalation `{id}`: there is no workspace here");
            return Err(
                Failure::new(Kind::NotFound, message).hint("`--workspace` names another one")
            );
        };
        let call = EscalationCall::Resolve { escalation: id, answer: self.answer };
        let lines = ask(&mut connection, call)?;
        let line = lines.first().ok_or(WireError::Unexpected { call: "escalation" })?;
        if self.json {
            let mut document = serde_json::to_value(line).unwrap_or_default();
            document["schema_version"] = SCHEMA_VERSION.into();
            output::print_json(&document)?;
        } else {
            let answer = line.answer.as_deref().unwrap_or_default();
            output::print(format!("{} of {}: {answer}\n", line.id, line.task_id))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

/// To the workspace's coordinator: runs that have ended are answered for by it as well.
fn connection(workspace: Option<&Path>) -> Result<Option<Connection>, Failure> {
    let place = coordinator::look(workspace)?.place;
    place.map(|place| place.connect_or_start()).transpose()
}

fn ask(
    connection: &mut Connection,
    escalation: EscalationCall,
) -> Result<Vec<EscalationLine>, WireError> {
    match connection.ask(Call::Escalation { escalation })? {
        Answer::Escalations { escalations } => Ok(escalations),
        _ => Err(WireError::Unexpected { call: "escalation" }),
    }
}

fn waits(line: &EscalationLine) -> bool {
    matches!(line.state, EscalationState::Open | EscalationState::Unanswered)
}

/// Escalations for people: a line each, and what has happened below it.
fn words(lines: &[EscalationLine]) -> String {
    let rows = lines.iter().map(|line| {
        let state = match (line.state, &line.answer) {
            (EscalationState::Open, _) => "open".to_owned(),
            (EscalationState::Unanswered, _) => "unanswered".to_owned(),
            (EscalationState::Answered, answer) => answer.clone().unwrap_or_default(),
            (EscalationState::Withdrawn, _) => "withdrawn".to_owned(),
        };
        let (id, task) = (line.id.to_string(), line.task_id.clone());
        vec![id, task, line.cause.clone(), state, line.story.replace('\n', " ")]
    });
    fitted(&["ID", "TASK", "CAUSE", "STATE", "STORY"], rows.collect())
}
