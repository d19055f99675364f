//! A client that speaks the wire itself, where it has to say what no verb says.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use callboard::control::{
    Answer, CONTROL_VERSION, Call, EnvSources, Exec, Failure, Notice, Request, Response,
};
use callboard::domain::frame::{self, Decoder};
use callboard::domain::session::{SessionDefaults, Shell};
use callboard::report::record::RunReport;

use super::Ward;
use crate::house::{PATIENCE, wait_for};

/// A connection to the coordinator.
pub(super) struct Wire {
    stream: UnixStream,
    decoder: Decoder,
    asked: u64,
}

impl Wire {
    pub(super) fn open(ward: &Ward) -> Self {
        let stream = wait_for("a connection", || {
            let socket = socket(ward).ok_or("no socket")?;
            UnixStream::connect(socket).map_err(|error| error.to_string())
        });
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut wire = Self { stream, decoder: Decoder::default(), asked: 0 };
        let welcome = wire.ask(Call::Hello { version: CONTROL_VERSION, callboard: None }).unwrap();
        assert!(matches!(welcome, Answer::Welcome { .. }), "{welcome:?}");
        wire
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, call: Call) -> Result<Answer, Failure> {
        let asked = self.send(call);
        self.answer_to(asked)
    }

    /// Asks, and is gone after what happens meanwhile.
    pub(super) fn send_and_leave(mut self, call: Call, meanwhile: impl FnOnce()) {
        self.send(call);
        meanwhile();
    }

    /// Waits for the answer to what was asked.
    pub(super) fn answer_to(&mut self, asked: u64) -> Result<Answer, Failure> {
        loop {
            match self.hear() {
                Response::Reply { id, answer } if id == asked => return Ok(*answer),
                Response::Refusal { id, failure } if id == asked => return Err(failure),
                _ => {}
            }
        }
    }

    /// Asks only.
    pub(super) fn send(&mut self, call: Call) -> u64 {
        self.asked += 1;
        let mut bytes = Vec::new();
        frame::encode(&Request { id: self.asked, call }, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
        self.asked
    }

    /// Waits for the end of a run that is followed.
    pub(super) fn end_of_run(&mut self) -> RunReport {
        loop {
            if let Response::Notice { notice } = self.hear()
                && let Notice::RunEnded { report } = *notice
            {
                return *report;
            }
        }
    }

    /// True once the coordinator has let go.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok()
    }

    fn hear(&mut self) -> Response {
        let started = Instant::now();
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(response) = self.decoder.document().unwrap() {
                return response;
            }
            assert!(started.elapsed() < PATIENCE, "nothing was answered");
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the coordinator let go"),
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The coordinator's socket.
fn socket(ward: &Ward) -> Option<PathBuf> {
    let folder = std::fs::read_dir(ward.house.root().join("run/callboard")).ok()?;
    let mut paths = folder.flatten().map(|entry| entry.path());
    let pid = ward.status()["coordinator"]["pid"].as_i64();
    pid.and_then(|_| paths.find(|path| path.extension().is_some_and(|e| e == "sock")))
}

/// An `exec` with a ticket.
pub(super) fn exec(ward: &Ward, ticket: &str, session: Option<&str>, text: &str) -> Call {
    let exec = Exec {
        ticket: Some(ticket.to_owned()),
        text: text.to_owned(),
        cwd: ward.house.workspace(),
        cwd_given: false,
        shell: Shell::default(),
        shell_given: false,
        env: EnvSources::default(),
        policy: Default::default(),
        timeout_ms: None,
        class: None,
        inputs: Vec::new(),
        stop_on: Vec::new(),
        merge: false,
        session: session.map(str::to_owned),
        defaults: SessionDefaults::default(),
    };
    Call::Exec { exec: Box::new(exec) }
}
