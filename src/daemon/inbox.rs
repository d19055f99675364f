//! Everything that the coordinator's loop can hear: one closed list.

use super::peers::Peer;
use super::sessions::Asker;
use crate::control::{Request, Submit};
use crate::domain::ids::{AttemptId, CommandId, SessionId};
use crate::domain::result::Child;
use crate::domain::worktree::Origin;
use crate::report::record::RunReport;
use crate::session::stream::Outlet;
use crate::session::wire::Fact;
use crate::worktree::End;

/// How many events may wait. A full inbox makes doors and links wait, which is the back-pressure
/// that reaches clients; the loop itself never sends to it.
pub(super) const INBOX_EVENTS_MAX: usize = 4096;

/// A connection, numbered as it came.
pub(super) type ConnectionId = u64;

/// What the loop can hear.
#[derive(Debug)]
pub(super) enum Event {
    /// A client has connected.
    Connected {
        /// Its number.
        connection: ConnectionId,
        /// Where its responses go.
        responses: Outlet,
        /// Who it is.
        peer: Peer,
    },
    /// It asks something.
    Asked {
        /// Who.
        connection: ConnectionId,
        /// What.
        request: Request,
    },
    /// It is gone.
    Gone {
        /// Who.
        connection: ConnectionId,
    },
    /// A holder reports.
    Fact {
        /// Whose.
        session: SessionId,
        /// What.
        fact: Fact,
    },
    /// A holder is gone; whatever it had to say came before.
    LinkLost {
        /// Whose.
        session: SessionId,
    },
    /// What a dead holder left behind has been ended.
    Swept {
        /// Whose.
        session: SessionId,
        /// What could not be.
        survivors: Vec<Child>,
    },
    /// A service's URL answered.
    HttpReady {
        /// The session.
        session: SessionId,
        /// The service's command.
        command: CommandId,
    },
    /// A finished run's report is written down.
    RunReported {
        /// The report.
        report: Box<RunReport>,
        /// Who follows the run.
        followers: Vec<ConnectionId>,
    },
    /// It is known where a run begins that is to be submitted.
    Surveyed {
        /// Who submits it.
        asker: Asker,
        /// The run.
        submit: Box<Submit>,
        /// Where it begins, or why it cannot.
        found: Result<Box<Origin>, String>,
    },
    /// An attempt's worktree is there.
    WorktreeMade {
        /// Whose.
        attempt: AttemptId,
        /// Or why not.
        made: Result<(), String>,
    },
    /// It is there no more, and its attempt runs.
    WorktreeGone {
        /// Whose.
        attempt: AttemptId,
    },
    /// What an attempt left in it has come back, or could not.
    WorktreeReturned {
        /// Whose.
        attempt: AttemptId,
        /// What came of it.
        end: Box<End>,
    },
    /// SIGTERM or SIGINT: end in order.
    Terminate,
}
