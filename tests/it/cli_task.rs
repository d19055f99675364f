//! `task` and `agent` with the real binary.

use serde_json::{Value, json};

use crate::house::{House, finish, wait_for};

fn dispatch(house: &House, args: &[&str]) -> String {
    let mut all = vec!["task", "dispatch", "--json"];
    all.extend(args);
    let called = house.call(&all);
    assert_eq!(called.code, 0, "{called:?}");
    called.json()["task_id"].as_str().unwrap().to_owned()
}

fn show(house: &House, id: &str) -> Value {
    house.call(&["task", "show", id, "--json"]).json()
}

fn wait(house: &House, id: &str) -> i32 {
    house.call(&["task", "wait", id]).code
}

fn run_of(id: &str) -> &str {
    id.split('/').next().unwrap()
}

#[test]
fn a_standing_run_takes_tasks_and_ends_when_nobody_adds_more() {
    let house = House::new();
    let first = dispatch(
        &house,
        &[
            "--run",
            "echo $X $PWD; [ -e again ] || { touch again; exit 1; }",
            "--env",
            "X=a \"b\"",
            "--retries",
            "1",
            "--priority",
            "-3",
            "--class",
            "build",
            "--timeout",
            "20s",
        ],
    );
    let second = dispatch(&house, &["--after", &first, "--run", "echo second"]);
    let third = dispatch(&house, &["--after", "t2", "--after", "t1", "--run", "echo third"]);
    assert_eq!(run_of(&first), run_of(&second));
    assert_eq!(wait(&house, &third), 0);
    let shown = show(&house, &first);
    assert_eq!((&shown["attempts"], &shown["class"]), (&json!(2), &json!("flaky")), "{shown:#}");
    let here = house.workspace().canonicalize().unwrap();
    let said = format!("a \"b\" {}\n", here.display());
    assert_eq!(shown["commands"][0]["stdout"], said, "{shown:#}");
    assert_eq!(show(&house, &third)["waited_on"], json!(["t2", "t1"]));
    // It rests, and says so.
    let status = house.call(&["status", "--json"]).json();
    let resting =
        status["waiting"].as_array().unwrap().iter().find(|w| w["what"] == run_of(&first));
    assert!(!resting.unwrap()["deadline"].is_null(), "{status:#}");
    house.assert_empties();
    let report = house.call(&["report", run_of(&first), "--json"]).json();
    assert_eq!(
        (&report["outcome"], &report["counts"]),
        (&json!("succeeded"), &json!({"succeeded": 3}))
    );
    // The next one begins another.
    let later = dispatch(&house, &["--after", &third, "--run", "true"]);
    assert_ne!(run_of(&later), run_of(&first));
    assert_eq!(wait(&house, &later), 0);
    let doomed =
        dispatch(&house, &["--after", &format!("{}/t1", run_of(&later)), "--run", "exit 1"]);
    assert_eq!(wait(&house, &doomed), 1);
    let skipped = dispatch(&house, &["--after", &doomed, "--run", "true"]);
    assert_eq!(wait(&house, &skipped), 3);
}

#[test]
fn what_is_waited_for_may_be_in_another_run() {
    let house = House::new();
    house.write(
        "m.toml",
        "[[task]]\nid = \"good\"\nrun = \"while [ ! -e over ]; do sleep 0.05; done\"\n\
         [[task]]\nid = \"bad\"\nrun = \"while [ ! -e over ]; do sleep 0.05; done; exit 1\"\n",
    );
    let called = house.call(&["run", "m.toml", "--detach", "--json", "--jobs", "2"]);
    let run = called.json()["run_id"].as_str().unwrap().to_owned();
    let behind = dispatch(&house, &["--after", "good", "--run", "echo after"]);
    let lost =
        dispatch(&house, &["--after", &format!("{run}/bad"), "--after", "good", "--run", "true"]);
    let shown = show(&house, &behind);
    assert_eq!(shown["state"], "blocked", "{shown:#}");
    assert_eq!(shown["waiting"]["on"], json!(format!("task {run}/good")), "{shown:#}");
    house.write("over", "");
    assert_eq!(wait(&house, &behind), 0);
    assert_eq!(wait(&house, &lost), 3);
    let reason = show(&house, &lost)["reason"].clone();
    assert_eq!(
        reason,
        json!({"kind": "dependency", "task": format!("{run}/bad"), "state": "failed"})
    );
    wait_for("the run has ended", || {
        let report = house.call(&["report", &run, "--json"]).json();
        if report["outcome"].is_null() { Err(report.to_string()) } else { Ok(()) }
    });
    // Runs that have ended are evaluated at once.
    let behind = dispatch(&house, &["--after", &format!("{run}/good"), "--run", "true"]);
    assert_eq!(wait(&house, &behind), 0);
    let lost = dispatch(&house, &["--after", &format!("{run}/bad"), "--run", "true"]);
    let waited = house.call(&["task", "wait", &lost, "--json"]);
    assert_eq!(waited.json()["tasks"][0]["state"], "skipped", "{waited:?}");
    let called = house.call(&["task", "dispatch", "--after", "nobody", "--run", "true"]);
    assert_eq!(called.code, 2, "{called:?}");
}

#[test]
fn other_agents_and_another_environment_have_another_run() {
    let house = House::new();
    let first = dispatch(&house, &["--run", "true"]);
    let again = dispatch(&house, &["--run", "true"]);
    assert_eq!(run_of(&first), run_of(&again));
    let mut command = house.command(&["task", "dispatch", "--json", "--run", "echo $LANG"]);
    command.env("LANG", "en_US.UTF-8");
    let called = finish(command.spawn().unwrap());
    let german = called.json()["task_id"].as_str().unwrap().to_owned();
    assert_ne!(run_of(&german), run_of(&first));
    house.write("agents.toml", "[[agent]]\nname = \"w\"\ntags = [\"x\"]\ncapacity = 1\n");
    let tagged = dispatch(&house, &["--needs", "x", "--run", "true"]);
    assert_ne!(run_of(&tagged), run_of(&first));
    for id in [&first, &again, &german, &tagged] {
        assert_eq!(wait(&house, id), 0);
    }
    assert_eq!(show(&house, &german)["commands"][0]["stdout"], "en_US.UTF-8\n");
    let agents = house.call(&["agent", "ls", "--json"]).json();
    let line = json!({"name": "w", "tags": ["x"], "adapter": "shell", "capacity": 1, "running": 0});
    assert_eq!(agents["agents"], json!([line]));
    // The coordinator is told to end: the runs that rest end well.
    let pid = house.call(&["status", "--json"]).json()["coordinator"]["pid"].to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    house.assert_empties();
    let runs = house.call(&["run", "ls", "--json"]).json();
    for run in runs["runs"].as_array().unwrap() {
        assert_eq!(run["outcome"], "succeeded", "{runs:#}");
    }
}

#[test]
fn what_cannot_be_dispatched_is_told_in_words() {
    let house = House::new();
    for (args, words) in [
        (&["--prompt", "do it"][..], "no agent here takes prompts"),
        (&["--run", ""], "run"),
        (&["--run", "true", "--needs", "a tag"], "no agent carries"),
        (&["--run", "true", "--env", "CALLBOARD_TASK=x"], "callboard's own"),
        (&["--run", "true", "--cwd", "nowhere"], "nowhere"),
        (&["--run", "true", "--writes", "src/["], "bad glob"),
        (&["--run", "true", "--timeout", "5"], "is not a duration"),
    ] {
        let mut all = vec!["task", "dispatch"];
        all.extend(args);
        let called = house.call(&all);
        assert_eq!(called.code, 2, "{args:?}: {called:?}");
        assert!(called.stderr.contains(words), "{args:?}: {called:?}");
    }
    assert!(house.processes().is_empty(), "nobody was started for nothing");
}

#[test]
fn logs_go_on_over_commands_and_attempts() {
    let house = House::new();
    house.write(
        "m.toml",
        "[[task]]\nid = \"a\"\nretries = 1\nrun = [\n\"echo one $CALLBOARD_ATTEMPT; echo oops >&2\",\n\
         \"while [ ! -e go ]; do sleep 0.02; done; printf '\\\\033[31mtwo\\\\033[0m\\\\n'\",\n\
         \"[ $CALLBOARD_ATTEMPT = 2 ]\"]\n\
         [[task]]\nid = \"late\"\nafter = [\"a\"]\nrun = \"echo late\"\n",
    );
    let called = house.call(&["run", "m.toml", "--detach", "--json"]);
    let run = called.json()["run_id"].as_str().unwrap().to_owned();
    let follower = house.command(&["task", "logs", "a", "-f"]).spawn().unwrap();
    let patient = house.command(&["task", "logs", "late", "--follow"]).spawn().unwrap();
    wait_for("the first command's words", || {
        let said = house.call(&["task", "logs", "a"]).stdout;
        if said == "one 1\noops\n" { Ok(()) } else { Err(said) }
    });
    house.write("go", "");
    let both = "one 1\noops\ntwo\none 2\noops\ntwo\n";
    let followed = finish(follower);
    assert_eq!((followed.code, followed.stdout.as_str()), (0, both), "{followed:?}");
    assert_eq!(finish(patient).stdout, "late\n");
    house.assert_empties();
    // Without a coordinator.
    let logs = |args: &[&str]| {
        let mut all = vec!["task", "logs"];
        all.extend(args);
        house.call(&all)
    };
    assert_eq!(logs(&["a"]).stdout, "one 2\noops\ntwo\n");
    assert_eq!(logs(&[&format!("{run}/a"), "--attempt", "1"]).stdout, "one 1\noops\ntwo\n");
    assert_eq!(logs(&["a", "--stderr"]).stdout, "oops\n");
    assert!(logs(&["a", "--raw"]).stdout.contains("\u{1b}[31mtwo"));
    assert_eq!(logs(&["a", "--follow"]).stdout, "one 2\noops\ntwo\n");
    assert_eq!(logs(&["a", "--attempt", "3"]).code, 2);
    assert!(house.processes().is_empty());
}

#[test]
fn a_bare_id_is_that_of_the_newest_run() {
    let house = House::new();
    for text in ["old", "new"] {
        let manifest = format!("[[task]]\nid = \"a\"\nrun = \"echo {text}\"\n");
        assert_eq!(house.run(&manifest).0, 0);
    }
    let newest = show(&house, "a");
    assert_eq!(newest["commands"][0]["stdout"], "new\n", "{newest:#}");
    let all = house.call(&["task", "ls", "--all", "--json"]).json();
    let all = all["tasks"].as_array().unwrap();
    assert_eq!((all.len(), &all[0]["task_id"]), (2, &newest["task_id"]));
    let old = show(&house, all[1]["task_id"].as_str().unwrap());
    assert_eq!(old["commands"][0]["stdout"], "old\n");
    let settled = house.call(&["task", "ls", "--state", "succeeded", "--all", "--json"]).json();
    assert_eq!(settled["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(house.call(&["task", "ls", "--json"]).json()["tasks"], json!([]));
    assert_eq!(house.call(&["task", "ls", "--run", "r-none"]).code, 2);
}

#[test]
fn a_failed_task_is_tried_again_while_its_run_goes_on() {
    let house = House::new();
    house.write(
        "m.toml",
        "[[task]]\nid = \"a\"\nrun = \"[ -e fixed ]\"\n\
         [[task]]\nid = \"b\"\nafter = [\"a\"]\nrun = \"true\"\n\
         [[task]]\nid = \"keep\"\nrun = \"while [ ! -e over ]; do sleep 0.05; done\"\n",
    );
    let called = house.call(&["run", "m.toml", "--detach", "--json", "--jobs", "3"]);
    let run = called.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(wait(&house, "b"), 3);
    let refused = house.call(&["task", "retry", "b"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("because of `a`"), "{refused:?}");
    assert_eq!(house.call(&["task", "retry", "keep"]).code, 2, "it runs");
    house.write("fixed", "");
    let retried = house.call(&["task", "retry", "a", "--json"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    assert_eq!(retried.json()["task_id"], json!(format!("{run}/a")));
    assert_eq!((wait(&house, "a"), wait(&house, "b")), (0, 0));
    house.write("over", "");
    house.assert_empties();
    let report = house.call(&["report", &run, "--json"]).json();
    assert_eq!(
        (&report["outcome"], &report["tasks"][0]["attempts"]),
        (&json!("succeeded"), &json!(2))
    );
    let refused = house.call(&["task", "retry", "a"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("its run has succeeded"), "{refused:?}");
}

#[test]
fn a_run_that_ended_badly_is_taken_up_again_for_a_retry() {
    let house = House::new();
    let manifest = "[[task]]\nid = \"a\"\nrun = \"[ -e fixed ]\"\n\
        [[task]]\nid = \"b\"\nafter = [\"a\"]\nrun = \"true\"\n\
        [[task]]\nid = \"c\"\nrun = \"echo c >> c\"\n";
    let (code, report) = house.run(manifest);
    assert_eq!(code, 1, "{report:#}");
    house.assert_empties();
    house.write("fixed", "");
    let retried = house.call(&["task", "retry", "a"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    assert_eq!((wait(&house, "a"), wait(&house, "b")), (0, 0));
    house.assert_empties();
    let run = report["run_id"].as_str().unwrap();
    let report = house.call(&["report", run, "--json"]).json();
    assert_eq!(
        (&report["outcome"], &report["tasks"][0]["attempts"]),
        (&json!("succeeded"), &json!(2))
    );
    assert_eq!(house.read("c"), "c\n", "what had succeeded was left alone");
}

#[test]
fn a_standing_run_outlives_its_coordinator() {
    let house = House::new();
    let hold = "while [ ! -e over ]; do sleep 0.05; done";
    let first = dispatch(&house, &["--run", &format!("touch up; {hold}"), "--cwd", "."]);
    let second =
        dispatch(&house, &["--after", &first, "--run", "echo second >> log", "--cwd", "."]);
    wait_for("it runs", || house.path("up").exists().then_some(()).ok_or(String::new()));
    let pid = house.call(&["status", "--json"]).json()["coordinator"]["pid"].to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let lost = house.call(&["status", "--json"]).json();
    assert_eq!((&lost["coordinator"], &lost["tasks"][0]["task_id"]), (&Value::Null, &json!(first)));
    assert_eq!(lost["waiting"][0]["what"], json!(run_of(&first)), "{lost:#}");
    // Whoever waits starts the next one; the same run takes more.
    let waiter = house.command(&["task", "wait", &first, &second]).spawn().unwrap();
    let third = dispatch(&house, &["--after", &second, "--run", "echo third >> log", "--cwd", "."]);
    assert_eq!(run_of(&third), run_of(&first));
    house.write("over", "");
    let waited = finish(waiter);
    assert_eq!(waited.code, 0, "{waited:?}");
    assert_eq!(wait(&house, &third), 0);
    assert_eq!(house.read("log"), "second\nthird\n");
    let shown = show(&house, &first);
    assert_eq!(shown["attempts"], json!(1), "{shown:#}");
    house.assert_empties();
}

#[test]
fn status_fits_and_says_what_waits() {
    let house = House::new();
    house.write(
        "m.toml",
        "[[task]]\nid = \"a-task-with-quite-a-long-name-for-one\"\n\
         run = \"read -p 'A question that is longer than any line of a terminal could be, really? ' x\"\n\
         [[task]]\nid = \"keep\"\nrun = \"while [ ! -e over ]; do sleep 0.05; done\"\n",
    );
    let called = house.call(&["run", "m.toml", "--detach", "--json", "--jobs", "2"]);
    let run = called.json()["run_id"].as_str().unwrap().to_owned();
    let status = wait_for("it asks", || {
        let status = house.call(&["status", "--json"]).json();
        let asks = status["waiting"].to_string().contains("input: A question");
        if asks { Ok(status) } else { Err(status.to_string()) }
    });
    let name = json!(format!("{run}/a-task-with-quite-a-long-name-for-one"));
    let lines = status["waiting"].as_array().unwrap();
    let waiting = lines.iter().find(|line| line["what"] == name).unwrap();
    assert!(waiting["on"].as_str().unwrap().starts_with("input: A question"), "{waiting}");
    assert!(!waiting["deadline"].is_null(), "{waiting}");
    let words = house.call(&["status"]).stdout;
    let longest = words.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest}: {words}");
    house.write("over", "");
    house.assert_empties();
}
