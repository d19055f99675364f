//! Shells and profiles as a manifest asks for them, against the real binary.

use serde_json::Value;

use crate::house::{House, skipped};

/// The results of a task's commands.
fn commands<'a>(report: &'a Value, task: &str) -> &'a Vec<Value> {
    let tasks = report["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|found| found["id"] == task).unwrap();
    task["commands"].as_array().unwrap()
}

#[test]
fn t38_a_manifest_names_its_shells() {
    let house = House::new();
    house.write(
        "m.toml",
        r#"
[defaults]
shell = "sh"
[[task]]
id = "sh"
run = ["echo $0", "false | true"]
[[task]]
id = "bash"
shell = "bash"
run = ["echo $BASH_VERSION | wc -l", "set -o pipefail; true | true"]
[[task]]
id = "zsh"
shell = "zsh"
run = ["print -r -- ${(U):-zsh}", "true | true"]
[[task]]
id = "fish"
shell = "fish"
run = ["set x fish; echo $x", "true | true"]
"#,
    );
    let called = house.call(&["run", "m.toml", "--json"]);
    let report = called.json();
    let lacks = |shell: &str| {
        !["/bin", "/usr/bin"].iter().any(|folder| std::path::Path::new(folder).join(shell).exists())
    };
    for (task, pipes) in [("sh", 0), ("bash", 2), ("zsh", 2), ("fish", 2)] {
        if lacks(task) {
            skipped("t38", &format!("no {task}"));
            continue;
        }
        let commands = commands(&report, task);
        assert_eq!(commands.len(), 2, "{report:#}");
        assert!(commands.iter().all(|command| command["state"] == "completed"), "{commands:#?}");
        let told = commands[1]["pipe_status"].as_array().map_or(0, Vec::len);
        assert_eq!(told, pipes, "{task}: {commands:#?}");
    }
    // A shell without a driver is refused, with those that have one.
    house.write("bad.toml", "[[task]]\nid = \"a\"\nrun = \"x\"\nshell = \"tcsh\"\n");
    let refused = house.call(&["plan", "bad.toml", "--json"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let words = refused.json().to_string();
    assert!(words.contains("tcsh") && words.contains("zsh") && words.contains("fish"), "{words}");
}

#[test]
fn t41_a_profile_is_used_by_the_tasks_that_ask_for_it() {
    let house = House::new();
    std::fs::write(
        house.root().join("home/.bashrc"),
        "export FROM_RC=yes API_TOKEN=abracadabra TASK_OWN=rc; alias hi='echo hi'; echo noisy",
    )
    .unwrap();
    house.write(
        "m.toml",
        r#"
[[task]]
id = "with"
shell_profile = true
env = { TASK_OWN = "task" }
run = "hi; echo $FROM_RC:$API_TOKEN:$TASK_OWN"
[[task]]
id = "without"
run = "type hi; echo $FROM_RC"
"#,
    );
    let report = house.call(&["run", "m.toml", "--json"]).json();
    let with = &commands(&report, "with")[0];
    assert_eq!(with["stdout"], "hi\nyes::task\n", "{with:#}");
    let notes = with["notes"].to_string();
    assert!(notes.contains("printed: noisy") && notes.contains("API_TOKEN"), "{notes}");
    assert!(!report.to_string().contains("abracadabra"), "{report:#}");
    let without = &commands(&report, "without")[0];
    assert_eq!(without["stdout"], "\n", "{without:#}");
    assert!(!without["notes"].to_string().contains("profile"), "{without:#}");
}
