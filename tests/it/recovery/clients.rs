//! Clients come back: to their runs, to their commands; or they do not.

use callboard::control::{Answer, Call, FailureKind};
use callboard::domain::event::{CancelWhy, ClientEnv, Event};
use callboard::domain::result::CommandResult;
use serde_json::json;

use super::wire::{Wire, exec};
use super::{Served, Ward, signal, task};
use crate::house::wait_for;

const WAITS: &str = "[[task]]\nid = \"a\"\n\
    run = [\"echo a >> began\", \"until [ -e go ]; do sleep 0.02; done\", \"echo a >> done\"]\n";

/// A run whose client and coordinator are killed at once, and another coordinator.
fn bereaved(ward: &Ward, manifest: &str) -> String {
    ward.house.write("m.toml", manifest);
    let mut client = ward.house.command(&["run", "m.toml", "--json"]).spawn().unwrap();
    ward.lines("began", 1);
    let listed = ward.house.call(&["run", "ls", "--json"]).json();
    let run = listed["runs"][0]["run_id"].as_str().unwrap().to_owned();
    // It cannot notice its client's end any more.
    signal(ward.coordinator(), "STOP");
    client.kill().unwrap();
    client.wait().unwrap();
    let pid = listed_coordinator(ward);
    signal(pid, "KILL");
    wait_for("the coordinator is gone", || {
        super::state_of(pid).map_or(Ok(()), |state| Err(state.to_string()))
    });
    ward.revive();
    run
}

/// The coordinator's pid, of one that cannot answer.
fn listed_coordinator(ward: &Ward) -> i64 {
    let lock = std::fs::read_to_string(ward.house.path(".callboard/lock")).unwrap();
    let pid = lock.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty());
    pid.unwrap_or_else(|| panic!("{lock}")).parse().unwrap()
}

fn rejoin(run: &str, passed: &[(&str, &str)]) -> Call {
    let passed = passed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let env = ClientEnv { allowed: Default::default(), passed: passed.collect() };
    Call::Rejoin { run: run.into(), env }
}

fn cancelled_why(ward: &Ward, run: &str) -> Vec<CancelWhy> {
    let events = ward.journal().into_iter();
    let why = events.filter_map(|event| match event {
        Event::RunCancelled { run: of, why } if of.as_str() == run => Some(why),
        _ => None,
    });
    why.collect()
}

#[test]
fn a_client_rejoins_its_run_and_the_run_lives_as_long_as_it() {
    let ward = Ward::new();
    let run = bereaved(&ward, WAITS);
    let mut client = Wire::open(&ward);
    assert!(matches!(client.ask(rejoin(&run, &[])), Ok(Answer::Report { .. })));
    ward.house.write("go", "");
    let report = client.end_of_run();
    assert_eq!(report.exit_code, Some(0), "{report:#?}");
    assert_eq!(ward.house.read("done"), "a\n");
    assert_eq!(ward.house.read("began"), "a\n");
    assert!(cancelled_why(&ward, &run).is_empty());
    drop(client);
    ward.end();
}

#[test]
fn a_run_whose_client_does_not_come_back_is_cancelled_and_can_be_resumed() {
    let ward = Ward::new();
    let done = "[[task]]\nid = \"first\"\nrun = \"echo first >> first\"\n";
    let run = bereaved(
        &ward,
        &format!("{done}{}", WAITS.replace("[[task]]\n", "[[task]]\nafter = [\"first\"]\n")),
    );
    let report = ward.end_of(&run);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&json!("cancelled"), &json!(130)));
    let a = task(&report, "a");
    assert_eq!((&a["state"], &a["reason"]), (&json!("cancelled"), &json!({"kind": "client_lost"})));
    assert_eq!(cancelled_why(&ward, &run), [CancelWhy::ClientLost]);
    ward.revive();
    let mut client = Wire::open(&ward);
    ward.house.write("go", "");
    let resume = Call::Resume {
        run: run.as_str().into(),
        options: None,
        env: ClientEnv::default(),
        detach: false,
    };
    let answer = client.ask(resume.clone());
    assert!(matches!(answer, Ok(Answer::Submitted { .. })), "{answer:?}");
    let report = client.end_of_run();
    assert_eq!(report.exit_code, Some(0), "{report:#?}");
    let attempts: Vec<_> = report.tasks.iter().map(|t| (t.id.as_str(), t.attempts)).collect();
    assert_eq!(attempts, [("first", 1), ("a", 2)]);
    assert_eq!(ward.house.read("first"), "first\n", "what has succeeded stays so");
    let again = client.ask(resume).unwrap_err();
    assert_eq!(again.kind, FailureKind::Usage, "{again:?}");
    drop(client);
    ward.end();
    assert_eq!(ward.report(&run)["outcome"], "succeeded", "its last report is what counts");
}

/// A run that was resumed and loses its coordinator goes on once more.
#[test]
fn a_resumed_run_outlasts_its_coordinator_and_has_one_report() {
    let ward = Ward::new();
    let run =
        ward.detach(&format!("{WAITS}[[task]]\nid = \"bad\"\nafter = [\"a\"]\nrun = \"exit 3\"\n"));
    ward.lines("began", 1);
    assert_eq!(ward.house.call(&["run", "cancel", &run]).code, 0);
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "cancelled", "{report:#}");
    assert_eq!(report["cancelled"], "requested", "{report:#}");
    let resume = |detach| Call::Resume {
        run: run.as_str().into(),
        options: None,
        env: ClientEnv::default(),
        detach,
    };
    ward.revive();
    let answer = Wire::open(&ward).ask(resume(true));
    assert!(matches!(answer, Ok(Answer::Submitted { .. })), "{answer:?}");
    ward.lines("began", 2);
    let before = ward.shells();
    ward.succeed();
    assert_eq!(ward.shells(), before);
    assert_eq!(ward.line_of(&run)["outcome"], json!(null), "an earlier report is out of the way");
    ward.house.write("go", "");
    let report = ward.end_of(&run);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&json!("failed"), &json!(1)));
    assert_eq!(report["cancelled"], json!(null), "{report:#}");
    assert_eq!(task(&report, "a")["attempts"], 2, "{report:#}");
    assert_eq!(ward.house.read("done"), "a\n");
    // One that has failed has nothing left to do, and says so again.
    ward.revive();
    let mut client = Wire::open(&ward);
    assert!(matches!(client.ask(resume(false)), Ok(Answer::Submitted { .. })));
    let again = client.end_of_run();
    assert_eq!(again.exit_code, Some(1), "{again:#?}");
    assert_eq!(again.tasks.iter().map(|task| task.attempts).sum::<u32>(), 3);
    drop(client);
    ward.end();
}

/// Values of `env_pass` are never written down: what needs them waits until a client brings them.
#[test]
fn tasks_that_need_env_pass_wait_for_a_client() {
    let ward = Ward { house: crate::house::House::new().with_env("MY_KEY", "k1") };
    let needs = "[[task]]\nid = \"b\"\nafter = [\"a\"]\nenv_pass = [\"MY_KEY\"]\nrun = \"echo $MY_KEY >> key\"\n";
    let run = ward.detach(&format!("{WAITS}{needs}"));
    ward.lines("began", 1);
    ward.succeed();
    ward.house.write("go", "");
    wait_for("b waits for a client", || {
        let status = ward.status();
        let waiting = status["waiting"].as_array().unwrap();
        let line = waiting.iter().find(|line| line["what"] == format!("{run}/b"));
        let on = line.and_then(|line| line["on"].as_str()).unwrap_or_default();
        if on.contains("env_pass") { Ok(()) } else { Err(status.to_string()) }
    });
    assert_eq!(ward.house.read("key"), "");
    let mut client = Wire::open(&ward);
    assert!(matches!(client.ask(rejoin(&run, &[("MY_KEY", "k2")])), Ok(Answer::Report { .. })));
    let report = client.end_of_run();
    assert_eq!(report.exit_code, Some(0), "{report:#?}");
    assert_eq!(ward.house.read("key"), "k2\n");
    drop(client);
    ward.end();
    let journal = ward.state().join("journal");
    for entry in std::fs::read_dir(journal).unwrap().flatten() {
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
        assert!(!text.contains("\"k1\"") && !text.contains("\"k2\""), "{text}");
    }
}

/// A command, as far as it does not depend on when it ran.
fn gist(result: &CommandResult) -> serde_json::Value {
    let mut told = serde_json::to_value(result).unwrap();
    for volatile in ["command_id", "session_id", "started_at", "duration_ms"] {
        told[volatile] = json!(null);
    }
    told
}

const TEXT: &str = "echo began >> began; echo out; echo err >&2; until [ -e go ]; do sleep 0.02; done; \
    cd /; echo over | cat; exit 3";

#[test]
fn a_command_is_reclaimed_by_its_ticket_with_the_result_that_it_would_have_had() {
    let told = |ward: &Ward, answer| match answer {
        Ok(Answer::Ran { result }) => {
            gist(&result).to_string().replace(&*ward.house.root().to_string_lossy(), "ROOT")
        }
        other => panic!("{other:?}"),
    };
    let undisturbed = Ward::new();
    undisturbed.house.write("m.toml", "");
    undisturbed.house.call(&["init"]);
    undisturbed.house.write("go", "");
    undisturbed.revive();
    let expected =
        Wire::open(&undisturbed).ask(exec(&undisturbed, "0000000000000000x", None, TEXT));
    let expected = told(&undisturbed, expected);

    for late in [false, true] {
        let ward = Ward::new();
        ward.house.call(&["init"]);
        ward.revive();
        let ticket = "abcdefghjkmnpqrs-rest";
        Wire::open(&ward).send_and_leave(exec(&ward, ticket, None, TEXT), || {
            ward.lines("began", 1);
            ward.kill_coordinator();
        });
        if late {
            ward.house.write("go", "");
            wait_for("the command has ended", || {
                let left = ward.house.processes().into_iter().filter(|p| p.contains("sleep 0.02"));
                let left: Vec<String> = left.collect();
                if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
            });
        }
        ward.revive();
        let mut client = Wire::open(&ward);
        let unknown =
            client.ask(Call::Reclaim { ticket: "abcdefghjkmnpqr0".to_owned(), session: None });
        assert_eq!(unknown.unwrap_err().kind, FailureKind::NotFound);
        let asked = client.send(Call::Reclaim { ticket: ticket.to_owned(), session: None });
        ward.house.write("go", "");
        assert_eq!(told(&ward, client.answer_to(asked)), expected, "late: {late}");
        // Its record outlasts it.
        let again = client.ask(Call::Reclaim { ticket: ticket.to_owned(), session: None });
        assert_eq!(told(&ward, again), expected, "late: {late}");
        assert_eq!(ward.house.read("began"), "began\n");
        drop(client);
        ward.end();
    }
}

#[test]
fn a_command_that_nobody_reclaims_is_ended() {
    let ward = Ward::new();
    ward.house.call(&["init"]);
    ward.revive();
    Wire::open(&ward).send_and_leave(exec(&ward, "abcdefghjkmnpqrs", None, TEXT), || {
        ward.lines("began", 1);
        ward.kill_coordinator();
    });
    ward.revive();
    assert_eq!(ward.status()["sessions"].as_array().unwrap().len(), 1);
    ward.end();
}

#[test]
fn a_command_of_a_kept_session_is_reclaimed() {
    let ward = Ward::new();
    ward.house.call(&["init"]);
    ward.revive();
    let opened = ward.house.call(&["session", "new", "k", "--json"]);
    assert_eq!(opened.code, 0, "{opened:?}");
    let text = "V=9; echo began >> began; until [ -e go ]; do sleep 0.02; done; echo $V; false";
    Wire::open(&ward).send_and_leave(exec(&ward, "abcdefghjkmnpqrs", Some("k"), text), || {
        ward.lines("began", 1);
        ward.kill_coordinator();
    });
    ward.revive();
    let mut client = Wire::open(&ward);
    let asked = client.send(Call::Reclaim { ticket: "abcdefghjkmnpqrs".to_owned(), session: None });
    ward.house.write("go", "");
    let Ok(Answer::Ran { result }) = client.answer_to(asked) else { panic!("no result") };
    assert_eq!((result.exit_code, result.stdout.as_str()), (Some(1), "9\n"), "{result:?}");
    let after = ward.house.call(&["exec", "--session", "k", "-c", "echo $V"]);
    assert_eq!(after.stdout, "9\n", "{after:?}");
    assert_eq!(ward.house.call(&["session", "close", "k"]).code, 0);
    ward.end();
}

#[test]
fn a_coordinator_hands_over_and_everything_goes_on() {
    let ward = Ward::new();
    let mut first = Served::start(&ward);
    let run = ward.detach(WAITS);
    ward.lines("began", 1);
    let kept = ward.house.call(&["exec", "--session", "k", "-c", "export V=7"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    let shells = |ward: &Ward| {
        let status = ward.status();
        let pids = status["sessions"].as_array().unwrap().iter().map(|s| s["pid"].clone());
        pids.collect::<Vec<_>>()
    };
    let before = shells(&ward);
    let mut client = Wire::open(&ward);
    assert!(matches!(client.ask(Call::HandOver), Ok(Answer::HandingOver)));
    assert!(client.is_closed());
    assert_eq!(first.code(), 0);
    let mut second = Served::start(&ward);
    assert_eq!(shells(&ward), before);
    let used = ward.house.call(&["exec", "--session", "k", "-c", "echo $V"]);
    assert_eq!(used.stdout, "7\n", "{used:?}");
    ward.house.write("go", "");
    let report = ward.end_of(&run);
    assert_eq!(report["outcome"], "succeeded", "{report:#}");
    assert_eq!(task(&report, "a")["attempts"], 1);
    assert_eq!(ward.house.read("done"), "a\n");
    signal(i64::from(second.0.id()), "TERM");
    assert_eq!(second.code(), 0);
    ward.house.assert_empties();
}
