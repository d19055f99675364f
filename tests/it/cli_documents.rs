//! Every JSON document of the command line is an object that names the version of its shape.

use serde_json::Value;

use crate::house::House;

const MANIFEST: &str = "[[task]]\nid = \"a\"\nrun = \"true\"\n";

#[test]
fn every_document_carries_its_version() {
    let house = House::new();
    house.write("m.toml", MANIFEST);
    let report = house.call(&["run", "m.toml", "--json"]).json();
    let run = report["run_id"].as_str().unwrap();
    let detached = house.call(&["run", "m.toml", "--detach", "--json"]).json();
    assert_eq!(detached["schema_version"], 1);
    for args in [
        ["run", "m.toml", "--json"].as_slice(),
        &["plan", "m.toml", "--json"],
        &["exec", "--json", "-c", "true"],
        &["exec", "--json", "--", "false"],
        &["exec", "--json", "-c", "echo \"open"],
        &["explain-env", "--json"],
        &["explain-env", "--task", "a", "--manifest", "m.toml", "--json"],
        &["run", "ls", "--json"],
        &["status", "--json"],
        &["report", run, "--json"],
        &["run", "cancel", run, "--json"],
        &["run", "cancel", "nothing", "--json"],
        &["run", "gone.toml", "--json"],
        &["run", "--frobnicate", "--json"],
    ] {
        let document = house.call(args).json();
        assert_eq!(document["schema_version"], 1, "{args:?}: {document:#}");
    }
}

#[test]
fn a_run_that_has_ended_cannot_be_cancelled_whoever_answers() {
    let house = House::new();
    house.write("m.toml", MANIFEST);
    let report = house.call(&["run", "m.toml", "--json"]).json();
    let run = report["run_id"].as_str().unwrap();
    let with_coordinator = house.call(&["run", "cancel", run, "--json"]);
    house.assert_empties();
    let without = house.call(&["run", "cancel", run, "--json"]);
    for called in [with_coordinator, without] {
        assert_eq!(
            (called.code, &called.json()["error"]["kind"]),
            (2, &"usage".into()),
            "{called:?}"
        );
    }
    let unknown = house.call(&["run", "cancel", "nothing", "--json"]);
    assert_eq!(unknown.json()["error"]["kind"], "not_found");
}

#[test]
fn the_readme_shows_the_document_that_comes_out() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (command, shown) = readme.split_once("```json\n").unwrap();
    let shown: Value = serde_json::from_str(shown.split("```").next().unwrap()).unwrap();
    let script = command.rsplit_once("exec --json -c '").unwrap().1.split_once('\'').unwrap().0;
    let house = House::new();
    let (code, mut real) = house.exec(script);
    assert_eq!(code, 3);
    for own in ["command_id", "session_id", "cwd", "started_at", "duration_ms"] {
        real[own] = shown[own].clone();
    }
    assert_eq!(shown, real);
}
