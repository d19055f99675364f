//! Who holds a session's terminal, and which door opens to whom.

use super::*;

const WINDOW: Size = Size { cols: 90, rows: 20 };

fn attach(session: &SessionId) -> Call {
    Call::Attach { session: session.clone(), size: WINDOW }
}

fn tells(actions: &[Action], wanted: impl Fn(&Ask) -> bool) -> bool {
    actions.iter().any(|action| matches!(action, Action::Tell { ask, .. } if wanted(ask)))
}

fn hands_back(actions: &[Action]) -> bool {
    tells(actions, |ask| *ask == Ask::HandBack)
}

#[track_caller]
fn refused(actions: &[Action]) -> FailureKind {
    match actions {
        [Action::Respond { response: Response::Refusal { failure, .. }, .. }] => failure.kind,
        other => panic!("not refused: {other:?}"),
    }
}

impl Table {
    fn claim(&self, id: &SessionId) -> Claim {
        self.desk.sessions[id].claim.clone()
    }

    fn hold(&mut self, id: &SessionId, claim: Claim) {
        self.desk.sessions.get_mut(id).unwrap().claim = claim;
    }

    fn gone(&mut self, connection: ConnectionId) -> Vec<Action> {
        self.desk.hear(Event::Gone { connection }, self.now);
        self.actions()
    }
}

#[test]
fn a_session_is_its_users_from_the_start_and_stays_so_while_attached() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    assert_eq!(table.claim(&id), Claim::command_line(7));
    let actions = table.ask(attach(&id));
    assert!(tells(&actions, |ask| matches!(ask, Ask::TakeOver { .. })), "{actions:?}");
    assert!(tells(&actions, |ask| *ask == Ask::Resize { size: WINDOW }), "{actions:?}");
    let Answer::Attached { command, view } = answer(actions.last().unwrap()) else {
        panic!("{actions:?}");
    };
    assert_eq!((view.session.size, &view.session.claim), (WINDOW, &Claim::command_line(7)));
    let command = command.clone();
    let started = FactBody::Started { command: command.clone(), at: table.now, offset: 0 };
    table.fact(&id, started);
    // A second one of the same client joins; whoever leaves last hands it back.
    let joined = table.ask(attach(&id));
    assert!(!tells(&joined, |ask| matches!(ask, Ask::TakeOver { .. })), "{joined:?}");
    assert!(tells(
        &table.ask(Call::Type { session: id.clone(), bytes: b"ls\r".to_vec() }),
        |ask| matches!(ask, Ask::Type { .. })
    ));
    assert!(hands_back(&table.ask(Call::Detach { session: id.clone() })));
    assert!(!hands_back(&table.ask(Call::Detach { session: id.clone() })));
    // Nobody uses it now, but the person's program still runs.
    assert_eq!(table.desk.sessions[&id].unused_at(), None);
    table.fact(&id, end(&command));
    table.fact(&id, FactBody::HandedBack { command });
    assert!(table.desk.sessions[&id].unused_at().is_some());
}

#[test]
fn a_client_that_is_gone_has_thirty_seconds_to_come_back() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    table.ask(attach(&id));
    assert!(!hands_back(&table.gone(1)));
    assert!(!hands_back(&table.pass(29_000)));
    // Back in time: nothing happens, and nothing is taken over anew.
    let actions = table.ask(attach(&id));
    assert!(!tells(&actions, |ask| matches!(ask, Ask::TakeOver { .. })), "{actions:?}");
    assert!(!hands_back(&table.pass(60_000)));
    table.gone(1);
    let due = table.desk.next_lapse().unwrap();
    assert_eq!(due.ms_since(table.now), 30_000);
    assert!(!hands_back(&table.pass(29_999)));
    assert!(hands_back(&table.pass(1)));
    assert_eq!(table.desk.next_lapse(), None);
}

#[test]
fn every_door_asks_who_holds_it() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    table.hold(&id, Claim::client("another"));
    let session = || id.clone();
    let text = Input::Text { text: "x".to_owned() };
    for call in [
        attach(&id),
        Call::ExecStart { exec: Box::new(exec(Some("a"))) },
        Call::Exec { exec: Box::new(exec(Some("a"))) },
        Call::Input { session: session(), command: None, input: text.clone() },
        Call::Type { session: session(), bytes: b"x".to_vec() },
        Call::Resize { session: session(), size: WINDOW },
        Call::Interrupt { session: session(), command: None },
    ] {
        assert_eq!(refused(&table.ask(call.clone())), FailureKind::Claimed, "{call:?}");
        assert_eq!(table.claim(&id), Claim::client("another"), "{call:?}");
    }
    let look = Call::Look { session: session(), command: None, seen: None };
    assert!(matches!(answer(&table.ask(look)[0]), Answer::View { .. }));
    assert!(tells(&table.ask(Call::CloseSession { session: session() }), |ask| *ask == Ask::Close));
}

#[test]
fn under_a_sessions_claim_a_person_types_and_takes_over_and_does_no_more() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    let theirs = Claim::session("r/build");
    table.hold(&id, theirs.clone());
    let resize = Call::Resize { session: id.clone(), size: WINDOW };
    assert_eq!(refused(&table.ask(resize.clone())), FailureKind::Claimed);
    let run = Call::ExecStart { exec: Box::new(exec(Some("a"))) };
    assert_eq!(refused(&table.ask(run)), FailureKind::Claimed);
    let typed = Call::Type { session: id.clone(), bytes: b"x".to_vec() };
    assert!(tells(&table.ask(typed), |ask| matches!(ask, Ask::Type { .. })));
    assert_eq!(table.claim(&id), theirs);
    table.ask(attach(&id));
    assert_eq!(table.claim(&id), Claim::command_line(7));
    assert!(tells(&table.ask(resize), |ask| matches!(ask, Ask::Resize { .. })));
}

#[test]
fn a_window_has_a_size() {
    let mut table = Table::new();
    let id = table.open("a", SessionDefaults::default());
    for (cols, rows) in [(0, 20), (80, 0), (10_001, 20)] {
        let size = Size { cols, rows };
        let call = Call::Attach { session: id.clone(), size };
        assert_eq!(refused(&table.ask(call)), FailureKind::Usage);
        let call = Call::Resize { session: id.clone(), size };
        assert_eq!(refused(&table.ask(call)), FailureKind::Usage);
    }
    let gone = attach(&"s-gone".into());
    assert_eq!(refused(&table.ask(gone)), FailureKind::SessionClosed);
}
