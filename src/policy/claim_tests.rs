//! The table of claims, row by row, and its laws.

use proptest::prelude::*;

use super::claim::{Denial, Handing, Operation, Requester, Right, Standing, Verdict, decide};
use crate::domain::claim::{Claim, Scope};

fn scope(turn: Option<&str>, tool: Option<&str>) -> Scope {
    Scope { turn_id: turn.map(str::to_owned), tool_call_id: tool.map(str::to_owned) }
}

fn session(turn: Option<&str>, tool: Option<&str>) -> Claim {
    Claim::session("s").scoped(scope(turn, tool))
}

fn client(id: &str) -> Requester {
    Requester::Client { id: id.to_owned(), right: Right::Write }
}

fn agent(session: &str) -> Requester {
    Requester::Agent { session: session.to_owned() }
}

fn at_home() -> Standing {
    Standing { home: Some("s".to_owned()), ..Standing::default() }
}

fn hands(handing: Handing, to: &Claim) -> Verdict {
    Verdict::Hand(handing, to.clone())
}

fn held_by(client: &str) -> Verdict {
    Verdict::Deny(Denial::HeldByClient { client: client.to_owned() })
}

/// One check for all rows: `rows` is (operation, verdict).
fn check(claim: &Claim, who: &Requester, standing: &Standing, rows: &[(Operation, Verdict)]) {
    for (operation, expected) in rows {
        let verdict = decide(claim, who, operation, standing);
        assert_eq!(verdict, *expected, "{claim:?} {who:?} {operation:?} {standing:?}");
    }
}

#[test]
fn the_holding_client_does_what_it_likes() {
    use Operation::{Clear, Input, Interrupt, Rename, Resize, Run};
    let mine = Claim::client("d");
    let to = [Claim::client("e"), session(None, None), session(Some("t"), Some("c"))];
    let rows = [Input, Resize, Clear, Rename, Run, Interrupt].map(|op| (op, Verdict::Allow));
    check(&mine, &client("d"), &Standing::default(), &rows);
    // A conformance suite widens from a client's claim, too.
    for to in &to {
        let given = [(Operation::Claim(to.clone()), hands(Handing::Transfer, to))];
        check(&mine, &client("d"), &Standing::default(), &given);
    }
    let again = [(Operation::Claim(mine.clone()), Verdict::Allow)];
    check(&mine, &client("d"), &Standing::default(), &again);
    let back = session(Some("t"), Some("c"));
    let given = [(Operation::Claim(back.clone()), hands(Handing::GiveBack, &back))];
    check(&mine, &client("d"), &at_home(), &given);
    let typing = Standing { taken_over: true, ..at_home() };
    let rows = [(Run, Verdict::Wait), (Input, Verdict::Allow), (Resize, Verdict::Allow)];
    check(&mine, &client("d"), &typing, &rows);
}

#[test]
fn another_client_is_refused_until_the_holder_is_gone() {
    use Operation::{Clear, Input, Interrupt, Rename, Resize, Run};
    let theirs = Claim::client("e");
    let mine = Claim::client("d");
    let rows: Vec<_> =
        [Input, Resize, Clear, Rename, Run, Interrupt].map(|op| (op, held_by("e"))).to_vec();
    check(&theirs, &client("d"), &Standing::default(), &rows);
    for to in [&mine, &theirs, &Claim::client("f"), &session(None, None)] {
        let rows = [(Operation::Claim(to.clone()), held_by("e"))];
        check(&theirs, &client("d"), &Standing::default(), &rows);
    }
    let lapsed = Standing { lapsed: true, ..Standing::default() };
    let took = [(Operation::Claim(mine.clone()), hands(Handing::Transfer, &mine))];
    check(&theirs, &client("d"), &lapsed, &took);
    let admin = Requester::Client { id: "d".to_owned(), right: Right::Admin };
    check(&theirs, &admin, &Standing::default(), &took);
    // For itself alone, and only the claim.
    let others = [(Operation::Claim(Claim::client("f")), held_by("e")), (Input, held_by("e"))];
    check(&theirs, &client("d"), &lapsed, &others);
    check(&theirs, &admin, &Standing::default(), &others);
}

#[test]
fn a_client_before_a_sessions_claim() {
    use Operation::{Clear, Input, Interrupt, Rename, Resize, Run};
    let mine = Claim::client("d");
    let background = session(None, None);
    let used = session(Some("t"), Some("c"));
    let turn = session(Some("t"), None);
    let d = client("d");
    let s = || "s".to_owned();
    let claim = |to: &Claim| Operation::Claim(to.clone());
    for to in [&turn, &background] {
        check(&used, &d, &at_home(), &[(claim(to), hands(Handing::Narrow, to))]);
        let task = Standing { task: true, ..at_home() };
        check(&used, &d, &task, &[(claim(to), Verdict::Deny(Denial::TaskInUse))]);
    }
    check(&background, &d, &at_home(), &[(claim(&mine), hands(Handing::TakeBack, &mine))]);
    check(&used, &d, &at_home(), &[(claim(&mine), hands(Handing::TakeOver, &mine))]);
    let task = Standing { task: true, ..at_home() };
    check(&used, &d, &task, &[(claim(&mine), hands(Handing::TakeOver, &mine))]);
    let other = Claim::session("s2");
    let chat = Claim::Session { session: s(), chat: "other".to_owned(), scope: Scope::default() };
    let elsewhere = Verdict::Deny(Denial::OtherSession { session: s() });
    let rows = [
        (claim(&other), elsewhere.clone()),
        (claim(&chat), elsewhere),
        (claim(&session(Some("t2"), None)), Verdict::Deny(Denial::Widens)),
        (claim(&Claim::client("e")), Verdict::Deny(Denial::ForeignClient)),
        (claim(&used), Verdict::Allow),
        (Input, Verdict::Allow),
        (Interrupt, Verdict::Allow),
        (Clear, Verdict::Allow),
        (Rename, Verdict::Allow),
        (Resize, Verdict::Deny(Denial::SizeIsTheSessions { session: s() })),
        (Run, Verdict::Deny(Denial::HeldBySession { session: s() })),
    ];
    check(&used, &d, &at_home(), &rows);
    check(&background, &d, &at_home(), &[(claim(&used), Verdict::Deny(Denial::Widens))]);
}

#[test]
fn the_sessions_own_agent() {
    use Operation::{Input, Interrupt, Resize, Run};
    let background = session(None, None);
    let used = session(Some("t"), Some("c"));
    let all = [Input, Run, Resize, Interrupt].map(|op| (op, Verdict::Allow));
    check(&used, &agent("s"), &at_home(), &all);
    let reuse = [(Operation::Claim(used.clone()), hands(Handing::Widen, &used))];
    check(&background, &agent("s"), &at_home(), &reuse);
    let ends = [(Operation::Claim(background.clone()), hands(Handing::Narrow, &background))];
    check(&used, &agent("s"), &at_home(), &ends);
    check(&used, &Requester::Server, &at_home(), &ends);
    let taken = [
        (Input, Verdict::Wait),
        (Run, Verdict::Wait),
        (Resize, held_by("d")),
        (Interrupt, held_by("d")),
        (Operation::Claim(used.clone()), held_by("d")),
    ];
    check(&Claim::client("d"), &agent("s"), &at_home(), &taken);
    // Handed back, but what the person started still runs.
    let leaving = Standing { taken_over: true, ..at_home() };
    check(&used, &agent("s"), &leaving, &[(Run, Verdict::Wait), (Interrupt, Verdict::Allow)]);
    let stranger = [
        (Input, Verdict::Deny(Denial::HeldBySession { session: "s".to_owned() })),
        (Run, Verdict::Deny(Denial::HeldBySession { session: "s".to_owned() })),
        (
            Operation::Claim(Claim::session("s2")),
            Verdict::Deny(Denial::OtherSession { session: "s".to_owned() }),
        ),
    ];
    check(&used, &agent("s2"), &at_home(), &stranger);
    check(&Claim::client("d"), &agent("s2"), &at_home(), &[(Run, held_by("d"))]);
    let back = [(Operation::Claim(used.clone()), hands(Handing::GiveBack, &used))];
    check(&Claim::client("d"), &Requester::Server, &at_home(), &back);
}

#[test]
fn whoever_holds_it() {
    use Operation::{Clear, Close, Create, Input, Rename, Resize, Watch};
    let held = [Claim::client("d"), Claim::client("e"), session(Some("t"), Some("c"))];
    let tool = session(None, Some("c"));
    let mute = Requester::Client { id: "d".to_owned(), right: Right::Read };
    for claim in &held {
        // By right, never by claim.
        for who in [client("d"), agent("s"), Requester::Server] {
            check(claim, &who, &at_home(), &[(Close, Verdict::Allow), (Watch, Verdict::Allow)]);
            for to in [&tool, &Claim::client(""), &Claim::session("")] {
                let rows = [(Operation::Claim(to.clone()), Verdict::Deny(Denial::Malformed))];
                check(claim, &who, &at_home(), &rows);
            }
            let unknown = Standing { unknown: true, ..at_home() };
            let to = Claim::session("nowhere");
            let rows = [(Operation::Claim(to), Verdict::Deny(Denial::Unknown))];
            check(claim, &who, &unknown, &rows);
        }
        let refused = [Close, Input, Resize, Clear, Rename, Operation::Claim(Claim::client("d"))]
            .map(|op| (op, Verdict::Deny(Denial::ReadOnly)));
        check(claim, &mute, &at_home(), &refused);
        check(claim, &mute, &at_home(), &[(Watch, Verdict::Allow)]);
    }
    let exited = Standing { exited: true, ..at_home() };
    let back = session(None, None);
    let rows = [
        (Input, Verdict::Deny(Denial::Exited)),
        (Resize, Verdict::Deny(Denial::Exited)),
        (Rename, Verdict::Allow),
        (Clear, Verdict::Allow),
        (Operation::Claim(back.clone()), hands(Handing::GiveBack, &back)),
    ];
    check(&Claim::client("d"), &client("d"), &exited, &rows);
    let rows = [
        (Create(Claim::client("d")), Verdict::Allow),
        (Create(session(None, None)), Verdict::Allow),
        (Create(Claim::client("e")), Verdict::Deny(Denial::ForeignClient)),
        (Create(tool), Verdict::Deny(Denial::Malformed)),
    ];
    check(&Claim::client("d"), &client("d"), &Standing::default(), &rows);
    let rows = [
        (Create(session(Some("t"), Some("c"))), Verdict::Allow),
        (Create(Claim::client("d")), Verdict::Deny(Denial::ForeignClient)),
    ];
    check(&Claim::session("s"), &agent("s"), &Standing::default(), &rows);
}

#[test]
fn two_that_claim_at_once_are_decided_by_their_order() {
    let background = session(None, None);
    let claim = |id: &str| Operation::Claim(Claim::client(id));
    let first = decide(&background, &client("a"), &claim("a"), &at_home());
    let held = first.applied_to(background);
    assert_eq!(held, Claim::client("a"));
    assert_eq!(decide(&held, &client("b"), &claim("b"), &at_home()), held_by("a"));
}

#[test]
fn every_denial_has_words() {
    let s = || "s".to_owned();
    for denial in [
        Denial::HeldByClient { client: s() },
        Denial::HeldBySession { session: s() },
        Denial::SizeIsTheSessions { session: s() },
        Denial::Widens,
        Denial::OtherSession { session: s() },
        Denial::ForeignClient,
        Denial::TaskInUse,
        Denial::Malformed,
        Denial::Unknown,
        Denial::ReadOnly,
        Denial::Exited,
    ] {
        assert!(denial.to_string().len() > 20, "{denial:?}");
    }
}

fn any_id() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("")].prop_map(str::to_owned)
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let ids = || prop::option::of(any_id());
    prop_oneof![
        any_id().prop_map(Claim::client),
        (any_id(), any_id(), ids(), ids()).prop_map(|(session, chat, turn_id, tool_call_id)| {
            Claim::Session { session, chat, scope: Scope { turn_id, tool_call_id } }
        }),
    ]
}

fn any_requester() -> impl Strategy<Value = Requester> {
    let right = prop_oneof![Just(Right::Read), Just(Right::Write), Just(Right::Admin)];
    prop_oneof![
        (any_id(), right).prop_map(|(id, right)| Requester::Client { id, right }),
        any_id().prop_map(|session| Requester::Agent { session }),
        Just(Requester::Server),
    ]
}

fn any_operation() -> impl Strategy<Value = Operation> {
    use Operation::{Claim, Clear, Close, Create, Input, Interrupt, Rename, Resize, Run, Watch};
    prop_oneof![
        4 => any_claim().prop_map(Claim),
        1 => any_claim().prop_map(Create),
        4 => prop::sample::select(vec![
            Watch, Input, Interrupt, Run, Resize, Clear, Rename, Close,
        ]),
    ]
}

fn any_standing() -> impl Strategy<Value = Standing> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (prop::option::of(any_id()), flags).prop_map(
        |(home, (exited, task, taken_over, lapsed, unknown))| Standing {
            exited,
            home,
            task,
            taken_over,
            lapsed,
            unknown,
        },
    )
}

proptest! {
    /// A long life: whatever is asked by whomever, the terminal has one well-formed holder, and
    /// only a handing changes it.
    #[test]
    fn every_terminal_is_claimed_at_every_moment(
        asked in prop::collection::vec((any_requester(), any_operation(), any_standing()), 1..40),
    ) {
        let mut claim = Claim::session("a");
        for (who, operation, standing) in asked {
            let before = claim.clone();
            let verdict = decide(&claim, &who, &operation, &standing);
            claim = verdict.clone().applied_to(claim);
            prop_assert!(claim.is_well_formed());
            match &verdict {
                Verdict::Hand(_, to) => {
                    prop_assert_eq!(&operation, &Operation::Claim(to.clone()));
                    prop_assert_ne!(&before, &claim);
                }
                _ => prop_assert_eq!(&before, &claim),
            }
        }
    }

    /// A client that does not hold a terminal changes nothing of what another client does with it.
    #[test]
    fn at_most_one_holder(
        holder in any_id(),
        who in any_requester(),
        operation in any_operation(),
        standing in any_standing(),
    ) {
        let claim = Claim::client(holder.clone());
        let stranger = match &who {
            Requester::Client { id, right } => *id != holder && *right != Right::Admin,
            Requester::Agent { .. } => true,
            Requester::Server => false,
        };
        prop_assume!(stranger && !standing.lapsed);
        let open = matches!(operation, Operation::Watch | Operation::Close | Operation::Create(_));
        let verdict = decide(&claim, &who, &operation, &standing);
        prop_assert!(open || matches!(verdict, Verdict::Deny(_) | Verdict::Wait), "{verdict:?}");
    }

    /// No client gives a session's claim to another session, or more ids than it has.
    #[test]
    fn a_client_takes_or_narrows(
        claim in any_claim(),
        who in any_requester(),
        operation in any_operation(),
        standing in any_standing(),
    ) {
        let (Claim::Session { session, chat, scope }, Requester::Client { id, .. }) = (&claim, &who)
        else {
            return Ok(());
        };
        match decide(&claim, &who, &operation, &standing) {
            Verdict::Hand(_, Claim::Client { client_id }) => prop_assert_eq!(&client_id, id),
            Verdict::Hand(handing, Claim::Session { session: s, chat: c, scope: wanted }) => {
                prop_assert_eq!((&s, &c, handing), (session, chat, Handing::Narrow));
                prop_assert!(wanted.is_within(scope));
            }
            _ => {}
        }
    }
}
