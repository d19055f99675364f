//! The client's end of the control wire: a blocking connection to the coordinator's Unix socket.
//!
//! A connection begins with `Hello`, so whoever holds one knows that both sides speak the same
//! version. Short questions are asked with `ask`. A verb that follows something long sends with
//! `send`, and hands the reading half to one thread (`follow`) that turns the wire into events.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::failure::{Failure, Kind, reason};
use crate::control::{
    Answer, CONTROL_VERSION, Call, Failure as Refusal, FailureKind, Request, Response,
};
use crate::domain::frame::{self, Decoder, FrameError};

/// How long a coordinator may take over an answer that needs no work. One that takes longer is
/// stopped or stuck, and saying so beats waiting.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long the wire may stay full before the coordinator counts as stuck.
const WRITE_MAX: Duration = Duration::from_secs(60);

/// Why the wire gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// Nobody listens at the socket.
    #[error("no coordinator listens at `{}`", socket.display())]
    Unreachable {
        /// Where.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket belongs to somebody else.
    #[error("the coordinator (pid {pid}) belongs to another user (uid {uid})")]
    Foreign {
        /// Its pid.
        pid: i32,
        /// Its uid.
        uid: u32,
    },
    /// The coordinator closed the connection, or died.
    #[error("the coordinator is gone")]
    Lost,
    /// It does not answer.
    #[error("the coordinator (pid {pid}) does not answer")]
    Stuck {
        /// Its pid.
        pid: i32,
    },
    /// It speaks another version of the control grammar.
    #[error("the coordinator (pid {pid}) is of another version than this callboard {}: {words}",
        env!("CARGO_PKG_VERSION"))]
    Version {
        /// Its pid.
        pid: i32,
        /// What shows it.
        words: String,
    },
    /// It refused.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// It said something that does not belong here.
    #[error("the coordinator answered `{call}` with something else")]
    Unexpected {
        /// What had been asked.
        call: &'static str,
    },
    /// The request cannot be put on the wire.
    #[error("the request cannot be sent: {0}")]
    Frame(FrameError),
    /// The system failed.
    #[error("the connection to the coordinator failed: {}", reason(.0))]
    Io(io::Error),
}

/// A connection on which both sides have agreed on the version.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    peer_pid: i32,
    asked: u64,
}

impl Connection {
    /// Connects to the coordinator at `socket` and agrees on the version.
    ///
    /// # Errors
    /// When nobody listens there, or somebody who cannot be talked to.
    pub(super) fn open(socket: &Path) -> Result<Self, WireError> {
        let mut connection = Self::reach(socket)?;
        connection.hello()?;
        Ok(connection)
    }

    /// Connects, and agrees on nothing yet.
    fn reach(socket: &Path) -> Result<Self, WireError> {
        let stream = UnixStream::connect(socket)
            .map_err(|source| WireError::Unreachable { socket: socket.to_owned(), source })?;
        let peer_pid = check_owner(&stream)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).map_err(WireError::Io)?;
        stream.set_write_timeout(Some(WRITE_MAX)).map_err(WireError::Io)?;
        Ok(Self { stream, decoder: Decoder::default(), peer_pid, asked: 0 })
    }

    /// The coordinator's pid.
    #[must_use]
    pub(super) fn peer_pid(&self) -> i32 {
        self.peer_pid
    }

    /// Asks, and waits for the answer; news that come in between are dropped.
    ///
    /// # Errors
    /// When the coordinator refuses, or gives no answer in time.
    pub(super) fn ask(&mut self, call: Call) -> Result<Answer, WireError> {
        let asked = self.send(call)?;
        loop {
            match self.receive()? {
                Response::Reply { id, answer } if id == asked => return Ok(*answer),
                Response::Refusal { id, failure } if id == asked => {
                    return Err(WireError::Refused(failure));
                }
                _ => {}
            }
        }
    }

    /// Sends a question; the answer comes with the number that is returned.
    ///
    /// # Errors
    /// When the wire does not take it.
    pub(super) fn send(&mut self, call: Call) -> Result<u64, WireError> {
        self.asked += 1;
        let request = Request { id: self.asked, call };
        let mut bytes = Vec::new();
        frame::encode(&request, &mut bytes).map_err(WireError::Frame)?;
        match self.stream.write_all(&bytes) {
            Ok(()) => Ok(request.id),
            Err(error) => Err(wire_error(error, self.peer_pid)),
        }
    }

    /// Hands all that is still to come to `heard`, from a thread of its own, up to the error that
    /// ends the connection. There is no time limit from here on.
    ///
    /// # Errors
    /// When there can be no such thread.
    pub(super) fn follow<F>(&mut self, mut heard: F) -> Result<(), WireError>
    where
        F: FnMut(Result<Response, WireError>) + Send + 'static,
    {
        let stream = self.stream.try_clone().map_err(WireError::Io)?;
        stream.set_read_timeout(None).map_err(WireError::Io)?;
        let decoder = std::mem::take(&mut self.decoder);
        let mut reader = Self { stream, decoder, peer_pid: self.peer_pid, asked: 0 };
        let reading = move || loop {
            let response = reader.receive::<Response>();
            let over = response.is_err();
            heard(response);
            if over {
                return;
            }
        };
        thread::Builder::new().name("wire".to_owned()).spawn(reading).map_err(WireError::Io)?;
        Ok(())
    }

    fn hello(&mut self) -> Result<(), WireError> {
        match self.ask(Call::Hello {
            version: CONTROL_VERSION,
            callboard: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }) {
            Ok(Answer::Welcome { .. }) => Ok(()),
            Ok(_) => Err(self.of_another_version("it does not know `hello`".to_owned())),
            Err(WireError::Refused(refusal)) if refusal.kind == FailureKind::Version => {
                Err(self.of_another_version(refusal.message))
            }
            Err(other) => Err(other),
        }
    }

    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, WireError> {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.decoder.document() {
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                // Other shapes or no frames at all: nothing after it can be trusted.
                Err(error) => return Err(self.of_another_version(error.to_string())),
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(WireError::Lost),
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(wire_error(error, self.peer_pid)),
            }
        }
    }

    fn of_another_version(&self, words: String) -> WireError {
        WireError::Version { pid: self.peer_pid, words }
    }
}

/// Asks the coordinator at `socket`, of whatever version, to leave everything to the next one.
///
/// # Errors
/// When nobody listens there, or it does not know how.
pub(super) fn hand_over(socket: &Path) -> Result<(), WireError> {
    /// What every version says: see `docs/clients.md`. Up to version 4 it stood at the top.
    #[derive(serde::Deserialize)]
    struct Said {
        reply: Option<serde_json::Value>,
        refusal: Option<Refusal>,
        answer: Option<serde_json::Value>,
        failure: Option<Words>,
    }
    #[derive(serde::Deserialize)]
    struct Refusal {
        failure: Words,
    }
    #[derive(serde::Deserialize)]
    struct Words {
        message: String,
    }
    let mut connection = Connection::reach(socket)?;
    connection.send(Call::HandOver)?;
    match connection.receive::<Said>()? {
        Said { reply: Some(_), .. } | Said { answer: Some(_), .. } => Ok(()),
        Said { refusal, failure, .. } => {
            let failure = refusal.map(|refusal| refusal.failure).or(failure);
            let words = failure.map_or_else(String::new, |words| format!(": {}", words.message));
            Err(connection.of_another_version(format!("it does not hand over{words}")))
        }
    }
}

/// Only a coordinator of this user, or root's, is told anything. The answer is its pid.
fn check_owner(stream: &UnixStream) -> Result<i32, WireError> {
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd())
        .map_err(|error| WireError::Io(error.into()))?;
    let (pid, uid) = (peer.pid.as_raw_nonzero().get(), peer.uid);
    if uid == rustix::process::geteuid() || uid.is_root() {
        Ok(pid)
    } else {
        Err(WireError::Foreign { pid, uid: uid.as_raw() })
    }
}

fn wire_error(error: io::Error, pid: i32) -> WireError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => WireError::Stuck { pid },
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => WireError::Lost,
        _ => WireError::Io(error),
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        let message = error.to_string();
        let fail = |kind| Self::new(kind, message);
        match error {
            WireError::Refused(refusal) => refusal.into(),
            WireError::Version { pid, .. } => fail(Kind::Version).hint(format!(
                "`callboard serve --replace` puts one of this version in its place, and what runs goes \
                 on; `kill {pid}` ends it with all that it runs"
            )),
            WireError::Stuck { pid } => fail(Kind::Coordinator)
                .hint(format!("look at it with `ps {pid}`; `kill {pid}` ends it")),
            WireError::Foreign { .. } => {
                fail(Kind::Machine).hint("use a workspace of your own, or that user's account")
            }
            WireError::Unexpected { .. } | WireError::Frame(_) => fail(Kind::Internal),
            WireError::Unreachable { .. } | WireError::Lost | WireError::Io(_) => {
                fail(Kind::Coordinator)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::StandIn;
    use super::*;

    /// Opens a connection to a coordinator that keeps to `script`, and asks for the runs.
    fn ask(script: impl FnOnce(&mut StandIn) + Send + 'static) -> Result<Answer, WireError> {
        let (folder, socket, thread) = StandIn::start(script);
        let answer = Connection::open(&socket).and_then(|mut wire| wire.ask(Call::ListRuns));
        thread.join().unwrap();
        drop(folder);
        answer
    }

    fn refusal(kind: FailureKind) -> Refusal {
        Refusal { kind, message: "speaks version 7".to_owned(), hint: None }
    }

    #[test]
    fn answers_find_their_question() {
        let answer = ask(|stand_in| {
            stand_in.welcome();
            let (id, call) = stand_in.asked();
            assert_eq!(call, Call::ListRuns);
            stand_in.reply(id + 1, Answer::Cancelling);
            stand_in.reply(id, Answer::Runs { runs: Vec::new() });
        });
        assert_eq!(answer.unwrap(), Answer::Runs { runs: Vec::new() });
    }

    #[test]
    fn another_version_is_named_with_its_pid() {
        let ours = std::process::id().to_string();
        let scripts: [fn(&mut StandIn); 3] = [
            |stand_in| {
                let (id, _) = stand_in.asked();
                stand_in.refuse(id, refusal(FailureKind::Version));
            },
            |stand_in| {
                stand_in.asked();
                stand_in.bytes(b"\0\0\0\x02{}");
            },
            |stand_in| {
                stand_in.asked();
                stand_in.bytes(b"HTTP/1.1 400 Bad Request\r\n");
            },
        ];
        for script in scripts {
            let error = ask(script).unwrap_err();
            assert!(matches!(error, WireError::Version { .. }), "{error:?}");
            let failure = Failure::from(error);
            assert_eq!((failure.kind, failure.exit_code()), (Kind::Version, 5));
            assert!(failure.message.contains(&ours), "{}", failure.message);
            assert!(failure.hint.unwrap().contains("kill"));
        }
    }

    #[test]
    fn a_coordinator_that_goes_is_lost() {
        let error = ask(|stand_in| {
            stand_in.welcome();
            stand_in.asked();
        });
        assert!(matches!(error, Err(WireError::Lost)), "{error:?}");
    }

    #[test]
    fn refusals_keep_their_kind() {
        let error = ask(|stand_in| {
            stand_in.welcome();
            let (id, _) = stand_in.asked();
            stand_in.refuse(id, refusal(FailureKind::NotFound));
        });
        assert_eq!(Failure::from(error.unwrap_err()).kind, Kind::NotFound);
    }

    #[test]
    fn nobody_at_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let error = Connection::open(&folder.path().join("none")).unwrap_err();
        assert!(matches!(error, WireError::Unreachable { .. }), "{error:?}");
    }
}
