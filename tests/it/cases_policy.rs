//! What the policy refuses never runs, however it is written: cases by their ids, against the real
//! binary.

use serde_json::json;

use crate::house::House;

const NO_TOUCH: &str = "[policy]\ndeny = [\"touch\"]\n";

#[test]
fn t106_a_refused_command_leaves_no_file() {
    let house = House::new();
    house.write("agents.toml", NO_TOUCH);
    house.call(&["init"]);
    let at = |name: &str| house.path(name).to_string_lossy().into_owned();
    let scripts = [
        (format!("touch {}", at("p0")), "deny"),
        (format!("sh -c 'touch {}'", at("p1")), "deny"),
        (format!("echo hi\n touch {}", at("p2")), "deny"),
        (format!("env touch {}", at("p3")), "deny"),
        (format!("echo {} | xargs touch", at("p4")), "deny"),
        (format!("\"to\"uch {}", at("p5")), "deny"),
        (format!("/usr/bin/touch {}", at("p6")), "deny"),
        (format!("cat <(touch {})", at("p7")), "deny"),
        (format!("$(echo touch) {}", at("p8")), "ask"),
        (format!("t${{x}}ouch {}", at("p9")), "ask"),
        (format!("timeout 1 touch {}", at("pa")), "deny"),
        // What its reader cannot finish in time is not allowed either.
        (format!("{} touch {} {}", "( ".repeat(200), at("pb"), ") ".repeat(200)), "ask"),
    ];
    for (script, verdict) in &scripts {
        let (code, result) = house.exec(script);
        assert_eq!(code, 126, "{script}: {result:#}");
        assert_eq!(result["state"], "failed", "{script}: {result:#}");
        assert_eq!(result["reason"]["kind"], "policy", "{script}: {result:#}");
        assert_eq!(result["reason"]["verdict"], *verdict, "{script}: {result:#}");

        let called = house.call(&["policy", "check", "--json", "-c", script]);
        assert_eq!(called.code, 126, "{script}: {called:?}");
        let document = called.json();
        assert_eq!(document["verdict"], *verdict, "{script}: {document:#}");
        assert!(document["reason"].is_string() && document.get("rule").is_some(), "{document:#}");
    }
    let left: Vec<_> = std::fs::read_dir(house.workspace())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('p'))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    // What is allowed goes on as ever, in the same session as well.
    for script in ["echo touch", "true # touch x", "x=touch; echo $x"] {
        let (code, result) = house.exec_with(&["--session", "s"], script);
        assert_eq!(code, 0, "{script}: {result:#}");
        let (code, result) = house.exec_with(&["--session", "s"], "touch x");
        assert_eq!(code, 126, "{result:#}");
    }
    assert_eq!(house.call(&["policy", "check", "-c", "echo touch"]).code, 0);
}

#[test]
fn a_run_fails_on_what_is_denied_and_escalates_what_is_to_be_asked() {
    let house = House::new();
    house.write(
        "agents.toml",
        "[policy]\ndeny = [\"touch\"]\n\
         [[agent]]\nname = \"careful\"\ntags = [\"careful\"]\npolicy = { ask = [\"rm -r\"] }\n\
         [[agent]]\nname = \"free\"\ntags = [\"free\"]\n",
    );
    let (code, report) = house.run(
        "[[task]]\nid = \"denied\"\nneeds = [\"free\"]\nrun = [\"echo a\", \"touch x\"]\nretries = 3\n\
         [[task]]\nid = \"asked\"\nneeds = [\"careful\"]\nrun = \"rm -rf y\"\n\
         [[task]]\nid = \"free\"\nneeds = [\"free\"]\nrun = \"rm -rf y\"\n\
         [[task]]\nid = \"own\"\nneeds = [\"free\"]\nrun = \"echo a\"\npolicy = { allow = [\"printf\"] }\n",
    );
    let task = |id: &str| {
        let tasks = report["tasks"].as_array().unwrap();
        tasks.iter().find(|task| task["id"] == id).unwrap().clone()
    };
    assert_eq!(code, 4, "{report:#}");
    assert_eq!(task("denied")["state"], "failed");
    // No retry can mend it.
    assert_eq!(task("denied")["attempts"], 1);
    assert_eq!(task("denied")["reason"]["kind"], "policy");
    assert_eq!(task("denied")["reason"]["rule"], "touch");
    assert_eq!(task("denied")["commands"][0]["state"], "completed");
    assert_eq!(task("asked")["state"], "escalated");
    assert_eq!(task("free")["state"], "succeeded");
    assert_eq!(task("own")["state"], "escalated");
    let escalations = report["escalations"].as_array().unwrap();
    assert_eq!(escalations.len(), 2, "{report:#}");
    assert!(escalations.iter().all(|one| one["cause"] == json!("policy")), "{report:#}");
    assert!(!house.path("x").exists());
}

#[test]
fn wrong_rules_are_told_with_their_place() {
    let house = House::new();
    house.write("agents.toml", "[policy]\ndeny = [\"touch 'x\", \"\"]\nalow = [\"ls\"]\n");
    let called = house.call(&["policy", "check", "--json", "-c", "true"]);
    assert_eq!(called.code, 2, "{called:?}");
    let problems = called.json()["error"]["problems"].as_array().unwrap().clone();
    let lines: Vec<_> = problems.iter().map(|problem| problem["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [2, 2, 3], "{problems:#?}");
}

#[test]
fn t107_what_is_typed_at_a_nested_shell_is_a_command_too() {
    let house = House::new();
    house.write("agents.toml", NO_TOUCH);
    let target = house.path("z").to_string_lossy().into_owned();
    let (code, result) = house.exec_with(&["--session", "s"], "bash --norc");
    assert_eq!((code, &result["state"]), (125, &json!("awaiting_input")), "{result:#}");
    let send = |text: &str| house.call(&["session", "send", "s", "--enter", "--json", text]);
    let refused = send(&format!("touch {target}"));
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stdout.contains("\"policy\""), "{refused:?}");
    // In pieces, by keys, and with the history's help.
    assert_eq!(house.call(&["session", "send", "s", "to"]).code, 0);
    assert_ne!(send(&format!("uch {target}")).code, 0);
    assert_ne!(house.call(&["session", "send", "s", "--key", "up", "--key", "enter"]).code, 0);
    assert_eq!(house.call(&["session", "send", "s", "--key", "ctrl-c"]).code, 0);
    // What is allowed is typed as ever; the file never came to be.
    let allowed = send("echo made$((40 + 2))");
    assert_eq!(allowed.code, 0, "{allowed:?}");
    let read = house.call(&["session", "read", "s", "--until", "made42", "--timeout", "20s"]);
    assert_eq!(read.code, 0, "{read:?}");
    assert_eq!(send("exit").code, 0);
    assert_eq!(
        house.call(&["session", "read", "s", "--until", "exit", "--timeout", "20s"]).code,
        0
    );
    assert!(!house.path("z").exists());
    // An answer that a question is given is no command.
    let (code, result) = house.exec_with(&["--input", "touch z\n"], "read x; echo \"got $x\"");
    assert_eq!((code, &result["stdout"]), (0, &json!("touch z\ngot touch z\n")), "{result:#}");
    // One given beforehand to a nested shell is.
    let (code, result) = house.exec_with(&["--input", &format!("touch {target}\n")], "bash --norc");
    assert_eq!(code, 125, "{result:#}");
    let notes = result["notes"].as_array().unwrap();
    let note = notes.iter().find(|note| note["kind"] == "input_discarded");
    assert_eq!(note.map(|note| &note["reason"]["kind"]), Some(&json!("policy")), "{result:#}");
    assert!(!house.path("z").exists());
    house.call(&["session", "close", "s"]);
}
