//! Escalations from raising to answer, against the real binary.

use serde_json::{Value, json};

use crate::house::{House, wait_for};

fn task<'a>(report: &'a Value, id: &str) -> &'a Value {
    let tasks = report["tasks"].as_array().unwrap();
    tasks.iter().find(|task| task["id"] == id).unwrap_or_else(|| panic!("no task {id}: {report:#}"))
}

fn listed(house: &House, flags: &[&str]) -> Vec<Value> {
    let called = house.call(&[&["escalation", "ls", "--json"], flags].concat());
    assert_eq!(called.code, 0, "{called:?}");
    called.json()["escalations"].as_array().unwrap().clone()
}

fn id_of<'a>(lines: &'a [Value], task: &str) -> &'a str {
    let of_task = |line: &&Value| line["task_id"].as_str().unwrap().ends_with(task);
    lines.iter().find(of_task).unwrap()["id"].as_str().unwrap()
}

#[test]
fn answers_after_the_runs_end_hold_when_it_is_resumed() {
    let house = House::new();
    let (code, report) = house.run(
        "[[task]]\nid = \"ask\"\nrun = \"read -p 'Continue? [y/N] ' a; echo got $a > got\"\n\
         [[task]]\nid = \"next\"\nafter = [\"ask\"]\nrun = \"touch next\"\n\
         [[task]]\nid = \"checked\"\nrun = \"true\"\nverify = \"exit 3\"\n",
    );
    assert_eq!(code, 4, "{report:#}");
    let run = report["run_id"].as_str().unwrap();
    let lines = listed(&house, &[]);
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let told: Vec<_> = report["escalations"].as_array().unwrap().iter().map(|e| &e["id"]).collect();
    assert!(lines.iter().all(|line| told.contains(&&line["id"])), "{lines:#?} {told:?}");
    assert!(lines.iter().all(|line| line["state"] == "open" && line["to"] == "person"));

    let (ask, checked) = (id_of(&lines, "/ask"), id_of(&lines, "/checked"));
    let wrong = house.call(&["escalation", "resolve", ask, "force", "--json"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let answered = house.call(&["escalation", "resolve", ask, "input:y\n", "--json"]);
    assert_eq!((answered.code, &answered.json()["answer"]), (0, &json!("input")), "{answered:?}");
    assert_eq!(house.call(&["escalation", "resolve", checked, "skip"]).code, 0);
    let twice = house.call(&["escalation", "resolve", checked, "fail"]);
    assert_eq!(twice.code, 2, "answered once: {twice:?}");
    assert_eq!(listed(&house, &[]), Vec::<Value>::new());
    assert_eq!(listed(&house, &["--all"]).len(), 2);
    assert!(!house.path("got").exists(), "nothing is done before the run goes on");

    let resumed = house.call(&["run", "--resume", run, "--json"]);
    let report = resumed.json();
    assert_eq!(resumed.code, 0, "{report:#}");
    assert_eq!(house.read("got"), "got y\n");
    assert!(house.path("next").exists());
    assert_eq!(task(&report, "checked")["state"], "skipped");
    assert_eq!(task(&report, "checked")["reason"]["kind"], "decided", "{report:#}");
    let answers: Vec<_> =
        report["escalations"].as_array().unwrap().iter().map(|e| &e["answer"]).collect();
    assert!(answers.contains(&&json!("input")) && answers.contains(&&json!("skip")), "{report:#}");
    house.assert_empties();
}

#[test]
fn an_answer_while_the_run_goes_on_and_none_from_inside_it() {
    let house = House::new();
    house.write(
        "m.toml",
        "[[task]]\nid = \"checked\"\nrun = \"true\"\nverify = \"test -e good\"\n\
         [[task]]\nid = \"busy\"\nrun = \"until test -e id; do sleep 0.05; done; \
           callboard escalation resolve $(cat id) skip; echo $? > code; \
           until test -e stop; do sleep 0.05; done\"\n",
    );
    let called = house.call(&["run", "m.toml", "--detach", "--json"]);
    let run = called.json()["run_id"].as_str().unwrap().to_owned();
    let id = wait_for("the escalation", || {
        let lines = listed(&house, &[]);
        lines.first().map(|line| line["id"].as_str().unwrap().to_owned()).ok_or(String::new())
    });
    house.write("id", &id);
    let code = wait_for("a refusal", || {
        let code = std::fs::read_to_string(house.path("code")).unwrap_or_default();
        if code.is_empty() { Err(code) } else { Ok(code) }
    });
    assert_ne!(code, "0\n");
    assert_eq!(listed(&house, &[]).len(), 1, "a process of the run decides nothing of it");
    house.write("good", "");
    assert_eq!(house.call(&["escalation", "resolve", &id, "retry"]).code, 0);
    wait_for("the second attempt", || {
        let shown = house.call(&["task", "show", &format!("{run}/checked"), "--json"]).json();
        if shown["state"] == "succeeded" { Ok(()) } else { Err(shown.to_string()) }
    });
    house.write("stop", "");
    assert_eq!(house.call(&["task", "wait", &format!("{run}/busy")]).code, 0);
    house.assert_empties();
}
