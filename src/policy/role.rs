//! Who may ask what of a coordinator: a person anything, a process of a session what belongs to its
//! session's role (`docs/clients.md` has the table in words).
//!
//! An agent has its own session, what it makes from inside of it, the board, and a look at how
//! things go. It never has another session, the coordinator itself, or the runs of others.

use std::fmt;

/// In whose name somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A person, or a program of theirs.
    Person,
    /// A process of an open session.
    Session,
    /// A process of a session that is over, or not open yet.
    Stray,
}

/// What is asked. One word for each call of the control grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Agree on the version.
    Hello,
    /// How things stand: status, runs, reports, sessions, the board.
    Read,
    /// Follow a run.
    WatchRun,
    /// Start a run.
    Submit,
    /// End a run, go on with it, or be its client again.
    ChangeRun,
    /// Run a command and wait for it.
    Exec,
    /// Run a command without waiting.
    ExecStart,
    /// Come back to one's own command, or interrupt it.
    OwnExec,
    /// Open a session.
    OpenSession,
    /// Look into a session, or wait for a command of it.
    Watch,
    /// Type into a session, interrupt it, or change its window.
    Type,
    /// Take a session's terminal over, or give it back.
    Attach,
    /// Close a session.
    CloseSession,
    /// Have the coordinator leave everything to the next one.
    HandOver,
    /// Write an entry of the board that agents put up: a note, a contract, a service.
    Publish,
    /// Write an entry of the board that is observed.
    Post,
}

/// Whose that is which is asked about, seen from whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Nothing that exists: it would be made.
    New,
    /// The session itself, or the run that it works for.
    Own,
    /// Made from inside of it.
    Child,
    /// Anybody else's.
    Other,
}

/// Why not. `Display` says it, and what is allowed instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It is a person's to do.
    PersonsOnly,
    /// It is another session's.
    OtherSession,
    /// It is another's run.
    OtherRun,
    /// It is the run that the session works for.
    OwnRun,
    /// It would wait for itself.
    WaitsForItself,
    /// Its terminal is the one that it would take over.
    OwnTerminal,
    /// The session that whoever asks belongs to is not open.
    NoSession,
    /// Another one has put the entry up.
    OtherEntry,
    /// Such entries are observed.
    Observed,
}

/// Decides. Pure, and exhaustive over what can be asked.
///
/// # Errors
/// Why it may not be.
pub fn may(role: Role, call: Call, whose: Whose) -> Result<(), Denial> {
    match role {
        Role::Person => Ok(()),
        Role::Session => may_session(call, whose),
        Role::Stray => match call {
            Call::Hello | Call::Read | Call::WatchRun => Ok(()),
            Call::Submit
            | Call::ChangeRun
            | Call::Exec
            | Call::ExecStart
            | Call::OwnExec
            | Call::OpenSession
            | Call::Watch
            | Call::Type
            | Call::Attach
            | Call::CloseSession
            | Call::HandOver
            | Call::Publish
            | Call::Post => Err(Denial::NoSession),
        },
    }
}

fn may_session(call: Call, whose: Whose) -> Result<(), Denial> {
    match (call, whose) {
        (
            Call::Hello
            | Call::Read
            | Call::WatchRun
            | Call::Submit
            | Call::OwnExec
            | Call::OpenSession,
            _,
        ) => Ok(()),
        (Call::HandOver, _) => Err(Denial::PersonsOnly),
        (Call::Post, _) => Err(Denial::Observed),
        (_, Whose::New | Whose::Child) => Ok(()),
        (Call::ChangeRun, Whose::Own) => Err(Denial::OwnRun),
        (Call::ChangeRun, Whose::Other) => Err(Denial::OtherRun),
        (Call::Exec | Call::ExecStart, Whose::Own) => Err(Denial::WaitsForItself),
        (Call::Attach, Whose::Own) => Err(Denial::OwnTerminal),
        (Call::Watch | Call::Type | Call::CloseSession | Call::Publish, Whose::Own) => Ok(()),
        (Call::Publish, Whose::Other) => Err(Denial::OtherEntry),
        (
            Call::Exec
            | Call::ExecStart
            | Call::Watch
            | Call::Type
            | Call::Attach
            | Call::CloseSession,
            Whose::Other,
        ) => Err(Denial::OtherSession),
    }
}

impl Denial {
    /// What whoever asked can do instead.
    #[must_use]
    pub fn instead(self) -> &'static str {
        match self {
            Self::PersonsOnly | Self::OtherRun => {
                "inside a session are allowed: its own session, sessions and runs that it makes, \
                 the board, and reading"
            }
            Self::OtherSession => {
                "open one of your own with `callboard session new`, or leave --session out"
            }
            Self::OwnRun => "end this task by exiting; a person can end the run",
            Self::WaitsForItself => "run the command directly, or leave --session out",
            Self::OwnTerminal => "a person attaches from outside",
            Self::NoSession => "call from inside a session that is open, or from outside",
            Self::OtherEntry => "write an entry of your own, as `note/<task>/…`",
            Self::Observed => "agents write `note/…`, `contract/…` and `service/…`",
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PersonsOnly => "a process inside a session may not do this",
            Self::OtherSession => "a process inside a session has no say over another session",
            Self::OtherRun => {
                "a process inside a session has no say over a run that it did not start"
            }
            Self::OwnRun => "a process inside a session has no say over the run that it works for",
            Self::WaitsForItself => {
                "a command for this very session would wait for the one that asks"
            }
            Self::OwnTerminal => "a session cannot take over its own terminal",
            Self::NoSession => "the session that this process belongs to is over, or not open yet",
            Self::OtherEntry => {
                "a process inside a session does not change what another task has put up"
            }
            Self::Observed => "such entries of the board are observed, and not written by agents",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: [Call; 16] = [
        Call::Hello,
        Call::Read,
        Call::WatchRun,
        Call::Submit,
        Call::ChangeRun,
        Call::Exec,
        Call::ExecStart,
        Call::OwnExec,
        Call::OpenSession,
        Call::Watch,
        Call::Type,
        Call::Attach,
        Call::CloseSession,
        Call::HandOver,
        Call::Publish,
        Call::Post,
    ];
    const WHOSE: [Whose; 4] = [Whose::New, Whose::Own, Whose::Child, Whose::Other];

    /// `y`: allowed, `-`: not; in the order of `WHOSE`.
    fn row(role: Role, call: Call) -> String {
        let cell = |whose| if may(role, call, whose).is_ok() { 'y' } else { '-' };
        WHOSE.into_iter().map(cell).collect()
    }

    #[test]
    fn the_table() {
        let rows = [
            "yyyy", "yyyy", "yyyy", "yyyy", "y-y-", "y-y-", "y-y-", "yyyy", "yyyy", "yyy-", "yyy-",
            "y-y-", "yyy-", "----", "yyy-", "----",
        ];
        for (call, expected) in CALLS.into_iter().zip(rows) {
            assert_eq!(row(Role::Session, call), expected, "{call:?}");
            assert_eq!(row(Role::Person, call), "yyyy", "{call:?}");
            let reads = matches!(call, Call::Hello | Call::Read | Call::WatchRun);
            assert_eq!(row(Role::Stray, call), if reads { "yyyy" } else { "----" }, "{call:?}");
        }
    }

    #[test]
    fn every_refusal_says_what_is_allowed() {
        for (role, call, whose) in [Role::Session, Role::Stray]
            .into_iter()
            .flat_map(|role| CALLS.map(|call| (role, call)))
            .flat_map(|(role, call)| WHOSE.map(|whose| (role, call, whose)))
        {
            if let Err(denial) = may(role, call, whose) {
                assert!(!denial.to_string().is_empty() && !denial.instead().is_empty());
            }
        }
    }
}
