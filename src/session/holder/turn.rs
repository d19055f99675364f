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

use super::super::os::process;
use super::outbox::Outbox;
use super::session::Session;

/// What is read of a terminal before anything else gets its turn.
const TURN_BYTES: usize = 256 * 1024;
/// What is read of the link at a time.
const READ_BYTES: usize = 4 * 1024;
/// How long a command's start waits for company. A quick command's end comes sooner than this, and
/// both wake the coordinator once.
const START_WAITS_MS: u64 = 2;
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
        link,
        deaths: process::child_deaths()?,
        decoder: Decoder::default(),
        outbox: Outbox::default(),
        clock: Clock::start(),
        session: None,
        held_until_ms: None,
        lost: false,
    };
    while holder.turn()? {}
    holder.last_words();
    Ok(())
}

struct Holder {
    link: UnixStream,
    deaths: OwnedFd,
    decoder: Decoder,
    outbox: Outbox,
    clock: Clock,
    session: Option<Session>,
    /// Facts wait for others until then.
    held_until_ms: Option<u64>,
    /// The coordinator is gone.
    lost: bool,
}

/// Which descriptors have something.
#[derive(Default)]
struct Ready {
    link: bool,
    deaths: bool,
    main: bool,
    stderr: bool,
    reports: bool,
}

impl Holder {
    /// One turn of the loop; false when the holder's work is done.
    fn turn(&mut self) -> io::Result<bool> {
        let ready = self.wait()?;
        if ready.link && !self.lost {
            self.take_asks();
        }
        let now_ms = self.clock.now_ms();
        if let Some(session) = &mut self.session {
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
        let Some(session) = &mut self.session else { return Ok(!self.lost) };
        session.tick(self.outbox.is_busy(), now_ms);
        session.start_next(now_ms);
        let facts = session.take_facts();
        if !facts.is_empty() {
            let may_wait = facts.iter().all(|fact| matches!(fact, FactBody::Started { .. }));
            self.held_until_ms = may_wait.then_some(now_ms + START_WAITS_MS);
        }
        for fact in facts {
            if !self.lost && self.outbox.push(fact).is_err() {
                self.lost = true;
            }
        }
        if self.held_until_ms.is_none_or(|until| until <= now_ms) {
            self.held_until_ms = None;
            if !self.lost && self.outbox.flush(&self.link).is_err() {
                self.lost = true;
            }
        }
        if self.lost {
            // Nobody is left to report to: the tree ends with its session.
            session.close(now_ms);
        }
        Ok(!session.is_over())
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let now_ms = self.clock.now_ms();
        let due = self.session.as_ref().and_then(|session| session.next_due(now_ms));
        let due = due.into_iter().chain(self.held_until_ms).min();
        let timeout = due.map(|due| {
            let ms = i64::try_from(due.saturating_sub(now_ms)).unwrap_or(i64::MAX);
            Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 }
        });
        let mut watched = vec![PollFd::new(&self.deaths, PollFlags::IN)];
        let mut link = PollFlags::IN;
        link.set(PollFlags::OUT, self.outbox.has_waiting() && self.held_until_ms.is_none());
        if !self.lost {
            watched.push(PollFd::new(&self.link, link));
        }
        let first_of_session = watched.len();
        let mut at_reports = usize::MAX;
        if let Some(session) = &self.session {
            watched.push(PollFd::from_borrowed_fd(session.main.as_fd(), PollFlags::IN));
            watched.push(PollFd::from_borrowed_fd(session.stderr.as_fd(), PollFlags::IN));
            if let Some(reports) = &session.shell.reports {
                at_reports = watched.len();
                watched.push(PollFd::new(reports, PollFlags::IN));
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
        let has = |index: usize, flag: PollFlags| {
            watched.get(index).is_some_and(|watch| watch.revents().intersects(flag))
        };
        let anything = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let terminals = [first_of_session, first_of_session + 1];
        Ok(Ready {
            deaths: has(0, anything),
            link: !self.lost && has(1, anything),
            main: has(terminals[0], anything),
            stderr: has(terminals[1], anything),
            reports: has(at_reports, anything),
        })
    }

    fn take_asks(&mut self) {
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.link.read(&mut buffer) {
                Ok(0) => {
                    self.lost = true;
                    break;
                }
                Ok(got) => {
                    self.decoder.push(&buffer[..got]);
                    if got < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.lost = true;
                    break;
                }
            }
        }
        loop {
            match self.decoder.document::<Ask>() {
                Ok(Some(ask)) => self.take_ask(ask),
                Ok(None) => return,
                Err(_) => {
                    self.lost = true;
                    return;
                }
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
                    self.lost = true;
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
        let until = self.clock.now_ms() + LAST_WORDS_MS;
        while !self.lost && self.outbox.flush(&self.link).is_ok() && self.outbox.has_waiting() {
            let left = until.saturating_sub(self.clock.now_ms());
            if left == 0 {
                return;
            }
            let second = i64::try_from(left / 1000).unwrap_or(0);
            let timeout = Timespec { tv_sec: second, tv_nsec: 20_000_000 };
            let mut watched = [PollFd::new(&self.link, PollFlags::OUT)];
            if poll(&mut watched, Some(&timeout)).is_err() {
                return;
            }
        }
    }
}
