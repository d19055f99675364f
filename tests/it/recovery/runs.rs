//! Runs go on.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::{Ward, signal, task};
use crate::house::wait_for;

/// A task that says who it is, waits for the file `go`, and says that it is done.
fn waiting(id: &str) -> String {
    format!(
        "[[task]]\nid = \"{id}\"\n\
         run = [\"X=$RANDOM$$; echo $X >> began-{id}\", \
         \"until [ -e go ]; do sleep 0.02; done\", \"echo $X >> done-{id}\"]\n"
    )
}

/// Enough agents for all tasks at once.
fn crowd(ward: &Ward) {
    let agent = "[[agent]]\nname = \"crew\"\ntags = []\nadapter = \"shell\"\ncapacity = 8\n";
    ward.house.write("agents.toml", agent);
}

fn begun(ward: &Ward, ids: &[&str]) {
    for id in ids {
        ward.lines(&format!("began-{id}"), 1);
    }
}

fn ran_once(ward: &Ward, ids: &[&str]) {
    for id in ids {
        let (began, done) =
            (ward.house.read(&format!("began-{id}")), ward.house.read(&format!("done-{id}")));
        assert_eq!(began.lines().count(), 1, "{id} began: {began:?}");
        assert_eq!(began, done, "{id} ended in the shell that it began in");
    }
}

#[test]
fn the_same_shells_go_on() {
    let ward = Ward::new();
    crowd(&ward);
    let ids = ["a", "b", "c"];
    let last = "[[task]]\nid = \"z\"\nafter = [\"a\", \"b\", \"c\"]\nrun = \"echo z >> z\"\n";
    let early = "[[task]]\nid = \"early\"\nretries = 1\n\
        run = [\"echo out; echo err >&2\", \"[ $CALLBOARD_ATTEMPT = 2 ]\"]\n";
    let others = [early.to_owned(), last.to_owned()];
    let manifest: String = ids.iter().map(|id| waiting(id)).chain(others).collect();
    let run = ward.detach_with(&["--jobs", "4"], &manifest);
    begun(&ward, &ids);
    wait_for("one has ended", || {
        let report = ward.report(&run);
        if task(&report, "early")["state"] == "succeeded" {
            Ok(())
        } else {
            Err(report.to_string())
        }
    });
    let (before, told) = (ward.shells(), ward.report(&run));
    assert_eq!(before.len(), 3, "{before:?}");
    ward.kill_coordinator();
    let cut_off = ward.line_of(&run);
    assert_eq!((&cut_off["outcome"], &cut_off["exit_code"]), (&json!("incomplete"), &json!(3)));
    let early = task(&told, "early");
    assert_eq!(early["commands"][0]["output"], "out\nerr\n", "{early:#}");
    assert_eq!(task(&ward.report(&run), "early"), early, "without a coordinator");
    ward.revive();
    assert_eq!(task(&ward.report(&run), "early"), early, "with the next");
    assert_eq!(ward.shells(), before);
    assert_eq!(ward.line_of(&run)["outcome"], json!(null), "it goes on");
    let now = ward.report(&run);
    for id in ids {
        for fact in ["state", "attempts", "session_id", "started_at", "agent"] {
            assert_eq!(task(&now, id)[fact], task(&told, id)[fact], "{id}: {fact}");
        }
        let first = |report| task(report, id)["commands"][0].clone();
        assert_eq!(first(&now), first(&told), "{id}");
    }
    ward.house.write("go", "");
    let report = ward.end_of(&run);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&json!("succeeded"), &json!(0)));
    assert_eq!(report["started_at"], told["started_at"]);
    assert_eq!(task(&report, "early"), early);
    for id in ids {
        assert_eq!(task(&report, id)["attempts"], 1, "{report:#}");
        assert_eq!(task(&report, id)["commands"].as_array().unwrap().len(), 3, "{report:#}");
    }
    ran_once(&ward, &ids);
    assert_eq!(ward.house.read("z"), "z\n");
    ward.end();
}

/// What ended while nobody listened is heard by the next, and what follows from it happens once.
#[test]
fn what_ends_meanwhile_is_heard_afterwards() {
    let ward = Ward::new();
    let run = ward.detach(&format!(
        "{}[[task]]\nid = \"b\"\nafter = [\"a\"]\nrun = \"echo b >> b\"\n",
        waiting("a")
    ));
    begun(&ward, &["a"]);
    ward.kill_coordinator();
    ward.house.write("go", "");
    // The next command of a task is the coordinator's to begin: nothing goes on by itself.
    let shelf = |line: &String| line.contains("sleep 0.02");
    wait_for("the command has ended", || {
        let left: Vec<String> = ward.house.processes().into_iter().filter(shelf).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
    assert_eq!(ward.house.read("done-a"), "");
    ward.revive();
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    ran_once(&ward, &["a"]);
    assert_eq!(ward.house.read("b"), "b\n");
    ward.end();
}

#[test]
fn killed_twice_and_the_run_goes_on() {
    let ward = Ward::new();
    crowd(&ward);
    let manifest: String = ["a", "b"].iter().map(|id| waiting(id)).collect();
    let run = ward.detach_with(&["--jobs", "2"], &manifest);
    begun(&ward, &["a", "b"]);
    let before = ward.shells();
    ward.succeed();
    ward.succeed();
    assert_eq!(ward.shells(), before);
    ward.kill_coordinator();
    ward.house.write("go", "");
    ward.revive();
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    ran_once(&ward, &["a", "b"]);
    ward.end();
}

/// Many short tasks: coordinators die while sessions open, close, and are opened ahead.
#[test]
fn killed_between_tasks_each_runs_once() {
    let ward = Ward::new();
    crowd(&ward);
    let tasks = 60;
    let row = |n: usize| format!("[[task]]\nid = \"t{n}\"\nrun = \"echo t{n} >> log\"\n");
    let run = ward.detach_with(&["--jobs", "2"], &(0..tasks).map(row).collect::<String>());
    for count in [5, 20, 40] {
        ward.lines("log", count);
        if ward.status()["coordinator"].is_null() {
            break;
        }
        ward.succeed();
    }
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    let log = ward.house.read("log");
    let mut lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), tasks, "{lines:?}");
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), tasks, "{lines:?}");
    ward.end();
}

#[test]
fn a_question_outlasts_its_coordinator_and_is_answered_afterwards() {
    let ward = Ward::new();
    crowd(&ward);
    let asks =
        "[[task]]\nid = \"q\"\nrun = [\"read -p 'Name: ' n; echo $n >> name\", \"echo $n\"]\n";
    let run = ward.detach_with(&["--jobs", "2"], &format!("{asks}{}", waiting("a")));
    begun(&ward, &["a"]);
    let waits = || {
        wait_for("it waits for input", || {
            let status = ward.status();
            let waiting = status["waiting"].as_array().unwrap();
            let line = waiting.iter().find(|line| line["what"] == format!("{run}/q"));
            let on = line.and_then(|line| line["on"].as_str()).unwrap_or_default();
            if on.contains("Name:") { Ok(()) } else { Err(status.to_string()) }
        });
    };
    waits();
    let before = ward.shells();
    ward.succeed();
    waits();
    assert_eq!(ward.shells(), before);
    let session = task(&ward.report(&run), "q")["session_id"].as_str().unwrap().to_owned();
    let sent = ward.house.call(&["session", "send", &session, "bob", "--enter"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    ward.lines("name", 1);
    ward.house.write("go", "");
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    assert_eq!(ward.house.read("name"), "bob\n");
    assert_eq!(task(&report, "q")["commands"][1]["stdout"], "bob\n", "{report:#}");
    ward.end();
}

#[test]
fn a_service_goes_on_and_is_ready() {
    let ward = Ward::new();
    crowd(&ward);
    let run = ward.detach_with(
        &["--jobs", "3"],
        &format!(
            "[[task]]\nid = \"s\"\nrun = \"echo s >> s; echo serving; exec sleep 600\"\n\
             service = {{ ready = \"log:serving\" }}\n\
             [[task]]\nid = \"one\"\nafter = [\"s\"]\nrun = \"until [ -e go ]; do sleep 0.02; done; echo 1 >> one\"\n\
             [[task]]\nid = \"two\"\nafter = [\"s\", \"a\"]\nrun = \"echo 2 >> two\"\n{}",
            waiting("a")
        ),
    );
    begun(&ward, &["a"]);
    wait_for("one runs", || {
        let report = ward.report(&run);
        if task(&report, "one")["state"] == "running" { Ok(()) } else { Err(report.to_string()) }
    });
    let before = ward.shells();
    ward.succeed();
    let after = ward.shells();
    assert_eq!(after.get("s"), before.get("s"), "the same service");
    ward.house.write("go", "");
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    assert_eq!(task(&report, "s")["attempts"], 1, "{report:#}");
    let wrote = ["s", "one", "two"].map(|file| ward.house.read(file));
    assert_eq!(wrote, ["s\n", "1\n", "2\n"]);
    ward.end();
}

/// A limit counts from the command's start, whoever keeps an eye on it.
#[test]
fn a_deadline_holds_without_a_coordinator() {
    let ward = Ward::new();
    let run =
        ward.detach("[[task]]\nid = \"a\"\ntimeout = \"1s\"\nrun = \"echo a >> a; sleep 600\"\n");
    ward.lines("a", 1);
    ward.kill_coordinator();
    wait_for("the command is ended", || {
        let left: Vec<String> =
            ward.house.processes().into_iter().filter(|line| line.contains("sleep 600")).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
    ward.revive();
    let report = ward.end_of(&run);
    let a = task(&report, "a");
    assert_eq!((&a["state"], &a["attempts"]), (&json!("timed_out"), &json!(1)), "{report:#}");
    assert_eq!(a["reason"], json!({"kind": "total", "limit_ms": 1000}), "{report:#}");
    ward.end();
}

/// A cancellation that was under way is finished by the next.
#[test]
fn a_run_that_is_being_cancelled_ends_cancelled() {
    let ward = Ward::new();
    let run = ward.detach(
        "[[task]]\nid = \"a\"\nrun = \"bash -c 'trap \\\"echo t >> t\\\" INT TERM; echo a >> a; \
         while :; do sleep 0.05; done'\"\n[[task]]\nid = \"b\"\nafter = [\"a\"]\nrun = \"echo b >> b\"\n",
    );
    ward.lines("a", 1);
    let mut cancel = ward.house.command(&["run", "cancel", &run]).spawn().unwrap();
    ward.lines("t", 1);
    ward.kill_coordinator();
    cancel.wait().unwrap();
    ward.revive();
    let report = ward.end_of(&run);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&json!("cancelled"), &json!(130)));
    assert_eq!(task(&report, "a")["state"], "cancelled", "{report:#}");
    assert_eq!(ward.house.read("b"), "");
    ward.end();
}

/// Between the record of a run's end and its report: the next coordinator writes the report.
#[test]
fn a_report_that_was_never_written_is_written() {
    let ward = Ward::new();
    let run = ward.detach("[[task]]\nid = \"a\"\nrun = \"echo hello; exit 3\"\n");
    let whole = ward.end_of(&run);
    ward.end();
    let file = ward.state().join("runs").join(&run).join("report.json");
    let written = wait_for("its report", || std::fs::read(&file).map_err(|e| e.to_string()));
    std::fs::remove_file(&file).unwrap();
    let line = ward.line_of(&run);
    assert_eq!((&line["outcome"], &line["exit_code"]), (&json!("failed"), &json!(1)));
    let offline = ward.report(&run);
    assert_eq!((&offline["outcome"], &offline["tasks"]), (&whole["outcome"], &whole["tasks"]));
    ward.revive();
    wait_for("its report", || if file.exists() { Ok(()) } else { Err(String::new()) });
    assert_eq!(ward.report(&run), whole, "{}", String::from_utf8_lossy(&written));
    ward.end();
}

/// A coordinator that ends in order takes its runs along, as it always did.
#[test]
fn a_coordinator_that_is_told_to_end_ends_everything() {
    let ward = Ward::new();
    let run = ward.detach(&waiting("a"));
    begun(&ward, &["a"]);
    signal(ward.coordinator(), "TERM");
    ward.house.assert_empties();
    let report = ward.report(&run);
    assert_eq!(report["outcome"], "cancelled", "{report:#}");
}

/// Coordinators that die while they take over: at any point of it.
#[test]
fn killed_while_it_recovers_and_nothing_is_lost() {
    let ward = Ward::new();
    crowd(&ward);
    let ids = ["a", "b", "c", "d"];
    let manifest: String = ids.iter().map(|id| waiting(id)).collect();
    let run = ward.detach_with(&["--jobs", "4"], &manifest);
    begun(&ward, &ids);
    let before = ward.shells();
    ward.kill_coordinator();
    for round in 0..10 {
        let mut command = ward.house.command(&["serve"]);
        let mut served = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(8 * round));
        served.kill().unwrap();
        served.wait().unwrap();
    }
    ward.revive();
    assert_eq!(ward.shells(), before);
    ward.house.write("go", "");
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    ran_once(&ward, &ids);
    ward.end();
}

/// One holder that hangs, and what nobody listens behind, keep nobody else from going on.
#[test]
fn one_session_that_cannot_be_adopted_is_its_own_trouble() {
    let ward = Ward::new();
    crowd(&ward);
    let retried = waiting("a").replace("[[task]]\n", "[[task]]\nretries = 1\n");
    let run =
        ward.detach_with(&["--jobs", "4"], &format!("{retried}{}{}", waiting("b"), waiting("c")));
    begun(&ward, &["a", "b", "c"]);
    let shells = ward.shells();
    let holder = super::parent(shells["a"]).unwrap();
    let session = task(&ward.report(&run), "a")["session_id"].as_str().unwrap().to_owned();
    ward.kill_coordinator();
    let doors = wait_for("the doors", || {
        let folders = std::fs::read_dir(ward.house.root().join("run/callboard")).unwrap();
        let mut doors = folders.flatten().map(|entry| entry.path().join("h"));
        doors.find(|door| door.is_dir()).ok_or_else(|| "none".to_owned())
    });
    wait_for("it waits at its door", || match doors.join(format!("{session}.sock")).exists() {
        true => Ok(()),
        false => Err(String::new()),
    });
    signal(holder, "STOP");
    drop(std::os::unix::net::UnixListener::bind(doors.join("s-nobody.sock")).unwrap());
    std::fs::write(doors.join("s-file.sock"), "no socket").unwrap();
    let private = doors.with_file_name("t").join("s-never");
    std::fs::create_dir(&private).unwrap();
    ward.revive();
    let after = ward.shells();
    assert_eq!((after.get("b"), after.get("c")), (shells.get("b"), shells.get("c")));
    ward.house.write("go", "");
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    assert_eq!(task(&report, "a")["attempts"], 2, "{report:#}");
    ran_once(&ward, &["b", "c"]);
    assert_eq!(ward.house.read("began-a").lines().count(), 2);
    assert_eq!(ward.house.read("done-a").lines().count(), 1, "the first was ended");
    std::fs::remove_file(doors.join("s-file.sock")).unwrap();
    ward.end();
    assert!(!doors.join("s-nobody.sock").exists());
    assert!(!private.exists(), "the folder of a session that nobody has heard of");
}

#[test]
fn what_runs_without_a_coordinator_is_listed() {
    let ward = Ward::new();
    let run = ward.detach(&waiting("a"));
    begun(&ward, &["a"]);
    ward.kill_coordinator();
    let listed = ward.house.call(&["task", "ls", "--json"]).json();
    let tasks = listed["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 1, "{listed:#}");
    assert_eq!(
        (&tasks[0]["task_id"], &tasks[0]["state"]),
        (&json!(format!("{run}/a")), &json!("running"))
    );
    ward.revive();
    ward.house.write("go", "");
    assert_eq!(ward.end_of(&run)["outcome"], "succeeded");
    ward.end();
}

#[test]
fn what_runs_without_a_coordinator_can_be_ended() {
    let ward = Ward::new();
    let run = ward.detach(&waiting("a"));
    begun(&ward, &["a"]);
    ward.kill_coordinator();
    let called = ward.house.call(&["run", "cancel", &run]);
    assert_eq!(called.code, 0, "{called:?}");
    assert_eq!(ward.end_of(&run)["outcome"], "cancelled");
    let called = ward.house.call(&["exec", "--session", "c", "-c", "sleep 611 &"]);
    assert_eq!(called.code, 0, "{called:?}");
    ward.kill_coordinator();
    let listed = ward.house.call(&["session", "ls", "--json"]).json();
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["state"]), (1, &json!("unattended")), "{listed:#}");
    let closed = ward.house.call(&["session", "close", "c", "--json"]);
    assert_eq!(closed.code, 0, "{closed:?}");
    let left: Vec<String> =
        ward.house.processes().into_iter().filter(|line| line.contains("sleep 611")).collect();
    assert!(left.is_empty(), "{left:?}");
    ward.end();
}
