//! `serve`, a second one, and one that takes the first one's place.

use std::process::Stdio;

use super::{coordinator, end, lines, signal, start};
use crate::house::{House, finish, wait_for};

#[test]
fn serve_replaces_a_coordinator_under_its_clients() {
    let house = House::new();
    house.write("m.toml", "[[task]]\nid = \"a\"\n\
        run = [\"echo a >> began\", \"until [ -e go ]; do sleep 0.02; done\", \"echo a >> done\"]\n");
    let client = start(&house, &["run", "m.toml"]);
    lines(&house, "began", 1);
    let first = coordinator(&house);
    let second = house.call(&["serve"]);
    assert_eq!(second.code, 5, "{second:?}");
    assert!(second.stderr.contains(&first.to_string()), "{second:?}");
    assert!(second.stderr.contains("serve --replace"), "{second:?}");
    let mut replace = house.command(&["serve", "--replace"]);
    let third = replace.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("it is replaced", || {
        let now = coordinator(&house);
        if now == i64::from(third.id()) { Ok(()) } else { Err(format!("{now}")) }
    });
    house.write("go", "");
    let called = end(client);
    assert_eq!(called.code, 0, "{called:?}");
    assert_eq!((house.read("began"), house.read("done")), ("a\n".to_owned(), "a\n".to_owned()));
    signal(i64::from(third.id()), "TERM");
    assert_eq!(finish(third).code, 0);
    house.assert_empties();
}
