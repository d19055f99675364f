//! `callboard task logs`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use super::wait::{Goal, await_tasks};
use crate::cli::attempts;
use crate::cli::coordinator::Shelf;
use crate::cli::failure::{Failure, Kind};
use crate::cli::sessions::{Found as FoundSession, State, open_sessions, past};
use crate::cli::tape::{Piece, Tape};
use crate::cli::tasks::{Found, Tasks, is_settled, nowhere};
use crate::cli::verbs::session::reading::hint;
use crate::cli::verbs::session::source::{Next, Source};
use crate::cli::{exit, output};
use crate::domain::ids::SessionId;
use crate::transcript::flow::Flow;
use crate::transcript::index::{Stream, Walk};

/// How much is read at a time.
const READ_BYTES_MAX: usize = 1024 * 1024;
/// A line that has no end for so long is shown as it stands.
const PATIENCE: Duration = Duration::from_millis(100);

/// Print what a task said
///
/// Reads the transcript of its latest attempt's session, or of attempt N. With --follow it goes on
/// over all that the attempt runs, and over further attempts, until the task is settled or waits
/// for a decision. What its terminal's second stream carried (standard error) is in its place among
/// the rest.
///
/// Exit codes: 0 whatever became of the task, 2 no such task or attempt, or what it said is kept no
/// longer, 130 interrupted.
#[derive(Debug, Args)]
pub(in crate::cli) struct Logs {
    /// The task: RUN/ID, or an id
    #[arg(value_name = "ID")]
    id: String,
    /// Read attempt N [default: the latest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Go on until the task is settled; with --attempt, until that attempt is over
    #[arg(long, short)]
    follow: bool,
    /// The bytes as they came, with all their escape sequences
    #[arg(long)]
    raw: bool,
    /// Standard error alone
    #[arg(long)]
    stderr: bool,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

/// What became of reading one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    ToItsEnd,
    Interrupted,
}

impl Logs {
    /// Prints it.
    ///
    /// # Errors
    /// When there is no such task or attempt, or its transcript cannot be read.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let names = std::slice::from_ref(&self.id);
        let Some(tasks) = Tasks::around(self.workspace.as_deref())? else {
            return Err(nowhere(names));
        };
        let mut found = tasks.find_one(&self.id)?;
        let place = tasks.place.clone();
        drop(tasks);
        let mut number = match self.attempt {
            Some(number) => number,
            None => found.line.attempt,
        };
        loop {
            if number > 0 {
                let session = self.session(&place.state, &found, number)?;
                if self.read(&Shelf::of(&place), session, &found, &place)? == Read::Interrupted {
                    return Ok(exit::INTERRUPTED);
                }
            } else if !self.follow {
                output::note(format!("`{}` has not begun yet\n", found.task));
            }
            if !self.follow || self.attempt.is_some() {
                return Ok(exit::SUCCEEDED);
            }
            let task = std::slice::from_ref(&found.task);
            let waited = await_tasks(place.clone(), task, Goal::Attempt(number), None)?;
            let Some(line) = waited.lines.into_iter().next() else { return Ok(exit::SUCCEEDED) };
            if line.attempt <= number {
                return Ok(exit::SUCCEEDED);
            }
            // None is left out, however short it was.
            number += 1;
            found.line = line;
        }
    }

    /// The session of an attempt.
    fn session(
        &self,
        state: &std::path::Path,
        found: &Found,
        number: u32,
    ) -> Result<SessionId, Failure> {
        if number == found.line.attempt
            && let Some(session) = &found.line.session_id
        {
            return Ok(session.clone());
        }
        let attempts = attempts::of_task(state, &found.task)?;
        let last = attempts.last().map_or(0, |line| line.attempt);
        let attempt = attempts.into_iter().rfind(|line| line.attempt == number);
        attempt.map(|line| line.session_id).ok_or_else(|| {
            let message = format!("`{}` has no attempt {number}", found.task);
            Failure::new(Kind::NotFound, message).hint(format!("it has had {last} so far"))
        })
    }

    /// Prints what a session says, to its end when following.
    fn read(
        &self,
        shelf: &Shelf,
        id: SessionId,
        found: &Found,
        place: &crate::cli::coordinator::Place,
    ) -> Result<Read, Failure> {
        let Some(session) = self.find_session(shelf, id.clone(), place)? else {
            return self.unopened(&id, found);
        };
        let mut source = Source::open(session)?;
        let size = source.view.session.size;
        let mut told = Told {
            flow: (!self.raw).then(|| Flow::new(hint(source.charset.as_deref()), size)),
            stderr: self.stderr,
            dirty_at: None,
        };
        let mut at = 0;
        loop {
            let over = source.view.session.closed.is_some();
            // Which stream bytes came over is only known of those that are indexed.
            let known = if over || !self.stderr { u64::MAX } else { source.view.end };
            let end = source.end()?.min(known);
            while at < end {
                let (pieces, next) = source.read(at, end, READ_BYTES_MAX)?;
                if next == at {
                    break;
                }
                at = next;
                let streams = self.stderr.then(|| source.stderr_stretches(end)).transpose()?;
                told.take(pieces, streams.as_deref())?;
            }
            if over || !self.follow {
                told.flush()?;
                return Ok(Read::ToItsEnd);
            }
            match source.next(told.patience())? {
                Next::News => {}
                Next::Quiet => told.flush()?,
                Next::Interrupted => {
                    told.flush()?;
                    return Ok(Read::Interrupted);
                }
            }
        }
    }

    fn find_session(
        &self,
        shelf: &Shelf,
        id: SessionId,
        place: &crate::cli::coordinator::Place,
    ) -> Result<Option<FoundSession>, Failure> {
        let (connection, lines) = open_sessions(place)?;
        let line = lines.into_iter().find(|line| line.session_id == id);
        let state = match (connection, line) {
            (Some(connection), Some(line)) => State::Open { connection, line: Box::new(line) },
            _ => match past(&id, shelf) {
                Ok(shelved) => State::Past(Box::new(shelved)),
                Err(failure) if failure.kind == Kind::NotFound => return Ok(None),
                Err(failure) => return Err(failure),
            },
        };
        Ok(Some(FoundSession {
            id,
            command: None,
            place: place.clone(),
            shelf: shelf.clone(),
            state,
        }))
    }

    /// A session that has left nothing: it never opened, or its retention is over.
    fn unopened(&self, id: &SessionId, found: &Found) -> Result<Read, Failure> {
        if self.follow && !is_settled(&found.line) {
            return Ok(Read::ToItsEnd);
        }
        let message = format!("session `{id}` of `{}` has left nothing", found.task);
        Err(Failure::new(Kind::SessionExpired, message)
            .hint("it never opened, or what it said is kept no longer (`retention`)"))
    }
}

/// What is shown of what was read.
struct Told {
    /// Makes lines of text; none for raw bytes.
    flow: Option<Flow>,
    stderr: bool,
    /// Since when a line waits for its end.
    dirty_at: Option<Instant>,
}

impl Told {
    fn take(&mut self, pieces: Vec<Piece>, stderr: Option<&[(u64, u64)]>) -> Result<(), Failure> {
        for piece in pieces {
            match piece {
                Piece::Gap { start, end } if !self.stderr => {
                    self.flush()?;
                    output::note(format!("callboard: {} bytes are not stored\n", end - start));
                }
                Piece::Gap { .. } => {}
                Piece::Bytes { offset, bytes } => match stderr {
                    None => self.bytes(&bytes)?,
                    Some(stretches) => self.bytes(&cut(offset, &bytes, stretches))?,
                },
            }
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(flow) = &mut self.flow else { return Ok(output::print(bytes)?) };
        let text = flow.feed(bytes);
        self.dirty_at = (flow.held() > 0).then(Instant::now);
        Ok(output::print(text)?)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.dirty_at = None;
        let Some(flow) = &mut self.flow else { return Ok(()) };
        let text = flow.flush();
        Ok(output::print(text)?)
    }

    /// How long to wait before a line without an end is shown.
    fn patience(&self) -> Option<Duration> {
        self.dirty_at.map(|since| PATIENCE.saturating_sub(since.elapsed()))
    }
}

/// The part of some bytes that lies in these stretches.
fn cut(offset: u64, bytes: &[u8], stretches: &[(u64, u64)]) -> Vec<u8> {
    let end = offset + bytes.len() as u64;
    let mut kept = Vec::new();
    for (from, to) in stretches {
        let (from, to) = ((*from).max(offset), (*to).min(end));
        if from < to {
            let place = |at: u64| usize::try_from(at - offset).unwrap_or(bytes.len());
            kept.extend_from_slice(&bytes[place(from)..place(to)]);
        }
    }
    kept
}

impl Source {
    /// Where in the transcript standard error stands, up to `end`.
    fn stderr_stretches(&self, end: u64) -> Result<Vec<(u64, u64)>, Failure> {
        let Some(tape) = self.tape() else { return Ok(Vec::new()) };
        stretches(tape, end)
    }
}

fn stretches(tape: &Tape, end: u64) -> Result<Vec<(u64, u64)>, Failure> {
    let mut walk = Walk::new();
    let mut found = Vec::new();
    tape.read_index(|chunk| {
        walk.feed(chunk, |segment| {
            if segment.stream == Stream::Stderr {
                found.push((segment.start, segment.end.min(end)));
            }
        });
        Ok(true)
    })?;
    if let Some(last) = walk.finish(end)
        && last.stream == Stream::Stderr
    {
        found.push((last.start, last.end));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_stretches_that_are_meant() {
        let bytes = b"abcdefgh";
        for (stretches, kept) in [
            (&[][..], ""),
            (&[(0, 100)], "abcdefgh"),
            (&[(8, 10)], ""),
            (&[(12, 14)], "cd"),
            (&[(9, 11), (16, 30)], "agh"),
        ] {
            assert_eq!(cut(10, bytes, stretches), kept.as_bytes(), "{stretches:?}");
        }
    }
}
