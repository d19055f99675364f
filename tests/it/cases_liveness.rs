//! Who is alive, who waits, who floods: each failure seen in other orchestrators by its id.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{House, finish, wait_for};

fn signal(pid: &str, name: &str) {
    drop(Command::new("kill").args([&format!("-{name}"), pid]).output());
}

fn status(house: &House) -> Value {
    house.call(&["status", "--json"]).json()
}

fn parent(pid: i64) -> Option<i64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// The holders of all open sessions.
fn holders(house: &House) -> Vec<i64> {
    let status = status(house);
    let sessions = status["sessions"].as_array().unwrap();
    sessions.iter().filter_map(|session| parent(session["pid"].as_i64()?)).collect()
}

fn resident_kib(pid: i64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Work beside the tests that nobody waits for; ended when dropped.
struct Burners(Vec<Child>);

impl Burners {
    fn start(count: usize) -> Self {
        let burn = || {
            let mut command = Command::new("timeout");
            command.args(["20", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        Self((0..count).map(|_| burn()).collect())
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            signal(&child.id().to_string(), "TERM");
            drop(child.wait());
        }
    }
}

/// Many busy and silent tasks on a machine with more to do than it can, a coordinator that stands
/// still, and holders that do.
#[test]
fn orc_34_who_is_busy_is_not_dead() {
    let house = House::new();
    house.write("agents.toml", "[[agent]]\nname = \"w\"\ncapacity = 8\n");
    let tasks: String = (0..6)
        .map(|n| {
            format!(
                "[[task]]\nid = \"t{n}\"\nretries = 2\nrun = \"echo $CALLBOARD_ATTEMPT >> tried; \
                 until [ -e go ]; do :; done; echo end\"\n"
            )
        })
        .collect();
    house.write("m.toml", tasks);
    let client = house.command(&["run", "m.toml", "--json", "--jobs", "6"]).spawn().unwrap();
    wait_for("all run", || {
        let tried = house.read("tried");
        if tried.lines().count() == 6 { Ok(()) } else { Err(tried) }
    });
    let burners = Burners::start(16);
    let coordinator = status(&house)["coordinator"]["pid"].to_string();
    let stopped: Vec<String> = holders(&house).into_iter().map(|pid| pid.to_string()).collect();
    assert_eq!(stopped.len(), 6);
    for pid in [&[coordinator.clone()][..], &stopped].concat() {
        signal(&pid, "STOP");
        std::thread::sleep(Duration::from_millis(500));
        if pid == coordinator {
            std::thread::sleep(Duration::from_secs(3));
            signal(&pid, "CONT");
        }
    }
    for pid in stopped {
        signal(&pid, "CONT");
    }
    drop(burners);
    house.write("go", "");
    let called = finish(client);
    assert_eq!(called.code, 0, "{called:?}");
    let report = called.json();
    for task in report["tasks"].as_array().unwrap() {
        let is = (&task["state"], &task["attempts"], &task["class"]);
        assert_eq!(is, (&json!("succeeded"), &json!(1), &Value::Null), "{task:#}");
    }
    assert_eq!(house.read("tried"), "1\n".repeat(6));
    house.assert_empties();
}

#[test]
fn orc_70_endless_output_costs_no_memory() {
    let house = House::new();
    house.write("agents.toml", "[[agent]]\nname = \"w\"\ncapacity = 4\n");
    let (code, report) = house.run("[[task]]\nid = \"a\"\nrun = \"true\"\n");
    assert_eq!(code, 0, "{report:#}");
    house.exec_with(&["--session", "s"], "true");
    let coordinator = status(&house)["coordinator"]["pid"].as_i64().unwrap();
    let before = resident_kib(coordinator);
    house.write(
        "m.toml",
        "[defaults]\ntimeout = \"6s\"\n[[task]]\nid = \"zero\"\nrun = \"cat /dev/zero\"\n\
         [[task]]\nid = \"yes\"\nrun = \"yes\"\n\
         [[task]]\nid = \"line\"\nrun = \"cat /dev/zero | tr '\\\\0' x >&2\"\n",
    );
    let client = house.command(&["run", "m.toml", "--json", "--jobs", "3"]).spawn().unwrap();
    let (mut most_coordinator, mut most_holder, mut seen) = (0, 0, 0);
    let holders = wait_for("four holders", || {
        let holders = holders(&house);
        if holders.len() == 4 { Ok(holders) } else { Err(format!("{holders:?}")) }
    });
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(4) {
        most_coordinator = most_coordinator.max(resident_kib(coordinator));
        for &holder in &holders {
            seen += 1;
            most_holder = most_holder.max(resident_kib(holder));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let called = finish(client);
    let report = called.json();
    assert_eq!(called.code, 1, "{called:?}");
    for task in report["tasks"].as_array().unwrap() {
        assert_eq!(task["state"], "timed_out", "{task:#}");
        let command = &task["commands"][0];
        assert!(command["truncated"].is_object() || task["id"] == "zero", "{}", task["id"]);
        assert!(command["stdout"].as_str().unwrap().len() < 64 * 1024);
    }
    assert!(seen > 10, "holders were looked at {seen} times");
    eprintln!(
        "orc_70: coordinator {before} KiB, at most {most_coordinator}; holders {most_holder}"
    );
    assert!(most_coordinator < before + 64 * 1024, "{before} KiB, then {most_coordinator}");
    assert!(most_holder < 64 * 1024, "{most_holder} KiB");
    assert_eq!(house.call(&["session", "close", "s"]).code, 0);
    signal(&coordinator.to_string(), "TERM");
    house.assert_empties();
}

/// The state of a session's newest command.
fn state_of(house: &House, session: &str) -> String {
    let shown = house.call(&["session", "show", session, "--json"]).json();
    let newest = shown["commands"].as_array().and_then(|commands| commands.last());
    newest.and_then(|newest| newest["state"].as_str()).unwrap_or("none").to_owned()
}

/// What a session's command is said to do, looked at again and again for a while.
fn states_of(house: &House, session: &str, length: Duration) -> Vec<String> {
    let started = Instant::now();
    let mut states: Vec<String> = Vec::new();
    while started.elapsed() < length {
        let state = state_of(house, session);
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

/// A task beside that keeps a run from ending with its question unanswered.
const BESIDE: &str = "[[task]]\nid = \"beside\"\nrun = \"until [ -e go ]; do sleep 0.05; done\"\n";

/// Starts `m.toml` with nobody who follows it; its run.
fn detach(house: &House) -> String {
    let called = house.call(&["run", "m.toml", "--detach", "--json", "--jobs", "2"]);
    called.json()["run_id"].as_str().unwrap().to_owned()
}

/// The report of a run that has ended.
fn end_of(house: &House, run: &str) -> Value {
    wait_for("the run's end", || {
        let report = house.call(&["report", run, "--json"]).json();
        if report["outcome"].is_string() { Ok(report) } else { Err(report.to_string()) }
    })
}

fn session_of_task(house: &House, state: &str) -> String {
    wait_for(&format!("a session that is {state}"), || {
        let status = status(house);
        let sessions = status["sessions"].as_array().unwrap();
        let of_task = |session: &&Value| {
            session["origin"]["task"].as_str().is_some_and(|task| task.ends_with("/a"))
        };
        let found = sessions.iter().find(of_task).and_then(|found| found["session_id"].as_str());
        let id = found.ok_or_else(|| status.to_string())?;
        let now = state_of(house, id);
        if now == state { Ok(id.to_owned()) } else { Err(now) }
    })
}

#[test]
fn orc_74_an_answered_question_is_no_question() {
    let house = House::new();
    house.write(
        "m.toml",
        format!(
            "[[task]]\nid = \"a\"\nrun = \"printf 'Continue? (y/n) '; read a; sleep 2; echo; \
             echo $a; sleep 2\"\n{BESIDE}"
        ),
    );
    let run = detach(&house);
    let session = session_of_task(&house, "awaiting_input");
    let sent = house.call(&["session", "send", &session, "y", "--enter"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let states = states_of(&house, &session, Duration::from_secs(3));
    assert_eq!(states, ["running"], "after the answer");
    house.write("go", "");
    let report = end_of(&house, &run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    house.assert_empties();
}

/// A question below a spinner: told where the terminal is being read, and not claimed of a program
/// that draws and looks for keys in turns; its limit ends that.
#[test]
fn orc_75_a_spinner_hides_no_question() {
    let house = House::new();
    let spin = "import itertools,sys,time\nfor c in itertools.cycle('|/-'):\n  \
                sys.stdout.write('\\x1b7\\x1b[1;1H'+c+'\\x1b8'); sys.stdout.flush(); time.sleep(0.1)\n";
    house.write("spin.py", spin);
    let both = "import itertools,select,sys,time\nprint('Do you want to proceed? 1) Yes 2) No')\n\
                for c in itertools.cycle('|/-'):\n  \
                sys.stdout.write('\\x1b7\\x1b[1;1H'+c+'\\x1b8'); sys.stdout.flush()\n  \
                if select.select([sys.stdin],[],[],0.1)[0]: break\n";
    house.write("both.py", both);
    let script = "python3 spin.py & spinner=$!; read -p 'Do you want to proceed? 1) Yes 2) No ' x; \
                  kill $spinner; echo got $x";
    house.write("m.toml", format!("[[task]]\nid = \"a\"\nrun = '''{script}'''\n{BESIDE}"));
    let run = detach(&house);
    let session = session_of_task(&house, "awaiting_input");
    let states = states_of(&house, &session, Duration::from_secs(2));
    assert_eq!(states, ["awaiting_input"], "it goes on waiting under the spinner");
    assert_eq!(house.call(&["session", "send", &session, "1", "--enter"]).code, 0);
    house.write("go", "");
    let report = end_of(&house, &run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    let stdout = report["tasks"][0]["commands"][0]["stdout"].as_str().unwrap().to_owned();
    assert!(stdout.contains("got 1"), "{stdout}");

    house.write("m.toml", "[[task]]\nid = \"a\"\ntimeout = \"3s\"\nrun = \"python3 both.py\"\n");
    let run = detach(&house);
    let session = session_of_task(&house, "running");
    let states = states_of(&house, &session, Duration::from_secs(2));
    assert_eq!(states, ["running"], "what only looks now and then is not said to wait");
    assert_eq!(end_of(&house, &run)["tasks"][0]["state"], "timed_out");
    house.assert_empties();
}

#[test]
fn orc_77_a_crash_is_one_tasks_own() {
    let house = House::new();
    let tasks: String = (1..=4)
        .map(|n| {
            let run = if n == 2 { "bash -c 'kill -SEGV $$'" } else { "echo 25 passed" };
            format!("[[task]]\nid = \"shard{n}\"\nrun = \"{run}\"\n")
        })
        .collect();
    let flags = ["--report", "junit=a.xml", "--jobs", "4"];
    let (code, report) = house.run_with(&flags, &tasks);
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(report["counts"], json!({"succeeded": 3, "failed": 1}));
    for task in report["tasks"].as_array().unwrap() {
        let crashed = task["id"] == "shard2";
        assert_eq!(task["state"], if crashed { "failed" } else { "succeeded" }, "{task:#}");
        let kind = if crashed { json!("signal") } else { Value::Null };
        assert_eq!(task["reason"]["kind"], kind, "{task:#}");
    }
    let junit = house.read("a.xml");
    assert_eq!(junit.matches("<testcase").count(), 4, "{junit}");
    assert_eq!(
        junit.matches("</failure>").count() + junit.matches("</error>").count(),
        1,
        "{junit}"
    );
    assert!(junit.contains("SEGV"), "{junit}");
    house.assert_empties();
}
