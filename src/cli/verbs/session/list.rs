//! `callboard session ls`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::coordinator::{self, Place, Shelf};
use crate::cli::failure::Failure;
use crate::cli::sessions::{UNATTENDED, open_sessions, past};
use crate::cli::table::table;
use crate::cli::{exit, output};
use crate::control::SessionLine;
use crate::domain::result::SCHEMA_VERSION;

/// List the open sessions
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Those that have ended and can still be read, too
    #[arg(long)]
    all: bool,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl List {
    /// Lists them.
    ///
    /// # Errors
    /// When the workspace cannot be read.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            sessions: &'a [SessionLine],
        }
        let sessions = match coordinator::look(self.workspace.as_deref())?.place {
            Some(place) => self.sessions(&place)?,
            None => Vec::new(),
        };
        if self.json {
            let schema_version = SCHEMA_VERSION;
            output::print_json(&Document { schema_version, sessions: &sessions })?;
        } else if sessions.is_empty() {
            output::note("no sessions are open in this workspace\n");
        } else {
            output::print(words(&sessions))?;
        }
        Ok(exit::SUCCEEDED)
    }

    fn sessions(&self, place: &Place) -> Result<Vec<SessionLine>, Failure> {
        let (connection, mut sessions) = open_sessions(place)?;
        // Without a coordinator those that wait for one are known by their records.
        if self.all || connection.is_none() {
            let shelf = Shelf::of(place);
            let is_open = |id| sessions.iter().any(|line: &SessionLine| line.session_id == id);
            let ended: Vec<_> = shelf
                .ids()?
                .into_iter()
                .filter(|id| !is_open(id.clone()))
                // One that is just being removed is not there any more.
                .filter_map(|id| past(&id, &shelf).ok())
                .map(|shelved| shelved.session)
                .filter(|session| self.all || session.state == UNATTENDED)
                .collect();
            sessions.extend(ended);
        }
        sessions.sort_by(|a, b| (a.opened_at, &a.session_id).cmp(&(b.opened_at, &b.session_id)));
        Ok(sessions)
    }
}

fn words(sessions: &[SessionLine]) -> String {
    let rows: Vec<_> = sessions
        .iter()
        .map(|line| {
            let origin = &line.origin;
            let what = origin.task.clone().or_else(|| origin.command.clone()).unwrap_or_default();
            vec![
                line.session_id.to_string(),
                line.name.clone().unwrap_or_default(),
                line.state.clone(),
                line.command_count.to_string(),
                line.used_at.to_string(),
                what.lines().next().unwrap_or_default().to_owned(),
            ]
        })
        .collect();
    table(&["SESSION", "NAME", "STATE", "COMMANDS", "USED", "FOR"], &rows)
}
