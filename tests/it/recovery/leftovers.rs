//! What a killed holder leaves behind is ended, by whichever coordinator is there, and nothing that
//! another holder has.

use serde_json::Value;

use super::{Ward, parent, signal, state_of};
use crate::house::wait_for;

struct Kept {
    id: String,
    shell: i64,
    holder: i64,
    child: i64,
}

/// A kept session with a child that no hang-up reaches.
fn keep(ward: &Ward, name: &str) -> Kept {
    let script = format!("setsid sh -c 'trap \"\" HUP TERM; echo $$ > {name}; exec sleep 600' &");
    let called = ward.house.call(&["exec", "--session", name, "-c", &script]);
    assert_eq!(called.code, 0, "{called:?}");
    ward.lines(name, 1);
    let child = ward.house.read(name).trim().parse().unwrap();
    let show: Value = ward.house.call(&["session", "show", name, "--json"]).json();
    let shell = show["pid"].as_i64().unwrap();
    let id = show["session_id"].as_str().unwrap().to_owned();
    Kept { id, shell, holder: parent(shell).unwrap(), child }
}

fn is_gone(pid: i64) {
    wait_for("it is gone", || state_of(pid).map_or(Ok(()), |state| Err(format!("{pid} {state}"))));
}

fn is_lost(ward: &Ward, session: &Kept) {
    let show = wait_for("it is closed", || {
        let show = ward.house.call(&["session", "show", &session.id, "--json"]).json();
        if show["state"] == "closed" { Ok(show) } else { Err(show.to_string()) }
    });
    assert_eq!(show["closed"]["why"], "lost", "{show:#}");
}

fn is_whole(session: &Kept) {
    for pid in [session.holder, session.shell, session.child] {
        assert!(state_of(pid).is_some(), "{pid} of {}", session.id);
    }
}

#[test]
fn what_an_adopted_holder_leaves_is_ended_although_it_comes_to_nobody() {
    let ward = Ward::new();
    ward.house.call(&["init"]);
    let (one, other) = (keep(&ward, "one"), keep(&ward, "other"));
    ward.succeed();
    is_whole(&other);
    signal(one.holder, "KILL");
    for pid in [one.holder, one.shell, one.child] {
        is_gone(pid);
    }
    is_lost(&ward, &one);
    is_whole(&other);
    assert_eq!(ward.house.call(&["session", "close", "other"]).code, 0);
    is_gone(other.child);
    ward.end();
}

#[test]
fn what_a_holder_leaves_that_is_killed_alone_is_ended_by_the_next_coordinator() {
    let ward = Ward::new();
    ward.house.call(&["init"]);
    let (one, other) = (keep(&ward, "one"), keep(&ward, "other"));
    ward.kill_coordinator();
    signal(one.holder, "KILL");
    is_gone(one.holder);
    is_whole(&other);
    assert!(state_of(one.child).is_some(), "nobody is there to end it");
    ward.revive();
    is_gone(one.child);
    is_lost(&ward, &one);
    is_whole(&other);
    assert_eq!(ward.house.call(&["session", "close", "other"]).code, 0);
    ward.end();
}
