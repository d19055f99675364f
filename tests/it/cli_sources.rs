//! What the command line reads: manifests, agents, folders, and what it refuses to.

use std::time::Duration;

use crate::house::{House, finish_within};

#[test]
fn what_has_no_end_is_refused_at_once() {
    let house = House::new();
    house.write("m.toml", "[[task]]\nid = \"a\"\nrun = \"true\"\n");
    let fifo = house.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for args in [
        ["run", "/dev/zero", "--json"].as_slice(),
        &["plan", "/dev/zero", "--json"],
        &["run", "fifo", "--json"],
        &["run", "m.toml", "--agents", "/dev/zero", "--json"],
        &["explain-env", "--agents", "fifo", "--json"],
    ] {
        let called = finish_within(house.command(args).spawn().unwrap(), Duration::from_secs(20));
        assert_eq!(called.code, 2, "{called:?}");
        let message = called.json()["error"]["message"].to_string();
        assert!(message.contains("it is not a regular file"), "{args:?}: {message}");
    }
    for args in [["run", "-", "--json"].as_slice(), &["exec", "--json", "-c", "-"]] {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let child = house.command(args).stdin(zero).spawn().unwrap();
        let called = finish_within(child, Duration::from_secs(20));
        assert_eq!(called.code, 2, "{called:?}");
        assert!(called.json()["error"]["message"].to_string().contains("longer than 32 MiB"));
    }
}
