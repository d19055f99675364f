//! Tables and bounds of the outbox.

use std::io::Read as _;

use super::*;
use crate::domain::result::{Awaiting, Certainty, Evidence};
use crate::domain::time::Timestamp;

fn started(command: &str) -> FactBody {
    FactBody::Started { command: command.into(), at: Timestamp(0), offset: 0 }
}

fn ended(command: &str) -> FactBody {
    FactBody::Ended { end: Box::new(crate::session::wire::tests::end(command)) }
}

fn awaiting(command: &str, prompt: &str) -> FactBody {
    FactBody::Awaiting {
        command: command.into(),
        awaiting: Awaiting {
            prompt: prompt.to_owned(),
            secret: false,
            evidence: Evidence::TtyRead,
            certainty: Certainty::Certain,
            idle_ms: 0,
        },
    }
}

/// The numbers of what is kept.
fn kept(outbox: &Outbox) -> Vec<u64> {
    outbox.kept.iter().map(|kept| kept.seq).collect()
}

fn filled(bodies: impl IntoIterator<Item = FactBody>) -> Outbox {
    let mut outbox = Outbox::default();
    bodies.into_iter().for_each(|body| outbox.push(body).unwrap());
    outbox
}

#[test]
fn a_peer_that_reads_late_gets_all_of_it_in_order() {
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let mut outbox = Outbox::default();
    for end in 0..20_000 {
        outbox.push(FactBody::Output { end }).unwrap();
        outbox.flush(&near).unwrap();
    }
    assert!(outbox.is_busy() && outbox.kept.is_empty());
    let mut decoder = frame::Decoder::default();
    let mut expected = 1;
    let mut buffer = vec![0; 4096];
    while expected <= 20_000 {
        let got = far.read(&mut buffer).unwrap();
        decoder.push(&buffer[..got]);
        while let Some(fact) = decoder.document::<Fact>().unwrap() {
            assert_eq!(fact.seq, expected);
            expected += 1;
        }
        outbox.flush(&near).unwrap();
    }
}

#[test]
fn a_peer_that_never_reads_is_given_up() {
    let mut outbox = Outbox::default();
    let message = "x".repeat(1024 * 1024);
    let body = || FactBody::OpenFailed { message: message.clone() };
    assert!((0..9).any(|_| outbox.push(body()).is_err()));
}

#[test]
fn the_latest_commands_facts_are_kept_beyond_their_acknowledgement() {
    let opened = || FactBody::Opened { holder: 1, start_time: 1, shell: 2 };
    let mut outbox = filled([opened(), started("c.1"), ended("c.1")]);
    outbox.acknowledge(3);
    assert_eq!(kept(&outbox), [1, 2, 3]);
    outbox.push(started("c.2")).unwrap();
    assert_eq!(kept(&outbox), [1, 4], "with the next one the first is history");
    outbox.push(ended("c.2")).unwrap();
    outbox.push(started("c.3")).unwrap();
    assert_eq!(kept(&outbox), [1, 4, 5, 6], "what nobody has on record is no history");
    outbox.acknowledge(6);
    outbox.push(started("c.4")).unwrap();
    assert_eq!(kept(&outbox), [1, 6, 7], "c.3 has not ended");
}

#[test]
fn a_question_is_told_again_until_it_is_answered() {
    let mut outbox = filled([started("c.1"), awaiting("c.1", "?")]);
    outbox.acknowledge(2);
    assert_eq!(kept(&outbox), [1, 2]);
    outbox.push(awaiting("c.1", "and now?")).unwrap();
    assert_eq!(kept(&outbox), [1, 3], "one question at a time");
    outbox.push(FactBody::Resumed { command: "c.1".into() }).unwrap();
    assert_eq!(kept(&outbox), [1]);
}

#[test]
fn what_is_kept_has_a_bound() {
    let ends = (0..2 * KEPT_MAX).map(|n| ended(&format!("c.{n}")));
    let outbox = filled(ends);
    assert_eq!(outbox.kept.len(), KEPT_MAX);
    assert_eq!(outbox.kept_bytes, outbox.kept.iter().map(|kept| kept.frame.len()).sum::<usize>());
    assert_eq!(outbox.kept.back().unwrap().seq, 2 * KEPT_MAX as u64);
}

#[test]
fn what_nobody_heard_is_on_the_disk_until_somebody_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(UNHEARD);
    let mut outbox = filled([started("c.1"), ended("c.1"), started("c.2")]);
    outbox.acknowledge(2);
    outbox.lose_peer(folder.path());
    outbox.push(ended("c.2")).unwrap();
    outbox.push(FactBody::Output { end: 3 }).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let seen: Vec<u64> =
        text.lines().map(|line| serde_json::from_str::<Fact>(line).unwrap().seq).collect();
    assert_eq!(seen, [3, 4]);
    outbox.meet_peer(crate::session::wire::tests::present()).unwrap();
    assert!(file.exists(), "nothing of it is on record");
    let mut decoder = frame::Decoder::default();
    decoder.push(&outbox.waiting);
    let mut told = Vec::new();
    while let Some(fact) = decoder.document::<Fact>().unwrap() {
        told.push(fact.seq);
    }
    assert_eq!(told, [0, 1, 2, 3, 4]);
    outbox.acknowledge(3);
    assert!(file.exists());
    outbox.acknowledge(4);
    assert!(!file.exists());
    // Lost once more, it begins anew.
    outbox.lose_peer(folder.path());
    outbox.acknowledge(5);
    assert_eq!(std::fs::read(&file).unwrap(), b"");
}

#[test]
fn the_file_begins_anew_with_each_loss() {
    let folder = tempfile::tempdir().unwrap();
    let mut outbox = filled([started("c.1"), ended("c.1"), started("c.2")]);
    let mut seen = Vec::new();
    for _ in 0..3 {
        outbox.lose_peer(folder.path());
        let facts = crate::session::unheard::read(folder.path()).unwrap();
        seen.push(facts.iter().map(|fact| fact.seq).collect::<Vec<_>>());
        outbox.meet_peer(crate::session::wire::tests::present()).unwrap();
        outbox.acknowledge(outbox.acknowledged + 1);
    }
    assert_eq!(seen, [vec![1, 2, 3], vec![2, 3], vec![3]]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_rule_that_answers_for_ever_fills_neither_memory_nor_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut outbox = filled([started("c.1"), ended("c.1"), started("c.2")]);
    outbox.lose_peer(folder.path());
    let prompt = "?".repeat(500);
    for _ in 0..20_000 {
        outbox.push(awaiting("c.2", &prompt)).unwrap();
        outbox.push(FactBody::Answered { command: "c.2".into(), prompt: prompt.clone() }).unwrap();
        outbox.push(FactBody::Resumed { command: "c.2".into() }).unwrap();
        outbox.drop_waiting();
    }
    outbox.push(ended("c.2")).unwrap();
    assert!(outbox.kept.len() <= KEPT_MAX && outbox.kept_bytes <= KEPT_BYTES_MAX);
    assert_eq!(kept(&outbox)[..3], [1, 2, 3], "no end was given up for an answer");
    let file = std::fs::metadata(folder.path().join(UNHEARD)).unwrap();
    assert!(file.len() < (UNHEARD_BYTES_MAX + 4096) as u64, "{}", file.len());
    let told = crate::session::unheard::read(folder.path()).unwrap();
    assert_eq!(told.last().unwrap().body, ended("c.2"), "of {}", told.len());
}

#[test]
fn the_latest_commands_facts_outlast_whatever_comes_between() {
    let mut outbox = filled((0..KEPT_MAX).map(|n| ended(&format!("c.{n}"))));
    outbox.push(started("latest")).unwrap();
    let latest = outbox.last;
    for _ in 0..2 * KEPT_MAX {
        outbox.push(FactBody::Answered { command: "latest".into(), prompt: "?".into() }).unwrap();
    }
    outbox.push(FactBody::Closed { survivors: Vec::new() }).unwrap();
    assert!(kept(&outbox).contains(&latest));
    assert_eq!(*kept(&outbox).last().unwrap(), outbox.last);
    assert_eq!(outbox.kept.len(), KEPT_MAX);
}
