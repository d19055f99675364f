//! Names of things: runs, tasks, attempts, sessions, commands, agents, tags.
//!
//! Each is a string with a type of its own, so that a task id cannot be handed where a session id
//! is wanted. Nothing here makes an id up: fresh ids need randomness, and that is the daemon's.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it is; whoever reads user input checks it first.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text of the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

name_type!(
    /// A run of a manifest, unique in its workspace for good.
    RunId
);
name_type!(
    /// A task as its manifest calls it; unique in its run.
    TaskId
);
name_type!(
    /// An isolated terminal session; unguessable, since it is handed to clients.
    SessionId
);
name_type!(
    /// One command in one session.
    CommandId
);
name_type!(
    /// A question that waits for somebody's decision.
    EscalationId
);
name_type!(
    /// A worker in `agents.toml`.
    AgentName
);
name_type!(
    /// A capability that a task needs and an agent carries.
    Tag
);
name_type!(
    /// A workspace: the manifest's `id`, or the name of its folder.
    WorkspaceId
);

/// The fencing token of everything that an attempt causes: a straggler of an earlier attempt is
/// recognised by its number and refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// Counts from 1; every start is counted.
    pub attempt: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}#{}", self.run, self.task, self.attempt)
    }
}
