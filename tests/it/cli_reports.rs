//! What a run says of itself: the summary, the documents and the exit code agree.

use serde_json::Value;

use crate::house::House;

const FLAKY: &str = r#"
[[task]]
id = "shaky"
run = "test -e tried || { touch tried; echo first try; exit 1; }"
retries = 1
"#;

fn document(house: &House, name: &str) -> Value {
    serde_json::from_str(&house.read(name)).unwrap()
}

#[test]
fn a_flaky_run_that_counts_as_failed_says_so_everywhere() {
    let house = House::new();
    let flags = ["--fail-on-flaky", "--report", "json=a.json", "--report", "markdown=a.md"];
    let (code, report) = house.run_with(&flags, FLAKY);
    assert_eq!(code, 1);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&"failed".into(), &1.into()));
    assert_eq!(document(&house, "a.json"), report);
    assert!(house.read("a.md").contains("1 flaky task, --fail-on-flaky"), "{}", house.read("a.md"));
    std::fs::remove_file(house.path("tried")).unwrap();
    let called = house.call(&["run", "m.toml", "--fail-on-flaky", "--report", "html=a.html"]);
    assert_eq!(called.code, 1);
    assert!(
        called.stdout.contains("failed: 1 flaky task, --fail-on-flaky (exit code 1)"),
        "{called:?}"
    );
    assert!(called.stdout.contains("succeeded on attempt 2"), "{called:?}");
    assert!(house.read("a.html").contains("flaky: succeeded on attempt 2"));
    house.assert_empties();
}

#[test]
fn orc_78_a_flaky_task_is_a_success_and_is_told_in_every_report() {
    let house = House::new();
    let reports = ["json=a.json", "junit=a.xml", "markdown=a.md", "html=a.html"];
    let flags: Vec<&str> = reports.iter().flat_map(|report| ["--report", report]).collect();
    let (code, report) = house.run_with(&flags, FLAKY);
    assert_eq!((code, &report["outcome"]), (0, &"succeeded".into()));
    let task = &report["tasks"][0];
    assert_eq!((&task["class"], &task["attempts"]), (&"flaky".into(), &2.into()), "{task:#}");
    assert_eq!(document(&house, "a.json"), report);
    for name in ["a.md", "a.html"] {
        let text = house.read(name);
        assert!(text.contains("flaky: succeeded on attempt 2"), "{name}: {text}");
    }
    let shown = house.call(&["report", report["run_id"].as_str().unwrap()]);
    assert!(shown.stdout.contains("flaky"), "{shown:?}");
    let junit = house.read("a.xml");
    assert!(junit.contains("flakyFailure") && junit.contains("succeeded on attempt 2;"), "{junit}");
}

#[test]
fn a_warning_does_not_hide_why_a_task_failed() {
    let house = House::new();
    let script = "echo warning >&2; sleep 0.2; echo the reason; exit 1";
    house.write("m.toml", format!("[[task]]\nid = \"a\"\nrun = \"{script}\"\n"));
    let called =
        house.call(&["run", "m.toml", "--report", "junit=a.xml", "--report", "markdown=a.md"]);
    assert_eq!(called.code, 1);
    assert!(called.stdout.contains("    the reason\n"), "{called:?}");
    assert!(house.read("a.md").contains("\nthe reason\n"));
    let junit = house.read("a.xml");
    let failure = junit.split("</failure>").next().unwrap();
    assert!(failure.contains("the reason"), "{junit}");
}

#[test]
fn quiet_leaves_out_successes_and_progress() {
    let house = House::new();
    let tail = "[[task]]\nid = \"bad\"\nrun = \"echo no; exit 7\"\n\
        [[task]]\nid = \"late\"\nafter = [\"bad\"]\nrun = \"true\"\n";
    house.write("m.toml", format!("{FLAKY}{tail}"));
    let called = house.call(&["run", "m.toml", "-q"]);
    assert_eq!((called.code, called.stderr.as_str()), (1, ""), "{called:?}");
    assert!(called.stdout.starts_with("failed      bad  exit code 7"), "{called:?}");
    assert!(called.stdout.contains("    no\n"), "{called:?}");
    assert!(called.stdout.contains("1 skipped in ") && called.stdout.contains("(exit code 1)"));
    assert!(!called.stdout.contains("shaky") && !called.stdout.contains("late"), "{called:?}");
    house.write("m.toml", FLAKY);
    let called = house.call(&["run", "m.toml", "-q"]);
    assert_eq!((called.code, called.stdout.as_str(), called.stderr.as_str()), (0, "", ""));
}

#[test]
fn a_report_overwrites_neither_its_source_nor_another_one() {
    let house = House::new();
    let manifest = "[[task]]\nid = \"a\"\nrun = \"touch ran\"\n";
    house.write("m.toml", manifest);
    house.write("agents.toml", "[[agent]]\nname = \"w\"\n");
    for flags in [
        ["--report", "json=m.toml"].as_slice(),
        &["--report", "json=../ws/agents.toml"],
        &["--report", "json=a", "--report", "junit=./a"],
        &["--report", "json=-", "--json"],
        &["--report", "json=-", "--report", "junit=-"],
    ] {
        let called = house.call(&[&["run", "m.toml"], flags].concat());
        assert_eq!(called.code, 2, "{flags:?}: {called:?}");
    }
    assert_eq!(house.read("m.toml"), manifest);
    assert!(!house.path("ran").exists());
    let called = house.call(&["run", "m.toml", "--report", "json=-"]);
    assert_eq!((called.code, &called.json()["outcome"]), (0, &"succeeded".into()));
    assert!(called.stderr.contains("1 succeeded in "), "{called:?}");
}

#[test]
fn every_line_of_the_progress_has_its_time() {
    let house = House::new();
    house.write(
        "m.toml",
        r#"
[[task]]
id = "serve"
run = "echo up; sleep 60"
service = { ready = "log:up" }

[[task]]
id = "ask"
after = ["serve"]
run = "read -p 'Sure? ' x"
"#,
    );
    let called = house.call(&["run", "m.toml", "--jobs", "2"]);
    assert_eq!(called.code, 4, "{called:?}");
    let news: Vec<_> = called.stderr.lines().filter(|line| line.contains(": ")).collect();
    assert!(news.iter().all(|line| line.starts_with("[   ")), "{called:?}");
    let is_told = |words: &str| news.iter().any(|line| line.contains(words));
    assert!(is_told("s] serve: ready"), "{called:?}");
    assert!(is_told("s] ask: waits for input: `Sure?`"), "{called:?}");
    house.assert_empties();
}
