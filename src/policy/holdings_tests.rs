//! Who holds what, as tables and as a law.

use proptest::prelude::*;

use super::*;
use crate::domain::ids::AttemptId;
use crate::domain::result::How;

fn party(task: &str) -> Party {
    Party::Attempt { attempt: AttemptId { run: "r".into(), task: task.into(), attempt: 1 } }
}

fn touched(resource: &str, mode: &str) -> Touched {
    Touched { resource: resource.to_owned(), mode: mode.to_owned(), how: How::Traced }
}

fn holdings(alive: &[&str]) -> Holdings {
    let mut holdings = Holdings::default();
    alive.iter().for_each(|name| holdings.begin(party(name)));
    holdings
}

fn is_held(claim: &Claim, by_whom: &str, what: &str) -> bool {
    matches!(claim, Claim::Held { by, resource, .. } if *by == party(by_whom) && resource == what)
}

#[test]
fn the_first_that_lives_has_it_until_it_is_gone() {
    let mut holdings = holdings(&["a", "b"]);
    let file = touched("file/x", "write");
    let at = Timestamp;
    assert_eq!(holdings.touch(&party("a"), &file, at(1)), Claim::Taken);
    assert_eq!(holdings.touch(&party("a"), &file, at(2)), Claim::Own);
    let claim = holdings.touch(&party("b"), &file, at(3));
    let held = Claim::Held { by: party("a"), resource: "file/x".to_owned(), since: Timestamp(1) };
    assert_eq!(claim, held);
    assert!(!holdings.is_free("file/x"));
    assert_eq!(holdings.end(&party("a")), ["file/x"]);
    assert!(holdings.is_free("file/x"));
    assert_eq!(holdings.touch(&party("b"), &file, at(4)), Claim::Taken);
    // A straggler of one that is gone is in nobody's way.
    assert_eq!(holdings.touch(&party("a"), &touched("file/y", "write"), at(5)), Claim::Unknown);
    assert!(holdings.is_free("file/y"));
}

#[test]
fn what_is_in_whose_way() {
    // Held by `a` as …, touched by `b` as …: what is in the way.
    let cases = [
        ("file/d/x", "write", "file/d/x", "remove", Some("file/d/x")),
        ("file/d/x", "write", "file/d/y", "write", None),
        ("file/d/x", "write", "file/d", "write", None),
        ("file/d/x", "write", "file/d", "remove", Some("file/d/x")),
        ("file/d/x", "write", "file/d", "rename", Some("file/d/x")),
        ("file/d", "rename", "file/d/x", "write", Some("file/d")),
        ("file/d", "remove", "file/d/e/f", "write", Some("file/d")),
        ("file/d", "write", "file/d/x", "write", None),
        ("file/dd/x", "write", "file/d", "remove", None),
        ("file/d", "remove", "file/dd", "write", None),
        ("port/127.0.0.1/80", "bind", "port/127.0.0.1/80", "bind", Some("port/127.0.0.1/80")),
        ("port/127.0.0.1/80", "bind", "port/127.0.0.2/80", "bind", None),
        ("port/0.0.0.0/80", "bind", "port/127.0.0.2/80", "bind", Some("port/0.0.0.0/80")),
        ("port/::1/80", "bind", "port/::/80", "bind", Some("port/::1/80")),
        ("port/::/80", "bind", "port/::/8080", "bind", None),
        ("git/", "write", "git/", "write", Some("git/")),
        ("git/a", "write", "git/b", "write", None),
    ];
    for (first, how, second, then, expected) in cases {
        let mut holdings = holdings(&["a", "b"]);
        assert_eq!(holdings.touch(&party("a"), &touched(first, how), Timestamp(1)), Claim::Taken);
        let claim = holdings.touch(&party("b"), &touched(second, then), Timestamp(2));
        match expected {
            Some(what) => assert!(is_held(&claim, "a", what), "{first} {second}: {claim:?}"),
            None => assert_eq!(claim, Claim::Taken, "{first} {second}"),
        }
    }
}

#[test]
fn one_that_may_does_and_a_port_can_be_let_go_of() {
    let mut holdings = holdings(&["a", "b"]);
    let port = touched("port/::/80", "bind");
    holdings.touch(&party("a"), &port, Timestamp(1));
    holdings.exempt(party("b"), "port/::/80".to_owned());
    assert_eq!(holdings.touch(&party("b"), &port, Timestamp(2)), Claim::Own);
    assert_eq!(holdings.holder("port/::/80"), Some((&party("a"), Timestamp(1))));
    assert!(!holdings.release(&party("b"), "port/::/80"));
    assert!(holdings.release(&party("a"), "port/::/80"));
    assert!(holdings.is_free("port/::/80"));
    assert_eq!(holdings.held_by(&party("a")).count(), 0);
}

#[derive(Clone, Debug)]
enum Deed {
    Touch(usize, usize, usize),
    End(usize),
    Begin(usize),
}

const WHO: [&str; 4] = ["a", "b", "c", "d"];
const WHAT: [&str; 7] =
    ["file/d", "file/d/x", "file/d/e/y", "file/z", "port/::/80", "port/127.0.0.1/80", "git/"];

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..4_usize, 0..7_usize, 0..3_usize).prop_map(|(who, what, how)| Deed::Touch(who, what, how)),
        1 => (0..4_usize).prop_map(Deed::End),
        1 => (0..4_usize).prop_map(Deed::Begin),
    ]
}

proptest! {
    /// At every moment each resource has one holder, who lives; and whoever was told `Taken` or
    /// `Own` has nobody in the way.
    #[test]
    fn nobody_has_what_another_one_has(deeds in prop::collection::vec(deed(), 0..60)) {
        let mut holdings = holdings(&WHO);
        let mut alive = [true; 4];
        for (at, deed) in deeds.into_iter().enumerate() {
            let now = Timestamp(i64::try_from(at).unwrap());
            match deed {
                Deed::Begin(who) => {
                    holdings.begin(party(WHO[who]));
                    alive[who] = true;
                }
                Deed::End(who) => {
                    holdings.end(&party(WHO[who]));
                    alive[who] = false;
                    prop_assert_eq!(holdings.held_by(&party(WHO[who])).count(), 0);
                }
                Deed::Touch(who, what, how) => {
                    let touched = touched(WHAT[what], ["write", "remove", "rename"][how]);
                    match holdings.touch(&party(WHO[who]), &touched, now) {
                        Claim::Taken | Claim::Own => prop_assert!(alive[who]),
                        Claim::Unknown => prop_assert!(!alive[who]),
                        Claim::Held { by, .. } => {
                            prop_assert_ne!(&by, &party(WHO[who]));
                            let place = WHO.iter().position(|name| party(name) == by).unwrap();
                            prop_assert!(alive[place]);
                        }
                    }
                }
            }
            let held: usize = WHO.iter().map(|name| holdings.held_by(&party(name)).count()).sum();
            prop_assert_eq!(held, holdings.held.len());
        }
    }
}
