//! What a verb that follows something long hears: the wire and Ctrl-C, in one queue.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::client::{Connection, WireError};
use super::failure::{Failure, Kind, reason};
use super::interrupt;
use crate::control::Response;

/// Something to react to.
#[derive(Debug)]
pub(super) enum Event {
    /// Something came over the wire; an error ends it.
    Wire(Result<Response, WireError>),
    /// Ctrl-C, or its like.
    Interrupt,
    /// The coordinator that was looked for.
    Connected(Result<Connection, Failure>),
    /// Nothing, for as long as was asked.
    Quiet,
}

/// The queue. It outlives a connection: when one coordinator was on its way out, the next one is
/// listened to, and what the first one's wire still brings is dropped.
pub(super) struct Inbox {
    sender: Sender<Letter>,
    letters: Receiver<Letter>,
    wire: u32,
}

enum Letter {
    Wire(u32, Result<Response, WireError>),
    Interrupt,
    Connected(Box<Result<Connection, Failure>>),
}

/// How a coordinator is found, or another one started.
pub(super) type Connect = Arc<dyn Fn() -> Result<Connection, Failure> + Send + Sync>;

impl Inbox {
    /// An inbox that hears nothing yet.
    pub(super) fn new() -> Self {
        let (sender, letters) = mpsc::channel();
        Self { sender, letters, wire: 0 }
    }

    /// Hears Ctrl-C and its like from now on.
    ///
    /// # Errors
    /// When the system does not let us listen.
    pub(super) fn hear_interrupts(&self) -> Result<(), Failure> {
        let sender = self.sender.clone();
        let heard = move || {
            // Nobody reads it once the verb is over.
            let _unread = sender.send(Letter::Interrupt);
        };
        interrupt::watch(heard).map_err(|error| {
            let message = format!("cannot listen to signals: {}", reason(&error));
            Failure::new(Kind::Machine, message)
        })
    }

    /// Hears this connection from now on, and no other.
    ///
    /// # Errors
    /// When it cannot be listened to.
    pub(super) fn hear_wire(&mut self, connection: &mut Connection) -> Result<(), WireError> {
        self.wire += 1;
        let (wire, sender) = (self.wire, self.sender.clone());
        connection.follow(move |response| {
            // As above.
            let _unread = sender.send(Letter::Wire(wire, response));
        })
    }

    /// Looks for a coordinator on a thread of its own, so that Ctrl-C is heard meanwhile. One
    /// `Connected` follows; whatever the last wire still brings is dropped from here on.
    ///
    /// # Errors
    /// When there can be no such thread.
    pub(super) fn look_for(&mut self, connect: &Connect) -> Result<(), Failure> {
        self.wire += 1;
        let (connect, sender) = (Arc::clone(connect), self.sender.clone());
        let looking = move || {
            // As above.
            let _unread = sender.send(Letter::Connected(Box::new(connect())));
        };
        let thread = std::thread::Builder::new().name("connect".to_owned()).spawn(looking);
        thread.map(drop).map_err(|error| {
            Failure::new(Kind::Machine, format!("cannot start a thread: {}", reason(&error)))
        })
    }

    /// The next event; `Quiet` when none comes in time.
    pub(super) fn next(&self, patience: Duration) -> Event {
        loop {
            match self.letters.recv_timeout(patience) {
                Ok(Letter::Interrupt) => return Event::Interrupt,
                Ok(Letter::Connected(connection)) => return Event::Connected(*connection),
                Ok(Letter::Wire(wire, response)) if wire == self.wire => {
                    return Event::Wire(response);
                }
                Ok(Letter::Wire(..)) => {}
                // We hold a sender ourselves, so it is never without one.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Event::Quiet;
                }
            }
        }
    }

    /// What sends so many interrupts.
    #[cfg(test)]
    pub(super) fn interrupter(&self) -> impl Fn(usize) + Send + Sync + 'static {
        let sender = self.sender.clone();
        move |count| (0..count).for_each(|_| drop(sender.send(Letter::Interrupt)))
    }

    /// Interrupts without signals.
    #[cfg(test)]
    pub(super) fn interrupt(&self) {
        self.sender.send(Letter::Interrupt).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::StandIn;
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn only_the_newest_wire_is_heard() {
        let mut inbox = Inbox::new();
        let mut connect = |script: fn(&mut StandIn)| {
            let (folder, socket, thread) = StandIn::start(script);
            let mut connection = Connection::open(&socket).unwrap();
            inbox.hear_wire(&mut connection).unwrap();
            (folder, connection, thread)
        };
        let first = connect(|stand_in| {
            stand_in.welcome();
            stand_in.asked();
        });
        let mut second = connect(|stand_in| {
            stand_in.welcome();
            let (id, _) = stand_in.asked();
            stand_in.reply(id, crate::control::Answer::Cancelling);
        });
        let (_, mut connection, thread) = first;
        connection.send(crate::control::Call::Status).unwrap();
        thread.join().unwrap();
        second.1.send(crate::control::Call::Status).unwrap();
        let event = inbox.next(LONG);
        assert!(matches!(event, Event::Wire(Ok(Response::Reply { .. }))), "{event:?}");
        second.2.join().unwrap();
    }

    #[test]
    fn silence_is_told_from_an_interrupt() {
        let inbox = Inbox::new();
        assert!(matches!(inbox.next(Duration::ZERO), Event::Quiet));
        inbox.interrupt();
        assert!(matches!(inbox.next(LONG), Event::Interrupt));
    }
}
