//! What an attempt hears, and what it asks for.

use crate::domain::conflict::Conflict;
use crate::domain::event::AttemptEnd;
use crate::domain::outcome::Reason;
use crate::domain::result::Child;

use super::event::EndWhy;
use super::verdict::CommandEnded;

/// What an attempt hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It may begin.
    Begin,
    /// The session is open.
    Opened,
    /// The session could not be opened, and is over.
    OpenFailed {
        /// What happened, and where.
        message: String,
    },
    /// A command waits for input that no rule answered.
    Awaiting {
        /// What the terminal asks.
        prompt: String,
        /// True when the terminal's echo is off.
        secret: bool,
    },
    /// It waits no longer.
    Resumed,
    /// The service is ready.
    ServiceReady,
    /// A command ended and what was to end with it is gone.
    Ended(CommandEnded),
    /// Somebody above wants it to end.
    End(EndWhy),
    /// It has touched what another one holds: it ends, and says so.
    Conflicted {
        /// What, and whose.
        conflict: Box<Conflict>,
    },
    /// The session is over; only these of its tree are left.
    Closed {
        /// Processes that nobody here may end.
        survivors: Vec<Child>,
    },
    /// The session's holder is gone, and what it left behind has been ended.
    Lost {
        /// Processes that nobody here may end.
        survivors: Vec<Child>,
    },
    /// The folder that it works in is gone, and was its alone.
    WorkspaceMissing,
    /// Time has passed: `Attempt::deadline` has come.
    Tick,
}

/// What an attempt asks for, in order.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Effect {
    /// Open a fresh session; answered by `Opened` or `OpenFailed`.
    OpenSession,
    /// Run a command in it; answered by `Ended`.
    RunCommand {
        /// Counts through `run`; `verify` comes after its last.
        index: usize,
        /// What it is to the task.
        role: Role,
    },
    /// End the command's tree; answered by `Ended`.
    EndCommand {
        /// Which.
        index: usize,
        /// What its result is to say.
        reason: Reason,
    },
    /// End everything in the session; answered by `Closed`. The session may be over already.
    CloseSession,
    /// Its holder does not answer: end it and all that it leaves behind; answered by `Lost`.
    KillSession,
    /// For the run: a command waits for input.
    InputAwaited,
    /// For the run: it goes on.
    InputAnswered,
    /// For the run: the service is ready.
    ServiceReady,
    /// For the run: the attempt is over and its tree gone. Nothing follows.
    Done {
        /// How it ended.
        end: AttemptEnd,
        /// Processes that nobody here may end.
        survivors: Vec<Child>,
    },
}

/// What a command is to its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An entry of `run` that has to complete.
    Step,
    /// The last entry of `run` of a service.
    Service,
    /// The `verify` script.
    Verify,
}
