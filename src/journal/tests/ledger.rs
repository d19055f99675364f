//! What is appended is read back: numbers, chain, segments, order, locks.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::{event, events, read_all, segments, written};
use crate::domain::event::Event;
use crate::journal::append::{Committed, Journal};
use crate::journal::error::{AppendError, JournalError};
use crate::journal::line::Chain;
use crate::journal::reading::{read, verify};

#[test]
fn what_is_appended_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("a b\"/journal");
    let (journal, replay) = Journal::open(&dir, |_| panic!("nothing yet")).unwrap();
    assert_eq!((replay.last_seq, replay.segments, replay.torn), (0, 0, None));
    let first = journal.append(events(1, 4), true).wait().unwrap();
    assert_eq!(first, Committed { first_seq: 1, last_seq: 3 });
    let nothing = journal.append(Vec::new(), true).wait().unwrap();
    assert_eq!(nothing, Committed { first_seq: 4, last_seq: 3 });
    let unheard = journal.append(events(4, 6), false);
    drop((unheard, journal));

    let mut seen = Vec::new();
    let (journal, replay) = Journal::open(&dir, |line| seen.push(line.event)).unwrap();
    assert_eq!(seen, events(1, 6).into_iter().map(|stamped| stamped.event).collect::<Vec<_>>());
    assert_eq!((replay.last_seq, replay.segments), (5, 1));
    assert_eq!(journal.append(vec![event(6)], true).wait().unwrap().last_seq, 6);
    assert_eq!(read_all(&dir).unwrap().0, events(1, 7), "readers need no coordinator");

    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&segments(&dir)[0]), 0o600);
}

#[test]
fn the_shape_is_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 3, u64::MAX);
    let text = std::fs::read_to_string(&segments(dir.path())[0]).unwrap();
    let mut before = "0".repeat(64);
    for (n, line) in (1..).zip(text.lines()) {
        let document: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(document["seq"], n);
        assert_eq!(document["prev"], before.as_str());
        let again: Event = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(again, event(n).event);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let (body, _) = line.rsplit_once(",\"sum\"").unwrap();
        assert_eq!(document["sum"], hex(&Sha256::digest(body.as_bytes())[..8]).as_str());
        before = hex(&Sha256::digest(line.as_bytes()));
    }
    assert_eq!(verify(dir.path()).unwrap().head, before);
    assert!(text.starts_with("{\"seq\":1,\"at\":\"2025-11-30T23:00:00.001Z\",\"prev\":\"000"));
}

#[test]
fn segments_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 40, 1000);
    let (seen, replay) = read_all(dir.path()).unwrap();
    assert_eq!(seen, events(1, 41));
    assert!(replay.segments > 5, "{replay:?}");
    // Reopening goes on in the last one.
    let (journal, _) = Journal::open_with(dir.path(), u64::MAX, &mut |_| {}).unwrap();
    journal.append(events(41, 50), true).wait().unwrap();
    let (seen, again) = read_all(dir.path()).unwrap();
    assert_eq!((seen, again.segments), (events(1, 50), replay.segments));
}

#[test]
fn reading_can_break_off() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), 9, 500);
    let mut seen = 0;
    let replay = read(dir.path(), &mut |line| {
        seen = line.seq;
        if line.seq == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((seen, replay.unwrap().last_seq), (4, 4));
}

#[test]
fn one_writer_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), |_| {}).unwrap();
    assert!(matches!(Journal::open(dir.path(), |_| {}), Err(JournalError::Locked { .. })));
    drop(journal);
    assert!(Journal::open(dir.path(), |_| {}).is_ok());
    let nowhere = dir.path().join("nowhere");
    assert!(matches!(verify(&nowhere), Err(JournalError::Missing { .. })));
}

#[test]
fn an_event_that_cannot_be_written_hurts_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), |_| {}).unwrap();
    let mut bad = events(1, 3);
    let script = "x".repeat(super::super::line::LINE_BYTES_MAX);
    let task = crate::domain::plan::TaskSpec::new("t", &[&script]);
    let plan = crate::domain::plan::Plan {
        workspace_id: None,
        root: "/".into(),
        agents: Vec::new(),
        default_env: std::collections::BTreeMap::new(),
        default_env_pass: Vec::new(),
        session_defaults: Default::default(),
        policy: Default::default(),
        default_shell: Default::default(),
        tasks: vec![task],
    };
    bad[1].event = Event::RunSubmitted {
        run: "r".into(),
        plan: Box::new(plan),
        options: crate::domain::event::RunOptions::default(),
        selected: None,
        allowed: Default::default(),
        detached: false,
        parent: None,
        open_ended: false,
        origin: None,
    };
    let (good, bad, after) = (
        journal.append(vec![event(1)], false),
        journal.append(bad, true),
        journal.append(vec![event(2)], true),
    );
    good.wait().unwrap();
    assert!(matches!(bad.wait(), Err(AppendError::TooLong(_))));
    after.wait().unwrap();
    assert_eq!(read_all(dir.path()).unwrap().0, events(1, 3));
}

#[test]
fn appends_of_many_threads_all_arrive_in_their_own_order() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open_with(dir.path(), 50_000, &mut |_| {}).unwrap();
    let journal = Arc::new(journal);
    let threads: Vec<_> = (0..8_u64)
        .map(|thread| {
            let journal = Arc::clone(&journal);
            std::thread::spawn(move || {
                for n in 0..100 {
                    let group = events(thread * 1000 + n * 2, thread * 1000 + n * 2 + 2);
                    let at = journal.append(group, n % 3 == 0).wait().unwrap();
                    assert_eq!(at.last_seq, at.first_seq + 1, "groups stay together");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    drop(journal);
    let (seen, _) = read_all(dir.path()).unwrap();
    assert_eq!(seen.len(), 8 * 200);
    for thread in 0..8 {
        let of_thread = |n: &i64| (n - 1_764_543_600_000) / 1000 == thread;
        let ats: Vec<i64> = seen.iter().map(|s| s.at.0).filter(of_thread).collect();
        assert!(ats.is_sorted() && ats.len() == 200, "thread {thread}");
    }
}

#[test]
fn commits_are_futures() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), |_| {}).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let last = runtime.block_on(async {
        let (one, two) = (journal.append(events(1, 3), true), journal.append(events(3, 5), false));
        assert_eq!(two.await.unwrap().first_seq, 3);
        one.await.unwrap().last_seq
    });
    assert_eq!(last, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_chain_reads_what_it_wrote(notes in proptest::collection::vec((any::<String>(), 0_i64..4_000_000_000_000), 1..20)) {
        let (mut chain, mut bytes) = (Chain::START, Vec::new());
        let events: Vec<_> = notes.into_iter().map(|(version, at)| {
            let mut stamped = event(2);
            stamped.at.0 = at;
            stamped.event = Event::CoordinatorStarted { pid: 1, version };
            stamped
        }).collect();
        for event in &events {
            chain.write(event, &mut bytes).unwrap();
        }
        let mut again = Chain::START;
        for (line, event) in bytes.split_mut(|byte| *byte == b'\n').zip(&events) {
            let line = again.read(line).unwrap();
            prop_assert_eq!((line.at, &line.event), (event.at, &event.event));
        }
        prop_assert_eq!(again, chain);
    }
}
