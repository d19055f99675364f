//! What a session leaves on the disk beside its transcript: `record.jsonl`, a line for each thing
//! that happened. With it results stay readable after the session's end, and without a
//! coordinator, until their retention ends.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::reading;
use super::sessions::REPORT_KEEP;
use super::story::{CommandRecord, CommandStory};
use crate::control::{Closed, ClosedWhy, CommandView, SessionLine};
use crate::domain::ids::{CommandId, SessionId};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::CommandResult;
use crate::domain::shown_path;
use crate::domain::time::Timestamp;
use crate::session::wire::KnownCommand;

/// The file in a session's folder.
pub(super) const RECORD: &str = "record.jsonl";
/// The file beside the sessions' folders that names those whose retention is over.
pub(super) const EXPIRED: &str = "expired.jsonl";

/// A line of a session's record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum Entry {
    /// The session was opened. Always the first.
    Opened {
        /// As it was then.
        session: SessionLine,
        /// The character set that its `LANG` names.
        charset: Option<String>,
    },
    /// A command began, or ended: the later line holds.
    Command {
        /// As it was then.
        record: CommandRecord,
    },
    /// The session ended.
    Closed {
        /// As it was then, `closed` set.
        session: SessionLine,
    },
}

impl Entry {
    /// True when this line says all that the earlier one does, and more.
    pub(super) fn holds_instead_of(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Command { record }, Self::Command { record: before }) => record.id == before.id,
            _ => false,
        }
    }
}

/// A line of `expired.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expired {
    /// The session.
    pub session_id: SessionId,
    /// Its name, if it had one.
    pub name: Option<String>,
    /// When what it said was removed.
    pub expired_at: Timestamp,
}

/// A session as its record tells of it.
#[derive(Clone, Debug)]
pub struct Shelved {
    /// The session. Without an end in the record it was lost, unless it is still open.
    pub session: SessionLine,
    /// Its folder, where the transcript is.
    pub folder: PathBuf,
    /// The character set that its `LANG` names.
    pub charset: Option<String>,
    commands: Vec<CommandRecord>,
}

/// So many records stay open: those of the sessions that were written to last.
const OPEN_MAX: usize = 16;

/// The records that are being written. Opening one costs more than a line does, and each command
/// of a warm session adds one.
#[derive(Debug, Default)]
pub(super) struct Writers {
    /// By the session's folder, the one written to last at the end.
    open: Vec<(PathBuf, File)>,
}

impl Writers {
    /// Adds lines to a session's record.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn append(&mut self, folder: &Path, entries: &[Entry]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(1024);
        for entry in entries {
            serde_json::to_writer(&mut bytes, entry)?;
            bytes.push(b'\n');
        }
        let at = self.open.iter().rposition(|(open, _)| open == folder);
        let (folder, mut file) = match at {
            Some(at) => self.open.remove(at),
            None => (folder.to_owned(), open(folder)?),
        };
        file.write_all(&bytes)?;
        if !matches!(entries.last(), Some(Entry::Closed { .. })) {
            if self.open.len() == OPEN_MAX {
                self.open.remove(0);
            }
            self.open.push((folder, file));
        }
        Ok(())
    }
}

fn open(folder: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(folder.join(RECORD))
}

/// Reads a session's record. A torn last line is passed over.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn read(sessions: &Path, id: &SessionId) -> io::Result<Shelved> {
    let folder = sessions.join(id.as_str());
    let mut opened = None;
    let mut commands: Vec<CommandRecord> = Vec::new();
    let mut places: HashMap<CommandId, usize> = HashMap::new();
    for line in BufReader::new(File::open(folder.join(RECORD))?).lines() {
        match serde_json::from_str(&line?) {
            Ok(Entry::Opened { session, charset }) => opened = Some((session, charset)),
            Ok(Entry::Closed { session }) => {
                if let Some(opened) = &mut opened {
                    opened.0 = session;
                }
            }
            Ok(Entry::Command { record }) => match places.get(&record.id) {
                Some(at) => commands[*at] = record,
                None => {
                    places.insert(record.id.clone(), commands.len());
                    commands.push(record);
                }
            },
            Err(_) => {}
        }
    }
    let (session, charset) = opened.ok_or(ErrorKind::InvalidData)?;
    Ok(Shelved { session, folder, charset, commands })
}

/// Reads the record of a session that another coordinator has written so far, and ends a line that
/// was torn: what is added must not be taken for the rest of it.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(super) fn go_on(sessions: &Path, id: &SessionId) -> io::Result<Shelved> {
    let shelved = read(sessions, id)?;
    let mut file = OpenOptions::new().read(true).append(true).open(shelved.folder.join(RECORD))?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(shelved)
}

/// What the commands of a task's session came to, as far as its record tells; none without one.
pub fn results(sessions: &Path, id: &SessionId, now: Timestamp) -> Vec<CommandResult> {
    let Ok(record) = read(sessions, id) else { return Vec::new() };
    let commands = 0..record.command_count();
    commands.filter_map(|index| record.result(index, REPORT_KEEP, now)).collect()
}

/// The ids of all sessions that have left something, in no order.
///
/// # Errors
/// When the folder cannot be read.
pub fn ids(sessions: &Path) -> io::Result<Vec<SessionId>> {
    let entries = match std::fs::read_dir(sessions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().ok();
    let names = entries.flatten().filter_map(name).filter(|name| name.starts_with("s-"));
    Ok(names.map(SessionId::new).collect())
}

/// The sessions whose retention is over, oldest first, as far back as they are remembered.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn expired(sessions: &Path) -> io::Result<Vec<Expired>> {
    match std::fs::read_to_string(sessions.join(EXPIRED)) {
        Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

impl Shelved {
    /// Says that nobody has the session open: where its record tells no end, it was lost, and with
    /// it what ran.
    pub fn is_not_open(&mut self) {
        if self.session.closed.is_some() {
            return;
        }
        let at = self.commands.iter().filter_map(|record| Some(record.started?.0)).max();
        let at = at.unwrap_or(self.session.opened_at);
        "closed".clone_into(&mut self.session.state);
        self.session.pid = None;
        self.session.closed = Some(Closed { at, why: ClosedWhy::Lost, survivors: Vec::new() });
    }

    /// Its commands, in order.
    pub(super) fn commands(&self) -> &[CommandRecord] {
        &self.commands
    }

    /// The same as a holder would name them.
    pub(super) fn known(&self) -> Vec<KnownCommand> {
        let known = |record: &CommandRecord| KnownCommand {
            command: record.id.clone(),
            text: record.text.clone(),
            ticket: record.ticket.clone(),
        };
        self.commands.iter().map(known).collect()
    }

    /// How many commands its record tells of.
    pub fn command_count(&self) -> usize {
        self.commands.len()
    }

    /// The ids of its commands, in order.
    pub fn command_ids(&self) -> impl Iterator<Item = &CommandId> {
        self.commands.iter().map(|record| &record.id)
    }

    /// What the command at `index` looks like from outside.
    pub fn view(&self, index: usize) -> Option<CommandView> {
        let mut view = self.commands.get(index)?.view();
        if view.end.is_none() && self.session.closed.is_some() {
            view.state = CommandState::Failed;
            view.reason = Some(Reason::Lost);
            view.awaiting = None;
        }
        Some(view)
    }

    /// The result of the command at `index`, with up to `keep` bytes of each text at either end.
    pub fn result(&self, index: usize, keep: usize, now: Timestamp) -> Option<CommandResult> {
        let record = self.commands.get(index)?.clone();
        let was_cut_off = record.end.is_none() && self.session.closed.is_some();
        let story = CommandStory {
            record,
            session: self.session.session_id.clone(),
            transcript: self.folder.clone(),
            cwd: shown_path::read(&self.session.cwd),
            charset: self.charset.clone(),
            now: self.session.closed.as_ref().map_or(now, |closed| closed.at),
            keep,
        };
        let mut result = reading::result(&story);
        if was_cut_off {
            result.state = CommandState::Failed;
            result.reason = Some(Reason::Lost);
            result.awaiting = None;
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Origin;
    use crate::domain::session::{Shell, Size};

    pub(super) fn line(id: &str) -> SessionLine {
        SessionLine {
            session_id: id.into(),
            name: None,
            state: "idle".to_owned(),
            claim: crate::domain::claim::Claim::command_line(0),
            origin: Origin::default(),
            pid: Some(7),
            shell: Shell::default(),
            cwd: "/".to_owned(),
            size: Size::default(),
            opened_at: Timestamp(1000),
            used_at: Timestamp(1000),
            ttl_ms: None,
            command_count: 0,
            closed: None,
        }
    }

    fn opened(id: &str) -> Entry {
        Entry::Opened { session: line(id), charset: None }
    }

    #[test]
    fn the_later_line_of_a_command_holds_and_a_torn_one_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("s-1");
        std::fs::create_dir(&own).unwrap();
        let mut record = CommandRecord::new("s-1.1".into(), "true".to_owned());
        let mut writers = Writers::default();
        let entries = [opened("s-1"), Entry::Command { record: record.clone() }];
        writers.append(&own, &entries).unwrap();
        record.started = Some((Timestamp(2000), 0));
        writers.append(&own, &[Entry::Command { record }]).unwrap();
        let mut file = OpenOptions::new().append(true).open(own.join(RECORD)).unwrap();
        file.write_all(b"{\"entry\":\"comm").unwrap();
        let mut shelved = read(folder.path(), &"s-1".into()).unwrap();
        assert_eq!(shelved.command_count(), 1);
        assert_eq!(shelved.view(0).unwrap().from, Some(0));
        shelved.is_not_open();
        let closed = shelved.session.closed.clone().unwrap();
        assert_eq!((closed.why, closed.at), (ClosedWhy::Lost, Timestamp(2000)));
        let result = shelved.result(0, 1024, Timestamp(9000)).unwrap();
        assert_eq!((result.state, result.reason), (CommandState::Failed, Some(Reason::Lost)));
        assert_eq!(ids(folder.path()).unwrap(), ["s-1".into()]);
    }

    #[test]
    fn few_records_stay_open_and_none_of_a_closed_session() {
        let folder = tempfile::tempdir().unwrap();
        let mut writers = Writers::default();
        for n in 0..2 * OPEN_MAX {
            let own = folder.path().join(format!("s-{n}"));
            std::fs::create_dir(&own).unwrap();
            writers.append(&own, &[opened("s")]).unwrap();
            assert!(writers.open.len() <= OPEN_MAX);
        }
        let last = folder.path().join(format!("s-{}", 2 * OPEN_MAX - 1));
        writers.append(&last, &[Entry::Closed { session: line("s") }]).unwrap();
        assert!(writers.open.iter().all(|(open, _)| *open != last));
        let text = std::fs::read_to_string(last.join(RECORD)).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let gone = writers.append(&folder.path().join("none"), &[opened("s")]).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_not_there_is_said_to_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path(), &"s-1".into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(ids(&folder.path().join("none")).unwrap().is_empty());
        assert!(expired(folder.path()).unwrap().is_empty());
    }
}
