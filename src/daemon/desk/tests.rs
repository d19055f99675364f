//! The desk's decisions about sessions: events in, actions out, with a clock that is handed in.

mod claims;
mod escalations;

use super::*;
use crate::control::{
    Answer, Call, CommandView, EnvSources, Exec, NewSession, Request, Seen, SessionLine,
    SessionView,
};
use crate::daemon::action::ExecForm;
use crate::domain::ids::CommandId;
use crate::domain::key::{Input, Written};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::{Awaiting, Certainty, Child, Evidence};
use crate::domain::session::{SessionDefaults, Shell, Size};
use crate::session::wire::{Ask, CommandEnd, Fact as HolderFact, FactBody, Span};

/// A desk, its clock, and the numbers of what its holders have said.
struct Table {
    desk: Desk,
    now: Timestamp,
    facts: HashMap<SessionId, u64>,
    asked: u64,
}

impl Table {
    fn new() -> Self {
        let at = |name: &str| PathBuf::from("/d").join(name);
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
        let desk = Desk::new("w".into(), folders, History::default(), version, now, true);
        let mut desk = desk.of_user(7);
        desk.clients.insert(1);
        Self { desk, now, facts: HashMap::new(), asked: 0 }
    }

    /// Lets time pass, and does what is due.
    fn pass(&mut self, ms: u64) -> Vec<Action> {
        self.now = self.now.plus_ms(ms);
        self.desk.tick(self.now);
        self.actions()
    }

    fn actions(&mut self) -> Vec<Action> {
        let actions = self.desk.decide().actions;
        // Looking for orphans goes on by itself, and records are the shelf's tests' subject.
        let told = |action: &Action| !matches!(action, Action::Tidy { .. } | Action::Shelve { .. });
        actions.into_iter().filter(told).collect()
    }

    fn ask(&mut self, call: Call) -> Vec<Action> {
        self.asked += 1;
        let request = Request { id: self.asked, call };
        self.desk.hear(Event::Asked { connection: 1, request }, self.now);
        self.actions()
    }

    fn fact(&mut self, session: &SessionId, body: FactBody) -> Vec<Action> {
        let seq = self.facts.entry(session.clone()).or_default();
        *seq += 1;
        let fact = HolderFact { seq: *seq, body };
        self.desk.hear(Event::Fact { session: session.clone(), fact }, self.now);
        self.actions()
    }

    /// A session that is open and idle.
    fn open(&mut self, name: &str, defaults: SessionDefaults) -> SessionId {
        let actions = self.ask(open(Some(name), defaults));
        let [Action::Open { spec, then }] = &actions[..] else { panic!("{actions:?}") };
        assert!(then.is_empty());
        let id = spec.id.clone();
        let actions = self.fact(&id, FactBody::Opened { holder: 10, start_time: 1, shell: 11 });
        let line = opened(&actions);
        assert_eq!((&line.session_id, line.state.as_str()), (&id, "idle"));
        id
    }

    /// A command of it that runs.
    fn begin(&mut self, name: &str, id: &SessionId) -> CommandId {
        let actions = self.ask(Call::ExecStart { exec: Box::new(exec(Some(name))) });
        let command = match &actions[..] {
            [Action::Tell { ask: Ask::Run { spec }, .. }, reply] => {
                assert!(matches!(answer(reply), Answer::Begun { .. }));
                spec.id.clone()
            }
            other => panic!("{other:?}"),
        };
        let started = FactBody::Started { command: command.clone(), at: self.now, offset: 0 };
        self.fact(id, started);
        command
    }
}

fn open(name: Option<&str>, defaults: SessionDefaults) -> Call {
    let new = NewSession {
        name: name.map(str::to_owned),
        cwd: "/".into(),
        shell: Shell::default(),
        size: Size::default(),
        env: EnvSources::default(),
        policy: Default::default(),
        defaults,
    };
    Call::OpenSession { new: Box::new(new) }
}

fn exec(session: Option<&str>) -> Exec {
    Exec {
        ticket: None,
        text: "true".to_owned(),
        cwd: "/".into(),
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
    }
}

fn end(command: &CommandId) -> FactBody {
    let end = CommandEnd {
        command: command.clone(),
        state: CommandState::Completed,
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
    };
    FactBody::Ended { end: Box::new(end) }
}

fn asks(command: &CommandId) -> FactBody {
    let awaiting = Awaiting {
        prompt: "Name: ".to_owned(),
        secret: false,
        evidence: Evidence::TtyRead,
        certainty: Certainty::Certain,
        idle_ms: 20,
    };
    FactBody::Awaiting { command: command.clone(), awaiting }
}

#[track_caller]
fn answer(action: &Action) -> &Answer {
    match action {
        Action::Respond { response: Response::Reply { answer, .. }, .. } => answer,
        other => panic!("not an answer: {other:?}"),
    }
}

#[track_caller]
fn opened(actions: &[Action]) -> &SessionLine {
    match actions {
        [action] => match answer(action) {
            Answer::SessionOpened { session } => session,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refusal(actions: &[Action]) -> &Failure {
    match actions {
        [Action::Respond { response: Response::Refusal { failure, .. }, .. }] => failure,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[track_caller]
fn view(actions: &[Action]) -> &SessionView {
    match actions {
        [action] => match answer(action) {
            Answer::View { view } => view,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn ttl(ms: u64) -> SessionDefaults {
    SessionDefaults { ttl_ms: Some(ms), ..SessionDefaults::default() }
}

fn is_close(action: &Action) -> bool {
    matches!(action, Action::Tell { ask: Ask::Close, .. })
}

#[test]
fn t102_an_idle_session_closes_after_its_time_and_only_real_use_puts_it_off() {
    let glimpse = |id: &SessionId| Call::Look {
        session: id.clone(),
        command: None,
        seen: Some(Seen { changes: u64::MAX, end: 0 }),
    };
    let read = |id: &SessionId| Call::Look { session: id.clone(), command: None, seen: None };
    type Use<'a> = (&'a str, &'a dyn Fn(&SessionId) -> Call, bool);
    let uses: [Use<'_>; 6] = [
        ("ls", &|_| Call::ListSessions, false),
        ("status", &|_| Call::Status, false),
        ("a glimpse", &glimpse, false),
        ("reading", &read, true),
        (
            "input",
            &|id| Call::Input {
                session: id.clone(),
                command: None,
                input: Input::Text { text: "x".to_owned() },
            },
            true,
        ),
        ("an interrupt", &|id| Call::Interrupt { session: id.clone(), command: None }, true),
    ];
    for (what, call, counts) in uses {
        let mut table = Table::new();
        let id = table.open("a", ttl(5000));
        assert!(table.pass(3000).is_empty());
        table.ask(call(&id));
        assert!(!table.pass(1999).iter().any(is_close), "{what}");
        let closes = table.pass(1).iter().any(is_close);
        assert_eq!(closes, !counts, "{what} at 5 s");
        if counts {
            assert!(!table.pass(2999).iter().any(is_close), "{what}");
            assert!(table.pass(1).iter().any(is_close), "{what} at 8 s");
        }
    }
}

#[test]
fn t102_what_works_is_kept_however_long_it_takes() {
    let mut table = Table::new();
    let id = table.open("a", ttl(5000));
    let command = table.begin("a", &id);
    for _ in 0..100 {
        assert!(!table.pass(60_000).iter().any(is_close));
    }
    table.fact(&id, end(&command));
    assert!(!table.pass(4999).iter().any(is_close));
    assert_eq!(table.desk.next_unused(), Some(table.now.plus_ms(1)));
    assert!(table.pass(1).iter().any(is_close));
}

#[test]
fn an_end_is_told_to_everybody_who_waits_for_anything() {
    let mut table = Table::new();
    let id = table.open("a", ttl(5000));
    let command = table.begin("a", &id);
    assert!(table.ask(Call::Wait { session: id.clone(), command, wait_ms: None }).is_empty());
    let seen =
        view(&table.ask(Call::Look { session: id.clone(), command: None, seen: None })).clone();
    let seen = Some(Seen { changes: seen.changes, end: seen.end });
    assert!(table.ask(Call::Look { session: id.clone(), command: None, seen }).is_empty());
    let actions = table.ask(Call::CloseSession { session: id.clone() });
    assert!(matches!(&actions[..], [close] if is_close(close)), "{actions:?}");
    let left = Child { pid: 77, command: "sleep".to_owned(), ended: false };
    let actions = table.fact(&id, FactBody::Closed { survivors: vec![left] });
    let mut told = Vec::new();
    for action in &actions {
        match action {
            Action::AnswerExec { form: ExecForm::Waited, story, .. } => {
                let reason = story.record.end.as_ref().and_then(|end| end.reason.clone());
                assert_eq!(reason, Some(Reason::SessionClosed));
                told.push("wait");
            }
            Action::Respond { .. } => match answer(action) {
                Answer::View { view } => {
                    // The command's end came first, and was news enough.
                    assert_eq!(view.command.as_ref().unwrap().state, CommandState::Failed);
                    told.push("look");
                }
                Answer::SessionClosed { survivors, .. } => {
                    assert_eq!(survivors[0].pid, 77);
                    told.push("close");
                }
                other => panic!("{other:?}"),
            },
            Action::Forget { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    told.sort_unstable();
    assert_eq!(told, ["close", "look", "wait"]);
    let again = table.ask(Call::Look { session: id, command: None, seen: None });
    assert_eq!(refusal(&again).kind, FailureKind::SessionClosed);
}

#[test]
fn as_many_sessions_as_may_be_and_which_is_idle_longest() {
    let mut table = Table::new();
    let two = SessionDefaults { max_sessions: Some(2), ..SessionDefaults::default() };
    table.open("first", two);
    table.pass(1000);
    let busy = table.open("second", two);
    table.begin("second", &busy);
    table.pass(2000);
    let refused = table.ask(open(Some("third"), two));
    let failure = refusal(&refused);
    assert_eq!(failure.kind, FailureKind::SessionLimit);
    let hint = failure.hint.clone().unwrap();
    assert!(hint.contains("`first` is idle longest, for 3 s"), "{hint}");
    let refused = table.ask(Call::Exec { exec: Box::new(exec(None)) });
    assert_eq!(refusal(&refused).kind, FailureKind::SessionLimit);
    let id = table.desk.names["first"].clone();
    table.ask(Call::CloseSession { session: id.clone() });
    table.fact(&id, FactBody::Closed { survivors: Vec::new() });
    table.open("third", two);
}

#[test]
fn names_are_their_own_and_no_ids() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    let refused = table.ask(open(Some("a"), SessionDefaults::default()));
    assert!(refusal(&refused).message.contains(id.as_str()));
    for name in ["", "s-1", "-a", ".", "a b", "a/b", "a\n", &"x".repeat(65)] {
        let refused = table.ask(open(Some(name), SessionDefaults::default()));
        assert_eq!(refusal(&refused).kind, FailureKind::Usage, "{name:?}");
    }
    for name in ["build-1", "_x", "Übung", "v1.2"] {
        table.open(name, SessionDefaults::default());
    }
    let gone = table.ask(Call::Exec { exec: Box::new(exec(Some("s-0000"))) });
    assert_eq!(refusal(&gone).kind, FailureKind::SessionClosed);
}

#[test]
fn t100_a_wait_ends_in_time_and_the_command_goes_on() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    let command = table.begin("a", &id);
    let wait = |ms| Call::Wait { session: id.clone(), command: command.clone(), wait_ms: ms };
    assert!(table.ask(wait(Some(25_000))).is_empty());
    assert_eq!(table.desk.pending.next_due(), Some(table.now.plus_ms(25_000)));
    assert!(table.pass(24_999).is_empty());
    let actions = table.pass(1);
    let [Action::AnswerExec { story, form: ExecForm::Waited, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(story.record.state(), CommandState::Running);
    // A client that gives up ends nothing: only its wait.
    assert!(table.ask(wait(None)).is_empty());
    table.desk.hear(Event::Gone { connection: 1 }, table.now);
    assert!(table.actions().is_empty());
    let actions = table.fact(&id, end(&command));
    assert!(actions.is_empty(), "{actions:?}");
    let actions = table.ask(wait(Some(0)));
    let [Action::AnswerExec { story, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(story.record.state(), CommandState::Completed);
}

#[test]
fn what_was_typed_is_taken_in_before_anybody_is_told_that_it_waits() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    let command = table.begin("a", &id);
    table.fact(&id, FactBody::Output { end: 6 });
    table.fact(&id, asks(&command));
    let look = || Call::Look { session: id.clone(), command: None, seen: None };
    let state = |actions: &[Action]| {
        let CommandView { state, awaiting, .. } = view(actions).command.clone().unwrap();
        (state, awaiting.is_some())
    };
    assert_eq!(state(&table.ask(look())), (CommandState::AwaitingInput, true));
    let input = Input::Text { text: "bob".to_owned() };
    let actions =
        table.ask(Call::Input { session: id.clone(), command: None, input: input.clone() });
    let [Action::Tell { ask: Ask::Input { request, .. }, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    let written = Written { written: 3, refused: None };
    let receipt = FactBody::Input { request: *request, written: written.clone() };
    let actions = table.fact(&id, receipt);
    let [reply] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(*answer(reply), Answer::Written { written, offset: 6 });
    // It may still be reading the line: nothing is known.
    let actions = table.ask(look());
    assert_eq!(state(&actions), (CommandState::Running, false));
    assert_eq!(
        (view(&actions).echoes[0].offset, view(&actions).echoes[0].text.as_str()),
        (6, "bob")
    );
    // It was not a whole line, and the program reads on.
    table.pass(300);
    assert_eq!(state(&table.ask(look())), (CommandState::AwaitingInput, true));
}

#[test]
fn a_look_is_answered_by_the_first_news() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    let command = table.begin("a", &id);
    let look = |seen| Call::Look { session: id.clone(), command: None, seen };
    let first = view(&table.ask(look(None))).clone();
    let seen = |view: &SessionView| Some(Seen { changes: view.changes, end: view.end });
    assert!(table.ask(look(seen(&first))).is_empty());
    let grown = view(&table.fact(&id, FactBody::Output { end: 100 })).clone();
    assert_eq!((grown.end, grown.changes), (100, first.changes));
    assert!(table.ask(look(seen(&grown))).is_empty());
    assert!(table.fact(&id, FactBody::Output { end: 100 }).is_empty());
    let ended = view(&table.fact(&id, end(&command))).clone();
    assert_eq!(ended.command.unwrap().end, Some(5));
    assert_eq!(table.pass(7000).len(), 0);
    let later = view(&table.ask(look(None))).clone();
    assert_eq!(later.quiet_ms, 7000);
}

#[test]
fn t97_commands_have_a_place_each_and_old_ones_are_let_go_of() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    let mut ids = Vec::new();
    for _ in 0..4 {
        let actions = table.ask(Call::ExecStart { exec: Box::new(exec(Some("a"))) });
        let Some(Answer::Begun { command, .. }) = actions.last().map(answer) else {
            panic!("{actions:?}")
        };
        ids.push(command.as_str().rsplit_once('.').unwrap().1.to_owned());
    }
    assert_eq!(ids, ["1", "2", "3", "4"]);
    for n in 1..=4 {
        let command = CommandId::new(format!("{id}.{n}"));
        table.fact(&id, FactBody::Started { command: command.clone(), at: table.now, offset: 0 });
        table.fact(&id, end(&command));
    }
    for _ in 0..1000 {
        let command = table.begin("a", &id);
        table.fact(&id, end(&command));
    }
    let session = &table.desk.sessions[&id];
    assert!(session.commands.len() < 64, "{}", session.commands.len());
    assert_eq!(session.asked, 1004);
    let early = Call::Wait {
        session: id.clone(),
        command: format!("{id}.1").as_str().into(),
        wait_ms: None,
    };
    assert_eq!(refusal(&table.ask(early)).kind, FailureKind::NotFound);
}

#[test]
fn the_coordinator_stays_while_a_session_is_open_and_a_minute_longer() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    table.desk.hear(Event::Gone { connection: 1 }, table.now);
    table.pass(20 * 60_000);
    assert!(!table.desk.is_over(table.now));
    table.desk.clients.insert(1);
    table.ask(Call::CloseSession { session: id.clone() });
    table.fact(&id, FactBody::Closed { survivors: Vec::new() });
    table.desk.hear(Event::Gone { connection: 1 }, table.now);
    table.pass(59_999);
    assert!(!table.desk.is_over(table.now));
    table.pass(1);
    assert!(table.desk.is_over(table.now));
}
