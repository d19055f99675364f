//! Recoveries as tables: what the journal, the holders and the records tell; then what is recorded
//! and done.

use std::time::Duration;

use super::*;
use crate::control::{Answer, Call, FailureKind, Request, Response};
use crate::daemon::desk::Folders;
use crate::daemon::history::History;
use crate::daemon::inbox::Event as Heard;
use crate::daemon::ports::port_key;
use crate::daemon::shelf::{self, Entry};
use crate::domain::board::{BoardEntry, BoardView, Version, Writer};
use crate::domain::event::{AttemptEnd, CancelWhy, RunOptions, Stamped};
use crate::domain::outcome::{CommandState, Reason, RunOutcome, TaskReason};
use crate::domain::plan::{AdapterKind, Agent, Dependency, Service, TaskSpec, When};
use crate::domain::process::ProcessIdentity;
use crate::domain::session::{Shell, Size};
use crate::journal::Line;
use crate::session::wire::{Ask, CommandEnd, Fact, FactBody, LINK_VERSION, Span};

const RUN: &str = "r-1";
const SESSION: &str = "s-0000000000000001";

/// What an earlier coordinator has left, and the desk that takes it over.
struct Scene {
    folder: tempfile::TempDir,
    lines: Vec<Record>,
    left: Left,
    posted: Posted,
    unreported: BTreeSet<RunId>,
    now: Timestamp,
}

/// The desk afterwards.
struct Recovered {
    desk: Desk,
    now: Timestamp,
    records: Vec<Record>,
    actions: Vec<Action>,
}

impl Scene {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            lines: Vec::new(),
            left: Left::default(),
            posted: Posted::default(),
            unreported: BTreeSet::new(),
            now: Timestamp(1_000_000),
        }
    }

    /// A detached run of these tasks that was accepted.
    fn run(self, tasks: &[TaskSpec]) -> Self {
        self.run_of(tasks, true)
    }

    fn run_of(mut self, tasks: &[TaskSpec], detached: bool) -> Self {
        self.lines.push(Record::RunSubmitted {
            parent: None,
            run: RUN.into(),
            plan: Box::new(plan(tasks)),
            options: RunOptions { jobs: 4, ..RunOptions::default() },
            selected: None,
            allowed: BTreeMap::from([("LANG".to_owned(), "C".to_owned())]),
            open_ended: false,
            origin: None,
            detached,
        });
        self
    }

    fn tells(mut self, record: Record) -> Self {
        self.lines.push(record);
        self
    }

    fn began(self, task: &str, number: u32, session: &str) -> Self {
        let agent = "crew".into();
        let attempt = attempt(task, number);
        self.tells(Record::AttemptStarted { attempt, agent, session: session.into() })
    }

    /// A session whose holder goes on, with these commands, of which so many ended on record.
    fn found(
        mut self,
        owner: &SessionOwner,
        session: &str,
        commands: &[&str],
        ended: usize,
    ) -> Self {
        let record = self.record(owner, session, commands, ended, false);
        let present = present(&self.folders(), owner, session, commands);
        self.left.found.push(Found { present, record: Some(record) });
        self
    }

    /// A session whose holder is gone, and what that had said.
    fn gone(
        mut self,
        owner: &SessionOwner,
        session: &str,
        record: Shelved,
        unheard: Vec<FactBody>,
    ) -> Self {
        let unheard = (1..).zip(unheard).map(|(seq, body)| Fact { seq, body }).collect();
        let gone = Gone {
            session: session.into(),
            owner: owner.clone(),
            holder: Some(holder()),
            record: Some(record),
            unheard,
        };
        self.left.gone.push(gone);
        self
    }

    fn record(
        &self,
        owner: &SessionOwner,
        session: &str,
        commands: &[&str],
        ended: usize,
        closed: bool,
    ) -> Shelved {
        let folders = self.folders();
        let present = present(&folders, owner, session, commands);
        let owner = straggler(owner);
        let open = Session::new(
            &present.spec,
            owner,
            &crate::domain::claim::Claim::command_line(7),
            self.now,
        );
        let mut entries = vec![open.opened_entry()];
        for (at, known) in present.commands.iter().enumerate() {
            let mut record = CommandRecord::new(known.command.clone(), known.text.clone());
            record.started = Some((self.now, 0));
            record.end = (at < ended).then(|| end(known.command.as_str(), CommandState::Completed));
            entries.push(Entry::Command { record });
        }
        if closed {
            let at = crate::control::Closed {
                at: self.now,
                why: ClosedWhy::Unused,
                survivors: Vec::new(),
            };
            let session = open.view(None, Some(at), self.now).session;
            entries.push(Entry::Closed { session });
        }
        let folder = folders.sessions.join(session);
        std::fs::create_dir_all(&folder).unwrap();
        shelf::Writers::default().append(&folder, &entries).unwrap();
        shelf::read(&folders.sessions, &session.into()).unwrap()
    }

    fn folders(&self) -> Folders {
        let at = |name: &str| self.folder.path().join(name);
        Folders {
            doors: at("h"),
            root: at("ws"),
            sessions: at("sessions"),
            runs: at("runs"),
            tmp: at("t"),
            socket: at("control.sock"),
            board: at("board.json"),
            inputs: at("inputs.json"),
            profiles: at("profiles"),
            journal: at("journal"),
        }
    }

    fn recover(self) -> Recovered {
        let mut history = History::default();
        for (seq, event) in (1..).zip(self.lines.clone()) {
            history.fold(Line { seq, at: self.now, event });
        }
        let recall = std::mem::take(&mut history.recall);
        let version = Version { wall_ms: 0, logical: 0, node: "n".to_owned() };
        let now = self.now.plus_ms(1000);
        let desk = Desk::new("w".into(), self.folders(), history, version, now, true);
        let mut desk = desk.of_user(7).at(holder());
        desk.recover(recall, &self.unreported, self.left, self.posted, now);
        let mut recovered = Recovered { desk, now, records: Vec::new(), actions: Vec::new() };
        recovered.take();
        recovered
    }
}

impl Recovered {
    fn take(&mut self) {
        let decision = self.desk.decide();
        let event = |stamped: Stamped| stamped.event;
        self.records = decision.records.into_iter().map(event).collect();
        let told = |action: &Action| {
            !matches!(action, Action::Tidy { .. } | Action::SetReportAside { .. })
        };
        self.actions = decision.actions.into_iter().filter(told).collect();
    }

    fn hear(&mut self, event: Heard) {
        self.desk.hear(event, self.now);
        self.take();
    }

    fn fact(&mut self, session: &str, seq: u64, body: FactBody) {
        self.hear(Heard::Fact { session: session.into(), fact: Fact { seq, body } });
    }

    fn ask(&mut self, call: Call) {
        self.hear(Heard::Asked { connection: 1, request: Request { id: 1, call } });
    }

    fn pass(&mut self, by: Duration) {
        self.now = self.now.plus_ms(u64::try_from(by.as_millis()).unwrap());
        self.desk.tick(self.now);
        self.take();
    }

    /// What holders were asked to run, close or end, in short.
    fn told(&self) -> Vec<String> {
        let told = self.actions.iter().filter_map(|action| match action {
            Action::Tell { session, ask } => Some((session, ask)),
            _ => None,
        });
        let words = told.filter_map(|(session, ask)| match ask {
            Ask::Run { spec } => Some(format!("run {}", spec.id)),
            Ask::Close => Some(format!("close {session}")),
            Ask::End { command, .. } => Some(format!("end {command}")),
            _ => None,
        });
        words.collect()
    }

    fn sweeps(&self) -> Vec<&str> {
        let sweeps = self.actions.iter().filter_map(|action| match action {
            Action::Sweep { session, .. } => Some(session.as_str()),
            _ => None,
        });
        sweeps.collect()
    }

    fn opens(&self) -> usize {
        self.actions.iter().filter(|action| matches!(action, Action::Open { .. })).count()
    }

    fn ended(&self) -> Vec<(String, AttemptEnd)> {
        let ended = self.records.iter().filter_map(|record| match record {
            Record::AttemptEnded { attempt, end } => {
                Some((format!("{}.{}", attempt.task, attempt.attempt), end.clone()))
            }
            _ => None,
        });
        ended.collect()
    }

    fn started(&self) -> Vec<String> {
        let started = self.records.iter().filter_map(|record| match record {
            Record::AttemptStarted { attempt, .. } => {
                Some(format!("{}.{}", attempt.task, attempt.attempt))
            }
            _ => None,
        });
        started.collect()
    }

    /// The board's keys that were written, with `-` in front of those that were removed.
    fn posts(&self) -> Vec<String> {
        let posts = self.records.iter().filter_map(|record| match record {
            Record::Board { entry } if entry.value.is_none() => Some(format!("-{}", entry.key)),
            Record::Board { entry } => Some(entry.key.clone()),
            _ => None,
        });
        posts.collect()
    }
}

fn plan(tasks: &[TaskSpec]) -> Plan {
    let crew = Agent {
        name: "crew".into(),
        tags: Vec::new(),
        adapter: AdapterKind::Shell,
        capacity: 4,
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        policy: Default::default(),
        resources: Default::default(),
    };
    Plan {
        workspace_id: None,
        root: "/".into(),
        agents: vec![crew],
        default_env: BTreeMap::new(),
        default_env_pass: Vec::new(),
        session_defaults: Default::default(),
        policy: Default::default(),
        default_shell: Shell::default(),
        tasks: tasks.to_vec(),
    }
}

fn two() -> TaskSpec {
    TaskSpec::new("a", &["one", "two"])
}

fn attempt(task: &str, number: u32) -> AttemptId {
    AttemptId { run: RUN.into(), task: task.into(), attempt: number }
}

fn of_attempt(task: &str, number: u32) -> SessionOwner {
    SessionOwner::Attempt { attempt: attempt(task, number) }
}

fn kept(name: &str) -> SessionOwner {
    SessionOwner::Kept { name: Some(name.to_owned()), by_exec: false, ttl_ms: 60_000 }
}

fn holder() -> ProcessIdentity {
    ProcessIdentity { pid: 10, start_time: 1, boot_id: "b".to_owned(), pid_namespace: 1 }
}

fn present(folders: &Folders, owner: &SessionOwner, session: &str, commands: &[&str]) -> Present {
    let id = SessionId::new(session);
    let known = |(at, text): (usize, &&str)| KnownCommand {
        command: command_at(&id, at),
        text: (*text).to_owned(),
        ticket: None,
    };
    Present {
        version: LINK_VERSION,
        spec: crate::domain::session::SessionSpec {
            traced: false,
            root: None,
            parent: None,
            cwd: "/".into(),
            env: Vec::new(),
            shell: Shell::default(),
            profile: None,
            size: Size::default(),
            transcript: folders.sessions.join(session),
            tmp: folders.tmp.join(session),
            policy: Vec::new(),
            limits: Default::default(),
            owner: owner.clone(),
            door: folders.doors.clone(),
            patience_ms: 300_000,
            id: id.clone(),
        },
        holder: holder(),
        shell: Some(11),
        commands: commands.iter().enumerate().map(known).collect(),
        end: 7,
        ports: Vec::new(),
        closing: false,
        told_to_close: false,
    }
}

fn end(command: &str, state: CommandState) -> CommandEnd {
    CommandEnd {
        command: command.into(),
        state,
        reason: None,
        exit_code: Some(0),
        pipe_status: None,
        cwd: "/".to_owned(),
        started_at: None,
        duration_ms: 1,
        children: Vec::new(),
        notes: Vec::new(),
        awaiting: None,
        span: Span { raw_start: 0, raw_end: 5, idx_start: 0, idx_end: 0 },
        merged: false,
        unstored: Vec::new(),
    }
}

fn ended(command: &str) -> FactBody {
    FactBody::Ended { end: Box::new(end(command, CommandState::Completed)) }
}

fn opened() -> FactBody {
    FactBody::Opened { holder: 10, start_time: 1, shell: 11 }
}

fn port(number: u16) -> Listener {
    Listener { host: "127.0.0.1".to_owned(), port: number, pid: 12 }
}

fn first(n: u32) -> String {
    format!("{SESSION}.{n}")
}

#[test]
fn a_command_that_runs_goes_on_and_the_next_follows() {
    let scene = Scene::new().run(&[two()]).began("a", 1, SESSION);
    let mut desk = scene.found(&of_attempt("a", 1), SESSION, &["one"], 0).recover();
    assert_eq!((desk.opens(), desk.told(), desk.started()), (0, vec![], vec![]));
    desk.fact(SESSION, 1, opened());
    assert!(desk.told().is_empty(), "it is open already");
    desk.fact(SESSION, 5, ended(&first(1)));
    assert_eq!(desk.told(), [format!("run {}", first(2))]);
    // Told again, as after a lost acknowledgement, it changes nothing.
    desk.fact(SESSION, 5, ended(&first(1)));
    assert!(desk.actions.is_empty() && desk.records.is_empty(), "{:?}", desk.actions);
    desk.fact(SESSION, 6, ended(&first(2)));
    assert_eq!(desk.told(), [format!("close {SESSION}")]);
    desk.fact(SESSION, 7, FactBody::Closed { survivors: Vec::new() });
    assert_eq!(desk.ended(), [("a.1".to_owned(), AttemptEnd::Succeeded)]);
    let over = |record: &Record| matches!(record, Record::RunEnded { exit_code: 0, .. });
    assert!(desk.records.iter().any(over), "{:?}", desk.records);
}

#[test]
fn an_end_that_is_on_record_is_followed_and_not_recorded_again() {
    let scene = Scene::new().run(&[two()]).began("a", 1, SESSION);
    let mut desk = scene.found(&of_attempt("a", 1), SESSION, &["one"], 1).recover();
    desk.fact(SESSION, 5, ended(&first(1)));
    assert_eq!(desk.told(), [format!("run {}", first(2))]);
    let recorded = |record: &Record| matches!(record, Record::CommandEnded { .. });
    assert!(!desk.records.iter().any(recorded), "{:?}", desk.records);
    let shelved = |action: &Action| matches!(action, Action::Shelve { .. });
    assert!(!desk.actions.iter().any(shelved), "{:?}", desk.actions);
}

#[test]
fn an_attempt_whose_session_only_opens_is_given_its_first_command() {
    let scene = Scene::new().run(&[two()]).began("a", 1, SESSION);
    let mut desk = scene.found(&of_attempt("a", 1), SESSION, &[], 0).recover();
    assert!(desk.told().is_empty());
    desk.fact(SESSION, 1, opened());
    assert_eq!(desk.told(), [format!("run {}", first(1))]);
}

#[test]
fn a_lost_session_is_a_counted_attempt_with_a_cause_of_its_own() {
    for (retries, next) in [(0, vec![]), (1, vec!["a.2".to_owned()])] {
        let task = TaskSpec { retries, ..two() };
        let scene = Scene::new().run(&[task]).began("a", 1, SESSION);
        let owner = of_attempt("a", 1);
        let record = scene.record(&owner, SESSION, &["one"], 0, false);
        let mut desk = scene.gone(&owner, SESSION, record, vec![]).recover();
        assert_eq!(desk.sweeps(), [SESSION], "nothing is said before what it left is ended");
        assert!(desk.ended().is_empty() && desk.started().is_empty());
        desk.hear(Heard::Swept { session: SESSION.into(), survivors: Vec::new() });
        let reason = TaskReason::Command(Reason::Lost);
        let lost = AttemptEnd::Failed { reason, permanent: false, environment: false };
        let [(which, how)] = &desk.ended()[..] else { panic!("{:?}", desk.records) };
        assert_eq!((which.as_str(), how), ("a.1", &lost));
        desk.pass(Duration::from_secs(60));
        assert_eq!(desk.started(), next);
    }
}

/// What its holder wrote down for nobody counts.
#[test]
fn a_lost_session_that_had_ended_its_last_command_has_succeeded() {
    let scene = Scene::new().run(&[two()]).began("a", 1, SESSION);
    let owner = of_attempt("a", 1);
    let record = scene.record(&owner, SESSION, &["one", "two"], 1, false);
    let mut desk = scene.gone(&owner, SESSION, record, vec![ended(&first(2))]).recover();
    desk.hear(Heard::Swept { session: SESSION.into(), survivors: Vec::new() });
    assert_eq!(desk.ended(), [("a.1".to_owned(), AttemptEnd::Succeeded)]);
}

#[test]
fn an_attempt_that_never_got_a_session_is_lost_as_well() {
    let scene = Scene::new().run(&[two()]).began("a", 1, SESSION);
    let gone = Gone {
        session: SESSION.into(),
        owner: of_attempt("a", 1),
        holder: None,
        record: None,
        unheard: Vec::new(),
    };
    let mut scene = scene;
    scene.left.gone.push(gone);
    let mut desk = scene.recover();
    assert_eq!(desk.sweeps(), [SESSION]);
    desk.hear(Heard::Swept { session: SESSION.into(), survivors: Vec::new() });
    assert_eq!(desk.ended().len(), 1);
}

/// Sessions of attempts that are over, or that were only foreseen, are nobody's.
#[test]
fn stragglers_are_closed_and_nothing_follows_from_them() {
    let (old, new, warm) = ("s-0000000000000000", SESSION, "s-0000000000000002");
    let lost = AttemptEnd::Failed {
        reason: TaskReason::Command(Reason::Lost),
        permanent: false,
        environment: false,
    };
    let ahead = SessionOwner::Upcoming { attempt: attempt("b", 1) };
    let mut desk = Scene::new()
        .run(&[TaskSpec { retries: 3, ..two() }, TaskSpec::new("b", &["b"])])
        .began("a", 1, old)
        .tells(Record::AttemptEnded { attempt: attempt("a", 1), end: lost })
        .began("a", 2, new)
        .found(&of_attempt("a", 1), old, &["one"], 0)
        .found(&of_attempt("a", 2), new, &["one"], 0)
        .found(&ahead, warm, &[], 0)
        .recover();
    let closed: Vec<String> =
        desk.told().into_iter().filter(|words| words.starts_with("close")).collect();
    assert_eq!(closed, [format!("close {old}"), format!("close {warm}")]);
    for straggler in [old, warm] {
        desk.fact(straggler, 3, ended(&format!("{straggler}.1")));
        assert!(desk.told().is_empty() && desk.ended().is_empty());
        desk.fact(straggler, 4, FactBody::Closed { survivors: Vec::new() });
        assert!(desk.ended().is_empty());
    }
    desk.fact(new, 3, ended(&format!("{new}.1")));
    assert_eq!(desk.told(), [format!("run {new}.2")]);
}

#[test]
fn an_attempt_that_was_being_ended_is_told_so_again() {
    let scene = Scene::new()
        .run(&[two()])
        .began("a", 1, SESSION)
        .tells(Record::RunCancelled { run: RUN.into(), why: CancelWhy::ClientLost });
    let mut desk = scene.found(&of_attempt("a", 1), SESSION, &["one"], 0).recover();
    assert_eq!(desk.told(), [format!("end {}", first(1))]);
    let interrupted = CommandEnd {
        reason: Some(Reason::INTERRUPT),
        exit_code: Some(130),
        ..end(&first(1), CommandState::Failed)
    };
    desk.fact(SESSION, 3, FactBody::Ended { end: Box::new(interrupted) });
    desk.fact(SESSION, 4, FactBody::Closed { survivors: Vec::new() });
    assert_eq!(desk.ended(), [("a.1".to_owned(), AttemptEnd::Cancelled)]);
    let over = desk.records.iter().find_map(|record| match record {
        Record::RunEnded { outcome, exit_code, .. } => Some((*outcome, *exit_code)),
        _ => None,
    });
    assert_eq!(over, Some((RunOutcome::Cancelled, 130)));
    let line = desk.desk.run_lines(desk.now).remove(0);
    assert_eq!(line.cancelled, Some(CancelWhy::ClientLost));
}

#[test]
fn nothing_starts_that_needs_what_only_its_client_has() {
    let after = vec![Dependency { task: 0, when: When::Success }];
    let needs = TaskSpec { env_pass: vec!["KEY".to_owned()], after, ..TaskSpec::new("b", &["b"]) };
    let one = TaskSpec::new("a", &["one"]);
    let scene = Scene::new().run(&[one, needs]).began("a", 1, SESSION);
    let mut desk = scene.found(&of_attempt("a", 1), SESSION, &["one"], 0).recover();
    desk.fact(SESSION, 3, ended(&first(1)));
    desk.fact(SESSION, 4, FactBody::Closed { survivors: Vec::new() });
    assert!(desk.started().is_empty());
    let waiting = desk.desk.waiting();
    assert!(waiting.iter().any(|line| line.on.contains("env_pass")), "{waiting:?}");
    let passed = BTreeMap::from([("KEY".to_owned(), "v".to_owned())]);
    let env = ClientEnv { allowed: BTreeMap::new(), passed };
    desk.ask(Call::Rejoin { run: RUN.into(), env });
    assert_eq!(desk.started(), ["b.1"]);
}

#[test]
fn a_client_that_does_not_come_back_ends_its_run() {
    let scene = Scene::new().run_of(&[two()], false).began("a", 1, SESSION);
    let mut desk = scene.found(&of_attempt("a", 1), SESSION, &["one"], 0).recover();
    desk.pass(Duration::from_millis(DESERTED_MS - 1));
    assert!(desk.told().is_empty());
    desk.pass(Duration::from_millis(1));
    assert_eq!(desk.told(), [format!("end {}", first(1))]);
    let why = desk.records.iter().find_map(|record| match record {
        Record::RunCancelled { why, .. } => Some(*why),
        _ => None,
    });
    assert_eq!(why, Some(CancelWhy::ClientLost));
}

#[test]
fn a_kept_session_keeps_its_name_and_its_time() {
    let scene = Scene::new().found(&kept("k"), SESSION, &["one", "two"], 2);
    let mut desk = scene.recover();
    assert_eq!(desk.desk.names["k"].as_str(), SESSION);
    let lines = desk.desk.session_lines();
    assert_eq!((lines[0].state.as_str(), lines[0].command_count), ("idle", 2), "{lines:?}");
    desk.fact(SESSION, 9, ended(&first(2)));
    assert!(desk.records.is_empty(), "it is on record: {:?}", desk.records);
    desk.pass(Duration::from_millis(59_999));
    assert!(desk.told().is_empty());
    desk.pass(Duration::from_millis(1));
    assert_eq!(desk.told(), [format!("close {SESSION}")]);
}

#[test]
fn a_session_whose_end_is_on_record_only_lacks_a_line_in_the_journal() {
    let scene = Scene::new();
    let record = scene.record(&kept("k"), SESSION, &["one"], 1, true);
    let desk = scene.gone(&kept("k"), SESSION, record, vec![]).recover();
    assert!(matches!(&desk.actions[..], [Action::Forget { .. }]), "{:?}", desk.actions);
    let [Record::SessionClosed { session }] = &desk.records[..] else {
        panic!("{:?}", desk.records)
    };
    assert_eq!(session.as_str(), SESSION);
    assert!(desk.desk.sessions.is_empty() && desk.desk.names.is_empty());
}

#[test]
fn a_command_is_closed_that_nobody_claims_and_answered_for_who_does() {
    let mut scene = Scene::new();
    let mut known = present(&scene.folders(), &SessionOwner::Call, SESSION, &["one"]);
    known.commands[0].ticket = Some("ticket".to_owned());
    scene.left.found.push(Found { present: known, record: None });
    let mut desk = scene.recover();
    desk.ask(Call::Reclaim { ticket: "another".to_owned(), session: None });
    let [Action::Respond { response: Response::Refusal { failure, .. }, .. }] = &desk.actions[..]
    else {
        panic!("{:?}", desk.actions)
    };
    assert_eq!(failure.kind, FailureKind::Unknown);
    desk.pass(Duration::from_millis(DESERTED_MS - 1));
    desk.ask(Call::Reclaim { ticket: "ticket".to_owned(), session: None });
    desk.pass(Duration::from_millis(DESERTED_MS));
    assert!(desk.told().is_empty(), "somebody waits for it");
    desk.fact(SESSION, 3, ended(&first(1)));
    assert_eq!(desk.told(), [format!("close {SESSION}")]);
    desk.fact(SESSION, 4, FactBody::Closed { survivors: Vec::new() });
    let answered = |action: &Action| {
        matches!(action, Action::AnswerExec { connection: 1, story, .. }
            if story.record.id.as_str() == first(1))
    };
    assert!(desk.actions.iter().any(answered), "{:?}", desk.actions);

    let scene = Scene::new().found(&SessionOwner::Call, SESSION, &["one"], 0);
    let mut desk = scene.recover();
    desk.pass(Duration::from_millis(DESERTED_MS));
    assert_eq!(desk.told(), [format!("close {SESSION}")]);
}

/// The board says again what is so, and nothing twice.
#[test]
fn ports_are_on_the_board_while_their_sessions_have_them() {
    let (other, past) = ("s-0000000000000002", "s-0000000000000003");
    let mut scene = Scene::new();
    let mut known = present(&scene.folders(), &kept("k"), SESSION, &[]);
    known.ports = vec![port(1), port(2)];
    scene.left.found.push(Found { present: known, record: None });
    let record = scene.record(&kept("o"), other, &[], 0, false);
    let mut scene = scene.gone(&kept("o"), other, record, vec![]);
    let entry = |session: &str, listener: &Listener| BoardEntry {
        key: port_key(listener),
        value: Some(serde_json::json!({ "pid": listener.pid, "session": session })),
        version: Version { wall_ms: 0, logical: 0, node: "n".to_owned() },
        writer: Writer::default(),
    };
    let entries = vec![
        entry(SESSION, &port(1)),
        entry(SESSION, &port(9)),
        entry(other, &port(3)),
        entry(past, &port(4)),
    ];
    scene.posted = Posted::of(&BoardView::of("w".into(), entries));
    let mut desk = scene.recover();
    let local = |number: u16| format!("port/127.0.0.1/{number}");
    let service = |number: u16| format!("service/k:{number}");
    let gone = |number: u16| format!("-{}", local(number));
    assert_eq!(desk.posts(), [gone(9), local(2), service(1), service(2), gone(4)]);
    desk.hear(Heard::Swept { session: other.into(), survivors: Vec::new() });
    assert_eq!(desk.posts(), [format!("-{}", local(3))]);
}

#[test]
fn a_service_that_was_ready_is_and_one_that_was_not_is_tried_again() {
    let ready = Ready::Http("http://127.0.0.1:1/".to_owned());
    let service = Service { ready };
    let web = TaskSpec { service: Some(service), ..TaskSpec::new("web", &["serve"]) };
    let after = vec![Dependency { task: 0, when: When::Success }];
    let user = TaskSpec { after, ..TaskSpec::new("user", &["use"]) };
    for was_ready in [false, true] {
        let mut scene = Scene::new().run(&[web.clone(), user.clone()]).began("web", 1, SESSION);
        if was_ready {
            scene = scene.tells(Record::AttemptReady { attempt: attempt("web", 1) });
        }
        let mut desk = scene.found(&of_attempt("web", 1), SESSION, &["serve"], 0).recover();
        let probes = |action: &Action| matches!(action, Action::Probe { .. });
        assert_eq!(desk.actions.iter().any(probes), !was_ready, "{:?}", desk.actions);
        assert_eq!(desk.started().len(), usize::from(was_ready));
        assert!(desk.posts().is_empty(), "what is on the board already");
        desk.hear(Heard::HttpReady { session: SESSION.into(), command: first(1).as_str().into() });
        assert_eq!(desk.started().len(), usize::from(!was_ready));
        assert_eq!(desk.posts().len(), usize::from(!was_ready));
    }
}

#[test]
fn the_report_of_a_run_that_has_ended_is_written() {
    let mut scene = Scene::new().run(&[two()]).tells(Record::RunEnded {
        run: RUN.into(),
        outcome: RunOutcome::Failed,
        exit_code: 1,
        counts: BTreeMap::new(),
    });
    scene.unreported.insert(RUN.into());
    let desk = scene.recover();
    let [Action::FinishRun { draft, .. }] = &desk.actions[..] else { panic!("{:?}", desk.actions) };
    assert_eq!((draft.report.outcome, draft.report.exit_code), (Some(RunOutcome::Failed), Some(1)));
    assert!(desk.records.is_empty(), "its end is on record");
}

/// Whether it had ended under this coordinator or an earlier one.
#[test]
fn a_run_that_was_cancelled_goes_on_when_it_is_resumed() {
    let cancelled = Record::RunCancelled { run: RUN.into(), why: CancelWhy::Requested };
    let mut desk = Scene::new()
        .run_of(&[TaskSpec::new("done", &["d"]), two()], false)
        .began("done", 1, "s-0000000000000000")
        .tells(Record::AttemptEnded { attempt: attempt("done", 1), end: AttemptEnd::Succeeded })
        .began("a", 1, SESSION)
        .tells(cancelled)
        .tells(Record::AttemptEnded { attempt: attempt("a", 1), end: AttemptEnd::Cancelled })
        .tells(Record::RunEnded {
            run: RUN.into(),
            outcome: RunOutcome::Cancelled,
            exit_code: 130,
            counts: BTreeMap::new(),
        })
        .recover();
    assert!(desk.actions.is_empty() && desk.records.is_empty());
    let resume =
        Call::Resume { run: RUN.into(), options: None, env: ClientEnv::default(), detach: false };
    desk.ask(resume);
    assert_eq!(desk.started(), ["a.2"], "{:?}", desk.records);
    let submitted = desk.actions.iter().any(|action| {
        matches!(action, Action::Respond { response: Response::Reply { answer, .. }, .. }
            if matches!(**answer, Answer::Submitted { .. }))
    });
    assert!(submitted, "{:?}", desk.actions);
    desk.pass(Duration::from_millis(2 * DESERTED_MS));
    assert!(desk.told().is_empty(), "its client is here");
}
