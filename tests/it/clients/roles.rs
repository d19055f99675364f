//! Processes of sessions call the coordinator: in their session's role.

use serde_json::Value;

use super::{begin, close};
use crate::house::{House, wait_for};

const BIN: &str = env!("CARGO_BIN_EXE_callboard");

/// What a script in session `inside` came to: its code and what it printed.
fn inside(house: &House, script: &str) -> (i64, String) {
    let (_, result) = house.exec_with(&["--session", "inside", "--merge"], script);
    (
        result["exit_code"].as_i64().unwrap_or(-1),
        result["stdout"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn a_session_has_its_own_and_its_childrens_and_no_other() {
    let house = House::new();
    begin(&house);
    for name in ["inside", "other"] {
        assert_eq!(house.call(&["session", "new", name]).code, 0);
    }
    for (script, code, words) in [
        (format!("{BIN} status"), 0, ""),
        (format!("{BIN} session ls"), 0, "other"),
        (format!("{BIN} exec -c 'echo from a child'"), 0, "from a child"),
        (format!("{BIN} session read inside"), 0, ""),
        (
            format!(
                "{BIN} session new kid && {BIN} exec --session kid -c 'echo kid' && {BIN} session close kid"
            ),
            0,
            "kid",
        ),
        (format!("{BIN} session close other"), 2, "no say over another session"),
        (format!("{BIN} exec --session other -c true"), 2, "no say over another session"),
        (format!("{BIN} session interrupt other"), 2, "no say over another session"),
        (format!("{BIN} exec --session inside -c true"), 2, "would wait for the one that asks"),
        (format!("{BIN} serve --replace"), 5, "may not"),
        // Forked twice and in a session of its own it is the holder's child, and so still inside.
        (
            format!(
                "(setsid sh -c '{BIN} session close other >out 2>&1; echo $? >code' &) ; until [ -s code ]; do sleep 0.02; done; cat out; exit $(cat code)"
            ),
            2,
            "no say over another session",
        ),
    ] {
        // `exit` would end the session's shell.
        let (got, text) = inside(&house, &format!("({script})"));
        assert_eq!(got, code, "{script}: {text}");
        assert!(text.contains(words), "{script}: {text}");
    }
    for name in ["inside", "other"] {
        assert_eq!(house.call(&["session", "close", name]).code, 0);
    }
    close(&house);
}

#[test]
fn children_end_with_their_session_and_are_few() {
    let house = House::new();
    begin(&house);
    assert_eq!(house.call(&["session", "new", "inside"]).code, 0);
    let (code, text) =
        inside(&house, &format!("for n in 1 2 3 4 5 6 7 8 9; do {BIN} session new kid$n; done"));
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("as many as may be"), "{text}");
    let open = |house: &House| {
        let listed = house.call(&["session", "ls", "--json"]).json();
        listed["sessions"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(open(&house), 9);
    assert_eq!(house.call(&["session", "close", "inside"]).code, 0);
    wait_for("the children are closed", || match open(&house) {
        0 => Ok(()),
        left => Err(left.to_string()),
    });
    close(&house);
}

#[test]
fn a_child_run_ends_with_its_attempt() {
    let house = House::new();
    house.write("child.toml", "[[task]]\nid = \"c\"\nrun = \"touch up; exec sleep 600\"\n");
    let (code, report) = house.run(&format!(
        "[[task]]\nid = \"a\"\nrun = \"{BIN} run child.toml --detach; until [ -e up ]; do sleep 0.02; done\"\n"
    ));
    assert_eq!(code, 0, "{report:#}");
    wait_for("the child run has ended", || {
        let listed = house.call(&["run", "ls", "--json"]).json();
        let runs = listed["runs"].as_array().cloned().unwrap_or_default();
        let is_cancelled = |run: &Value| run["outcome"] == "cancelled";
        if runs.len() == 2 && runs.iter().any(is_cancelled) {
            Ok(())
        } else {
            Err(listed.to_string())
        }
    });
    close(&house);
}
