//! A journal that is damaged, newer, or cannot be written.

use sha2::{Digest, Sha256};

use super::{end_coordinator, flip, log, refused, segments, state};
use crate::house::House;

const MANIFEST: &str = "[[task]]\nid = \"a\"\nrun = \"true\"\n";

/// A house with a run behind it, and nobody in it.
fn lived_in() -> (House, String) {
    let house = House::new();
    let (code, report) = house.run(MANIFEST);
    assert_eq!(code, 0, "{report:#}");
    house.assert_empties();
    (house, report["run_id"].as_str().unwrap().to_owned())
}

#[test]
fn a_byte_flipped_in_the_middle_is_refused_with_its_place_and_reading_goes_as_far_as_it_can() {
    let (house, run) = lived_in();
    let segment = segments(&house).remove(0);
    let whole = std::fs::read(&segment).unwrap();
    // In the third record.
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    flip(&segment, ends[1] + 20);
    let place = format!("{} at byte {}", segment.display(), ends[1] + 1);
    house.write("m.toml", MANIFEST);
    for args in [&["run", "m.toml", "--json"][..], &["exec", "--json", "-c", "true"]] {
        let called = house.call(args);
        let (code, kind, message) = refused(&called);
        assert_eq!((code, kind.as_str()), (3, "machine"), "{called:?}");
        assert!(message.contains("damaged") && message.contains(&place), "{message}");
        assert!(message.contains("hint: ") && message.contains("audit verify"), "{message}");
    }
    house.assert_empties();
    assert_eq!(std::fs::read(&segment).unwrap().len(), whole.len(), "nothing is cut off");
    for args in [&["status", "--json"][..], &["report", &run, "--json"], &["run", "ls", "--json"]] {
        let called = house.call(args);
        assert_eq!((called.code, called.json()["error"].is_null()), (0, true), "{called:?}");
    }
    let verdict = house.call(&["audit", "verify", "--json"]);
    let document = verdict.json();
    assert_eq!((verdict.code, &document["whole"]), (1, &false.into()), "{verdict:?}");
    assert_eq!(document["problem"]["offset"], ends[1] + 1);
    assert_eq!(document["problem"]["segment"], segment.to_string_lossy().as_ref());
    assert_eq!(document["records"], 2);
    let shown = house.call(&["audit", "show", "--json"]);
    assert_eq!(
        (shown.code, shown.stdout.lines().filter(|l| l.contains("\"seq\"")).count()),
        (3, 2)
    );
    std::fs::write(&segment, &whole).unwrap();
    assert_eq!(house.run(MANIFEST).0, 0, "mended, it goes on");
    house.assert_empties();
}

#[test]
fn a_torn_tail_is_cut_and_told_and_a_missing_segment_is_refused() {
    let (house, _) = lived_in();
    let segment = segments(&house).remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes.extend_from_slice(b"{\"seq\":99,\"at\":\"20");
    std::fs::write(&segment, &bytes).unwrap();
    let verdict = house.call(&["audit", "verify", "--json"]);
    assert_eq!((verdict.code, &verdict.json()["torn"]["bytes"]), (0, &18.into()), "{verdict:?}");
    assert_eq!(house.exec("true").0, 0);
    assert!(log(&house).contains("cut a torn tail off the journal"), "{}", log(&house));
    end_coordinator(&house);
    let moved = state(&house).join("journal/00000000000000000042.jsonl");
    std::fs::rename(&segment, &moved).unwrap();
    let (code, _, message) = refused(&house.call(&["exec", "--json", "-c", "true"]));
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("begins at line 42, but line 1 is due"), "{message}");
    house.assert_empties();
}

#[test]
fn a_journal_of_a_newer_version_is_refused_as_such() {
    let (house, _) = lived_in();
    let segment = segments(&house).remove(0);
    let text = std::fs::read_to_string(&segment).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let last = lines.pop().unwrap();
    let name = last.split("\"event\":\"").nth(1).unwrap().split('"').next().unwrap();
    let body = last.rsplit_once(",\"sum\"").unwrap().0.replace(name, "task_dreamt");
    let hash = Sha256::digest(&body);
    let sum: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    lines.push(format!("{body},\"sum\":\"{sum}\"}}"));
    std::fs::write(&segment, lines.join("\n") + "\n").unwrap();
    let (code, _, message) = refused(&house.call(&["exec", "--json", "-c", "true"]));
    assert_eq!(code, 5, "{message}");
    assert!(message.contains("written by a newer callboard"), "{message}");
    assert!(message.contains("task_dreamt") && !message.contains("damaged"), "{message}");
    house.assert_empties();
}

#[test]
fn times_that_go_back_are_taken_as_they_are() {
    use callboard::domain::event::{Event, Stamped};
    use callboard::domain::time::Timestamp;
    let (house, _) = lived_in();
    let (journal, _) =
        callboard::journal::Journal::open(&state(&house).join("journal"), |_| {}).unwrap();
    // From 2100, and then from 2001.
    for at in [4_102_444_800_000, 1_000_000_000_000] {
        let event = Event::CoordinatorStarted { pid: 1, version: "0".to_owned() };
        journal.append(vec![Stamped { at: Timestamp(at), event }], true).wait().unwrap();
    }
    drop(journal);
    let (code, report) = house.run(MANIFEST);
    assert_eq!(code, 0, "{report:#}");
    // No machine sees a time before one that was.
    assert!(report["started_at"].as_str().unwrap().starts_with("2100-01-01"), "{report:#}");
    house.assert_empties();
    assert_eq!(house.call(&["audit", "verify"]).code, 0);
}

#[test]
fn a_report_that_is_torn_is_made_of_the_journal() {
    let (house, run) = lived_in();
    let file = state(&house).join("runs").join(&run).join("report.json");
    let written = std::fs::read(&file).unwrap();
    for torn in [&written[..100], b""] {
        std::fs::write(&file, torn).unwrap();
        let called = house.call(&["report", &run, "--json"]);
        assert_eq!(called.code, 0, "{called:?}");
        assert_eq!(called.json()["outcome"], "succeeded");
        assert_eq!(house.call(&["run", "ls"]).code, 0);
    }
}
