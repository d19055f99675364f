//! Large runs, driven to their end. The cost a task is measured by `benches/scheduler.rs`; here
//! the shapes are checked to end, and deep ones not to exhaust the stack.

use std::collections::VecDeque;

use super::plans::{agent, of_specs, spec};
use super::stage::failed;
use crate::domain::event::{AttemptEnd, RunOptions};
use crate::domain::outcome::{RunOutcome, TaskState};
use crate::domain::plan::{Dependency, Plan, When};
use crate::domain::time::Timestamp;
use crate::scheduler::Schedule;
use crate::scheduler::event::{Effect, Event};

const COUNT: usize = 10_000;

fn shape(after: impl Fn(usize) -> Vec<usize>) -> Plan {
    let tasks = (0..COUNT).map(|at| {
        let mut task = spec(&format!("t{at}"));
        let after = after(at).into_iter();
        task.after = after.map(|task| Dependency { task, when: When::Success }).collect();
        task.needs = if at % 3 == 0 { vec!["a".into()] } else { vec![] };
        task
    });
    of_specs(vec![agent("plain", &[], 8), agent("able", &["a"], 8)], tasks.collect())
}

/// Ends attempts in the order in which they started, all but the first well.
fn drive(plan: &Plan, first: &AttemptEnd) -> Schedule {
    let options = RunOptions { jobs: 16, ..RunOptions::default() };
    let mut schedule = Schedule::new(plan, None, &options);
    let now = Timestamp(0);
    let mut running = VecDeque::new();
    let mut effects = schedule.step(Event::Begin, now);
    let mut first = Some(first.clone());
    loop {
        running.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Start { task, attempt, .. } => Some((*task, *attempt)),
            _ => None,
        }));
        let Some((task, attempt)) = running.pop_front() else { break };
        let end = first.take().unwrap_or(AttemptEnd::Succeeded);
        effects = schedule.step(Event::AttemptEnded { task, attempt, end }, now);
    }
    schedule
}

#[test]
fn wide_deep_and_layered_runs_end() {
    let wide = shape(|_| vec![]);
    let chain = shape(|at| at.checked_sub(1).into_iter().collect());
    let layer = COUNT / 100;
    let layered = shape(|at| {
        let below = (at / layer).checked_sub(1);
        below
            .into_iter()
            .flat_map(|below| [7, 31, 63].map(|k| below * layer + (at * k) % layer))
            .collect()
    });
    for plan in [&wide, &chain, &layered] {
        let schedule = drive(plan, &AttemptEnd::Succeeded);
        assert_eq!(schedule.outcome(), Some(RunOutcome::Succeeded));
        assert_eq!(schedule.counts(), [(TaskState::Succeeded, COUNT)].into());
    }
    let schedule = drive(&chain, &failed());
    assert_eq!(schedule.outcome(), Some(RunOutcome::Failed));
    assert_eq!(schedule.counts().get(&TaskState::Skipped), Some(&(COUNT - 1)));
}
