//! Requests: what a client can ask.

use serde::{Deserialize, Serialize};

use super::{EscalationCall, Exec, NewSession, Seen, Submit, TaskCall};
use crate::domain::board::Version;
use crate::domain::event::{ClientEnv, RunOptions};
use crate::domain::ids::{CommandId, RunId, SessionId};
use crate::domain::key::Input;
use crate::domain::session::Size;

/// Version of this grammar. Client and coordinator have to agree on it exactly.
///
/// What has to be understood across versions stays as it is for ever: the frames, `Hello`,
/// `HandOver` (which may come without a `Hello`), and refusals. Fields may be added to them.
pub const CONTROL_VERSION: u32 = 6;

/// A client's question. Replies carry its number, so several may be under way at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The client's own number for it.
    pub id: u64,
    /// What it asks.
    pub call: Call,
}

/// What a client can ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Always the first.
    Hello {
        /// `CONTROL_VERSION` of the client.
        version: u32,
        /// The version of callboard that the client is, to be named to a person.
        #[serde(default)]
        callboard: Option<String>,
    },
    /// Start a run. Answered with `Submitted` once the run is durable.
    Submit {
        /// What to run.
        submit: Box<Submit>,
    },
    /// Follow a run: answered with `Report`, its tasks left out, then `Notice`s up to `RunEnded`;
    /// with the whole `Report` alone once the run has ended.
    WatchRun {
        /// Which.
        run: RunId,
    },
    /// End a run: gracefully, or at once when asked a second time with `now`.
    CancelRun {
        /// Which.
        run: RunId,
        /// Straight to KILL.
        now: bool,
    },
    /// Go on following a run after its coordinator was lost, with what is never written down:
    /// answered as `WatchRun`. The run lives as long as this connection from then on, unless it is
    /// detached.
    Rejoin {
        /// Which.
        run: RunId,
        /// The caller's environment, filtered.
        env: ClientEnv,
    },
    /// Go on with a run that has ended without success, or that no client is left of: what has
    /// succeeded stays so. Answered as `Submit`.
    Resume {
        /// Which.
        run: RunId,
        /// Its options from now on; as before otherwise.
        options: Option<RunOptions>,
        /// The caller's environment, filtered.
        env: ClientEnv,
        /// True when it outlives its client.
        detach: bool,
    },
    /// All runs that the workspace knows.
    ListRuns,
    /// A run's whole report as far as it goes.
    Report {
        /// Which.
        run: RunId,
    },
    /// Something about single tasks. Answered with `Task`, or as `TaskCall` says.
    Task {
        /// What.
        task: Box<TaskCall>,
    },
    /// Something about escalations. Answered with `Escalations`.
    Escalation {
        /// What.
        escalation: EscalationCall,
    },
    /// Run one command, in a session of its own or a kept one. Answered with `Ran` once it has
    /// ended or waits for input. A client that leaves before takes its command along.
    Exec {
        /// What.
        exec: Box<Exec>,
    },
    /// Go on waiting for an `Exec` whose coordinator was lost: answered as `Exec`. Refused with
    /// `NotFound` only where it is certain that the command never began, and may be asked for
    /// again; with `Unknown` where nobody can tell.
    Reclaim {
        /// The ticket of that `Exec`.
        ticket: String,
        /// The `session` of that `Exec`.
        #[serde(default)]
        session: Option<String>,
    },
    /// Interrupt an `Exec` of this connection. Answered with `Cancelling`; the `Exec` itself is
    /// answered with `Ran` once its command's tree is gone.
    CancelExec {
        /// The number of its request.
        request: u64,
    },
    /// The same, but answered with `Begun` as soon as the command has its place: what becomes of it
    /// is told by `Wait`, and no client's leaving ends it. Needs a kept session.
    ExecStart {
        /// What.
        exec: Box<Exec>,
    },
    /// Wait for a command of an open session. Answered with `Waited` once it has ended, waits for
    /// input, or `wait_ms` are over. Giving up waiting ends nothing.
    Wait {
        /// The session.
        session: SessionId,
        /// Which of its commands.
        command: CommandId,
        /// How long at most, in ms; `None` for as long as it takes.
        wait_ms: Option<u64>,
    },
    /// Open a session that is kept. Answered with `SessionOpened` once its shell is there.
    OpenSession {
        /// What it is made of.
        new: Box<NewSession>,
    },
    /// All open sessions. Asking keeps none of them alive.
    ListSessions,
    /// Close a session. Answered with `SessionClosed` once everything in it is gone.
    CloseSession {
        /// Which.
        session: SessionId,
    },
    /// What an open session looks like, as soon as that differs from what was `seen`. Answered with
    /// `View`; at the session's end with its last one. A connection that looks at a session again
    /// takes its earlier look back.
    Look {
        /// Which.
        session: SessionId,
        /// The command to tell of; its latest otherwise.
        command: Option<CommandId>,
        /// What the client knows already; `None` for an answer at once, which counts as a use of
        /// the session.
        seen: Option<Seen>,
    },
    /// Write to the terminal of a session. Answered with `Written` once the terminal has it.
    Input {
        /// Which.
        session: SessionId,
        /// Only while this command runs; any otherwise.
        command: Option<CommandId>,
        /// What.
        input: Input,
    },
    /// Interrupt what runs in a session. Answered with `Interrupted` once its tree is gone.
    Interrupt {
        /// Which.
        session: SessionId,
        /// Only this command; whichever runs otherwise.
        command: Option<CommandId>,
    },
    /// Claim a session's terminal and take its shell over. Answered with `Attached`. A client that
    /// is gone has 30 s to come back.
    Attach {
        /// Which.
        session: SessionId,
        /// The client's window.
        size: Size,
    },
    /// Hand it back. Answered with `Detached`.
    Detach {
        /// Which.
        session: SessionId,
    },
    /// Raw bytes for a terminal, as they are typed. Answered only when it is refused.
    Type {
        /// Which.
        session: SessionId,
        /// They.
        bytes: Vec<u8>,
    },
    /// A terminal's window has another size. Answered only when it is refused.
    Resize {
        /// Which.
        session: SessionId,
        /// The size.
        size: Size,
    },
    /// End, and leave everything to the coordinator that comes next. Answered with `HandingOver`
    /// once the journal has all. Understood from a client of any version, before `Hello`.
    HandOver,
    /// What runs and what waits.
    Status,
    /// The whole board. Answered with `Board`.
    Board,
    /// What a key or prefix of the board speaks of (`domain::board::key::covers`). Answered with
    /// `Board`.
    ReadBoard {
        /// The key or prefix.
        told: String,
    },
    /// Put an entry on the board. Answered with `EntryWritten` once the journal has it.
    SetEntry {
        /// The key.
        key: String,
        /// The value.
        value: serde_json::Value,
    },
    /// Take an entry off the board. Answered as `SetEntry`.
    RemoveEntry {
        /// The key.
        key: String,
    },
    /// Follow what a key or prefix speaks of. Answered with `WatchingBoard`; then come what is there
    /// or has changed after `since`, `BoardThrough`, and every change as it happens. A connection
    /// that watches again takes its earlier watch back.
    WatchBoard {
        /// The key or prefix.
        told: String,
        /// Everything up to this version is known; nothing is otherwise.
        since: Option<Version>,
    },
}
