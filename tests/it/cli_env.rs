//! What a session really has in its environment, against what `explain-env` says of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::house::{House, skipped};

/// What shells set by themselves.
const OF_SHELLS: [&str; 5] = ["_", "LOGNAME", "OLDPWD", "PWD", "SHLVL"];

const AGENTS: &str = r#"
[defaults]
env = { FROM_FILE = "file", BOTH = "file", PAGER = "less" }
env_pass = ["MY_TOKEN", "BOTH"]
[[agent]]
name = "a"
env = { OF_AGENT = "a" }
env_pass = ["NOT_SET_ANYWHERE"]
"#;

fn variables(result: &Value) -> BTreeMap<String, String> {
    let lines = result["stdout"].as_str().unwrap().lines();
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .filter(|(name, _)| !OF_SHELLS.contains(&name.as_str()))
        .collect()
}

/// Every variable is explained, and every one that is explained is there with that value.
#[track_caller]
fn same(explained: &Value, had: &BTreeMap<String, String>) {
    let lines = explained["variables"].as_array().unwrap();
    let names: Vec<_> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, had.keys().map(String::as_str).collect::<Vec<_>>(), "{explained:#}");
    for line in lines.iter().filter(|line| !line["value"].is_null()) {
        assert_eq!(line["value"], json!(had[line["name"].as_str().unwrap()]), "{line}");
    }
}

#[test]
fn commands_and_sessions_have_what_explain_env_says() {
    // fish insists on the user's real name.
    let user = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
    let house = House::new()
        .with_env("USER", String::from_utf8(user).unwrap().trim())
        .with_env("MY_TOKEN", "hunter2")
        .with_env("BOTH", "client")
        .with_env("LEAK", "leak")
        .with_env("OF_AGENT", "leak")
        .with_env("LC_TIME", "C");
    house.write("agents.toml", AGENTS);
    let explained = house.call(&["explain-env", "--json"]).json();
    assert_eq!(explained["missing"], json!([]), "{explained:#}");
    assert!(!explained.to_string().contains("hunter2"), "{explained:#}");
    for shell in ["bash", "zsh", "fish", "sh"] {
        if !std::path::Path::new("/bin").join(shell).exists() {
            skipped("explain-env", &format!("no {shell}"));
            continue;
        }
        let called = house.call(&["exec", "--json", "--shell", shell, "--", "env"]);
        let had = variables(&called.json());
        same(&explained, &had);
        for (name, value) in [
            ("MY_TOKEN", "hunter2"),
            ("BOTH", "client"),
            ("FROM_FILE", "file"),
            ("PAGER", "less"),
            ("LC_TIME", "C"),
        ] {
            assert_eq!(had.get(name).map(String::as_str), Some(value), "{shell}: {name}");
        }
    }
    let opened = house.call(&["session", "new", "s", "--env", "BOTH=told", "--json"]);
    assert_eq!(opened.code, 0, "{opened:?}");
    let mut had = variables(&house.exec_with(&["--session", "s"], "env").1);
    assert_eq!(had.insert("BOTH".to_owned(), "client".to_owned()).as_deref(), Some("told"));
    same(&explained, &had);
    let (_, result) = house.exec_with(&["--env", "MY_TOKEN=told"], "echo $MY_TOKEN");
    assert_eq!(result["stdout"], "told\n", "{result:#}");
}

#[test]
fn a_variable_that_the_caller_lacks_is_an_error_of_the_configuration() {
    let house = House::new().with_env("BOTH", "");
    house.write("agents.toml", AGENTS);
    for args in [&["exec", "--json", "--", "true"][..], &["session", "new", "--json"]] {
        let called = house.call(args);
        let error = called.json()["error"].clone();
        assert_eq!((called.code, &error["kind"]), (2, &json!("manifest")), "{called:?}");
        let problems = error["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{error:#}");
        let problem = &problems[0];
        assert_eq!((&problem["file"], &problem["line"]), (&json!("agents.toml"), &json!(4)));
        assert!(problem["message"].as_str().unwrap().contains("MY_TOKEN"), "{problem:#}");
    }
    assert_eq!(house.call(&["session", "ls", "--json"]).json()["sessions"], json!([]));
    let explained = house.call(&["explain-env", "--json"]).json();
    assert_eq!(explained["missing"], json!(["MY_TOKEN"]), "{explained:#}");
    let explained = house.call(&["explain-env", "--agent", "a", "--json"]).json();
    assert_eq!(explained["missing"], json!(["MY_TOKEN", "NOT_SET_ANYWHERE"]), "{explained:#}");
}
