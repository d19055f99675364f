//! The sessions that are open, as the desk sees them.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::claims::Stay;
use super::inbox::ConnectionId;
use super::lifecycle::TTL_MS;
use super::shelf::Entry;
use super::story::{CommandRecord, CommandStory};
use crate::control::{Closed, ClosedWhy, CommandView, Echo, Origin, SessionLine, SessionView};
use crate::domain::claim::Claim;
use crate::domain::ids::{AttemptId, CommandId, RunId, SessionId};
use crate::domain::process::ProcessIdentity;
use crate::domain::session::{SessionDefaults, SessionOwner, SessionSpec, Shell, Size};
use crate::domain::shown_path;
use crate::domain::time::Timestamp;
use crate::session::wire::Listener;

/// Head and tail of each text that `exec` answers with, in bytes (design, section 7.2).
pub(super) const EXEC_KEEP: usize = 64 * 1024;
/// The same for run reports.
pub(super) const REPORT_KEEP: usize = 16 * 1024;

/// How many ended commands of a kept session stay in memory; its record on the disk has them all.
const ENDED_KEPT: usize = 16;
/// How many echoes are remembered, each of at most so many bytes.
const ECHOES_KEPT: usize = 16;
const ECHO_BYTES_MAX: usize = 1024;

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// The session from inside of which it was asked for: it ends with that.
    pub parent: Option<SessionId>,
    /// Who holds its terminal.
    pub claim: Claim,
    /// The client at its terminal.
    pub stay: Option<Stay>,
    /// Where it stands.
    pub state: SessionState,
    /// The holder, once it has said so.
    pub holder: Option<ProcessIdentity>,
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
    /// Which shell.
    pub shell_kind: Shell,
    /// Its window.
    pub size: Size,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// How long it may stay unused, in ms; `None` for one that ends with its task or command.
    pub ttl_ms: Option<u64>,
    /// Its commands, in order; of a kept session the latest.
    pub commands: Vec<CommandRecord>,
    /// How many commands it was given.
    pub asked: u32,
    /// The transcript's end, as it was last told.
    pub end: u64,
    /// When that was.
    pub grown_at: Timestamp,
    /// Grows whenever anything but the transcript's end changes.
    pub changes: u64,
    /// What was lately typed and is echoed.
    pub echoes: VecDeque<Echo>,
    /// Why it is being closed, once it is.
    pub why: Option<ClosedWhy>,
    /// True once its record is being written.
    pub is_on_shelf: bool,
    /// Why it could not be opened.
    pub trouble: Option<String>,
    /// Whether the kernel tells what its processes change.
    pub traced: bool,
    /// Whether its holder was told to ask before; `None` where nobody knows.
    pub attends: Option<bool>,
    /// The ports that its processes listen on.
    pub listeners: Vec<Listener>,
    /// When it was last used.
    pub used: Timestamp,
    /// When its holder is killed that was asked to close it and has not.
    pub close_by: Option<Timestamp>,
    /// Number of the last fact heard.
    pub heard: u64,
    /// An `exec` whose coordinator was lost: until when its client may claim it.
    pub unclaimed_until: Option<Timestamp>,
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
        /// The attempt.
        attempt: AttemptId,
    },
    /// Opened ahead for an attempt that has not begun; its own once it does.
    Upcoming {
        /// `RUN/ID`, for people.
        label: String,
        /// The attempt.
        attempt: AttemptId,
    },
    /// One `exec`'s: closed after its only command, and answered for then.
    Call {
        /// Who asked; `None` once the client is gone.
        asker: Option<Asker>,
    },
    /// Kept for the next command.
    Kept {
        /// Its name, if it has one.
        name: Option<String>,
        /// True when `exec` made it.
        by_exec: bool,
        /// Who waits for which command.
        askers: Vec<(CommandId, Asker)>,
    },
}

impl Owner {
    /// The same as a holder is told it.
    pub(super) fn told(&self, defaults: SessionDefaults) -> SessionOwner {
        match self {
            Self::Attempt { attempt, .. } => SessionOwner::Attempt { attempt: attempt.clone() },
            Self::Upcoming { attempt, .. } => SessionOwner::Upcoming { attempt: attempt.clone() },
            Self::Call { .. } => SessionOwner::Call,
            Self::Kept { name, by_exec, .. } => SessionOwner::Kept {
                name: name.clone(),
                by_exec: *by_exec,
                ttl_ms: defaults.ttl_ms.unwrap_or(TTL_MS),
            },
        }
    }
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
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Closing => "closing",
        }
    }
}

impl Session {
    /// A session that is about to be opened.
    pub(super) fn new(spec: &SessionSpec, owner: Owner, person: &Claim, now: Timestamp) -> Self {
        Self {
            id: spec.id.clone(),
            claim: Self::first_claim(&owner, person),
            stay: None,
            parent: spec.parent.clone(),
            owner,
            state: SessionState::Starting,
            holder: None,
            shell: None,
            cwd: spec.cwd.clone(),
            transcript: spec.transcript.clone(),
            tmp: spec.tmp.clone(),
            charset: charset(&spec.env),
            shell_kind: spec.shell,
            size: spec.size,
            opened_at: now,
            ttl_ms: None,
            commands: Vec::new(),
            asked: 0,
            end: 0,
            grown_at: now,
            changes: 0,
            echoes: VecDeque::new(),
            why: None,
            is_on_shelf: false,
            trouble: None,
            traced: spec.traced,
            attends: Some(false),
            listeners: Vec::new(),
            used: now,
            close_by: None,
            heard: 0,
            unclaimed_until: None,
        }
    }

    /// True for an attempt's.
    pub(super) fn is_attempts(&self) -> bool {
        matches!(self.owner, Owner::Attempt { .. })
    }

    /// True for one that stays after its commands.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.owner, Owner::Kept { .. })
    }

    /// Its name, if it has one.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.owner {
            Owner::Kept { name, .. } => name.as_deref(),
            Owner::Attempt { .. } | Owner::Upcoming { .. } | Owner::Call { .. } => None,
        }
    }

    /// True when no command runs and none is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.state == SessionState::Idle && self.commands.iter().all(|record| record.end.is_some())
    }

    /// When nobody will have used it for its whole time; `None` while it works, and for one that
    /// has no such time.
    pub(super) fn unused_at(&self) -> Option<Timestamp> {
        self.ttl_ms.filter(|_| self.is_idle()).map(|ttl| self.used.plus_ms(ttl))
    }

    /// The command of that id.
    pub(super) fn command(&mut self, id: &CommandId) -> Option<&mut CommandRecord> {
        // The one that is meant is nearly always the last.
        self.commands.iter_mut().rev().find(|record| record.id == *id)
    }

    /// Where the command of that id is.
    pub(super) fn index_of(&self, command: &CommandId) -> Option<usize> {
        self.commands.iter().rposition(|record| record.id == *command)
    }

    /// The command whose turn it is.
    pub(super) fn running(&self) -> Option<&CommandRecord> {
        self.commands.iter().find(|record| record.started.is_some() && record.end.is_none())
    }

    /// Takes a command in.
    pub(super) fn take(&mut self, record: CommandRecord, now: Timestamp) {
        self.commands.push(record);
        self.asked += 1;
        self.used = now;
        self.changes += 1;
    }

    /// Lets go of the oldest commands that have ended: what they came to is on the disk.
    pub(super) fn forget_old_commands(&mut self) {
        if !self.is_kept() || self.commands.len() < 2 * ENDED_KEPT {
            return;
        }
        let spare = self.commands.len() - ENDED_KEPT;
        let mut at = 0;
        self.commands.retain(|record| {
            at += 1;
            at > spare || record.end.is_none()
        });
    }

    /// The transcript reaches so far.
    pub(super) fn grow(&mut self, end: u64, now: Timestamp) {
        if end > self.end {
            self.end = end;
            self.grown_at = now;
        }
    }

    /// Remembers what was typed and comes back.
    pub(super) fn note_echo(&mut self, echo: Echo) {
        // A reader that looks for a pattern takes a longer one for output.
        if echo.text.len() <= ECHO_BYTES_MAX {
            if self.echoes.len() == ECHOES_KEPT {
                self.echoes.pop_front();
            }
            self.echoes.push_back(echo);
        }
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

    /// Its line in lists.
    pub(super) fn line(&self) -> SessionLine {
        let command = self.commands.last().map(|record| record.text.clone());
        let (purpose, task, service) = match &self.owner {
            Owner::Attempt { label, service, .. } => ("task", Some(label.clone()), *service),
            Owner::Upcoming { label, .. } => ("task", Some(label.clone()), false),
            Owner::Call { .. } | Owner::Kept { by_exec: true, .. } => ("exec", None, false),
            Owner::Kept { by_exec: false, .. } => ("session", None, false),
        };
        SessionLine {
            session_id: self.id.clone(),
            name: self.name().map(str::to_owned),
            state: self.state.as_str().to_owned(),
            origin: Origin { purpose: purpose.to_owned(), command, task, service },
            claim: self.claim.clone(),
            pid: self.shell,
            shell: self.shell_kind,
            cwd: shown_path::show(&self.cwd),
            size: self.size,
            opened_at: self.opened_at,
            used_at: self.used,
            ttl_ms: self.ttl_ms,
            command_count: self.asked,
            closed: None,
        }
    }

    /// The first line of its record.
    pub(super) fn opened_entry(&self) -> Entry {
        Entry::Opened { session: self.line(), charset: self.charset.clone() }
    }

    /// What somebody sees who looks at it now: `closed` once it is over.
    pub(super) fn view(
        &self,
        command: Option<&CommandId>,
        closed: Option<Closed>,
        now: Timestamp,
    ) -> SessionView {
        let record = match command {
            Some(id) => self.commands.iter().rfind(|record| record.id == *id),
            None => self.running().or_else(|| self.commands.last()),
        };
        let mut session = self.line();
        if closed.is_some() {
            session.state = "closed".to_owned();
            session.pid = None;
            session.closed = closed;
        }
        SessionView {
            session,
            changes: self.changes,
            end: self.end,
            quiet_ms: now.ms_since(self.grown_at),
            command: record.map(CommandRecord::view),
            echoes: self.echoes.iter().cloned().collect(),
        }
    }
}

impl CommandRecord {
    /// What it looks like from outside.
    pub(super) fn view(&self) -> CommandView {
        let end = self.end.as_ref();
        CommandView {
            command_id: self.id.clone(),
            command: self.text.clone(),
            state: self.state(),
            reason: end.and_then(|end| end.reason.clone()),
            exit_code: end.and_then(|end| end.exit_code),
            awaiting: self.awaiting.clone().filter(|_| end.is_none() && self.settles_at.is_none()),
            from: self.started.map(|(_, offset)| offset),
            end: end.map(|end| end.span.raw_end),
            left_running: end.map_or(0, |end| end.children.iter().filter(|c| !c.ended).count()),
        }
    }
}

/// The character set in `LC_ALL`, `LC_CTYPE` or `LANG`, in the order that POSIX gives them.
fn charset(env: &[(String, String)]) -> Option<String> {
    let value = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| {
        env.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
    })?;
    let (_, charset) = value.split_once('.')?;
    Some(charset.split('@').next().unwrap_or(charset).to_owned())
}
