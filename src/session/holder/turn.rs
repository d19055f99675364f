//! The holder's loop: poll, take what has come, perform, until the session is over.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::domain::frame::Decoder;
use crate::domain::time::Timestamp;
use crate::session::wire::{Ask, FactBody};
use crate::transcript::index::Stream;

use super::super::door;
use super::super::os::{process, spawn};
use super::alone::Alone;
use super::outbox::Outbox;
use super::session::Session;

/// What is read of a terminal before anything else gets its turn.
const TURN_BYTES: usize = 256 * 1024;
/// What is read of the link at a time.
const READ_BYTES: usize = 4 * 1024;
/// How long a command's start waits for company. A quick command's end comes sooner than this, and
/// both wake the coordinator once.
const START_WAITS_MS: u64 = 2;
/// How long a coordinator that is there may take to put a session's end on record.
const LAST_ACK_MS: u64 = 30_000;
/// How long the last facts may take to leave.
const LAST_WORDS_MS: u64 = 2_000;

/// The holder's clock: it never goes back.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    origin: Instant,
    wall_ms: i64,
}

impl Clock {
    fn start() -> Self {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let wall_ms = wall.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        Self { origin: Instant::now(), wall_ms }
    }

    /// Milliseconds since the holder's start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Microseconds since the holder's start.
    pub(super) fn micros(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The same point for people.
    pub(super) fn stamp(&self, now_ms: u64) -> Timestamp {
        Timestamp(self.wall_ms).plus_ms(now_ms)
    }
}

/// A holder's whole life on its link.
///
/// # Errors
/// When the process cannot become a holder, or cannot wait.
pub(super) fn hold(link: UnixStream) -> io::Result<()> {
    process::become_holder()?;
    link.set_nonblocking(true)?;
    let mut holder = Holder {
        peer: Peer::Linked(link),
        epoch: 0,
        deaths: process::child_deaths()?,
        decoder: Decoder::default(),
        outbox: Outbox::default(),
        clock: Clock::start(),
        session: None,
        held_until_ms: None,
        over_since_ms: None,
    };
    while holder.turn()? {}
    holder.last_words();
    Ok(())
}

struct Holder {
    peer: Peer,
    /// The greatest epoch of a coordinator that we have heard: one of a smaller has been replaced.
    epoch: u64,
    deaths: OwnedFd,
    decoder: Decoder,
    outbox: Outbox,
    clock: Clock,
    session: Option<Session>,
    /// Facts wait for others until then.
    held_until_ms: Option<u64>,
    /// Since when the session is over, and that is not acknowledged.
    over_since_ms: Option<u64>,
}

/// Who hears us.
enum Peer {
    /// A coordinator.
    Linked(UnixStream),
    /// Nobody, until one adopts us.
    Alone(Alone),
    /// Nobody, and nobody is waited for.
    Gone,
}

/// Which descriptors have something.
#[derive(Default)]
struct Ready {
    link: bool,
    deaths: bool,
    main: bool,
    stderr: bool,
    reports: bool,
    calls: bool,
}

impl Holder {
    /// One turn of the loop; false when the holder's work is done.
    fn turn(&mut self) -> io::Result<bool> {
        let ready = self.wait()?;
        if ready.link {
            self.hear();
        }
        let now_ms = self.clock.now_ms();
        let has_peer = matches!(self.peer, Peer::Linked(_));
        if let Some(session) = &mut self.session {
            session.tracer.has_peer(has_peer, now_ms);
            if ready.calls {
                session.tracer.serve(now_ms);
            }
            if ready.main {
                session.read_terminal(Stream::Main, TURN_BYTES, now_ms);
            }
            if ready.stderr {
                session.read_terminal(Stream::Stderr, TURN_BYTES, now_ms);
            }
            if ready.reports {
                session.take_reports(now_ms);
            }
            session.take_verdict(now_ms);
            session.take_judgement(now_ms);
        }
        if ready.deaths {
            self.bury(now_ms);
        }
        if self.session.is_none() {
            return Ok(matches!(self.peer, Peer::Linked(_)));
        }
        self.tend_session(now_ms);
        self.tell(now_ms);
        self.tend_peer(now_ms);
        Ok(!self.is_done(now_ms))
    }

    fn tend_session(&mut self, now_ms: u64) {
        let Some(session) = &mut self.session else { return };
        session.tick(self.outbox.is_busy(), now_ms);
        session.start_next(now_ms);
        let facts = session.take_facts();
        if !facts.is_empty() {
            let may_wait = facts.iter().all(|fact| matches!(fact, FactBody::Started { .. }));
            self.held_until_ms = may_wait.then_some(now_ms + START_WAITS_MS);
        }
        for fact in facts {
            if self.outbox.push(fact).is_err() {
                self.lose_peer(now_ms);
            }
        }
    }

    /// Lets the coordinator have what is there for it.
    fn tell(&mut self, now_ms: u64) {
        match &self.peer {
            Peer::Linked(link) => {
                if self.held_until_ms.is_none_or(|until| until <= now_ms) {
                    self.held_until_ms = None;
                    if self.outbox.flush(link).is_err() {
                        self.lose_peer(now_ms);
                    }
                }
            }
            Peer::Alone(_) | Peer::Gone => {
                self.held_until_ms = None;
                self.outbox.drop_waiting();
            }
        }
    }

    /// The coordinator is gone. The session goes on, and waits for another one.
    fn lose_peer(&mut self, now_ms: u64) {
        if !matches!(self.peer, Peer::Linked(_)) {
            return;
        }
        self.decoder = Decoder::default();
        // Whoever reads what that coordinator wrote is to see its end.
        spawn::give_up_stderr();
        self.peer = match &self.session {
            Some(session) if session.spec.patience_ms > 0 => {
                self.outbox.lose_peer(&session.spec.transcript);
                Peer::Alone(Alone::at_door(&session.spec, now_ms))
            }
            _ => Peer::Gone,
        };
    }

    /// Nobody has come: everything ends.
    fn tend_peer(&mut self, now_ms: u64) {
        if let Peer::Alone(alone) = &mut self.peer {
            if alone.is_over(now_ms) {
                self.peer = Peer::Gone;
            } else {
                alone.tick(now_ms);
            }
        }
        if matches!(self.peer, Peer::Gone)
            && let Some(session) = &mut self.session
        {
            session.close(now_ms);
        }
    }

    /// True once there is nothing left to do here: the session is over, and whoever has to know has
    /// said that it is on record.
    fn is_done(&mut self, now_ms: u64) -> bool {
        let Some(session) = self.session.as_ref().filter(|session| session.is_over()) else {
            return false;
        };
        let since = *self.over_since_ms.get_or_insert(now_ms);
        match &self.peer {
            Peer::Gone => true,
            Peer::Alone(_) => false,
            Peer::Linked(_) => {
                session.spec.patience_ms == 0
                    || self.outbox.is_acknowledged()
                    || since + LAST_ACK_MS <= now_ms
            }
        }
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let now_ms = self.clock.now_ms();
        let session = self.session.as_ref().filter(|session| !session.is_over());
        let due = session.and_then(|session| session.next_due(now_ms));
        let over = self.over_since_ms.map(|since| since + LAST_ACK_MS);
        let peer = match &self.peer {
            Peer::Linked(_) => over,
            Peer::Alone(alone) => Some(alone.due()),
            Peer::Gone => None,
        };
        let due = due.into_iter().chain(self.held_until_ms).chain(peer).min();
        let timeout = due.map(|due| {
            let ms = i64::try_from(due.saturating_sub(now_ms)).unwrap_or(i64::MAX);
            Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 }
        });
        let mut watched = vec![PollFd::new(&self.deaths, PollFlags::IN)];
        match &self.peer {
            Peer::Linked(link) => {
                let mut flags = PollFlags::IN;
                flags
                    .set(PollFlags::OUT, self.outbox.has_waiting() && self.held_until_ms.is_none());
                watched.push(PollFd::new(link, flags));
            }
            Peer::Alone(alone) => {
                watched
                    .extend(alone.watched().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            }
            Peer::Gone => {}
        }
        let first_of_session = watched.len();
        let (mut at_reports, mut at_calls) = (usize::MAX, usize::MAX);
        if let Some(session) = session {
            watched.push(PollFd::from_borrowed_fd(session.main.as_fd(), PollFlags::IN));
            watched.push(PollFd::from_borrowed_fd(session.stderr.as_fd(), PollFlags::IN));
            if let Some(reports) = &session.shell.reports {
                at_reports = watched.len();
                watched.push(PollFd::new(reports, PollFlags::IN));
            }
            if let Some(calls) = session.tracer.watched() {
                at_calls = watched.len();
                watched.push(PollFd::from_borrowed_fd(calls, PollFlags::IN));
            }
            let checker = session.checker.as_ref().map(|checker| &checker.said);
            let judge = session.judging.child.as_ref().map(|child| &child.said);
            let others = checker.into_iter().chain(judge);
            watched.extend(others.map(|channel| PollFd::new(channel, PollFlags::IN)));
        }
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let anything = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let has = |index: usize| {
            watched.get(index).is_some_and(|watch| watch.revents().intersects(anything))
        };
        let is_open = session.is_some();
        Ok(Ready {
            deaths: has(0),
            link: (1..first_of_session).any(has),
            main: is_open && has(first_of_session),
            stderr: is_open && has(first_of_session + 1),
            reports: has(at_reports),
            calls: has(at_calls),
        })
    }

    /// Somebody has something to say, or somebody is at the door.
    fn hear(&mut self) {
        let now_ms = self.clock.now_ms();
        match &mut self.peer {
            Peer::Linked(_) => self.take_asks(now_ms),
            Peer::Alone(alone) => {
                if let Some((link, epoch, rest)) = alone.answer(self.epoch, now_ms) {
                    self.adopted(link, epoch, rest, now_ms);
                }
            }
            Peer::Gone => {}
        }
    }

    /// Another coordinator takes the session on.
    fn adopted(&mut self, link: UnixStream, epoch: u64, rest: Decoder, now_ms: u64) {
        let Some(session) = &self.session else { return };
        let told = session.present().and_then(|present| self.outbox.meet_peer(present));
        if told.is_err() {
            // Its end says that we could not; another one may try.
            return;
        }
        self.epoch = epoch;
        self.peer = Peer::Linked(link);
        self.decoder = rest;
        self.take_documents(now_ms);
    }

    fn take_asks(&mut self, now_ms: u64) {
        let mut buffer = [0; READ_BYTES];
        let lost = loop {
            let Peer::Linked(link) = &mut self.peer else { return };
            match link.read(&mut buffer) {
                Ok(0) => break true,
                Ok(got) => {
                    self.decoder.push(&buffer[..got]);
                    if got < buffer.len() {
                        break false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        // What was said before the end holds.
        self.take_documents(now_ms);
        if lost {
            self.lose_peer(now_ms);
        }
    }

    fn take_documents(&mut self, now_ms: u64) {
        loop {
            match self.decoder.document::<Ask>() {
                Ok(Some(ask)) => self.take_ask(ask),
                Ok(None) => return,
                Err(_) => return self.lose_peer(now_ms),
            }
        }
    }

    fn take_ask(&mut self, ask: Ask) {
        let now_ms = self.clock.now_ms();
        match (ask, &mut self.session) {
            (Ask::Open { spec }, None) => match Session::open(*spec, self.clock) {
                Ok(session) => self.session = Some(session),
                Err(error) => {
                    let message = error.to_string();
                    // The link's end says the rest.
                    drop(self.outbox.push(FactBody::OpenFailed { message }));
                    self.last_words();
                    self.peer = Peer::Gone;
                }
            },
            (Ask::Ack { through }, _) => self.outbox.acknowledge(through),
            (ask, Some(session)) => session.asked(ask, now_ms),
            (_, None) => {}
        }
    }

    fn bury(&mut self, now_ms: u64) {
        let mut signals = [0; 1024];
        while rustix::io::read(&self.deaths, &mut signals).is_ok() {}
        while let Some((pid, fate)) = process::reap() {
            if let Some(session) = &mut self.session {
                session.died(pid, fate, now_ms);
            }
        }
    }

    fn last_words(&mut self) {
        if let Some(session) = &self.session {
            door::remove(&session.spec.door, &session.spec.id);
        }
        let until = self.clock.now_ms() + LAST_WORDS_MS;
        let Peer::Linked(link) = &self.peer else { return };
        while self.outbox.flush(link).is_ok() && self.outbox.has_waiting() {
            let left = until.saturating_sub(self.clock.now_ms());
            if left == 0 {
                return;
            }
            let second = i64::try_from(left / 1000).unwrap_or(0);
            let timeout = Timespec { tv_sec: second, tv_nsec: 20_000_000 };
            let mut watched = [PollFd::new(link, PollFlags::OUT)];
            if poll(&mut watched, Some(&timeout)).is_err() {
                return;
            }
        }
    }
}
