//! A coordinator that keeps to a script, on a real Unix socket: for tests of the client's side.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;

use super::client::Connection;
use super::failure::Kind;
use super::inbox::Connect;
use crate::control::{Answer, CONTROL_VERSION, Call, Failure, Notice, Request, Response, Submit};
use crate::domain::board::BoardView;
use crate::domain::event::{ClientEnv, RunOptions};
use crate::domain::frame::{self, Decoder};
use crate::domain::outcome::{RunOutcome, TaskState};
use crate::domain::plan::Plan;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::Timestamp;
use crate::report::record::RunReport;

/// What a stand-in does with its client.
pub(super) type Script = Box<dyn FnOnce(&mut StandIn) + Send>;

pub(super) struct StandIn {
    stream: UnixStream,
    decoder: Decoder,
}

impl StandIn {
    /// Listens, and keeps to `script` with the first client that comes; gone after that.
    pub(super) fn start(
        script: impl FnOnce(&mut Self) + Send + 'static,
    ) -> (TempDir, PathBuf, JoinHandle<()>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let thread = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            script(&mut Self { stream, decoder: Decoder::default() });
        });
        (folder, socket, thread)
    }

    /// Coordinators one after the other, each for the client that comes next; and what waits until
    /// all have kept to their scripts. Whoever connects beyond them is told that there is none.
    pub(super) fn row(scripts: Vec<Script>) -> (Connect, impl FnOnce()) {
        let mut sockets = VecDeque::new();
        let mut threads = Vec::new();
        for script in scripts {
            let (folder, socket, thread) = Self::start(script);
            sockets.push_back((folder, socket));
            threads.push(thread);
        }
        let sockets = Mutex::new(sockets);
        let connect: Connect = Arc::new(move || {
            let next = sockets.lock().unwrap().pop_front();
            let Some((_folder, socket)) = next else {
                return Err(super::failure::Failure::new(Kind::Coordinator, "there is none left"));
            };
            Ok(Connection::open(&socket)?)
        });
        (connect, move || threads.into_iter().for_each(|thread| thread.join().unwrap()))
    }

    /// The next request.
    pub(super) fn asked(&mut self) -> (u64, Call) {
        let mut buffer = [0; 4096];
        loop {
            if let Some(Request { id, call }) = self.decoder.document().unwrap() {
                return (id, call);
            }
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the client is gone");
            self.decoder.push(&buffer[..count]);
        }
    }

    /// Answers `Hello`.
    pub(super) fn welcome(&mut self) {
        let (id, call) = self.asked();
        assert!(matches!(call, Call::Hello { version: CONTROL_VERSION, .. }), "{call:?}");
        self.reply(id, Answer::Welcome { version: "0".to_owned(), pid: std::process::id() });
    }

    pub(super) fn reply(&mut self, id: u64, answer: Answer) {
        self.say(&Response::Reply { id, answer: Box::new(answer) });
    }

    pub(super) fn refuse(&mut self, id: u64, failure: Failure) {
        self.say(&Response::Refusal { id, failure });
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.say(&Response::Notice { notice: Box::new(notice) });
    }

    fn say(&mut self, response: &Response) {
        let mut bytes = Vec::new();
        frame::encode(response, &mut bytes).unwrap();
        self.bytes(&bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }
}

/// A run to submit.
pub(super) fn submit() -> Submit {
    let plan = Plan {
        workspace_id: None,
        root: "/w".into(),
        agents: Vec::new(),
        default_env: BTreeMap::new(),
        default_env_pass: Vec::new(),
        session_defaults: Default::default(),
        policy: Default::default(),
        default_shell: Default::default(),
        tasks: Vec::new(),
    };
    let (selected, detach) = (None, false);
    let (options, env) = (RunOptions::default(), ClientEnv::default());
    Submit { plan, selected, options, env, run: Some("R1".into()), detach }
}

/// A run that goes on.
pub(super) fn report() -> RunReport {
    RunReport {
        schema_version: SCHEMA_VERSION,
        run_id: "R1".into(),
        workspace_id: "w".into(),
        outcome: None,
        exit_code: None,
        started_at: Timestamp(1_764_543_600_000),
        duration_ms: 0,
        counts: BTreeMap::from([(TaskState::Ready, 1)]),
        cancelled: None,
        tasks: Vec::new(),
        board: BoardView::of("w".into(), Vec::new()),
        escalations: Vec::new(),
    }
}

/// A run that has ended.
pub(super) fn ended_report(exit_code: u8) -> RunReport {
    let outcome = match exit_code {
        0 => RunOutcome::Succeeded,
        130 => RunOutcome::Cancelled,
        _ => RunOutcome::Failed,
    };
    RunReport {
        outcome: Some(outcome),
        exit_code: Some(exit_code),
        duration_ms: 12_345,
        ..report()
    }
}
