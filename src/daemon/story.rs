//! What the coordinator knows of a command or a run before anybody has read a transcript.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::domain::ids::{CommandId, SessionId};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::{Awaiting, Note, Touched};
use crate::domain::time::Timestamp;
use crate::report::record::RunReport;
use crate::session::wire::CommandEnd;

/// A command as it was asked for and as far as it has come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CommandRecord {
    /// Its id.
    pub id: CommandId,
    /// Its text.
    pub text: String,
    /// When it started and where its bytes begin in `out.raw`.
    pub started: Option<(Timestamp, u64)>,
    /// What it waits for now.
    pub awaiting: Option<Awaiting>,
    /// Since when it waits for that.
    #[serde(skip)]
    pub asked_at: Option<Timestamp>,
    /// Remarks while it runs.
    pub notes: Vec<Note>,
    /// True when its `exec` returned because it waits: what became of it later is not that
    /// call's answer.
    #[serde(skip)]
    pub left_waiting: bool,
    /// While it takes in what was typed: until then nobody is told that it waits for input, for
    /// all that is known is of before.
    #[serde(skip)]
    pub settles_at: Option<Timestamp>,
    /// What it was seen to change, within a bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<Touched>,
    /// Why it is being stopped, once it has touched what another one holds.
    #[serde(skip)]
    pub conflict: Option<Box<Reason>>,
    /// How many touches are beyond that.
    #[serde(default)]
    pub unlisted: u64,
    /// How it ended.
    pub end: Option<CommandEnd>,
    /// An earlier coordinator has that on record: it is told again for what follows from it alone.
    #[serde(skip)]
    pub is_retold: bool,
    /// The client's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

impl CommandRecord {
    /// A command that has only been asked for.
    pub(super) fn new(id: CommandId, text: String) -> Self {
        Self {
            id,
            text,
            started: None,
            awaiting: None,
            asked_at: None,
            notes: Vec::new(),
            left_waiting: false,
            settles_at: None,
            touched: Vec::new(),
            conflict: None,
            unlisted: 0,
            end: None,
            is_retold: false,
            ticket: None,
        }
    }

    /// Takes its end in, with what its holder does not know: that the disk was full when it began.
    pub(super) fn close(&mut self, mut end: CommandEnd) -> CommandEnd {
        let was_full = |note: &&Note| matches!(note, Note::CaptureDegraded { .. });
        if let Some(note) = self.notes.iter().find(was_full)
            && !end.notes.iter().any(|note| was_full(&note))
        {
            end.notes.push(note.clone());
        }
        self.say_unlisted(&mut end.notes);
        self.end = Some(end.clone());
        end
    }

    /// Where it stands.
    pub(super) fn state(&self) -> CommandState {
        if self.left_waiting {
            return CommandState::AwaitingInput;
        }
        let awaiting = self.awaiting.as_ref().filter(|_| self.settles_at.is_none());
        match (&self.end, &self.started, awaiting) {
            (Some(end), ..) => end.state,
            (None, None, _) => CommandState::Pending,
            (None, Some(_), Some(_)) => CommandState::AwaitingInput,
            (None, Some(_), None) => CommandState::Running,
        }
    }
}

/// Everything about a command but the texts in its transcript.
#[derive(Clone, Debug)]
pub(super) struct CommandStory {
    /// The command.
    pub record: CommandRecord,
    /// Its session.
    pub session: SessionId,
    /// The session's transcript folder.
    pub transcript: PathBuf,
    /// Where the session was opened, for a command that never reported a cwd.
    pub cwd: PathBuf,
    /// The character set that the session's `LANG` names, if any.
    pub charset: Option<String>,
    /// When this was written down.
    pub now: Timestamp,
    /// How much of each text to keep at either end, in bytes.
    pub keep: usize,
}

/// A run's report without the texts of its commands.
#[derive(Clone, Debug)]
pub(super) struct ReportDraft {
    /// The record, with no commands, artifacts or board in it.
    pub report: RunReport,
    /// The commands of each task, in the order of `report.tasks`.
    pub commands: Vec<Vec<CommandStory>>,
    /// The sessions of tasks whose commands are only in that session's record, by place.
    pub on_shelf: Vec<(usize, SessionId)>,
    /// Where those records lie.
    pub sessions: PathBuf,
    /// Each task's `artifacts` globs.
    pub artifacts: Vec<Vec<String>>,
    /// The workspace's root, which the globs are relative to.
    pub root: PathBuf,
}
