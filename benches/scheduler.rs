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
//!
//! Below them the recall of a million records (`Recall::fold`, without reading and parsing them):
//! of many small runs, of large ones, and of standing runs that tasks were added to one by one.
#![expect(clippy::print_stdout, reason = "a bench talks to whoever runs it")]

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use callboard::domain::event::{AttemptEnd, Event as Fact, RunOptions};
use callboard::domain::ids::{AttemptId, RunId};
use callboard::domain::outcome::{CommandState, RunOutcome, TaskState};
use callboard::domain::plan::{
    AdapterKind, Agent, Dependency, OnInput, Plan, ResourceLimits, TaskSpec, TimeLimits, When,
};
use callboard::domain::time::Timestamp;
use callboard::scheduler::Schedule;
use callboard::scheduler::event::{Effect, Event};
use callboard::scheduler::recall::{RESUMABLE_MAX, Recall, SUCCEEDED_MAX};

/// How many records are recalled, about.
const RECORDS: usize = 1_000_000;
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
    println!("\n{:16} {:>8} {:>8} {:>10} {:>12}", "recall", "runs", "records", "ms", "records/s");
    for (name, tasks, is_standing) in
        [("small runs", 10, false), ("large runs", 50_000, false), ("standing runs", 50_000, true)]
    {
        recall(name, tasks, is_standing);
    }
}

/// Recalls runs of so many tasks, a million records in all.
fn recall(name: &str, tasks: usize, is_standing: bool) {
    let story = |run: usize| story(&format!("r{run}"), tasks, is_standing);
    let runs = (RECORDS / story(0).len()).max(1);
    let facts: Vec<Fact> = (0..runs).flat_map(story).collect();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            let mut recall = Recall::default();
            for (at, fact) in (0..).zip(&facts) {
                recall.fold(Timestamp(at), fact);
            }
            let elapsed = began.elapsed();
            assert_eq!(recall.misfits().1, 0);
            assert_eq!(recall.open().count(), 0);
            assert!(recall.ended().count() <= RESUMABLE_MAX + SUCCEEDED_MAX);
            elapsed
        })
        .collect();
    times.sort_unstable();
    let seconds = times[ROUNDS / 2].as_secs_f64();
    println!(
        "{name:16} {runs:>8} {:>8} {:>10.2} {:>12.0}",
        facts.len(),
        seconds * 1e3,
        facts.len() as f64 / seconds
    );
}

/// What a run of tasks behind one another leaves in the journal.
fn story(run: &str, tasks: usize, is_standing: bool) -> Vec<Fact> {
    let id = RunId::from(run);
    let mut plan = plan(tasks, chain);
    let added = if is_standing { std::mem::take(&mut plan.tasks) } else { vec![] };
    let mut facts = vec![Fact::RunSubmitted {
        run: id.clone(),
        plan: Box::new(plan),
        options: RunOptions::default(),
        selected: None,
        allowed: BTreeMap::new(),
        detached: true,
        open_ended: is_standing,
        origin: None,
        parent: None,
    }];
    facts.extend(added.into_iter().map(|task| Fact::TaskAdded {
        run: id.clone(),
        task: Box::new(task),
        after_others: vec![],
        ticket: None,
    }));
    for at in 0..tasks {
        let name = format!("task{at}");
        let attempt = AttemptId { run: id.clone(), task: name.as_str().into(), attempt: 1 };
        let session: callboard::domain::ids::SessionId = format!("s-{run}-{at}").as_str().into();
        let command: callboard::domain::ids::CommandId = format!("s-{run}-{at}.1").as_str().into();
        let (agent, end) = ("agent15".into(), AttemptEnd::Succeeded);
        let text = "true".to_owned();
        facts.extend([
            Fact::AttemptStarted { attempt: attempt.clone(), agent, session: session.clone() },
            Fact::CommandStarted { session: session.clone(), command: command.clone(), text },
            Fact::CommandEnded {
                session: session.clone(),
                command,
                state: CommandState::Completed,
                reason: None,
                exit_code: Some(0),
                duration_ms: 1,
            },
            Fact::SessionClosed { session },
            Fact::AttemptEnded { attempt, end },
            Fact::TaskSettled {
                run: id.clone(),
                task: at,
                state: TaskState::Succeeded,
                reason: None,
            },
        ]);
    }
    let (outcome, counts) = (RunOutcome::Succeeded, BTreeMap::new());
    facts.push(Fact::RunEnded { run: id, outcome, exit_code: 0, counts });
    facts
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
        policy: Default::default(),
        resources: ResourceLimits::default(),
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
        resources: ResourceLimits::default(),
        retries: 0,
        on_input: OnInput::default(),
        stop_on: vec![],
        service: None,
        verify: None,
        shell: None,
        shell_profile: false,
        tracing: Default::default(),
        writes: vec![],
        artifacts: vec![],
        policy: Default::default(),
        publish: Default::default(),
        isolation: Default::default(),
        merge: Default::default(),
    });
    Plan {
        workspace_id: None,
        root: PathBuf::from("/"),
        agents: agents.collect(),
        default_env: BTreeMap::new(),
        default_env_pass: vec![],
        session_defaults: Default::default(),
        policy: Default::default(),
        default_shell: Default::default(),
        tasks: tasks.collect(),
    }
}
