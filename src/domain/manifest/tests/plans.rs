//! What a manifest in order becomes.

use std::path::{Path, PathBuf};

use super::super::{Agents, File, check_agents};
use super::Case;
use crate::domain::plan::{Class, Dependency, InputRule, Ready, StopRule, Unanswered, When};

const EVERYTHING: &str = r#"
[workspace]
id = "shop"
root = "./app"

[defaults]
needs = ["rust"]
timeout = "5m"
retries = 2
env = { LANG = "C", MODE = "default" }
shell = "bash"
isolation = "shared"
limits = { output = "10MiB", memory = "1GiB", processes = 64, cpu = "90s" }
shell_profile = false

[[task]]
id = "build"
run = ["cargo build", "cargo doc"]
priority = -3
class = "build"
hard_timeout = "10m"
input_timeout = "2500ms"
env = { MODE = "own" }
env_pass = ["MY_TOKEN"]
cwd = "core"
artifacts = ["target/**/*.log"]
verify = "test -d target"
stop_on = [{ match = "panicked", reason = "a panic" }, { match = "fatal" }]
on_input = [{ match = "sure\\?", send = "y\n" }, "fail"]

[[task]]
id = "server"
needs = []
run = "serve"
ports = { web-1 = 8080 }
retries = 0
limits = {}
service = { ready = "port:web-1", keep = "run" }

[[task]]
id = "check"
run = "true"
after = ["server", { task = "build", when = "failure" }, "server"]
on_input = "fail"
"#;

const AGENTS: &str = r#"
[defaults]
env = { TEAM = "blue" }
env_pass = ["MY_KEY"]

[[agent]]
name = "ferris"
tags = ["rust", "sql"]
adapter = "shell"
capacity = 3
limits = { output = "5MB" }
env = { CARGO_TERM_COLOR = "never" }
"#;

#[test]
fn every_supported_key_reaches_the_plan() {
    let plan = Case::with(EVERYTHING, AGENTS).plan();
    assert_eq!(plan.root, PathBuf::from("/srv/project/app"));
    assert_eq!(plan.workspace_id.as_ref().map(|id| id.as_str()), Some("shop"));
    assert_eq!(plan.default_env["TEAM"], "blue");
    assert_eq!(plan.default_env_pass, ["MY_KEY"]);
    assert_eq!(plan.agents.len(), 1);
    assert_eq!((plan.agents[0].name.as_str(), plan.agents[0].capacity), ("ferris", 3));
    assert_eq!(plan.agents[0].tags.len(), 2);
    let [build, server, check] = plan.tasks.as_slice() else { panic!("three tasks") };

    assert_eq!(build.run, ["cargo build", "cargo doc"]);
    assert_eq!(build.needs.iter().map(|tag| tag.as_str()).collect::<Vec<_>>(), ["rust"]);
    assert_eq!(build.limits.timeout_ms, Some(300_000));
    assert_eq!(build.limits.hard_timeout_ms, Some(600_000));
    assert_eq!(build.limits.input_timeout_ms, Some(2_500));
    assert_eq!(build.resources.output, Some(10 << 20));
    assert_eq!(build.resources.memory, Some(1 << 30));
    assert_eq!((build.resources.processes, build.resources.cpu_ms), (Some(64), Some(90_000)));
    assert_eq!(server.resources.output, None, "its own table stands for the default's");
    let both = build.resources.and(plan.agents[0].resources);
    assert_eq!((both.output, server.resources.and(both).output), (Some(5_000_000), both.output));
    assert_eq!((build.retries, build.priority, build.class), (2, -3, Some(Class::Build)));
    assert_eq!(build.env["LANG"], "C");
    assert_eq!(build.env["MODE"], "own");
    assert_eq!(build.env_pass, ["MY_TOKEN"]);
    assert_eq!(build.cwd.as_deref(), Some(Path::new("core")));
    assert_eq!(build.artifacts, ["target/**/*.log"]);
    assert_eq!(build.verify.as_deref(), Some("test -d target"));
    let panics = StopRule { pattern: "panicked".into(), reason: Some("a panic".into()) };
    assert_eq!(build.stop_on, [panics, StopRule { pattern: "fatal".into(), reason: None }]);
    let sure = InputRule { pattern: "sure\\?".into(), send: "y\n".into() };
    assert_eq!(build.on_input.rules, [sure]);
    assert_eq!(build.on_input.otherwise, Unanswered::Fail);

    assert!(server.needs.is_empty(), "a list of its own overrides the default, even an empty one");
    assert_eq!((server.retries, server.ports["web-1"]), (0, 8080));
    assert_eq!(server.service.as_ref().unwrap().ready, Ready::Port(8080));
    assert_eq!(server.on_input.otherwise, Unanswered::Escalate);

    let success = Dependency { task: 1, when: When::Success };
    assert_eq!(check.after, [success, Dependency { task: 0, when: When::Failure }]);
    assert_eq!(check.on_input.otherwise, Unanswered::Fail);
}

#[test]
fn services_are_ready_by_port_url_or_line() {
    for (ready, expected) in [
        (
            "http:http://127.0.0.1:80/health?x=1",
            Ready::Http("http://127.0.0.1:80/health?x=1".into()),
        ),
        ("http://[::1]:8080", Ready::Http("http://[::1]:8080".into())),
        ("http://[::1]", Ready::Http("http://[::1]".into())),
        ("log:listening on :\\d+", Ready::Log("listening on :\\d+".into())),
    ] {
        let ready = toml::Value::String(ready.to_owned());
        let manifest = format!("[[task]]\nid='t'\nrun='s'\nservice = {{ ready = {ready} }}");
        let plan = Case::of(&manifest).plan();
        assert_eq!(plan.tasks[0].service.as_ref().unwrap().ready, expected);
    }
}

#[test]
fn without_agents_there_is_local() {
    let task = "[[task]]\nid = 'a'\nrun = 'true'";
    let plan = Case::of(task).plan();
    assert_eq!(plan.agents, Agents::local(2).agents);
    assert_eq!((plan.agents[0].name.as_str(), plan.agents[0].capacity), ("local", 2));
    let plan = Case::with(task, "[defaults]\nenv = { A = 'b' }").plan();
    assert_eq!(plan.agents, Agents::local(2).agents);
    assert_eq!(plan.default_env["A"], "b");
    assert_eq!(Agents::local(0).agents[0].capacity, 1);
}

#[test]
fn agents_are_checked_by_themselves_too() {
    let file = |text: &'static str| File { name: "a.toml", bytes: text.as_bytes() };
    let agents = check_agents(file(AGENTS), &|_| true, 1).unwrap();
    assert_eq!(agents.agents.len(), 1);
    let problems = check_agents(file("[[agent]]\nnam = 'x'"), &|_| true, 1).unwrap_err();
    assert_eq!(problems.len(), 2);
    assert_eq!((problems[1].line, problems[1].text.as_str()), (2, "nam"));
}

#[test]
fn the_root_is_the_one_told_else_the_manifests_else_its_folder() {
    use super::super::{Sources, check};
    let root = |manifest: &str, told: Option<&str>| {
        let sources = Sources {
            manifest: File { name: "m", bytes: manifest.as_bytes() },
            agents: None,
            base: Path::new("/srv/project"),
            root_override: told.map(Path::new),
            variables: &std::collections::BTreeMap::new(),
            passed: &|_| false,
            local_capacity: 1,
        };
        check(&sources).unwrap().root
    };
    let plain = "[[task]]\nid = 'a'\nrun = 'true'";
    let own = "[workspace]\nroot = './sub/.'\n[[task]]\nid = 'a'\nrun = 'true'";
    assert_eq!(root(plain, None), Path::new("/srv/project"));
    assert_eq!(root(own, None), Path::new("/srv/project/sub"));
    assert_eq!(root(own, Some("/elsewhere")), Path::new("/elsewhere"));
    assert_eq!(root(plain, Some("other")), Path::new("/srv/project/other"));
}

#[test]
fn variables_are_filled_in() {
    let manifest = "[[task]]\nid = '${{ NAME }}-1'\nrun = ['echo ${{NAME}} ${{ N }}${{N}}', 'true']\n\
                    env = { A = '${{N}}' }\n";
    let case = Case { vars: &[("NAME", "a${{N}}"), ("N", "7")], ..Case::of(manifest) };
    let plan = case.plan();
    assert_eq!(plan.tasks[0].id.as_str(), "a${{N}}-1", "what is filled in is not read again");
    assert_eq!(plan.tasks[0].run[0], "echo a${{N}} 77");
    assert_eq!(plan.tasks[0].env["A"], "7");
}
