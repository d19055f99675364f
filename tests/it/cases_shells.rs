//! Shells and profiles as a manifest asks for them, against the real binary.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::house::{House, finish, skipped};

fn is_here(shell: &str) -> bool {
    ["/bin", "/usr/bin"].iter().any(|folder| std::path::Path::new(folder).join(shell).exists())
}

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
    for (task, pipes) in [("sh", 0), ("bash", 2), ("zsh", 2), ("fish", 2)] {
        if !is_here(task) {
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

/// What each shell alone understands, and what it says then.
const WORDS: [(&str, &str, &str); 4] = [
    ("bash", "echo ${BASH_VERSION%%[0-9]*}bash", "bash\n"),
    ("zsh", "print -r -- ${(L):-ZSH}", "zsh\n"),
    ("fish", "set x fish; echo $x", "fish\n"),
    ("sh", "echo $((1+1))${BASH_VERSION:-}${ZSH_VERSION:-}", "2\n"),
];

#[test]
fn t38_commands_and_sessions_name_their_shell() {
    let house = House::new();
    for (shell, script, words) in WORDS {
        if !is_here(shell) {
            skipped("t38", &format!("no {shell}"));
            continue;
        }
        let (code, result) = house.exec_with(&["--shell", shell], script);
        assert_eq!((code, &result["stdout"]), (0, &Value::from(words)), "{shell}: {result:#}");
        let opened = house.call(&["session", "new", shell, "--shell", shell, "--json"]);
        assert_eq!(opened.json()["shell"], shell, "{opened:?}");
        let (code, result) = house.exec_with(&["--session", shell], script);
        assert_eq!((code, &result["stdout"]), (0, &Value::from(words)), "{shell}: {result:#}");
        let shown = house.call(&["session", "show", shell, "--json"]);
        assert_eq!(shown.json()["shell"], shell, "{shown:?}");
        let shown = house.call(&["session", "show", shell]);
        assert!(shown.stdout.contains(&format!("shell {shell}\n")), "{shown:?}");
    }
    // One that is open has the shell that it has.
    let (code, error) = house.exec_with(&["--session", "bash", "--shell", "sh"], "true");
    let words = error["error"]["message"].as_str().unwrap();
    assert_eq!((code, words), (2, "session `bash` has bash as its shell, not sh"), "{error:#}");
    assert_eq!(house.exec_with(&["--session", "bash", "--shell", "bash"], "true").0, 0);
}

#[test]
fn shells_that_nobody_drives_are_refused_with_those_that_are() {
    let house = House::new();
    for args in [
        &["exec", "--shell", "tcsh", "--json", "-c", "true"][..],
        &["session", "new", "--shell", "tcsh", "--json"],
    ] {
        let called = house.call(args);
        let error = called.json()["error"].clone();
        assert_eq!((called.code, &error["kind"]), (2, &Value::from("usage")), "{called:?}");
        let words = error.to_string();
        assert!(words.contains("there are bash, zsh, fish and sh"), "{words}");
    }
}

#[test]
fn the_default_shell_of_agents_toml_holds_for_commands_and_sessions() {
    let house = House::new();
    house.write("agents.toml", "[defaults]\nshell = \"sh\"\n");
    let script = "echo ${BASH_VERSION:-none}";
    assert_eq!(house.exec(script).1["stdout"], "none\n");
    assert_ne!(house.exec_with(&["--shell", "bash"], script).1["stdout"], "none\n");
    let (_, result) = house.exec_with(&["--session", "made-by-exec"], script);
    assert_eq!(result["stdout"], "none\n", "{result:#}");
    let opened = house.call(&["session", "new", "--json"]);
    assert_eq!(opened.json()["shell"], "sh", "{opened:?}");
}

/// The machine of the call has no zsh: something else lies over it.
#[test]
fn a_shell_that_the_machine_lacks_is_the_environments_failure() {
    let house = House::new();
    let without_zsh = |args: &[&str]| {
        let hide = "for f in /bin/zsh /usr/bin/zsh; do
                if [ -e $f ]; then mount --bind /dev/null $f || exit 99; fi
            done; exec \"$0\" \"$@\"";
        let inner = house.command(args);
        let mut outer = Command::new("unshare");
        outer.args(["--user", "--map-root-user", "--mount", "sh", "-c", hide]);
        outer.arg(inner.get_program()).args(inner.get_args()).env_clear();
        for (name, value) in inner.get_envs() {
            outer.env(name, value.unwrap_or_default());
        }
        outer.current_dir(house.workspace()).stdin(Stdio::null());
        outer.stdout(Stdio::piped()).stderr(Stdio::piped());
        outer.spawn().map(finish)
    };
    let probe = without_zsh(&["--version"]);
    if !probe.as_ref().is_ok_and(|called| called.code == 0) {
        return skipped("a missing shell", &format!("no mount namespace here: {probe:?}"));
    }
    let called = without_zsh(&["exec", "--shell", "zsh", "--json", "-c", "true"]).unwrap();
    let result = called.json();
    assert_eq!((called.code, &result["reason"]["kind"]), (3, &Value::from("start_failed")));
    let words = result["reason"]["message"].as_str().unwrap();
    assert!(words.contains("no zsh on this machine"), "{words}");
    let called = without_zsh(&["session", "new", "--shell", "zsh", "--json"]).unwrap();
    let error = called.json()["error"].clone();
    assert_eq!(called.code, 3, "{called:?}");
    assert!(error["message"].as_str().unwrap().contains("no zsh on this machine"), "{error:#}");
}
