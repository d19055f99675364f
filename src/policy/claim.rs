//! Who may do what with a terminal: one decision, asked by every door.
//!
//! The rules are those of the Agent Host Protocol (`docs/claims.md` has the table). Two that it
//! leaves open are settled: a client may take over a terminal while a tool call runs in it, and
//! under a session's claim a client with write right may type, but not resize.

use std::fmt;

use crate::domain::claim::Claim;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A client, in person.
    Client {
        /// Its id, bound to its connection.
        id: String,
        /// May it change anything at all?
        right: Right,
    },
    /// The agent, attempt or tool that works for this session.
    Agent {
        /// The session it works for.
        session: String,
    },
    /// The coordinator itself: ends of tool calls, cancellations, sweeps.
    Server,
}

/// What a client may do in general, before any claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Look.
    Read,
    /// Type, take over, close.
    Write,
    /// The same, and take what another client holds.
    Admin,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Make a terminal, held by this claim.
    Create(Claim),
    /// Hand the terminal to this claim.
    Claim(Claim),
    /// Look at it, read it, follow it.
    Watch,
    /// Type into it.
    Input,
    /// Interrupt what runs in it.
    Interrupt,
    /// Run a command in it.
    Run,
    /// Change its window's size.
    Resize,
    /// Drop what it shows.
    Clear,
    /// Give it another title.
    Rename,
    /// End everything in it.
    Close,
}

/// What else counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its shell has ended.
    pub exited: bool,
    /// The session that the terminal belongs to, whoever holds it now; `None`: a client's own.
    pub home: Option<String>,
    /// The terminal is that of a manifest's task which is no service: its commands end with it.
    pub task: bool,
    /// A person works at the shell's own prompt, or will once the running command has ended.
    pub taken_over: bool,
    /// The client that holds it has been away for longer than its grace.
    pub lapsed: bool,
    /// The session or chat that a new claim names does not exist.
    pub unknown: bool,
}

/// How long a client that holds a terminal may be away before another may have it, in ms.
pub const GRACE_MS: u64 = 30_000;

/// What is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen, and the claim stays.
    Allow,
    /// It may happen once the terminal is handed back: it is queued.
    Wait,
    /// It may not, and nothing changes.
    Deny(Denial),
    /// It happens, and the claim becomes this one.
    Hand(Handing, Claim),
}

/// How a claim changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handing {
    /// Its holder gives it away.
    Transfer,
    /// A client takes it from a session that has it in the background.
    TakeBack,
    /// A client takes it from a running tool call: the command goes on, its clock stands still, the
    /// agent's input and commands queue, and it is told.
    TakeOver,
    /// It goes back to the session that it belongs to.
    GiveBack,
    /// The session keeps it with fewer ids: the tool call may end, its command goes on.
    Narrow,
    /// The session uses it again.
    Widen,
}

/// Why not. A closed list; `Display` has the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Another client holds it.
    HeldByClient {
        /// That client.
        client: String,
    },
    /// A session holds it, and this is for its own agent.
    HeldBySession {
        /// That session.
        session: String,
    },
    /// The window has the size that the session gave it.
    SizeIsTheSessions {
        /// That session.
        session: String,
    },
    /// A client gave more ids than the session's claim has.
    Widens,
    /// The claim names another session than the one that holds the terminal.
    OtherSession {
        /// The one that does.
        session: String,
    },
    /// The claim names another client than the one that asks.
    ForeignClient,
    /// A task's command cannot be left running behind it.
    TaskInUse,
    /// The claim lacks an id.
    Malformed,
    /// The claim names a session or chat that does not exist.
    Unknown,
    /// The client may only look.
    ReadOnly,
    /// The terminal's shell has ended.
    Exited,
}

/// Decides. Pure: the same question has the same answer, and nothing is changed here.
pub fn decide(
    claim: &Claim,
    requester: &Requester,
    operation: &Operation,
    standing: &Standing,
) -> Verdict {
    let dead = standing.exited
        && matches!(
            operation,
            Operation::Input | Operation::Resize | Operation::Run | Operation::Interrupt
        );
    let mute = matches!(requester, Requester::Client { right: Right::Read, .. });
    match operation {
        Operation::Watch => Verdict::Allow,
        _ if mute => Verdict::Deny(Denial::ReadOnly),
        // By right, never by claim: a terminal that a lost agent holds has to be closable.
        Operation::Close => Verdict::Allow,
        Operation::Create(to) => create(requester, to, standing),
        Operation::Claim(to) => match fault(to, standing) {
            Some(denial) => Verdict::Deny(denial),
            None => hand(claim, requester, to, standing),
        },
        _ if dead => Verdict::Deny(Denial::Exited),
        operation => act(claim, requester, operation, standing),
    }
}

impl Verdict {
    /// The claim afterwards.
    #[must_use]
    pub fn applied_to(self, claim: Claim) -> Claim {
        match self {
            Self::Hand(_, to) => to,
            Self::Allow | Self::Wait | Self::Deny(_) => claim,
        }
    }
}

fn fault(to: &Claim, standing: &Standing) -> Option<Denial> {
    if !to.is_well_formed() {
        return Some(Denial::Malformed);
    }
    (standing.unknown && matches!(to, Claim::Session { .. })).then_some(Denial::Unknown)
}

fn create(requester: &Requester, to: &Claim, standing: &Standing) -> Verdict {
    if let Some(denial) = fault(to, standing) {
        return Verdict::Deny(denial);
    }
    match (requester, to) {
        (Requester::Client { id, .. }, Claim::Client { client_id }) if id != client_id => {
            Verdict::Deny(Denial::ForeignClient)
        }
        (Requester::Agent { .. }, Claim::Client { .. }) => Verdict::Deny(Denial::ForeignClient),
        (Requester::Agent { session }, Claim::Session { session: other, .. })
            if session != other =>
        {
            Verdict::Deny(Denial::OtherSession { session: session.clone() })
        }
        _ => Verdict::Allow,
    }
}

/// Input, commands, sizes and titles.
fn act(
    claim: &Claim,
    requester: &Requester,
    operation: &Operation,
    standing: &Standing,
) -> Verdict {
    match (claim, requester) {
        (_, Requester::Server) => Verdict::Allow,
        (Claim::Client { client_id }, Requester::Client { id, .. }) if client_id == id => {
            // Its own command comes after its own typing.
            let waits = standing.taken_over && *operation == Operation::Run;
            if waits { Verdict::Wait } else { Verdict::Allow }
        }
        (Claim::Client { client_id }, Requester::Agent { session })
            if standing.home.as_ref() == Some(session) =>
        {
            match operation {
                Operation::Input | Operation::Run => Verdict::Wait,
                _ => Verdict::Deny(Denial::HeldByClient { client: client_id.clone() }),
            }
        }
        (Claim::Client { client_id }, _) => {
            Verdict::Deny(Denial::HeldByClient { client: client_id.clone() })
        }
        (Claim::Session { session, .. }, Requester::Agent { session: agent }) => {
            if session == agent {
                // The window of a person who has not left yet stays theirs; the rest waits.
                let waits =
                    standing.taken_over && matches!(operation, Operation::Input | Operation::Run);
                return if waits { Verdict::Wait } else { Verdict::Allow };
            }
            Verdict::Deny(Denial::HeldBySession { session: session.clone() })
        }
        (Claim::Session { session, .. }, Requester::Client { .. }) => match operation {
            Operation::Input | Operation::Interrupt | Operation::Clear | Operation::Rename => {
                Verdict::Allow
            }
            Operation::Resize => {
                Verdict::Deny(Denial::SizeIsTheSessions { session: session.clone() })
            }
            _ => Verdict::Deny(Denial::HeldBySession { session: session.clone() }),
        },
    }
}

/// A well-formed claim that names nothing unknown.
fn hand(claim: &Claim, requester: &Requester, to: &Claim, standing: &Standing) -> Verdict {
    match (claim, requester) {
        (_, Requester::Server) => by_holder(claim, to, standing),
        (Claim::Client { client_id }, Requester::Client { id, right }) => {
            if client_id == id {
                return by_holder(claim, to, standing);
            }
            let for_itself = *to == Claim::client(id.clone());
            if for_itself && (standing.lapsed || *right == Right::Admin) {
                return Verdict::Hand(Handing::Transfer, to.clone());
            }
            Verdict::Deny(Denial::HeldByClient { client: client_id.clone() })
        }
        (Claim::Client { client_id }, Requester::Agent { .. }) => {
            Verdict::Deny(Denial::HeldByClient { client: client_id.clone() })
        }
        (Claim::Session { session, .. }, Requester::Agent { session: agent }) => {
            if session == agent {
                return by_holder(claim, to, standing);
            }
            Verdict::Deny(Denial::OtherSession { session: session.clone() })
        }
        (Claim::Session { .. }, Requester::Client { id, .. }) => {
            from_session(claim, id, to, standing)
        }
    }
}

fn by_holder(claim: &Claim, to: &Claim, standing: &Standing) -> Verdict {
    if claim == to {
        return Verdict::Allow;
    }
    let handing = match (claim, to) {
        (Claim::Client { .. }, Claim::Session { session, .. })
            if standing.home.as_ref() == Some(session) =>
        {
            Handing::GiveBack
        }
        (
            Claim::Session { session, chat, scope },
            Claim::Session { session: other, chat: other_chat, scope: wanted },
        ) if session == other && chat == other_chat => {
            if wanted.is_within(scope) {
                Handing::Narrow
            } else {
                Handing::Widen
            }
        }
        _ => Handing::Transfer,
    };
    Verdict::Hand(handing, to.clone())
}

/// What a client may do with a session's claim: take the terminal for itself, or put the session's
/// tool call into the background.
fn from_session(claim: &Claim, id: &str, to: &Claim, standing: &Standing) -> Verdict {
    let Claim::Session { session, chat, scope } = claim else {
        return Verdict::Allow;
    };
    match to {
        Claim::Client { client_id } if client_id == id => {
            let handing = if scope.is_in_use() { Handing::TakeOver } else { Handing::TakeBack };
            Verdict::Hand(handing, to.clone())
        }
        Claim::Client { .. } => Verdict::Deny(Denial::ForeignClient),
        _ if claim == to => Verdict::Allow,
        Claim::Session { session: other, chat: other_chat, .. }
            if session != other || chat != other_chat =>
        {
            Verdict::Deny(Denial::OtherSession { session: session.clone() })
        }
        Claim::Session { scope: wanted, .. } if !wanted.is_within(scope) => {
            Verdict::Deny(Denial::Widens)
        }
        Claim::Session { .. } if standing.task => Verdict::Deny(Denial::TaskInUse),
        Claim::Session { .. } => Verdict::Hand(Handing::Narrow, to.clone()),
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeldByClient { client } => write!(f, "the terminal is held by client `{client}`"),
            Self::HeldBySession { session } => {
                write!(f, "the terminal is held by session `{session}`")
            }
            Self::SizeIsTheSessions { session } => {
                write!(f, "the window has the size of session `{session}`; take it over to resize")
            }
            Self::Widens => f.write_str("only the session itself adds a turn or tool call"),
            Self::OtherSession { session } => {
                write!(f, "the terminal belongs to session `{session}`")
            }
            Self::ForeignClient => f.write_str("a client can claim for itself only"),
            Self::TaskInUse => {
                f.write_str("a task's command cannot be left running: the task waits for its end")
            }
            Self::Malformed => f.write_str("the claim is not well formed: an id is missing"),
            Self::Unknown => f.write_str("the claim names an unknown session or chat"),
            Self::ReadOnly => f.write_str("this client may only look"),
            Self::Exited => f.write_str("the terminal's shell has ended"),
        }
    }
}
