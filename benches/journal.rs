//! The journal beside the bare disk: events a second with and without durability, and the replay
//! of a million events.
//!
//! `cargo bench --bench journal [-- EVENTS]`; the folder is made in `$TMPDIR`, so that the disk can
//! be chosen. Medians of five rounds with their spread.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program run by hand")]

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use callboard::domain::event::{AttemptEnd, Event, Stamped};
use callboard::domain::ids::AttemptId;
use callboard::domain::outcome::CommandState;
use callboard::domain::time::Timestamp;
use callboard::journal::{Journal, read, verify};

const ROUNDS: usize = 5;

fn main() {
    let events = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(1_000_000);
    let dir = tempfile::tempdir().unwrap();
    let line = line_bytes(&dir.path().join("line"));
    println!("a line has about {line} bytes");

    rate("bare write + fdatasync, one a line", 2_000, |n| bare(dir.path(), n, line));
    for under_way in [1, 2, 8, 64] {
        let what = format!("durable, {under_way} under way");
        rate(&what, 2_000 * under_way as u64, |n| append(dir.path(), n, true, under_way));
    }
    rate("not durable, 1 under way", 50_000, |n| append(dir.path(), n, false, 1));
    rate("not durable, 1024 under way", 200_000, |n| append(dir.path(), n, false, 1024));

    let long = dir.path().join("long");
    fill(&long, events);
    let bytes: u64 =
        std::fs::read_dir(&long).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    println!("{events} events are {} MB", bytes / 1_000_000);
    rate("replay", events, |_| {
        let mut seen = 0;
        drop(Journal::open(&long, |_| seen += 1).unwrap());
        assert_eq!(seen, events);
    });
    rate("verify", events, |_| assert_eq!(verify(&long).unwrap().last_seq, events));
    rate("read, broken off at once", 1, |_| {
        read(&long, &mut |_| std::ops::ControlFlow::Break(())).unwrap();
    });
}

/// What a run writes most: a command ended, an attempt ended.
fn event(n: u64) -> Stamped {
    let event = if n.is_multiple_of(2) {
        Event::CommandEnded {
            session: "s-4f1c0a9be2d7".into(),
            command: format!("c-{n}").as_str().into(),
            state: CommandState::Completed,
            reason: None,
            exit_code: Some(0),
            duration_ms: n % 5000,
        }
    } else {
        let (run, task) = ("r-20251130-230000-ab12".into(), format!("task-{n}").as_str().into());
        Event::AttemptEnded {
            attempt: AttemptId { run, task, attempt: 1 },
            end: AttemptEnd::Succeeded,
        }
    };
    Stamped { at: Timestamp(1_764_543_600_000 + n.cast_signed()), event }
}

fn line_bytes(dir: &Path) -> usize {
    fill(dir, 100);
    let segment = std::fs::read_dir(dir).unwrap().next().unwrap().unwrap();
    usize::try_from(segment.metadata().unwrap().len()).unwrap() / 100
}

fn fill(dir: &Path, events: u64) {
    let (journal, _) = Journal::open(dir, |_| {}).unwrap();
    for from in (0..events).step_by(1000) {
        drop(journal.append((from..events.min(from + 1000)).map(event).collect(), false));
    }
    journal.append(Vec::new(), true).wait().unwrap();
}

fn bare(dir: &Path, count: u64, line: usize) {
    let mut file = File::create(dir.join("bare")).unwrap();
    let line = vec![b'x'; line];
    for _ in 0..count {
        file.write_all(&line).unwrap();
        file.sync_data().unwrap();
    }
}

/// Appends one event at a time, waiting for the oldest once `under_way` have not resolved.
fn append(dir: &Path, count: u64, durable: bool, under_way: usize) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let (journal, _) = Journal::open(dir.path(), |_| {}).unwrap();
    let mut commits = VecDeque::new();
    for n in 0..count {
        if commits.len() == under_way {
            let commit: callboard::journal::Commit = commits.pop_front().unwrap();
            commit.wait().unwrap();
        }
        commits.push_back(journal.append(vec![event(n)], durable));
    }
    for commit in commits {
        commit.wait().unwrap();
    }
}

fn rate(what: &str, count: u64, mut round: impl FnMut(u64)) {
    let mut seconds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round(count);
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| count as f64 / seconds;
    let (median, least, most) = (seconds[ROUNDS / 2], seconds[0], seconds[ROUNDS - 1]);
    println!(
        "{what:<36} {:>11.0}/s  ({:.0} to {:.0})  {:>8.1} ms",
        rate(median),
        rate(most),
        rate(least),
        median * 1000.0
    );
}
