//! The sessions that are open, as the desk sees them.

use std::path::PathBuf;

use super::inbox::ConnectionId;
use super::story::{CommandRecord, CommandStory};
use crate::control::{Origin, SessionLine};
use crate::domain::ids::{CommandId, RunId, SessionId};
use crate::domain::time::Timestamp;
use crate::session::wire::Listener;

/// Head and tail of each text that `exec` answers with, in bytes (design, section 7.2).
pub(super) const EXEC_KEEP: usize = 64 * 1024;
/// The same for run reports.
pub(super) const REPORT_KEEP: usize = 16 * 1024;

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it stands.
    pub state: SessionState,
    /// The holder's pid, once it has said so.
    pub holder: Option<i32>,
    /// The shell's pid, once it is there.
    pub shell: Option<i32>,
    /// Where it was opened.
    pub cwd: PathBuf,
    /// Its transcript folder.
    pub transcript: PathBuf,
    /// Its private temporary folder.
    pub tmp: PathBuf,
    /// The character set that its `LANG` names.
    pub charset: Option<String>,
    /// Its commands, in order.
    pub commands: Vec<CommandRecord>,
    /// The ports that its processes listen on.
    pub listeners: Vec<Listener>,
    /// When it was last used.
    pub used: Timestamp,
    /// When its holder is killed that was asked to close it and has not.
    pub close_by: Option<Timestamp>,
    /// Number of the last fact heard.
    pub heard: u64,
}

/// Whose a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// An attempt's: never shared between tasks.
    Attempt {
        /// The run.
        run: RunId,
        /// Index of the task in its plan.
        task: usize,
        /// `RUN/ID`, for people.
        label: String,
        /// True when the task is a service.
        service: bool,
    },
    /// Opened ahead for an attempt that has not begun; its own once it does.
    Upcoming {
        /// `RUN/ID`, for people.
        label: String,
    },
    /// One `exec`'s: closed after its only command, and answered for then.
    Call {
        /// Who asked; `None` once the client is gone.
        asker: Option<Asker>,
    },
    /// A named one, kept for the next command.
    Name {
        /// The name.
        name: String,
        /// Who waits for which command.
        askers: Vec<(CommandId, Asker)>,
    },
}

/// A client's pending request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// The client.
    pub connection: ConnectionId,
    /// The number of its request.
    pub request: u64,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionState {
    /// Its holder or its shell is not there yet.
    Starting,
    /// No command runs.
    Idle,
    /// One does.
    Busy,
    /// Everything in it is being ended.
    Closing,
}

impl SessionState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Closing => "closing",
        }
    }
}

impl Session {
    /// The command of that id.
    pub(super) fn command(&mut self, id: &CommandId) -> Option<&mut CommandRecord> {
        // The one that is meant is nearly always the last.
        self.commands.iter_mut().rev().find(|record| record.id == *id)
    }

    /// What is known of its commands, texts aside.
    pub(super) fn stories(&self, now: Timestamp, keep: usize) -> Vec<CommandStory> {
        self.commands.iter().map(|record| self.story(record, now, keep)).collect()
    }

    /// What is known of one command, texts aside.
    pub(super) fn story(
        &self,
        record: &CommandRecord,
        now: Timestamp,
        keep: usize,
    ) -> CommandStory {
        CommandStory {
            record: record.clone(),
            session: self.id.clone(),
            transcript: self.transcript.clone(),
            cwd: self.cwd.clone(),
            charset: self.charset.clone(),
            now,
            keep,
        }
    }

    /// Its line in `status`.
    pub(super) fn line(&self) -> SessionLine {
        let command = self.commands.last().map(|record| record.text.clone());
        let (purpose, name, task, service) = match &self.owner {
            Owner::Attempt { label, service, .. } => ("task", None, Some(label.clone()), *service),
            Owner::Upcoming { label } => ("task", None, Some(label.clone()), false),
            Owner::Call { .. } => ("exec", None, None, false),
            Owner::Name { name, .. } => ("exec", Some(name.clone()), None, false),
        };
        SessionLine {
            session_id: self.id.clone(),
            name,
            state: self.state.as_str().to_owned(),
            origin: Origin { purpose: purpose.to_owned(), command, task, service },
            pid: self.shell,
        }
    }
}
