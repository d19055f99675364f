//! The journal beside the bare disk: events a second and how long each waited, with and without
//! durability; and a coordinator's start behind a million events, with and without a snapshot.
//!
//! `cargo bench --bench journal [-- EVENTS]`; the folder is made in `$TMPDIR`, so that the disk can
//! be chosen. Medians of five rounds with their spread.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program run by hand")]

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use callboard::domain::event::{AttemptEnd, Event, RunOptions, Stamped};
use callboard::domain::ids::{AttemptId, CommandId, RunId, SessionId};
use callboard::domain::outcome::{CommandState, RunOutcome, TaskState};
use callboard::domain::plan::{AdapterKind, Agent, Plan, TaskSpec};
use callboard::domain::process::ProcessIdentity;
use callboard::domain::session::SessionOwner;
use callboard::domain::time::Timestamp;
use callboard::journal::snapshot::{Reach, take};
use callboard::journal::{Commit, Journal, Line, verify};
use callboard::scheduler::recall::Recall;

const ROUNDS: usize = 5;

fn main() {
    let events = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(1_000_000);
    let dir = tempfile::tempdir().unwrap();
    let line = line_bytes(&dir.path().join("line"));
    println!("a line has about {line} bytes");

    waiting("bare write + fdatasync, one a line", 2_000, |n, waits| {
        bare(dir.path(), n, line, waits)
    });
    for (durable, under_way, count) in [
        (true, 1, 2_000),
        (true, 8, 16_000),
        (true, 64, 60_000),
        (false, 1, 50_000),
        (false, 8, 100_000),
        (false, 64, 200_000),
    ] {
        let what = format!("{}durable, {under_way} under way", if durable { "" } else { "not " });
        waiting(&what, count, |n, waits| append(dir.path(), n, durable, under_way, waits));
    }

    recovery(&dir.path().join("long"), events);
}

/// What a start costs: replayed into the runs, as a coordinator does it.
fn recovery(long: &Path, events: u64) {
    fill(long, events);
    let bytes: u64 =
        std::fs::read_dir(long).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    println!("{events} events of runs are {} MB", bytes / 1_000_000);
    let replay = |_| {
        let mut recall = Recall::default();
        drop(Journal::open(long, |line| recall.fold(line.at, &line.event)).unwrap());
    };
    rate("recovery without a snapshot", events, replay);
    rate("verify", events, |_| assert_eq!(verify(long).unwrap().last_seq, events));
    // Of most runs beginning and end, of commands the latest.
    let last = events.saturating_sub(40_000);
    let mut keep = |line: &Line| match &line.event {
        Event::RunSubmitted { .. } | Event::RunEnded { .. } => line.seq * 2 > events,
        Event::CommandStarted { .. } | Event::CommandEnded { .. } => line.seq > last,
        _ => false,
    };
    rate("taking a snapshot", events, |_| take(long, Reach::End, &mut keep).unwrap());
    rate("recovery with a snapshot", events, replay);
}

/// What a run of ten tasks writes, over and over.
fn event(n: u64) -> Stamped {
    const OF_A_RUN: u64 = 62;
    let (run, step) = (RunId::new(format!("r-{:012x}", n / OF_A_RUN)), n % OF_A_RUN);
    let task = (step.saturating_sub(1)) / 6;
    let attempt =
        AttemptId { run: run.clone(), task: format!("t{task}").as_str().into(), attempt: 1 };
    let session = SessionId::new(format!("s-{:012x}", n / OF_A_RUN * 10 + task));
    let command = CommandId::new(format!("{session}.1"));
    let event = match (step, step.saturating_sub(1) % 6) {
        (0, _) => submitted(run),
        (61, _) => {
            let counts = [(TaskState::Succeeded, 10)].into();
            Event::RunEnded { run, outcome: RunOutcome::Succeeded, exit_code: 0, counts }
        }
        (_, 0) => Event::AttemptStarted { attempt, agent: "local".into(), session },
        (_, 1) => {
            let holder = ProcessIdentity {
                pid: 4711,
                start_time: 123_456,
                boot_id: "1b4e28ba-2fa1-11d2-883f-0016d3cca427".to_owned(),
                pid_namespace: 4_026_531_836,
            };
            Event::SessionOpened { session, owner: SessionOwner::Attempt { attempt }, holder }
        }
        (_, 2) => Event::CommandStarted { session, command, text: "cargo test --all".to_owned() },
        (_, 3) => Event::CommandEnded {
            session,
            command,
            state: CommandState::Completed,
            reason: None,
            exit_code: Some(0),
            duration_ms: n % 5000,
        },
        (_, 4) => Event::SessionClosed { session },
        _ => Event::AttemptEnded { attempt, end: AttemptEnd::Succeeded },
    };
    Stamped { at: Timestamp(1_764_543_600_000 + n.cast_signed()), event }
}

fn submitted(run: RunId) -> Event {
    let tasks = (0..10).map(|n| TaskSpec::new(&format!("t{n}"), &["cargo test --all"])).collect();
    let plan = Plan {
        workspace_id: None,
        root: "/".into(),
        agents: vec![Agent {
            name: "local".into(),
            tags: Vec::new(),
            adapter: AdapterKind::Shell,
            capacity: 4,
            env: Default::default(),
            env_pass: Vec::new(),
            policy: Default::default(),
            resources: Default::default(),
        }],
        default_env: Default::default(),
        default_env_pass: Vec::new(),
        session_defaults: Default::default(),
        policy: Default::default(),
        default_shell: Default::default(),
        tasks,
    };
    Event::RunSubmitted {
        run,
        plan: Box::new(plan),
        options: RunOptions::default(),
        selected: None,
        allowed: Default::default(),
        detached: true,
        open_ended: false,
        origin: None,
        parent: None,
    }
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

fn bare(dir: &Path, count: u64, line: usize, waits: &mut Vec<f64>) {
    let mut file = File::create(dir.join("bare")).unwrap();
    let line = vec![b'x'; line];
    for _ in 0..count {
        let start = Instant::now();
        file.write_all(&line).unwrap();
        file.sync_data().unwrap();
        waits.push(start.elapsed().as_secs_f64());
    }
}

/// Appends one event at a time, waiting for the oldest once `under_way` have not resolved.
fn append(dir: &Path, count: u64, durable: bool, under_way: usize, waits: &mut Vec<f64>) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let (journal, _) = Journal::open(dir.path(), |_| {}).unwrap();
    let mut commits: VecDeque<(Instant, Commit)> = VecDeque::new();
    let mut settle = |(start, commit): (Instant, Commit)| {
        commit.wait().unwrap();
        waits.push(start.elapsed().as_secs_f64());
    };
    for n in 0..count {
        if commits.len() == under_way {
            commits.pop_front().into_iter().for_each(&mut settle);
        }
        commits.push_back((Instant::now(), journal.append(vec![event(n)], durable)));
    }
    commits.into_iter().for_each(settle);
}

/// A rate, and what half and 99 of 100 events waited at most.
fn waiting(what: &str, count: u64, mut round: impl FnMut(u64, &mut Vec<f64>)) {
    let mut waits = Vec::new();
    rate(what, count, |count| round(count, &mut waits));
    waits.sort_by(f64::total_cmp);
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100] * 1e6;
    println!("{:<36} p50 {:>7.0} us   p99 {:>7.0} us", "", at(50), at(99));
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
