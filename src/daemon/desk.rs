//! The coordinator's desk: everything it knows, and `hear`, which turns an event into records and
//! actions. It touches nothing itself: the crew carries the actions out once the journal has the
//! records.
//!
//! ```text
//!   inbox ──► Desk::hear ──► Decision { records, actions } ──► journal ──► crew
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use super::action::{Action, Decision};
use super::board::locks::Locks;
use super::board::publishing::Stale;
use super::dispatching::Dispatching;
use super::durations::Durations;
use super::history::History;
use super::inbox::{ConnectionId, Event};
use super::lifecycle::Terms;
use super::peers::Peer;
use super::pending::Pending;
use super::runs::Run;
use super::sessions::Session;
use super::tasks::TaskWaits;
use super::touches::{Past, Watching};
use crate::control::{ClosedWhy, Failure, FailureKind, Response, RunLine};
use crate::domain::board::replica::{Replica, TOMBSTONES_MAX};
use crate::domain::board::{BoardEntry, Version, Writer};
use crate::domain::claim::Claim;
use crate::domain::event::{CancelWhy, Event as Fact, Stamped};
use crate::domain::ids::{RunId, SessionId, WorkspaceId};
use crate::domain::process::ProcessIdentity;
use crate::domain::time::Timestamp;
use crate::policy::holdings::Holdings;

/// A coordinator started for a client ends this long after the last `exec` (design, section 5).
const AFTER_EXEC_MS: u64 = 10_000;
/// And this long after its last named session closed.
const AFTER_SESSION_MS: u64 = 60_000;
/// And this long after it began when nobody came.
const UNUSED_MS: u64 = 10_000;

/// Why nothing is begun.
pub(super) const NO_ROOM: &str =
    "no space left on the disk of the state folder: nothing is begun that could not be recorded";
/// How long a holder waits for a coordinator before it ends all (design, section 5).
const PATIENCE_MS: u64 = 5 * 60_000;

/// Where this workspace's things lie.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    /// The workspace's root.
    pub root: PathBuf,
    /// `sessions/` of the state folder.
    pub sessions: PathBuf,
    /// `profiles/` of the state folder: what was captured of users' shells.
    pub profiles: PathBuf,
    /// The journal.
    pub journal: PathBuf,
    /// `runs/` of the state folder.
    pub runs: PathBuf,
    /// Where sessions' private temporary folders are made.
    pub tmp: PathBuf,
    /// Where holders listen that have no coordinator.
    pub doors: PathBuf,
    /// The coordinator's socket.
    pub socket: PathBuf,
    /// The board's snapshot file.
    pub board: PathBuf,
    /// The file of a task's inputs.
    pub inputs: PathBuf,
}

impl Folders {
    /// `worktrees/` of the state folder.
    pub(super) fn worktrees(&self) -> PathBuf {
        self.sessions.with_file_name("worktrees")
    }
}

/// How long a coordinator that was started for clients stays without any.
#[derive(Clone, Copy, Debug)]
struct Stay {
    /// False until somebody has asked for anything.
    used: bool,
    until: Timestamp,
}

/// Everything that the coordinator knows.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) workspace: WorkspaceId,
    pub(super) folders: Folders,
    pub(super) runs: BTreeMap<RunId, Run>,
    /// Runs that have ended, oldest first.
    pub(super) past: Vec<RunLine>,
    pub(super) sessions: HashMap<SessionId, Session>,
    pub(super) names: HashMap<String, SessionId>,
    pub(super) clients: BTreeSet<ConnectionId>,
    /// Who they are. One that is not in it is a person.
    pub(super) peers: HashMap<ConnectionId, Peer>,
    pub(super) durations: Durations,
    /// Requests that wait for something in a session.
    pub(super) pending: Pending,
    /// Who holds what.
    pub(super) holdings: Holdings,
    /// Calls that wait for tasks.
    pub(super) task_waits: TaskWaits,
    /// The runs that tasks can be added to.
    pub(super) dispatching: Dispatching,
    /// What holds for sessions.
    pub(super) terms: Terms,
    /// When orphans and old transcripts were last looked for.
    pub(super) swept_at: Option<Timestamp>,
    /// Inputs handed to holders so far.
    pub(super) inputs: u64,
    /// What all command-line calls hold by: this user's claim.
    pub(super) person: Claim,
    /// This boot and pid namespace: what holders do not say of themselves.
    pub(super) here: ProcessIdentity,
    /// Runs that have ended without success and can go on, by id; the latest.
    pub(super) resumable: BTreeMap<RunId, Run>,
    /// What whoever asks for the status should know of the workspace itself.
    pub(super) remarks: Vec<String>,
    /// False while the disk is full: nothing new is begun then.
    pub(super) has_room: bool,
    /// Told to leave everything to the coordinator that comes next.
    pub(super) handing_over: bool,
    /// How long a holder waits for a coordinator, in ms.
    pub(super) patience_ms: u64,
    pub(super) since: Timestamp,
    /// What of the workspace is watched.
    pub(super) watching: Watching,
    /// Version of the last entry that this node wrote.
    pub(super) version: Version,
    /// The board as it is decided; what is kept of it on the disk follows the journal.
    pub(super) board: Replica,
    /// What an earlier coordinator saw of contracts, until its runs are recalled.
    pub(super) recalled_stale: Stale,
    /// What was touched before, until the recovery has it.
    pub(super) recalled_touches: Past,
    /// The lock files that entries of the board hang on.
    pub(super) locks: Locks,
    pub(super) decision: Decision,
    /// `None` for `serve`, which stays until it is told to end.
    stay: Option<Stay>,
    terminating: bool,
}

impl Desk {
    /// The desk of a workspace at rest.
    pub(super) fn new(
        workspace: WorkspaceId,
        folders: Folders,
        history: History,
        version: Version,
        now: Timestamp,
        for_client: bool,
    ) -> Self {
        Self {
            workspace,
            folders,
            runs: BTreeMap::new(),
            past: history.runs,
            sessions: HashMap::new(),
            names: HashMap::new(),
            clients: BTreeSet::new(),
            peers: HashMap::new(),
            durations: history.durations,
            pending: Pending::default(),
            holdings: Holdings::default(),
            task_waits: TaskWaits::default(),
            dispatching: Dispatching::after(history.dispatches),
            terms: Terms::default(),
            swept_at: None,
            inputs: 0,
            person: Claim::command_line(0),
            here: nobody(),
            resumable: BTreeMap::new(),
            remarks: Vec::new(),
            has_room: true,
            handing_over: false,
            patience_ms: PATIENCE_MS,
            since: now,
            watching: Watching::default(),
            version,
            board: Replica::default(),
            locks: Locks::default(),
            recalled_stale: history.stale,
            recalled_touches: history.touched,
            decision: Decision::default(),
            stay: for_client.then(|| Stay { used: false, until: now.plus_ms(UNUSED_MS) }),
            terminating: false,
        }
    }

    /// The same for this user.
    pub(super) fn of_user(self, uid: u32) -> Self {
        Self { person: Claim::command_line(uid), ..self }
    }

    /// The same with something to say.
    pub(super) fn remarking(self, remarks: Vec<String>) -> Self {
        Self { remarks, ..self }
    }

    /// The same with something to watch.
    pub(super) fn watching(self, watching: Watching) -> Self {
        Self { watching, ..self }
    }

    /// The same with a board that is not empty.
    pub(super) fn with_board(self, board: Replica) -> Self {
        Self { board, ..self }
    }

    /// The same in this boot and pid namespace.
    pub(super) fn at(self, here: ProcessIdentity) -> Self {
        Self { here, ..self }
    }

    /// Takes an event in. What came of it is collected until `decide` takes it.
    pub(super) fn hear(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Connected { connection, peer, .. } => {
                self.clients.insert(connection);
                self.peers.insert(connection, peer);
            }
            Event::Asked { connection, request } => self.asked(connection, request, now),
            Event::Gone { connection } => self.client_gone(connection, now),
            Event::Fact { session, fact } => self.fact(&session, fact, now),
            Event::LinkLost { session } => self.link_lost(&session),
            Event::Swept { session, survivors } => self.swept(&session, survivors, now),
            Event::HttpReady { session, command } => self.service_ready(&session, &command, now),
            Event::RunReported { report, followers } => self.run_reported(report, &followers),
            Event::Surveyed { asker, submit, found } => self.surveyed(asker, *submit, found, now),
            Event::WorktreeMade { attempt, made } => self.worktree_made(&attempt, made, now),
            Event::WorktreeGone { attempt } => self.worktree_gone(&attempt, now),
            Event::WorktreeReturned { attempt, end } => self.worktree_returned(&attempt, *end, now),
            Event::Terminate => self.terminate(now),
        }
    }

    /// Looks at everything whose time has come.
    pub(super) fn tick(&mut self, now: Timestamp) {
        for run in self.due_runs(now) {
            self.run_tick(&run, now);
        }
        self.kill_overdue(now);
        self.close_unclaimed(now);
        self.end_deserted(now);
        self.close_unused(now);
        self.settle(now);
        self.return_lapsed(now);
        for session in self.pending.overdue(now) {
            self.serve(&session, now);
        }
        self.end_overdue_waits(now);
        self.seal_idle(now);
        self.sweep_when_due(now);
    }

    /// What has been decided since the last call.
    pub(super) fn decide(&mut self) -> Decision {
        std::mem::take(&mut self.decision)
    }

    /// When `tick` has something to do next.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let runs = self.runs.values().filter_map(Run::next_deadline);
        let sessions = [
            self.next_unused(),
            self.next_settling(),
            self.next_lapse(),
            self.pending.next_due(),
            self.task_waits.next_due(),
            self.dispatching.next_seal(),
            self.next_sweep(),
            self.next_unclaimed(),
        ];
        let closing = self.sessions.values().filter(|session| !session.is_attempts());
        let closing = closing.filter_map(|session| session.close_by);
        runs.chain(sessions.into_iter().flatten()).chain(closing).chain(self.ending_at()).min()
    }

    /// True once the coordinator may end: told to, or started for clients that are all gone.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        if self.handing_over {
            return true;
        }
        if !self.runs.is_empty() || !self.sessions.is_empty() {
            return false;
        }
        self.terminating || self.ending_at().is_some_and(|at| at <= now)
    }

    fn ending_at(&self) -> Option<Timestamp> {
        let at_rest = self.runs.is_empty() && self.sessions.is_empty() && self.clients.is_empty();
        self.stay.filter(|_| at_rest).map(|stay| stay.until)
    }

    /// The coordinator stays at least as long after an `exec`.
    pub(super) fn stay_for_exec(&mut self, now: Timestamp) {
        self.stay(now.plus_ms(AFTER_EXEC_MS));
    }

    /// And as long after a named session.
    pub(super) fn stay_for_session(&mut self, now: Timestamp) {
        self.stay(now.plus_ms(AFTER_SESSION_MS));
    }

    /// A run asks for no staying of its own: after a lone one the coordinator ends at once.
    pub(super) fn used_for_run(&mut self) {
        if let Some(stay) = &mut self.stay
            && !stay.used
        {
            *stay = Stay { used: true, until: Timestamp::default() };
        }
    }

    fn stay(&mut self, until: Timestamp) {
        if let Some(stay) = &mut self.stay {
            *stay =
                Stay { used: true, until: if stay.used { until.max(stay.until) } else { until } };
        }
    }

    fn terminate(&mut self, now: Timestamp) {
        self.terminating = true;
        self.seal_resting(now);
        let going = self.runs.values().filter(|run| !run.is_told());
        let runs: Vec<RunId> = going.map(|run| run.id.clone()).collect();
        for run in runs {
            self.cancel_run(&run, CancelWhy::ShuttingDown, false, now);
        }
        let free: Vec<SessionId> = self
            .sessions
            .values()
            .filter(|session| !session.is_attempts())
            .map(|session| session.id.clone())
            .collect();
        for session in free {
            self.close_session(&session, ClosedWhy::Closed, now);
        }
    }

    fn client_gone(&mut self, connection: ConnectionId, now: Timestamp) {
        self.clients.remove(&connection);
        self.peers.remove(&connection);
        let orphaned: Vec<RunId> = self
            .runs
            .values_mut()
            .filter_map(|run| run.client_gone(connection).then(|| run.id.clone()))
            .collect();
        for run in orphaned {
            self.cancel_run(&run, CancelWhy::ClientLost, false, now);
        }
        self.pending.drop_connection(connection);
        self.task_waits.drop_connection(connection);
        self.drop_asker(connection, now);
        self.drop_attached(connection, now);
    }

    /// A record that may reach the disk a little later.
    pub(super) fn record(&mut self, event: Fact, now: Timestamp) {
        if !self.has_room && is_spared(&event) {
            return;
        }
        self.decision.records.push(Stamped { at: now, event });
    }

    /// A record that the actions of this round have to wait for.
    pub(super) fn record_durably(&mut self, event: Fact, now: Timestamp) {
        self.record(event, now);
        self.decision.durable = true;
    }

    pub(super) fn act(&mut self, action: Action) {
        self.decision.actions.push(action);
    }

    pub(super) fn respond(&mut self, connection: ConnectionId, response: Response) {
        self.act(Action::Respond { connection, response });
    }

    pub(super) fn refuse(&mut self, connection: ConnectionId, id: u64, failure: Failure) {
        self.respond(connection, Response::Refusal { id, failure });
    }

    /// Writes a board entry; `None` removes it.
    pub(super) fn post(
        &mut self,
        key: String,
        value: Option<serde_json::Value>,
        writer: Writer,
        now: Timestamp,
    ) {
        self.version = self.version.next(now.0, &self.version.node);
        let entry = BoardEntry { key, value, version: self.version.clone(), writer };
        if !self.has_board_room(&entry) {
            return tracing::warn!(key = entry.key, "the board is full: an entry is left out");
        }
        self.note_contract(&entry, now);
        self.board.merge(entry.clone());
        if self.board.tombstones() > TOMBSTONES_MAX {
            self.board.collect(now.0);
        }
        let record = self.decision.records.len();
        self.record(Fact::Board { entry: entry.clone() }, now);
        self.act(Action::Post { entry, record });
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.terminating
    }
}

/// What is left out of the journal while the disk is full, so that outcomes fit: of commands only
/// their durations are learnt from it, and sessions have records of their own.
fn is_spared(event: &Fact) -> bool {
    matches!(event, Fact::CommandStarted { .. } | Fact::CommandEnded { .. })
}

/// The refusal of what is not begun on a full disk.
pub(super) fn no_room() -> Failure {
    Failure {
        kind: FailureKind::Environment,
        message: NO_ROOM.to_owned(),
        hint: Some(
            "make room, and call again: `callboard gc` says what it could remove".to_owned(),
        ),
    }
}

/// Where nothing is said of the place, as in tables of events.
fn nobody() -> ProcessIdentity {
    ProcessIdentity { pid: 0, start_time: 0, boot_id: String::new(), pid_namespace: 0 }
}

/// The refusal for something that the workspace does not know.
pub(super) fn not_found(what: &str, hint: &str) -> Failure {
    Failure {
        kind: FailureKind::NotFound,
        message: format!("{what} is not known in this workspace"),
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests;
