//! The board with a real coordinator: several agents, several who follow it, and coordinators that die.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::house::{House, PATIENCE, finish, wait_for};

/// A house whose package managers do nothing, and succeed; `npm` touches its lock file.
fn with_managers() -> House {
    let house = House::watched();
    for name in ["npm", "pip", "cargo"] {
        let file = house.write(
            &format!("bin/{name}"),
            "#!/bin/sh\n[ $0 != ${0%npm} ] && echo x >> package-lock.json\nexit 0\n",
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", house.path("bin").display(), std::env::var("PATH").unwrap());
    house.with_env("PATH", &path)
}

/// A house whose folder is a workspace; what is done elsewhere goes to the user's private one.
fn at_home(house: House) -> House {
    let (code, report) = house.run("[[task]]\nid = 'first'\nrun = 'true'\n");
    assert_eq!(code, 0, "{report:#}");
    house
}

fn view(house: &House, told: &str) -> Value {
    let mut args = vec!["board", "get", "--json"];
    if !told.is_empty() {
        args.push(told);
    }
    house.call(&args).json()
}

fn keys(view: &Value) -> Vec<String> {
    let entries = view["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
}

fn set(house: &House, key: &str, value: &Value) {
    let called = house.call(&["board", "set", key, &value.to_string()]);
    assert_eq!(called.code, 0, "{called:?}");
}

/// Kills the coordinator at once; its pid.
fn kill_coordinator(house: &House) {
    let status = house.call(&["status", "--json"]).json();
    let pid = status["coordinator"]["pid"].as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    wait_for("the coordinator is gone", || {
        let status = house.call(&["status", "--json"]).json();
        if status["coordinator"].is_null() { Ok(()) } else { Err(status.to_string()) }
    });
}

/// `board watch --json`, and its lines.
struct Watch {
    child: Child,
    lines: Receiver<Value>,
}

impl Watch {
    fn begin(house: &House, args: &[&str]) -> Self {
        let mut all = vec!["board", "watch", "--json"];
        all.extend(args);
        let mut child = house.command(&all).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                drop(sender.send(serde_json::from_str(&line).unwrap()));
            }
        });
        Self { child, lines }
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// The next entry: its key and value.
    fn entry(&self) -> (String, Value) {
        loop {
            let line = self.next();
            assert_ne!(line["event"], "gap");
            if line["event"] == "entry" {
                assert_eq!(line["schema_version"], 1, "{line}");
                return (line["key"].as_str().unwrap().to_owned(), line["value"].clone());
            }
        }
    }

    fn through(&self) -> String {
        loop {
            let line = self.next();
            if line["event"] == "through" {
                return line["since"].as_str().unwrap().to_owned();
            }
        }
    }

    fn end(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let mut words = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        assert!(self.child.wait().unwrap().success(), "{words}");
    }
}

#[test]
fn the_second_agent_sees_what_the_first_has_installed() {
    let house = with_managers();
    let (code, report) = house.run(
        "[[task]]\nid = 'a'\nrun = ['mkdir -p web && cd web && npm i react@18 -D; true', 'cd .. && pip install Flask==3']\n\
         [[task]]\nid = 'b'\nafter = ['a']\nrun = 'cp \"$CALLBOARD_BOARD\" seen.json'\n",
    );
    assert_eq!(code, 0, "{report:#}");
    let seen: Value = serde_json::from_str(&house.read("seen.json")).unwrap();
    let state = &seen["shared_state"];
    let mut installed: Vec<&str> = state["dependencies_installed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    installed.sort_unstable();
    assert_eq!(installed, ["flask", "react"]);
    for key in ["ports_in_use", "services_running"] {
        assert_eq!(state[key], json!([]), "{key}");
    }
    assert_eq!(state["files_modified"], json!(["web/package-lock.json"]));
    let entries = seen["entries"].as_array().unwrap();
    let react = entries.iter().find(|entry| entry["key"] == "dep/npm/react").unwrap();
    assert_eq!(react["value"]["version"], "18");
    assert_eq!(react["value"]["cwd"], "web");
    assert_eq!(react["value"]["lock"]["file"], "web/package-lock.json");
    let run = report["run_id"].as_str().unwrap();
    assert_eq!(react["value"]["by"], format!("{run}/a"));
    assert_eq!(react["writer"], json!({"task": format!("{run}/a"), "attempt": 1}));
    // What the report says is what the board says.
    assert_eq!(report["board"]["workspace_id"], view(&house, "")["workspace_id"]);
    assert_eq!(keys(&view(&house, "dep")), ["dep/npm/react", "dep/pip/flask"]);
}

#[test]
fn dependencies_live_until_their_lock_file_changes() {
    let house = at_home(with_managers());
    // A failure installs nothing.
    house.exec("npm i broken; false");
    house.exec("npm i one");
    house.exec("npm i two");
    assert_eq!(
        keys(&view(&house, "dep")),
        ["dep/npm/one", "dep/npm/two"],
        "another install changes it lawfully"
    );
    house.exec("npm ci");
    let locked = view(&house, "dep/npm/package-lock.json");
    assert_eq!(locked["entries"][0]["value"]["lock"]["sha256"].as_str().unwrap().len(), 64);
    house.exec("npm rm one");
    assert_eq!(keys(&view(&house, "dep")), ["dep/npm/package-lock.json", "dep/npm/two"]);
    house.exec("echo other > package-lock.json");
    assert_eq!(keys(&view(&house, "dep")), [""; 0]);
    house.exec("npm i three");
    house.write("package-lock.json", "by hand");
    assert_eq!(keys(&view(&house, "dep")), [""; 0], "seen when the board is read");
}

#[test]
fn what_is_set_is_there_and_what_is_removed_is_not() {
    let house = House::watched();
    assert_eq!(view(&house, "")["shared_state"]["ports_in_use"], json!([]), "before anything");
    let called = house.call(&["board", "set", "note/plan", "{\"step\": 2}", "--json"]);
    assert_eq!(called.code, 0, "{called:?}");
    let entry = called.json();
    assert_eq!((&entry["key"], &entry["value"]), (&json!("note/plan"), &json!({"step": 2})));
    set(&house, "note/plans", &json!("other"));
    set(&house, "note/plan/deep", &json!([1]));
    assert_eq!(keys(&view(&house, "note/plan")), ["note/plan", "note/plan/deep"]);
    assert_eq!(house.call(&["board", "get", "note/plans"]).stdout, "note/plans  \"other\"\n");
    assert_eq!(house.call(&["board", "get", "note/none"]).code, 1);
    assert_eq!(house.call(&["board", "rm", "note/plan"]).code, 0);
    assert_eq!(keys(&view(&house, "")), ["note/plan/deep", "note/plans"]);
    for (args, words) in [
        (&["rm", "note/plan"][..], "is not known"),
        (&["set", "note/x", "text"], "not JSON"),
        (&["set", "plan", "1"], "a key begins with"),
        (&["set", "note//x", "1"], "no part of a key"),
        (&["set", "port/localhost/http", "1"], "port/<host>/<number>"),
        (&["set", "note/long", &format!("\"{}\"", "x".repeat(65 * 1024))], "the limit is 65536"),
        (&["watch", "--since", "yesterday"], "WALL.LOGICAL.NODE"),
    ] {
        let mut all = vec!["board"];
        all.extend(args);
        let called = house.call(&all);
        assert_eq!(called.code, 2, "{args:?}: {called:?}");
        assert!(called.stderr.contains(words), "{args:?}: {called:?}");
    }
}

#[test]
fn three_watchers_hear_everything_once_over_a_coordinators_death() {
    let house = House::watched();
    set(&house, "note/before", &json!(0));
    let watches: Vec<Watch> = (0..3).map(|_| Watch::begin(&house, &["note"])).collect();
    for watch in &watches {
        assert_eq!(watch.entry(), ("note/before".to_owned(), json!(0)));
        watch.through();
    }
    set(&house, "contract/unasked", &json!(1));
    for n in 0..5 {
        set(&house, &format!("note/{n}"), &json!(n));
    }
    house.call(&["board", "rm", "note/3"]);
    for watch in &watches {
        for n in 0..5 {
            assert_eq!(watch.entry(), (format!("note/{n}"), json!(n)));
        }
        assert_eq!(watch.entry(), ("note/3".to_owned(), Value::Null));
    }
    kill_coordinator(&house);
    set(&house, "note/after", &json!(true));
    for watch in &watches {
        assert_eq!(watch.entry(), ("note/after".to_owned(), json!(true)), "and nothing again");
    }
    // Another one that knows everything up to here hears what comes.
    let fresh = Watch::begin(&house, &[]);
    let since = fresh.through();
    fresh.end();
    house.call(&["board", "rm", "note/4"]);
    let later = Watch::begin(&house, &["--since", &since]);
    assert_eq!(later.entry(), ("note/4".to_owned(), Value::Null));
    later.end();
    watches.into_iter().for_each(Watch::end);
}

#[test]
fn nothing_acknowledged_is_lost_and_setters_do_not_hinder_one_another() {
    let house = House::watched();
    let setters: Vec<Child> = (0..10)
        .map(|n| {
            let script = format!(
                "for i in 1 2 3; do \"$B\" board set note/s{n}/$i $i && \"$B\" board set note/shared {n} || exit 1; done"
            );
            let mut command = Command::new("sh");
            let ours = house.command(&[""; 0]);
            command.env_clear().envs(ours.get_envs().filter_map(|(k, v)| Some((k, v?))));
            command.current_dir(house.workspace()).arg("-c").arg(script);
            command.env("B", env!("CARGO_BIN_EXE_callboard"));
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for setter in setters {
        let called = finish(setter);
        assert_eq!(called.code, 0, "{called:?}");
    }
    kill_coordinator(&house);
    let at_rest = view(&house, "note");
    assert_eq!(keys(&at_rest).len(), 31, "without a coordinator, as the journal has it");
    set(&house, "note/again", &json!(1));
    let after = view(&house, "note");
    assert_eq!(keys(&after).len(), 32);
    let shared = |view: &Value| {
        let entries = view["entries"].as_array().unwrap();
        entries.iter().find(|entry| entry["key"] == "note/shared").unwrap().clone()
    };
    assert_eq!(shared(&at_rest), shared(&after));
    kill_coordinator(&house);
    assert_eq!(keys(&view(&house, "note")).len(), 32);
}

#[test]
fn an_agent_writes_what_is_its_own() {
    let house = at_home(House::watched().with_env("B", env!("CARGO_BIN_EXE_callboard")));
    set(&house, "note/theirs", &json!("a person's"));
    let (code, report) = house.run(
        "[[task]]\nid = 'a'\nenv_pass = ['B']\nrun = '''\n\"$B\" board set note/mine 1 && \"$B\" board set note/mine 2 && \"$B\" board set contract/x 3\n\
         \"$B\" board set note/theirs 1 2>> refused; \"$B\" board set port/localhost/1 1 2>> refused; \"$B\" board rm note/theirs 2>> refused\n\
         \"$B\" board get note/theirs > read'''\n",
    );
    assert_eq!(code, 0, "{report:#}");
    let notes = view(&house, "note/mine");
    let run = report["run_id"].as_str().unwrap();
    assert_eq!(notes["entries"][0]["value"], 2);
    assert_eq!(notes["entries"][0]["writer"], json!({"task": format!("{run}/a"), "attempt": 1}));
    assert_eq!(report["tasks"][0]["published"], json!(["contract/x", "note/mine"]));
    let refused = house.read("refused");
    assert_eq!(refused.matches("another task has put up").count(), 2, "{refused}");
    assert!(refused.contains("are observed"), "{refused}");
    assert!(house.read("read").contains("a person's"));
    assert_eq!(view(&house, "note/theirs")["entries"][0]["value"], "a person's");
}

#[test]
fn what_a_task_publishes_its_followers_find() {
    let house = House::watched();
    let (code, report) = house.run(
        "[[task]]\nid = 'api'\nrun = 'echo \\'{\"paths\": {}}\\' > api.json'\npublish = { api = '@api.json', 'note/v' = 7 }\n\
         [[task]]\nid = 'use'\nafter = ['api']\nrun = 'cp \"$CALLBOARD_INPUTS\" seen.json'\n\
         [[task]]\nid = 'alone'\nrun = 'cp \"$CALLBOARD_INPUTS\" empty.json'\n\
         [[task]]\nid = 'broken'\nrun = 'true'\npublish = { x = '@nowhere' }\n"
            .replace("'echo \\'{\"paths\": {}}\\' > api.json'", "\"echo '{\\\"paths\\\": {}}' > api.json\"")
            .as_str(),
    );
    assert_eq!(code, 1, "{report:#}");
    let seen: Value = serde_json::from_str(&house.read("seen.json")).unwrap();
    assert_eq!(seen["inputs"], json!({"api": {"contract/api": {"paths": {}}, "note/v": 7}}));
    let empty: Value = serde_json::from_str(&house.read("empty.json")).unwrap();
    assert_eq!(empty["inputs"], json!({}));
    let tasks = report["tasks"].as_array().unwrap();
    assert_eq!(tasks[0]["published"], json!(["contract/api", "note/v"]));
    assert_eq!(tasks[1]["published"], json!([]));
    assert_eq!(tasks[3]["state"], "failed");
    assert_eq!(tasks[3]["reason"]["kind"], "publish", "{report:#}");
    assert_eq!(tasks[3]["published"], json!([]));
    let published = &report["board"]["shared_state"]["published"];
    assert_eq!(published["contract/api"], json!({"paths": {}}));
}

#[test]
fn a_contract_that_changes_while_it_is_used_is_told() {
    let house = House::watched();
    house.write(
        "m.toml",
        "[[task]]\nid = 'api'\nrun = 'true'\npublish = { api = 1 }\n\
         [[task]]\nid = 'use'\nafter = ['api']\nrun = 'touch up; while [ ! -e go ]; do sleep 0.05; done; false'\n\
         [[task]]\nid = 'other'\nrun = 'while [ ! -e go ]; do sleep 0.05; done'\n",
    );
    let child = house.command(&["run", "m.toml", "--json", "--jobs", "3"]).spawn().unwrap();
    wait_for("the task is up", || house.path("up").exists().then_some(()).ok_or(String::new()));
    set(&house, "contract/api", &json!(1));
    let status = house.call(&["status", "--json"]).json();
    assert_eq!(status["remarks"], json!([]), "the same again is no change");
    set(&house, "contract/api", &json!(2));
    let status = house.call(&["status", "--json"]).json();
    let remark = status["remarks"][0].as_str().unwrap();
    assert!(remark.contains("stale-config suspect: contract/api"), "{status:#}");
    house.write("go", "");
    let report = finish(child).json();
    let tasks = report["tasks"].as_array().unwrap();
    assert_eq!(tasks[1]["class"], "stale-config suspect", "{report:#}");
    assert!(tasks[1]["remarks"][0].as_str().unwrap().contains("contract/api"));
    assert_eq!((&tasks[0]["class"], &tasks[2]["class"]), (&Value::Null, &Value::Null));
}

#[test]
fn ports_and_services_go_with_their_process() {
    let house = House::watched();
    house.write("listen.py", "import socket, time, os\ns = socket.create_server(('127.0.0.1', 0))\nt = socket.create_server(('::1', s.getsockname()[1]), family=socket.AF_INET6)\nopen('port', 'w').write(f'{s.getsockname()[1]} {os.getpid()}')\ntime.sleep(600)\n");
    let (code, result) = house.exec_with(
        &["--session", "dev"],
        "python3 listen.py & while [ ! -s port ]; do sleep 0.05; done",
    );
    assert_eq!(code, 0, "{result:#}");
    let told = house.read("port");
    let (port, pid) = told.split_once(' ').unwrap();
    let seen = wait_for("its ports are on the board", || {
        let seen = view(&house, "");
        if keys(&seen).len() == 3 { Ok(seen) } else { Err(seen.to_string()) }
    });
    assert_eq!(
        keys(&seen),
        [
            format!("port/127.0.0.1/{port}"),
            format!("port/::1/{port}"),
            format!("service/dev:{port}")
        ]
    );
    let state = &seen["shared_state"];
    assert_eq!(state["ports_in_use"], json!([port.parse::<u16>().unwrap()]));
    assert_eq!(state["services_running"], json!([format!("dev:{port}")]));
    for entry in seen["entries"].as_array().unwrap() {
        assert_eq!(entry["value"]["pid"].to_string(), pid);
    }
    assert_eq!(house.call(&["session", "close", "dev"]).code, 0);
    wait_for("they are gone", || {
        let seen = view(&house, "");
        if keys(&seen).is_empty() { Ok(()) } else { Err(seen.to_string()) }
    });
}
