//! What the verbs that read a session's output have in common.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::client::{Connection, WireError};
use crate::control::{Answer, Call, Seen, SessionView};
use crate::domain::ids::SessionId;
use crate::domain::time::Timestamp;
use crate::transcript::decode::Hint;

/// The session as it is now. That counts as a use of it.
///
/// # Errors
/// When the coordinator refuses or is gone.
pub(super) fn look(connection: &mut Connection, id: &SessionId) -> Result<SessionView, WireError> {
    let call = Call::Look { session: id.clone(), command: None, seen: None };
    match connection.ask(call)? {
        Answer::View { view } => Ok(*view),
        _ => Err(WireError::Unexpected { call: "look" }),
    }
}

/// The same, in passing: it keeps the session no longer alive. `None` where it has ended since.
///
/// # Errors
/// When the coordinator cannot be talked to.
pub(super) fn glimpse(
    connection: &mut Connection,
    id: &SessionId,
) -> Result<Option<SessionView>, WireError> {
    // Nobody has seen so many changes: the answer comes at once.
    let seen = Some(Seen { changes: u64::MAX, end: 0 });
    match connection.ask(Call::Look { session: id.clone(), command: None, seen }) {
        Ok(Answer::View { view }) => Ok(Some(*view)),
        Ok(_) => Err(WireError::Unexpected { call: "look" }),
        Err(WireError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a session's character set says of its output.
pub(in crate::cli) fn hint(charset: Option<&str>) -> Hint {
    charset.map_or_else(Hint::default, |charset| Hint::of_locale(&format!("x.{charset}")))
}

/// The time on the wall.
pub(in crate::cli) fn now() -> Timestamp {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))
}
