//! Which session is meant: an id, the unique beginning of one, or a name; open ones first, then
//! those that have left a record. `ID.N` means the session's N-th command.

use std::path::PathBuf;

use clap::Args;

use super::client::{Connection, WireError};
use super::coordinator::{self, Expired, Place, Shelf, Shelved};
use super::failure::{Failure, Kind};
use super::starter;
use crate::control::{Answer, Call, Closed, ClosedWhy, FailureKind, SessionLine};
use crate::domain::ids::{CommandId, SessionId};
use crate::report::words::span;

/// Fewer characters than this begin too many ids.
const PREFIX_MIN: usize = 4;
/// The state of a session that goes on while no coordinator runs.
pub(super) const UNATTENDED: &str = "unattended";
/// How like a name has to be to be suggested.
const NEAR: f64 = 0.8;

/// Which session a verb is about.
#[derive(Clone, Debug, Args)]
pub(super) struct Which {
    /// The session: its id, the unique beginning of one, or its name
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
}

/// A session that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// Its id.
    pub(super) id: SessionId,
    /// The command that was meant, if one was.
    pub(super) command: Option<CommandId>,
    /// Its workspace.
    pub(super) place: Place,
    /// What sessions of its workspace have left.
    pub(super) shelf: Shelf,
    /// Open or not.
    pub(super) state: State,
}

/// Whether it is open.
#[derive(Debug)]
pub(super) enum State {
    /// It is.
    Open {
        /// To the workspace's coordinator.
        connection: Connection,
        /// The session.
        line: Box<SessionLine>,
    },
    /// It has ended.
    Past(Box<Shelved>),
}

/// A session that was found open.
#[derive(Debug)]
pub(super) struct FoundOpen {
    /// Its id.
    pub(super) id: SessionId,
    /// The command that was meant, if one was.
    pub(super) command: Option<CommandId>,
    /// What sessions of its workspace have left.
    pub(super) shelf: Shelf,
    /// To the workspace's coordinator.
    pub(super) connection: Connection,
}

impl FoundOpen {
    /// Asks something about the session. One that has ended since is told as ended.
    ///
    /// # Errors
    /// When the coordinator refuses, or gives no answer in time.
    pub(super) fn ask(&mut self, call: Call) -> Result<Answer, Failure> {
        self.connection.ask(call).map_err(|error| self.failure(error))
    }

    /// What the wire's error means for this session.
    pub(super) fn failure(&self, error: WireError) -> Failure {
        match error {
            WireError::Refused(refusal) if refusal.kind == FailureKind::SessionClosed => {
                match past(&self.id, &self.shelf) {
                    Ok(shelved) => ended(&shelved.session),
                    Err(_) => refusal.into(),
                }
            }
            WireError::Lost => {
                let id = &self.id;
                let message = format!(
                    "the coordinator is gone, and nobody can tell whether session `{id}` has \
                     heard this"
                );
                Failure::new(Kind::Coordinator, message).hint(format!(
                    "the session goes on for a while: `callboard session screen {id}` shows it, \
                     with another coordinator"
                ))
            }
            error => error.into(),
        }
    }
}

impl Which {
    /// Finds it.
    ///
    /// # Errors
    /// When there is none, or the word means several.
    pub(super) fn find(&self) -> Result<Found, Failure> {
        let (told, number) = split(&self.id);
        let Some(place) = coordinator::look(self.workspace.as_deref())?.place else {
            return Err(unknown(told, &[]));
        };
        let shelf = Shelf::of(&place);
        let (connection, lines) = open_sessions(&place)?;
        let ids = shelf.ids()?;
        let id = match choose(told, &lines, &ids) {
            Choice::One(id) => id,
            Choice::Several(ids) => return Err(ambiguous(told, &ids)),
            Choice::None => match past_name(told, &shelf, &ids)? {
                Some(id) => id,
                None => return Err(gone_or_unknown(told, &shelf.expired()?, &lines)),
            },
        };
        let command = number.map(|number| CommandId::new(format!("{id}.{number}")));
        let line = lines.into_iter().find(|line| line.session_id == id);
        let state = match (connection, line) {
            (Some(connection), Some(line)) => State::Open { connection, line: Box::new(line) },
            _ => State::Past(Box::new(past(&id, &shelf)?)),
        };
        Ok(Found { id, command, place, shelf, state })
    }

    /// Finds it where it has to be open.
    ///
    /// # Errors
    /// When there is none, or it has ended: when, and why.
    pub(super) fn find_open(&self) -> Result<FoundOpen, Failure> {
        let Found { id, command, shelf, state, .. } = self.find()?;
        match state {
            State::Open { connection, .. } => Ok(FoundOpen { id, command, shelf, connection }),
            State::Past(shelved) if shelved.session.state == UNATTENDED => self.find_with_help(),
            State::Past(shelved) => Err(ended(&shelved.session)),
        }
    }
}

impl Which {
    /// Finds a session that waits for a coordinator, with one.
    fn find_with_help(&self) -> Result<FoundOpen, Failure> {
        if let Some(place) = coordinator::look(self.workspace.as_deref())?.place {
            drop(place.connect_or_start()?);
        }
        let Found { id, command, shelf, state, .. } = self.find()?;
        match state {
            State::Open { connection, .. } => Ok(FoundOpen { id, command, shelf, connection }),
            State::Past(shelved) => Err(ended(&shelved.session)),
        }
    }
}

/// The record of a session that is not open.
///
/// # Errors
/// When it left none.
pub(super) fn past(id: &SessionId, shelf: &Shelf) -> Result<Shelved, Failure> {
    let mut shelved = shelf.read(id)?.ok_or_else(|| unknown(id.as_str(), &[]))?;
    if shelf.is_waiting(id) {
        UNATTENDED.clone_into(&mut shelved.session.state);
    } else {
        shelved.is_not_open();
    }
    Ok(shelved)
}

/// The open sessions of a workspace, and a connection to its coordinator where one runs.
///
/// # Errors
/// When one runs that cannot be talked to.
pub(super) fn open_sessions(
    place: &Place,
) -> Result<(Option<Connection>, Vec<SessionLine>), Failure> {
    let Some(mut connection) = place.connect()? else { return Ok((None, Vec::new())) };
    match connection.ask(Call::ListSessions) {
        Ok(Answer::Sessions { sessions }) => Ok((Some(connection), sessions)),
        Ok(_) => Err(WireError::Unexpected { call: "list_sessions" }.into()),
        Err(error) if starter::is_absence(&error) => Ok((None, Vec::new())),
        Err(error) => Err(error.into()),
    }
}

/// The refusal for a session that has ended, where it has to be open.
pub(super) fn ended(session: &SessionLine) -> Failure {
    let id = &session.session_id;
    let hint = format!("`callboard session show {id}` shows its commands and what they came to");
    let Some(Closed { at, why, .. }) = &session.closed else {
        return Failure::new(Kind::SessionClosed, format!("session `{id}` is not open")).hint(hint);
    };
    let (kind, words) = match why {
        ClosedWhy::Unused => {
            let ttl = session.ttl_ms.map(span).unwrap_or_default();
            (Kind::SessionExpired, format!("nobody had used it for {ttl}"))
        }
        why => (Kind::SessionClosed, why_words(*why).to_owned()),
    };
    Failure::new(kind, format!("session `{id}` ended at {at}: {words}")).hint(hint)
}

/// Why a session ended, in words.
pub(super) fn why_words(why: ClosedWhy) -> &'static str {
    match why {
        ClosedWhy::Closed => "it was closed",
        ClosedWhy::Unused => "nobody used it",
        ClosedWhy::ShellEnded => "its shell ended",
        ClosedWhy::NotOpened => "it could not be opened",
        ClosedWhy::Lost => "its holder or its coordinator was killed",
    }
}

/// `s-….3` is a command of a session.
fn split(told: &str) -> (&str, Option<u32>) {
    let parts = told.rsplit_once('.').filter(|_| told.starts_with("s-"));
    match parts.and_then(|(id, number)| Some((id, number.parse().ok()?))) {
        Some((id, number)) => (id, Some(number)),
        None => (told, None),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Choice {
    One(SessionId),
    Several(Vec<SessionId>),
    None,
}

fn choose(told: &str, open: &[SessionLine], past: &[SessionId]) -> Choice {
    if let Some(line) = open.iter().find(|line| line.name.as_deref() == Some(told)) {
        return Choice::One(line.session_id.clone());
    }
    let ids = open.iter().map(|line| &line.session_id).chain(past);
    if let Some(id) = ids.clone().find(|id| id.as_str() == told) {
        return Choice::One(id.clone());
    }
    if !told.starts_with("s-") || told.len() < PREFIX_MIN {
        return Choice::None;
    }
    let mut meant: Vec<SessionId> =
        ids.filter(|id| id.as_str().starts_with(told)).cloned().collect();
    meant.sort();
    meant.dedup();
    match meant.len() {
        0 => Choice::None,
        1 => Choice::One(meant.remove(0)),
        _ => Choice::Several(meant),
    }
}

/// The newest of the sessions that had this name.
fn past_name(told: &str, shelf: &Shelf, ids: &[SessionId]) -> Result<Option<SessionId>, Failure> {
    if told.starts_with("s-") {
        return Ok(None);
    }
    let mut newest: Option<SessionLine> = None;
    for id in ids {
        // A record that cannot be read is some other session's trouble.
        let Ok(Some(shelved)) = shelf.read(id) else { continue };
        let line = shelved.session;
        let newer = newest.as_ref().is_none_or(|known| known.opened_at < line.opened_at);
        if line.name.as_deref() == Some(told) && newer {
            newest = Some(line);
        }
    }
    Ok(newest.map(|line| line.session_id))
}

fn ambiguous(told: &str, ids: &[SessionId]) -> Failure {
    let listed: Vec<_> = ids.iter().take(5).map(|id| format!("`{id}`")).collect();
    let more = if ids.len() > listed.len() { " and more" } else { "" };
    Failure::new(Kind::Usage, format!("`{told}` begins the ids of {} sessions", ids.len()))
        .hint(format!("write more of it: {}{more}", listed.join(", ")))
}

fn gone_or_unknown(told: &str, expired: &[Expired], open: &[SessionLine]) -> Failure {
    let is_meant =
        |gone: &&Expired| gone.session_id.as_str() == told || gone.name.as_deref() == Some(told);
    match expired.iter().rfind(is_meant) {
        Some(gone) => Failure::new(
            Kind::SessionExpired,
            format!(
                "what session `{told}` said was kept until {}, and is expired",
                gone.expired_at
            ),
        )
        .hint("`retention` in agents.toml says for how long it is kept"),
        None => unknown(told, open),
    }
}

fn unknown(told: &str, open: &[SessionLine]) -> Failure {
    let words = open.iter().flat_map(|line| {
        [line.name.as_deref(), Some(line.session_id.as_str())].into_iter().flatten()
    });
    let near = words
        .map(|word| (strsim::jaro_winkler(word, told), word))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let failure = Failure::new(Kind::NotFound, format!("no session `{told}` in this workspace"));
    match near {
        Some((_, near)) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint("`callboard session ls` lists the open ones"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Origin;
    use crate::domain::session::{Shell, Size};
    use crate::domain::time::Timestamp;

    fn line(id: &str, name: Option<&str>) -> SessionLine {
        SessionLine {
            session_id: id.into(),
            name: name.map(str::to_owned),
            state: "idle".to_owned(),
            claim: crate::domain::claim::Claim::command_line(0),
            origin: Origin::default(),
            pid: None,
            shell: Shell::default(),
            cwd: "/".to_owned(),
            size: Size::default(),
            opened_at: Timestamp(0),
            used_at: Timestamp(0),
            ttl_ms: Some(5000),
            command_count: 0,
            closed: None,
        }
    }

    #[test]
    fn ids_beginnings_and_names() {
        let open = [line("s-abcd", Some("build")), line("s-abxy", None)];
        let past: Vec<SessionId> = vec!["s-abcd".into(), "s-zzzz".into(), "s-zzzy".into()];
        let one = |id: &str| Choice::One(id.into());
        for (told, choice) in [
            ("build", one("s-abcd")),
            ("s-abxy", one("s-abxy")),
            ("s-abx", one("s-abxy")),
            ("s-abc", one("s-abcd")),
            ("s-ab", Choice::Several(vec!["s-abcd".into(), "s-abxy".into()])),
            ("s-zz", Choice::Several(vec!["s-zzzy".into(), "s-zzzz".into()])),
            ("s-zzzz", one("s-zzzz")),
            ("s-", Choice::None),
            ("buil", Choice::None),
            ("", Choice::None),
        ] {
            assert_eq!(choose(told, &open, &past), choice, "{told}");
        }
    }

    #[test]
    fn commands_are_told_from_names_with_a_dot() {
        assert_eq!(split("s-abc.12"), ("s-abc", Some(12)));
        assert_eq!(split("s-abc"), ("s-abc", None));
        assert_eq!(split("v1.2"), ("v1.2", None));
    }

    #[test]
    fn what_is_not_there_is_told_apart() {
        let open = [line("s-abcd", Some("build"))];
        let hint = |told: &str| unknown(told, &open).hint.unwrap();
        assert!(hint("biuld").contains("did you mean `build`"));
        assert!(hint("zebra").contains("session ls"));
        let gone = Expired {
            session_id: "s-gone".into(),
            name: Some("old".to_owned()),
            expired_at: Timestamp(0),
        };
        for told in ["s-gone", "old"] {
            let failure = gone_or_unknown(told, std::slice::from_ref(&gone), &open);
            assert_eq!(failure.kind, Kind::SessionExpired);
            assert!(failure.message.contains("1970-01-01T00:00:00.000Z"), "{}", failure.message);
        }
    }

    #[test]
    fn an_unused_session_has_expired_and_others_were_closed() {
        let closed = |why| SessionLine {
            closed: Some(Closed { at: Timestamp(0), why, survivors: Vec::new() }),
            ..line("s-abcd", None)
        };
        let failure = ended(&closed(ClosedWhy::Unused));
        assert_eq!(failure.kind, Kind::SessionExpired);
        assert!(failure.message.contains("for 5"), "{}", failure.message);
        assert_eq!(ended(&closed(ClosedWhy::Lost)).kind, Kind::SessionClosed);
    }
}
