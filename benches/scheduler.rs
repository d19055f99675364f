//! The scheduler's own cost: runs of 1,000 to 100,000 tasks driven from `Begin` to their end in
//! the pure machine, without a process, a file or a clock inside.
//!
//! ```text
//! cargo bench --bench scheduler
//! ```
//!
//! Each line is one shape at one size: the median of the rounds, tasks a second, and the cost a
//! task beside that of the smallest size. The last column stays near 1 when a dispatch costs
//! O(log n), and grows with the size when something scans.
#![expect(clippy::print_stdout, reason = "a bench talks to whoever runs it")]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use callboard::domain::event::{AttemptEnd, RunOptions};
use callboard::domain::outcome::RunOutcome;
use callboard::domain::plan::{
    AdapterKind, Agent, Dependency, OnInput, Plan, TaskSpec, TimeLimits, When,
};
use callboard::domain::time::Timestamp;
use callboard::scheduler::Schedule;
use callboard::scheduler::event::{Effect, Event};

const SIZES: [usize; 4] = [1_000, 10_000, 50_000, 100_000];
const ROUNDS: usize = 5;
const LAYERS: usize = 100;
const AGENTS: usize = 16;

type After = fn(at: usize, count: usize) -> Vec<usize>;

fn main() {
    let shapes: [(&str, After); 4] =
        [("wide", wide), ("chain", chain), ("layered", layered), ("fan", fan)];
    println!(
        "{:8} {:>7} {:>10} {:>12} {:>9} {:>6}",
        "shape", "tasks", "ms", "tasks/s", "us/task", "x"
    );
    for (name, after) in shapes {
        let mut smallest = None;
        for count in SIZES {
            let plan = plan(count, after);
            let mut times: Vec<Duration> = (0..ROUNDS).map(|_| drive(&plan)).collect();
            times.sort_unstable();
            let seconds = times[ROUNDS / 2].as_secs_f64();
            let each = seconds / count as f64;
            let ratio = each / *smallest.get_or_insert(each);
            let rate = count as f64 / seconds;
            println!(
                "{name:8} {count:>7} {:>10.2} {rate:>12.0} {:>9.3} {ratio:>6.2}",
                seconds * 1e3,
                each * 1e6,
            );
        }
    }
}

/// All at once.
fn wide(_at: usize, _count: usize) -> Vec<usize> {
    vec![]
}

/// One after the other.
fn chain(at: usize, _count: usize) -> Vec<usize> {
    at.checked_sub(1).into_iter().collect()
}

/// 100 layers, each task behind three of the layer before.
fn layered(at: usize, count: usize) -> Vec<usize> {
    let width = count / LAYERS;
    let Some(below) = (at / width).checked_sub(1) else { return vec![] };
    [7, 31, 63].map(|step| below * width + (at * step + step) % width).into()
}

/// One before all the others, and one behind them.
fn fan(at: usize, count: usize) -> Vec<usize> {
    match at {
        0 => vec![],
        at if at + 1 == count => (1..at).collect(),
        _ => vec![0],
    }
}

/// From the plan to the last effect, laying out the graph included.
fn drive(plan: &Plan) -> Duration {
    let options = RunOptions { jobs: 16, ..RunOptions::default() };
    let began = Instant::now();
    let mut schedule = Schedule::new(plan, None, &options);
    let mut running = VecDeque::new();
    let mut effects = schedule.step(Event::Begin, Timestamp(0));
    loop {
        for effect in &effects {
            if let Effect::Start { task, attempt, .. } = effect {
                running.push_back((*task, *attempt));
            }
        }
        let Some((task, attempt)) = running.pop_front() else { break };
        let end = AttemptEnd::Succeeded;
        effects = schedule.step(Event::AttemptEnded { task, attempt, end }, Timestamp(0));
    }
    assert_eq!(schedule.outcome(), Some(RunOutcome::Succeeded));
    began.elapsed()
}

fn plan(count: usize, after: After) -> Plan {
    let tags = ["build", "test", "db", "web"];
    let agents = (0..AGENTS).map(|at| Agent {
        name: format!("agent{at}").as_str().into(),
        tags: tags[..1 + at % tags.len()].iter().map(|tag| (*tag).into()).collect(),
        adapter: AdapterKind::Shell,
        capacity: 1,
        env: BTreeMap::new(),
        env_pass: vec![],
    });
    let tasks = (0..count).map(|at| TaskSpec {
        id: format!("task{at}").as_str().into(),
        needs: vec![tags[at % tags.len()].into()],
        after: after(at, count)
            .into_iter()
            .map(|task| Dependency { task, when: When::Success })
            .collect(),
        run: vec!["true".to_owned()],
        cwd: None,
        env: BTreeMap::new(),
        env_pass: vec![],
        ports: BTreeMap::new(),
        priority: i64::from(at % 7 == 0),
        class: None,
        limits: TimeLimits::default(),
        retries: 0,
        on_input: OnInput::default(),
        stop_on: vec![],
        service: None,
        verify: None,
        artifacts: vec![],
    });
    Plan {
        workspace_id: None,
        root: PathBuf::from("/"),
        agents: agents.collect(),
        default_env: BTreeMap::new(),
        default_env_pass: vec![],
        session_defaults: Default::default(),
        tasks: tasks.collect(),
    }
}
