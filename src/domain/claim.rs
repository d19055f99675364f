//! Claims: who holds a terminal. Every terminal has exactly one at every moment; it is handed on,
//! never let go of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who holds a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Claim {
    /// A client: a person's editor or page, or all command-line calls of one user.
    Client {
        /// Its id.
        client_id: String,
    },
    /// The work that a terminal belongs to: a task's attempt, an agent's connection.
    Session {
        /// Which.
        session: String,
        /// Which conversation of it.
        chat: String,
        /// What of it uses the terminal now.
        #[serde(flatten)]
        scope: Scope,
    },
}

/// What of a session uses the terminal now. With neither id it is in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The tool call: a command that runs. Only within a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// The chat of a session that has only one.
pub const DEFAULT_CHAT: &str = "default";

impl Claim {
    /// A client's.
    pub fn client(id: impl Into<String>) -> Self {
        Self::Client { client_id: id.into() }
    }

    /// All command-line calls of one user are one client.
    pub fn command_line(uid: u32) -> Self {
        Self::client(format!("command-line:{uid}"))
    }

    /// A session's in the background.
    pub fn session(session: impl Into<String>) -> Self {
        Self::Session {
            session: session.into(),
            chat: DEFAULT_CHAT.to_owned(),
            scope: Scope::default(),
        }
    }

    /// The same claim with another scope; a client's has none.
    #[must_use]
    pub fn scoped(self, scope: Scope) -> Self {
        match self {
            Self::Session { session, chat, .. } => Self::Session { session, chat, scope },
            client @ Self::Client { .. } => client,
        }
    }

    /// True where every id that has to be there says something, and no tool call is without its
    /// turn.
    pub fn is_well_formed(&self) -> bool {
        match self {
            Self::Client { client_id } => !client_id.is_empty(),
            Self::Session { session, chat, scope: Scope { turn_id, tool_call_id } } => {
                let ids = [Some(session), Some(chat), turn_id.as_ref(), tool_call_id.as_ref()];
                !ids.into_iter().flatten().any(String::is_empty)
                    && (tool_call_id.is_none() || turn_id.is_some())
            }
        }
    }
}

impl Scope {
    /// In use by a tool call or a turn.
    pub fn is_in_use(&self) -> bool {
        self.turn_id.is_some() || self.tool_call_id.is_some()
    }

    /// True when `self` has the ids of `whole`, or fewer of them.
    pub fn is_within(&self, whole: &Self) -> bool {
        let within =
            |part: &Option<String>, whole: &Option<String>| part.is_none() || part == whole;
        within(&self.turn_id, &whole.turn_id) && within(&self.tool_call_id, &whole.tool_call_id)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { client_id } => write!(f, "client `{client_id}`"),
            Self::Session { session, .. } => write!(f, "session `{session}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_names_only_what_there_is() {
        let json = |claim: &Claim| serde_json::to_string(claim).unwrap();
        assert_eq!(
            json(&Claim::command_line(7)),
            r#"{"kind":"client","client_id":"command-line:7"}"#
        );
        let background = Claim::session("r/build");
        assert_eq!(json(&background), r#"{"kind":"session","session":"r/build","chat":"default"}"#);
        let scope = Scope { turn_id: Some("1".to_owned()), tool_call_id: Some("c1".to_owned()) };
        let used = background.scoped(scope);
        assert_eq!(serde_json::from_str::<Claim>(&json(&used)).unwrap(), used);
        assert!(used.is_well_formed());
    }

    #[test]
    fn a_claim_that_says_nothing_is_none() {
        let tool = Scope { turn_id: None, tool_call_id: Some("c".to_owned()) };
        for claim in [
            Claim::client(""),
            Claim::session(""),
            Claim::session("s").scoped(tool),
            Claim::session("s").scoped(Scope { turn_id: Some(String::new()), tool_call_id: None }),
        ] {
            assert!(!claim.is_well_formed(), "{claim:?}");
        }
    }
}
