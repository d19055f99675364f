//! What the desk puts on the board: events in, entries out.

use serde_json::{Value, json};

use crate::control::{Answer, Call, EnvSources, Exec, Failure, NewSession, Request, Response};
use crate::daemon::action::Action;
use crate::daemon::desk::{Desk, Folders};
use crate::daemon::history::History;
use crate::daemon::inbox::Event;
use crate::domain::board::Version;
use crate::domain::board::key::{BOARD_BYTES_MAX, VALUE_BYTES_MAX};
use crate::domain::conflict::Touches;
use crate::domain::ids::SessionId;
use crate::domain::result::{How, Touched};
use crate::domain::session::{Shell, Size};
use crate::domain::time::Timestamp;
use crate::session::wire::{Ask, Fact, FactBody, Listener};

struct Table {
    desk: Desk,
    now: Timestamp,
    seq: u64,
    asked: u64,
}

impl Table {
    fn new() -> Self {
        let at = |name: &str| std::path::PathBuf::from("/d").join(name);
        let folders = Folders {
            doors: "/run/h".into(),
            root: at("ws"),
            sessions: at("sessions"),
            runs: at("runs"),
            tmp: at("t"),
            socket: at("control.sock"),
            board: at("board.json"),
            inputs: at("inputs.json"),
            profiles: at("profiles"),
            journal: at("journal"),
        };
        let version = Version { wall_ms: 0, logical: 0, node: "n".to_owned() };
        let now = Timestamp(1_000_000);
        let mut desk = Desk::new("w".into(), folders, History::default(), version, now, true);
        desk.clients.insert(1);
        Self { desk, now, seq: 0, asked: 0 }
    }

    fn ask(&mut self, call: Call) -> (bool, Vec<Action>) {
        self.asked += 1;
        let request = Request { id: self.asked, call };
        self.desk.hear(Event::Asked { connection: 1, request }, self.now);
        let decision = self.desk.decide();
        (decision.durable, decision.actions)
    }

    fn fact(&mut self, session: &SessionId, body: FactBody) -> Vec<String> {
        self.seq += 1;
        let fact = Fact { seq: self.seq, body };
        self.desk.hear(Event::Fact { session: session.clone(), fact }, self.now);
        posts(&self.desk.decide().actions)
    }

    fn session(&mut self) -> SessionId {
        let new = NewSession {
            name: Some("s".to_owned()),
            cwd: "/d/ws".into(),
            shell: Shell::default(),
            size: Size::default(),
            env: EnvSources::default(),
            policy: Default::default(),
            defaults: Default::default(),
        };
        let (_, actions) = self.ask(Call::OpenSession { new: Box::new(new) });
        let id = actions.iter().find_map(|action| match action {
            Action::Open { spec, .. } => Some(spec.id.clone()),
            _ => None,
        });
        let id = id.unwrap();
        self.fact(&id, FactBody::Opened { holder: 10, start_time: 1, shell: 11 });
        id
    }

    fn set(&mut self, key: &str, value: Value) -> Result<(), Failure> {
        let (durable, actions) = self.ask(Call::SetEntry { key: key.to_owned(), value });
        outcome(durable, &actions)
    }
}

/// Keys that are put up, and with a `-` those that are taken down.
fn posts(actions: &[Action]) -> Vec<String> {
    let shown = |action: &Action| match action {
        Action::Post { entry, .. } if entry.value.is_some() => Some(entry.key.clone()),
        Action::Post { entry, .. } => Some(format!("-{}", entry.key)),
        _ => None,
    };
    actions.iter().filter_map(shown).collect()
}

fn outcome(durable: bool, actions: &[Action]) -> Result<(), Failure> {
    match actions.last() {
        Some(Action::Respond { response: Response::Reply { answer, .. }, .. }) => {
            assert!(matches!(**answer, Answer::EntryWritten { .. }), "{answer:?}");
            assert!(durable, "answered before the journal has it");
            assert!(matches!(actions[actions.len() - 2], Action::Post { .. }), "answered first");
            Ok(())
        }
        Some(Action::Respond { response: Response::Refusal { failure, .. }, .. }) => {
            assert!(posts(actions).is_empty(), "refused, and done");
            Err(failure.clone())
        }
        other => panic!("{other:?}"),
    }
}

fn touches(files: &[&str]) -> FactBody {
    let touched = files.iter().map(|file| Touched {
        resource: (*file).to_owned(),
        mode: "write".to_owned(),
        how: How::Traced,
    });
    FactBody::Touched { touches: Touches { command: None, touched: touched.collect() } }
}

#[test]
fn writes_are_answered_behind_the_journal() {
    let mut table = Table::new();
    table.set("note/a", json!(1)).unwrap();
    let (durable, actions) = table.ask(Call::RemoveEntry { key: "note/a".to_owned() });
    outcome(durable, &actions).unwrap();
    assert_eq!(posts(&actions), ["-note/a"]);
    let (durable, actions) = table.ask(Call::RemoveEntry { key: "note/a".to_owned() });
    assert!(outcome(durable, &actions).unwrap_err().message.contains("not known"));
    for (key, value) in [("x", json!(1)), ("note/x", json!("y".repeat(VALUE_BYTES_MAX)))] {
        assert!(table.set(key, value).is_err(), "{key}");
    }
    table.desk.has_room = false;
    assert!(table.set("note/b", json!(1)).is_err(), "a full disk");
}

#[test]
fn a_board_that_is_full_takes_changes_and_nothing_new() {
    let mut table = Table::new();
    let long = json!("y".repeat(VALUE_BYTES_MAX - 100));
    let mut count = 0;
    while table.set(&format!("note/{count}"), long.clone()).is_ok() {
        count += 1;
    }
    assert!(count >= BOARD_BYTES_MAX / VALUE_BYTES_MAX - 1, "{count}");
    assert!(table.set("note/new", long.clone()).unwrap_err().message.contains("full"));
    let (durable, actions) = table.ask(Call::RemoveEntry { key: "note/0".to_owned() });
    outcome(durable, &actions).unwrap();
    table.set("note/new", json!(1)).unwrap();
}

#[test]
fn files_are_on_the_board_until_their_session_is_over() {
    let mut table = Table::new();
    let id = table.session();
    assert_eq!(
        table.fact(&id, touches(&["file/a", "file/b/c", "port/::/1"])),
        ["file/a", "file/b/c"]
    );
    assert_eq!(table.fact(&id, touches(&["file/a", "file/d"])), ["file/d"], "the same is no news");
    let gone = table.fact(&id, FactBody::Closed { survivors: Vec::new() });
    assert_eq!(gone, ["-file/a", "-file/b/c", "-file/d"]);
}

#[test]
fn a_background_process_that_listens_is_a_service() {
    let mut table = Table::new();
    let id = table.session();
    let listener = |host: &str, pid| Listener { host: host.to_owned(), port: 80, pid };
    let both = vec![listener("127.0.0.1", 7), listener("::1", 7)];
    let posted = table.fact(&id, FactBody::Listening { ports: both.clone() });
    assert_eq!(posted, ["port/127.0.0.1/80", "port/::1/80", "service/s:80"]);
    // Another process takes one over: its pid is the true one.
    let other = vec![listener("127.0.0.1", 8), listener("::1", 7)];
    let posted = table.fact(&id, FactBody::Listening { ports: other });
    assert_eq!(posted, ["port/127.0.0.1/80", "service/s:80"]);
    let gone = table.fact(&id, FactBody::Listening { ports: Vec::new() });
    assert_eq!(gone, ["-port/127.0.0.1/80", "-port/::1/80", "-service/s:80"]);
}

#[test]
fn installs_are_posted_before_anybody_is_told_of_the_end() {
    let mut table = Table::new();
    let id = table.session();
    let exec = Exec {
        ticket: None,
        text: "pip install rich==13; cargo add serde".to_owned(),
        cwd: "/d/ws".into(),
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
        session: Some("s".to_owned()),
        defaults: Default::default(),
    };
    let (_, actions) = table.ask(Call::Exec { exec: Box::new(exec) });
    let command = actions.iter().find_map(|action| match action {
        Action::Tell { ask: Ask::Run { spec }, .. } => Some(spec.id.clone()),
        _ => None,
    });
    let command = command.unwrap();
    table.fact(&id, FactBody::Started { command: command.clone(), at: table.now, offset: 0 });
    let end = crate::daemon::calls::end_without_status(
        &crate::daemon::story::CommandRecord::new(command, String::new()),
        crate::domain::outcome::Reason::Lost,
        table.now,
    );
    let state = crate::domain::outcome::CommandState::Completed;
    let end = crate::session::wire::CommandEnd { state, reason: None, ..end };
    table.seq += 1;
    let fact = Fact { seq: table.seq, body: FactBody::Ended { end: Box::new(end) } };
    table.desk.hear(Event::Fact { session: id, fact }, table.now);
    let actions = table.desk.decide().actions;
    assert_eq!(posts(&actions), ["dep/pip/rich", "dep/cargo/serde"]);
    let post = actions.iter().rposition(|action| matches!(action, Action::Post { .. }));
    let answer = actions.iter().position(|action| matches!(action, Action::AnswerExec { .. }));
    assert!(post < answer, "{actions:?}");
}
