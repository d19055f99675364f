//! Where a reader's news come from: the session's coordinator while it is open, its record
//! afterwards; the bytes from its files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reading::look;
use crate::cli::client::{Connection, WireError};
use crate::cli::coordinator::{Place, Shelf, Shelved};
use crate::cli::failure::Failure;
use crate::cli::inbox::{Connect, Event, Inbox};
use crate::cli::sessions::{Found, State, past};
use crate::cli::tape::{Piece, Tape};
use crate::control::{Answer, Call, Response, Seen, SessionView};
use crate::domain::ids::{CommandId, SessionId};

/// How long nothing may be heard before it is asked again whether that is right.
const TICK: Duration = Duration::from_secs(60);

/// A session that is read.
pub(in crate::cli) struct Source {
    pub(in crate::cli) id: SessionId,
    /// The character set that its `LANG` names.
    pub(in crate::cli) charset: Option<String>,
    /// What is known of it.
    pub(in crate::cli) view: SessionView,
    place: Place,
    shelf: Shelf,
    tape: Option<Tape>,
    /// The command that was meant.
    command: Option<CommandId>,
    /// The command that was the latest when somebody began to wait.
    pinned: Option<CommandId>,
    /// When it last printed something.
    grown_at: Instant,
    live: Option<Live>,
}

/// The way to an open session.
struct Live {
    connection: Connection,
    inbox: Inbox,
    /// The number of the look that is not answered yet.
    asked: Option<u64>,
}

/// What came next.
pub(in crate::cli) enum Next {
    /// Something about the session.
    News,
    /// Nothing, for as long as was asked.
    Quiet,
    /// Ctrl-C.
    Interrupted,
}

impl Source {
    /// Begins to read.
    ///
    /// # Errors
    /// When the session, or the command that was meant, is not there.
    pub(in crate::cli) fn open(found: Found) -> Result<Self, Failure> {
        let Found { id, command, place, shelf, state } = found;
        let inbox = Inbox::new();
        inbox.hear_interrupts()?;
        let State::Open { mut connection, .. } = state else {
            return Self::of_record(id, command, place, shelf);
        };
        let mut view = match look(&mut connection, &id) {
            Err(WireError::Refused(_) | WireError::Lost) => {
                return Self::of_record(id, command, place, shelf);
            }
            view => view?,
        };
        let shelved = shelf.read(&id)?;
        let charset = shelved.as_ref().and_then(|shelved| shelved.charset.clone());
        let mut live = Live { connection, inbox, asked: None };
        live.inbox.hear_wire(&mut live.connection)?;
        if let Some(command) = &command
            && view.command.as_ref().is_none_or(|latest| latest.command_id != *command)
        {
            view.command = shelved.and_then(|shelved| view_of(&shelved, Some(command)));
        }
        Ok(Self {
            charset,
            tape: Tape::open(&shelf.folder(&id))?,
            grown_at: before(view.quiet_ms),
            id,
            view,
            place,
            shelf,
            command,
            pinned: None,
            live: Some(live),
        })
    }

    /// One that is not open.
    fn of_record(
        id: SessionId,
        command: Option<CommandId>,
        place: Place,
        shelf: Shelf,
    ) -> Result<Self, Failure> {
        let shelved = past(&id, &shelf)?;
        let tape = Tape::open(&shelf.folder(&id))?;
        Ok(Self {
            charset: shelved.charset.clone(),
            view: SessionView {
                session: shelved.session.clone(),
                changes: 0,
                end: tape.as_ref().map(Tape::end).transpose()?.unwrap_or(0),
                quiet_ms: 0,
                command: view_of(&shelved, command.as_ref()),
                echoes: Vec::new(),
            },
            grown_at: Instant::now(),
            id,
            place,
            shelf,
            tape,
            command,
            pinned: None,
            live: None,
        })
    }

    /// Whoever waits does so for the command that is the latest now, whatever comes after it.
    pub(in crate::cli) fn pin(&mut self) {
        self.pinned = self.view.command.as_ref().map(|command| command.command_id.clone());
    }

    /// Where the output ends by now that is meant: the command's own end, where one was named, or
    /// is waited for and has left nothing behind that prints on.
    ///
    /// # Errors
    /// When the transcript cannot be read.
    pub(in crate::cli) fn end(&self) -> Result<u64, Failure> {
        let end = self.tape.as_ref().map(Tape::end).transpose()?.unwrap_or(0);
        let meant = self.view.command.as_ref().filter(|command| {
            self.command.is_some() || (self.pinned.is_some() && command.left_running == 0)
        });
        Ok(meant.and_then(|command| command.end).map_or(end, |own| own.min(end)))
    }

    /// True once nothing more comes of what is read: the session, or the command that is waited for
    /// with all that it left running, has ended.
    pub(in crate::cli) fn is_over(&self) -> bool {
        let command = self.view.command.as_ref();
        self.view.session.closed.is_some()
            || command.is_none_or(|command| command.end.is_some() && command.left_running == 0)
    }

    /// Reads a part of the transcript: what there is, and where to go on.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(in crate::cli) fn read(
        &self,
        from: u64,
        to: u64,
        most: usize,
    ) -> Result<(Vec<Piece>, u64), Failure> {
        match &self.tape {
            Some(tape) => tape.read(from, to, most),
            None => Ok((Vec::new(), from)),
        }
    }

    /// Its files, once there are any.
    pub(in crate::cli) fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    /// For how long nothing was printed.
    pub(in crate::cli) fn quiet(&self) -> Duration {
        self.grown_at.elapsed()
    }

    /// Waits for news, for as long as `patience` lasts.
    ///
    /// # Errors
    /// When the coordinator cannot be talked to.
    pub(in crate::cli) fn next(&mut self, patience: Option<Duration>) -> Result<Next, Failure> {
        let Some(live) = &mut self.live else {
            // Nothing changes any more: only time passes.
            std::thread::sleep(patience.unwrap_or(TICK));
            return Ok(Next::Quiet);
        };
        if live.asked.is_none() {
            let seen = Seen { changes: self.view.changes, end: self.view.end };
            let call = Call::Look {
                session: self.id.clone(),
                command: self.command.clone().or_else(|| self.pinned.clone()),
                seen: Some(seen),
            };
            match live.connection.send(call) {
                Ok(number) => live.asked = Some(number),
                Err(WireError::Lost) => return self.come_back(),
                Err(error) => return Err(error.into()),
            }
        }
        let until = patience.map(|patience| Instant::now() + patience);
        loop {
            let left = until.map_or(TICK, |at| at.saturating_duration_since(Instant::now()));
            match live.inbox.next(left) {
                Event::Wire(Ok(Response::Reply { id, answer })) if live.asked == Some(id) => {
                    live.asked = None;
                    let Answer::View { view } = *answer else {
                        return Err(WireError::Unexpected { call: "look" }.into());
                    };
                    return self.see(*view);
                }
                Event::Wire(Ok(Response::Refusal { id, .. })) if live.asked == Some(id) => {
                    return self.lost();
                }
                Event::Wire(Ok(_)) => {}
                Event::Wire(Err(WireError::Lost)) => return self.come_back(),
                Event::Connected(_) => {}
                Event::Wire(Err(error)) => return Err(error.into()),
                Event::Interrupt => return Ok(Next::Interrupted),
                Event::Quiet => {
                    if until.is_some_and(|at| at <= Instant::now()) {
                        return Ok(Next::Quiet);
                    }
                }
            }
        }
    }

    fn see(&mut self, view: SessionView) -> Result<Next, Failure> {
        if view.end > self.view.end {
            self.grown_at = Instant::now();
        }
        // A command that was meant stays known when the coordinator has forgotten it.
        let command = view.command.clone().or_else(|| self.view.command.take());
        self.view = SessionView { command, ..view };
        if self.tape.is_none() {
            self.tape = Tape::open(&self.shelf.folder(&self.id))?;
        }
        if self.view.session.closed.is_some() {
            self.live = None;
        }
        Ok(Next::News)
    }

    /// The coordinator is gone. A session that goes on without one is read on with the next one;
    /// nothing is lost or read twice, since the bytes come from its files.
    fn come_back(&mut self) -> Result<Next, Failure> {
        let Some(Live { mut inbox, .. }) = self.live.take() else { return self.lost() };
        // Its own record alone counts: a holder may not be at its door yet.
        let recorded = self.shelf.read(&self.id)?;
        if recorded.is_some_and(|shelved| shelved.session.closed.is_some()) {
            return self.lost();
        }
        let connect: Connect = {
            let place = self.place.clone();
            Arc::new(move || place.connect_or_start())
        };
        inbox.look_for(&connect)?;
        let mut connection = loop {
            match inbox.next(TICK) {
                Event::Connected(connection) => break connection?,
                Event::Interrupt => return Ok(Next::Interrupted),
                Event::Wire(_) | Event::Quiet => {}
            }
        };
        match look(&mut connection, &self.id) {
            Ok(view) => {
                inbox.hear_wire(&mut connection)?;
                self.live = Some(Live { connection, inbox, asked: None });
                // What it counts by is its own: this view is where the next look begins.
                let command = self.view.command.take();
                let meant = self.command.as_ref().or(self.pinned.as_ref());
                let is_meant = |view: &SessionView| {
                    view.command.as_ref().map(|command| &command.command_id) == meant
                };
                let view = match meant {
                    Some(_) if !is_meant(&view) => SessionView { command, changes: 0, ..view },
                    _ => view,
                };
                self.see(view)
            }
            Err(WireError::Refused(_)) => self.lost(),
            Err(error) => Err(error.into()),
        }
    }

    /// The coordinator is gone, or has closed the session since: the record says what became of it.
    fn lost(&mut self) -> Result<Next, Failure> {
        self.live = None;
        let shelved = past(&self.id, &self.shelf)?;
        self.view.session = shelved.session.clone();
        let command = self.command.as_ref().or(self.pinned.as_ref());
        self.view.command = view_of(&shelved, command);
        Ok(Next::News)
    }
}

/// A command as the record tells of it: the one that is meant, or the latest.
fn view_of(shelved: &Shelved, command: Option<&CommandId>) -> Option<crate::control::CommandView> {
    let index = match command {
        Some(command) => shelved.command_ids().position(|id| id == command)?,
        None => shelved.command_count().checked_sub(1)?,
    };
    shelved.view(index)
}

fn before(ms: u64) -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_millis(ms)).unwrap_or(now)
}
