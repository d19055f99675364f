//! Failures seen in other orchestrators, each by its id.

use std::process::{Command, Stdio};

use callboard::domain::event::{Event, Stamped};
use callboard::domain::ids::AttemptId;
use callboard::domain::process::ProcessIdentity;
use callboard::domain::session::SessionOwner;
use callboard::domain::time::Timestamp;
use callboard::journal::Journal;
use serde_json::json;

use super::{Ward, signal, state_of, task};
use crate::house::wait_for;

const CROWD: &str = "[[agent]]\nname = \"crew\"\ntags = []\nadapter = \"shell\"\ncapacity = 8\n";

fn is_gone(pid: i64) {
    wait_for("a killed process is gone", || {
        state_of(pid).map_or(Ok(()), |state| Err(format!("{pid} {state}")))
    });
}

/// The coordinator and all workers are killed at once: each interruption is an attempt with a cause
/// of its own, and each task goes on by its budget.
#[test]
fn orc_02_everything_is_killed_and_each_attempt_counts() {
    let ward = Ward::new();
    ward.house.write("agents.toml", CROWD);
    let row = |n: usize| {
        format!(
            "[[task]]\nid = \"t{n}\"\ntimeout = \"5m\"\nretries = {}\n\
             run = \"echo $CALLBOARD_ATTEMPT >> t{n}; [ $CALLBOARD_ATTEMPT = 2 ] || sleep 60\"\n",
            n % 2
        )
    };
    let run = ward.detach_with(&["--jobs", "6"], &(0..6).map(row).collect::<String>());
    (0..6).for_each(|n| ward.lines(&format!("t{n}"), 1));
    let victims: Vec<i64> = ward.holders().into_iter().chain(ward.shells().into_values()).collect();
    ward.kill_coordinator();
    for victim in &victims {
        signal(*victim, "KILL");
    }
    victims.into_iter().for_each(is_gone);
    let cut_off = ward.report(&run);
    for n in 0..6 {
        let told = task(&cut_off, &format!("t{n}"));
        assert_eq!((&told["state"], &told["attempts"]), (&json!("running"), &json!(1)));
        assert_eq!(told["reason"], json!({"kind": "coordinator_lost"}), "{told:#}");
    }
    ward.revive();
    let report = ward.end_of(&run);
    for n in 0..6 {
        let id = format!("t{n}");
        let told = task(&report, &id);
        if n % 2 == 1 {
            assert_eq!((&told["state"], &told["attempts"]), (&json!("succeeded"), &json!(2)));
            assert_eq!(ward.house.read(&id), "1\n2\n");
        } else {
            assert_eq!((&told["state"], &told["attempts"]), (&json!("failed"), &json!(1)));
            assert_eq!(told["reason"], json!({"kind": "lost"}), "{told:#}");
            assert_eq!(ward.house.read(&id), "1\n");
        }
    }
    let lost = ward.journal().into_iter().filter(|event| {
        matches!(event, Event::AttemptEnded { end, .. } if format!("{end:?}").contains("Lost"))
    });
    assert_eq!(lost.count(), 6, "each interruption is on record with its cause");
    ward.end();
}

/// State that names the pid of an innocent process: it is another process, and left alone.
#[test]
fn orc_26_a_pid_that_came_round_again_is_not_signalled() {
    let ward = Ward::new();
    let mut innocent = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let run = ward.detach("[[task]]\nid = \"a\"\nretries = 1\nrun = \"echo a >> a; [ $CALLBOARD_ATTEMPT = 2 ] || sleep 60\"\n");
    ward.lines("a", 1);
    let victims: Vec<i64> = ward.holders().into_iter().chain(ward.shells().into_values()).collect();
    let session = task(&ward.report(&run), "a")["session_id"].as_str().unwrap().to_owned();
    ward.kill_coordinator();
    victims.iter().for_each(|victim| signal(*victim, "KILL"));
    victims.into_iter().for_each(is_gone);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let digits = |c: &char| c.is_ascii_digit();
    let holder = ProcessIdentity {
        pid: i32::try_from(innocent.id()).unwrap(),
        start_time: 1,
        boot_id: boot.trim().to_owned(),
        pid_namespace: namespace
            .to_string_lossy()
            .chars()
            .filter(digits)
            .collect::<String>()
            .parse()
            .unwrap(),
    };
    let attempt = AttemptId { run: run.as_str().into(), task: "a".into(), attempt: 1 };
    let lies = [session.as_str(), "s-0123456789abcdef"].map(|session| Stamped {
        at: Timestamp(0),
        event: Event::SessionOpened {
            session: session.into(),
            owner: SessionOwner::Attempt { attempt: attempt.clone() },
            holder: holder.clone(),
        },
    });
    let (journal, _) = Journal::open(&ward.state().join("journal"), |_| {}).unwrap();
    journal.append(lies.to_vec(), true).wait().unwrap();
    drop(journal);
    let facts = format!(
        "{{\"seq\":1,\"fact\":\"opened\",\"holder\":{pid},\"start_time\":1,\"shell\":{pid}}}\n",
        pid = innocent.id()
    );
    let sessions = ward.state().join("sessions");
    std::fs::write(sessions.join(&session).join("facts.jsonl"), facts).unwrap();
    ward.revive();
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    assert_eq!(task(&report, "a")["attempts"], 2, "{report:#}");
    ward.end();
    assert!(innocent.try_wait().unwrap().is_none(), "an innocent process was signalled");
    innocent.kill().unwrap();
    innocent.wait().unwrap();
}

/// The attempt counter outlasts the coordinator: there is no fresh budget.
#[test]
fn orc_27_a_crash_gives_nobody_a_fresh_budget() {
    let ward = Ward::new();
    let run = ward.detach("[[task]]\nid = \"a\"\nretries = 5\nrun = \"echo x >> n; exit 1\"\n");
    for count in [3, 4, 5] {
        ward.lines("n", count);
        ward.succeed();
    }
    let report = ward.end_of(&run);
    let a = task(&report, "a");
    assert_eq!((&report["outcome"], &report["exit_code"]), (&json!("failed"), &json!(1)));
    assert_eq!((&a["state"], &a["attempts"]), (&json!("failed"), &json!(6)), "{report:#}");
    assert_eq!(ward.house.read("n").lines().count(), 6);
    ward.end();
}

/// A run is known at every moment, and its state is told with the reason.
#[test]
fn orc_28_a_run_is_never_forgotten() {
    let ward = Ward::new();
    let run = ward.detach(
        "[[task]]\nid = \"a\"\nrun = \"echo a >> a; until [ -e go ]; do sleep 0.02; done\"\n\
         [[task]]\nid = \"b\"\nafter = [\"a\"]\nrun = \"true\"\n",
    );
    ward.lines("a", 1);
    let known = |outcome: serde_json::Value| {
        assert_eq!(ward.line_of(&run)["outcome"], outcome);
        let report = ward.report(&run);
        assert_eq!((&report["run_id"], &report["outcome"]), (&json!(run), &outcome));
        let status = ward.status();
        let runs = status["runs"].as_array().unwrap();
        assert!(runs.iter().any(|line| line["run_id"] == json!(run)), "{status:#}");
        report
    };
    known(json!(null));
    ward.kill_coordinator();
    let cut_off = known(json!("incomplete"));
    for id in ["a", "b"] {
        assert_eq!(task(&cut_off, id)["reason"], json!({"kind": "coordinator_lost"}));
    }
    ward.revive();
    known(json!(null));
    ward.house.write("go", "");
    ward.end_of(&run);
    known(json!("succeeded"));
    ward.end();
    known(json!("succeeded"));
}
