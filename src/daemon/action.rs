//! What the desk has decided: records for the journal, then actions for the crew, in order.

use std::path::PathBuf;

use super::inbox::ConnectionId;
use super::sessions::Asker;
use super::shelf::Entry;
use super::story::{CommandStory, ReportDraft};
use super::worktrees::repository::Job;
use crate::control::Response;
use crate::domain::board::{BoardEntry, Version};
use crate::domain::event::Stamped;
use crate::domain::ids::{AttemptId, CommandId, RunId, SessionId};
use crate::domain::process::ProcessIdentity;
use crate::domain::session::SessionSpec;
use crate::domain::time::Timestamp;
use crate::session::wire::Ask;

/// What came of one round of events. The actions are carried out once the records are in the
/// journal, durably if any of them has to be: commit, then act.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Decision {
    /// For the journal.
    pub records: Vec<Stamped>,
    /// True when the actions have to wait until the records are on the disk.
    pub durable: bool,
    /// What to do then.
    pub actions: Vec<Action>,
}

/// Which answer a command's result becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecForm {
    /// `Ran`.
    Ran,
    /// `Waited`.
    Waited,
    /// `Interrupted`.
    Interrupted,
}

impl Action {
    /// True for what may only be done once the round's records are in the journal, though perhaps
    /// not on the disk yet.
    pub(super) fn needs_its_records(&self) -> bool {
        matches!(self, Self::Post { .. } | Self::Tell { ask: Ask::Ack { .. }, .. })
    }

    /// True for what touches nothing that the journal has to know first.
    pub(super) fn may_come_early(&self) -> bool {
        self.is_verdict() || matches!(self, Self::Open { then, .. } if then.is_empty())
    }
}

/// What the crew can be asked for.
#[derive(Debug)]
pub(super) enum Action {
    /// Send a client something.
    Respond {
        /// Who.
        connection: ConnectionId,
        /// What.
        response: Response,
    },
    /// Make a session's folders and get it a holder.
    Open {
        /// What the session is made of.
        spec: Box<SessionSpec>,
        /// What to tell the holder right after.
        then: Vec<Ask>,
    },
    /// Say that a session was not opened, as its holder would.
    FailOpen {
        /// Which.
        session: SessionId,
        /// Why not.
        message: String,
    },
    /// Tell a holder something.
    Tell {
        /// Whose.
        session: SessionId,
        /// What.
        ask: Ask,
    },
    /// Try a service's URL until it answers or the session is forgotten.
    Probe {
        /// Whose.
        session: SessionId,
        /// The service's command.
        command: CommandId,
        /// The URL.
        url: String,
    },
    /// A session is over: let go of its link and remove its private folder.
    Forget {
        /// Which.
        session: SessionId,
        /// Its private folder.
        tmp: PathBuf,
    },
    /// A session's holder died: end what it left behind. Comes back as `Event::Swept`.
    Sweep {
        /// Which session.
        session: SessionId,
        /// The dead holder, where it had said who it is.
        dead: Option<ProcessIdentity>,
        /// The holders that live on.
        kept: Vec<i32>,
    },
    /// A holder does not answer: kill it. Its link ends then, and what it left is swept.
    Kill {
        /// Whose.
        session: SessionId,
        /// The holder, where it has said who it is.
        holder: Option<ProcessIdentity>,
    },
    /// Read a command's output and answer with its result.
    AnswerExec {
        /// Who asked.
        connection: ConnectionId,
        /// Under which number.
        request: u64,
        /// What is known but its texts.
        story: Box<CommandStory>,
        /// Which answer it is.
        form: ExecForm,
        /// The transcript's end, as it was last told.
        end: u64,
    },
    /// Answer with the result of an `exec` whose session has left it behind.
    AnswerShelved {
        /// Who asked.
        asker: Asker,
        /// The session.
        session: SessionId,
    },
    /// Add lines to a session's record on the disk.
    Shelve {
        /// The session's folder.
        folder: PathBuf,
        /// The lines.
        entries: Vec<Entry>,
    },
    /// Look for what earlier coordinators' sessions left running, and remove old transcripts.
    Tidy {
        /// The sessions that are open.
        open: Vec<SessionId>,
        /// How long transcripts stay after their session's end, in ms.
        retention_ms: u64,
        /// True when orphans are looked for, too.
        orphans: bool,
        /// Now.
        now: Timestamp,
    },
    /// Build the report of a run that goes on, and answer with it.
    SendReport {
        /// Who asked.
        connection: ConnectionId,
        /// Under which number.
        request: u64,
        /// What is known but the texts of its commands.
        draft: Box<ReportDraft>,
    },
    /// Answer with the report of a run that has ended, from its file.
    ReadReport {
        /// Who asked.
        connection: ConnectionId,
        /// Under which number.
        request: u64,
        /// Which run.
        run: RunId,
    },
    /// Have something done by git. What comes back, comes as an event.
    Git(Job),
    /// Look after the worktree of a session's attempt: `Event::WorktreeGone`.
    Watch {
        /// The session.
        session: SessionId,
        /// The attempt.
        attempt: AttemptId,
        /// The worktree.
        folder: PathBuf,
    },
    /// Build a finished run's report, write it down and send it to those who follow.
    FinishRun {
        /// What is known but the texts of its commands.
        draft: Box<ReportDraft>,
        /// Who follows.
        followers: Vec<ConnectionId>,
    },
    /// A run that had ended goes on: its report is not its last one.
    SetReportAside {
        /// Which run.
        run: RunId,
    },
    /// Answer with the board.
    SendBoard {
        /// Who asked.
        asker: Asker,
        /// The key or prefix that is asked for.
        told: String,
    },
    /// Let a client follow the board.
    WatchBoard {
        /// Who asked.
        asker: Asker,
        /// The key or prefix.
        told: String,
        /// What it knows already.
        since: Option<Version>,
    },
    /// Write down what a task finds in `CALLBOARD_INPUTS`.
    WriteInputs {
        /// Where.
        file: PathBuf,
        /// What.
        inputs: serde_json::Value,
    },
    /// Put an entry on the board.
    Post {
        /// The entry.
        entry: BoardEntry,
        /// Which of the decision's records it is.
        record: usize,
    },
}
