//! A seeded simulator: runs on a virtual clock whose coordinator crashes between any two commits
//! and effects, and is rebuilt from what the journal kept.
//!
//! Attempts live in a world of their own, as holders do: a crash leaves them as they are, and what
//! they came to is told when somebody asks. `CHAOS_SEEDS` says how many seeds are played, 1,000 by
//! default; `CHAOS_SEED` which is the first.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::plans::{agent, of_specs, spec};
use super::stage::{failed, timed_out};
use crate::domain::event::{AttemptEnd, CancelWhy, Event as Fact, RunOptions};
use crate::domain::ids::{AttemptId, RunId};
use crate::domain::outcome::{Reason, RunOutcome, TaskReason, TaskState};
use crate::domain::plan::{Dependency, Plan, Ready, Service, When};
use crate::domain::time::Timestamp;
use crate::scheduler::Schedule;
use crate::scheduler::event::{Effect, Event};
use crate::scheduler::recall::Recall;

/// Steps after which a run has to have ended, however unlucky it was.
const STEPS_MAX: usize = 5_000;
/// How often a world's coordinator crashes at most.
const CRASHES_MAX: usize = 6;

#[test]
fn whatever_crashes_nothing_is_lost_and_nothing_runs_twice() {
    // Read when this is compiled: nothing in this room knows an environment.
    let number = |told: Option<&str>, otherwise: u64| {
        told.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let seeds = number(option_env!("CHAOS_SEEDS"), 1_000);
    let first = number(option_env!("CHAOS_SEED"), 1);
    let mut crashes = 0;
    for seed in first..first + seeds {
        match std::panic::catch_unwind(|| World::new(seed).play()) {
            Ok(Ok(crashed)) => crashes += crashed,
            Ok(Err(words)) => panic!("CHAOS_SEED={seed}: {words}"),
            Err(_) => panic!("CHAOS_SEED={seed}: see the panic above"),
        }
    }
    eprintln!("chaos: {seeds} seeds, {crashes} crashes");
    assert!(crashes as u64 > seeds / 2, "hardly anything crashed");
}

/// An attempt in the world.
struct Holder {
    /// When it ends by itself; a service does not.
    until: Option<Timestamp>,
    end: AttemptEnd,
    /// It was told to end.
    ending: bool,
}

struct World {
    rng: Xoshiro256PlusPlus,
    run: RunId,
    plan: Plan,
    now: Timestamp,
    schedule: Schedule,
    /// The journal: what is durable, and what may be lost.
    durable: Vec<(Timestamp, Fact)>,
    loose: Vec<(Timestamp, Fact)>,
    holders: BTreeMap<(usize, u32), Holder>,
    /// Every start there ever was.
    started: BTreeSet<(usize, u32)>,
    /// Tasks whose success is on record, with how often it is.
    succeeded: BTreeMap<usize, u32>,
    /// Tries that somebody asked for.
    granted: BTreeMap<usize, u32>,
    /// Commits and effects until the next crash.
    fuel: usize,
    crashes: usize,
    ended: Option<RunOutcome>,
    resumed: u32,
}

/// The coordinator is gone.
struct Crash;

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let plan = a_plan(&mut rng);
        let options = RunOptions {
            jobs: rng.random_range(1..5),
            fail_fast: rng.random_bool(0.2),
            attended: false,
            seed: rng.random(),
        };
        let run = RunId::from("r");
        let submitted = Fact::RunSubmitted {
            parent: None,
            run: run.clone(),
            plan: Box::new(plan.clone()),
            options: options.clone(),
            selected: None,
            allowed: BTreeMap::new(),
            detached: true,
            open_ended: false,
            origin: None,
        };
        Self {
            fuel: rng.random_range(1..40),
            rng,
            run,
            now: Timestamp(0),
            schedule: Schedule::new(&plan, None, &options),
            plan,
            durable: vec![(Timestamp(0), submitted)],
            loose: Vec::new(),
            holders: BTreeMap::new(),
            started: BTreeSet::new(),
            succeeded: BTreeMap::new(),
            granted: BTreeMap::new(),
            crashes: 0,
            ended: None,
            resumed: 0,
        }
    }

    fn play(mut self) -> Result<usize, String> {
        let mut begun = self.hear(Event::Begin);
        for _ in 0..STEPS_MAX {
            if begun.is_err() {
                begun = self.crash().map(|()| Ok(()))?;
                continue;
            }
            if let Some(outcome) = self.ended {
                if outcome == RunOutcome::Cancelled && self.resumed < 2 {
                    begun = self.resume();
                    continue;
                }
                return self.judge();
            }
            begun = self.turn();
        }
        Err(format!("the run does not end: {:?}", self.schedule.counts()))
    }

    /// One thing happens.
    fn turn(&mut self) -> Result<(), Crash> {
        match self.rng.random_range(0..100) {
            0 => {
                self.keep(Fact::RunCancelled { run: self.run.clone(), why: CancelWhy::Requested });
                self.hear(Event::CancelRun { why: CancelWhy::Requested })
            }
            1..4 => {
                let task = self.rng.random_range(0..self.plan.tasks.len());
                self.keep(Fact::TaskCancelled { run: self.run.clone(), task });
                self.hear(Event::CancelTask { task })
            }
            4..7 => self.retry_something(),
            7..30 => self.a_service_is_ready(),
            _ => self.time_passes(),
        }
    }

    fn retry_something(&mut self) -> Result<(), Crash> {
        let settled = |task: &usize| {
            self.schedule.task(*task).is_some_and(|view| {
                matches!(view.state, TaskState::Failed | TaskState::TimedOut | TaskState::Cancelled)
            })
        };
        let Some(task) = (0..self.plan.tasks.len()).find(settled) else { return Ok(()) };
        if self.granted.values().sum::<u32>() > 5 || !self.schedule.takes_retries() {
            return Ok(());
        }
        *self.granted.entry(task).or_default() += 1;
        self.commit(Fact::TaskRetried { run: self.run.clone(), task })?;
        self.hear(Event::RetryTask { task })
    }

    fn a_service_is_ready(&mut self) -> Result<(), Crash> {
        let waiting = |(task, _): &&(usize, u32)| {
            self.plan.tasks[*task].service.is_some()
                && self.schedule.task(*task).is_some_and(|view| view.ready_since.is_none())
        };
        let Some(&(task, attempt)) = self.holders.keys().find(waiting) else { return Ok(()) };
        self.keep(Fact::AttemptReady { attempt: self.name(task, attempt) });
        self.hear(Event::ServiceReady { task, attempt })
    }

    /// The clock goes on to what is next: an attempt's end, or a deadline of the run's.
    fn time_passes(&mut self) -> Result<(), Crash> {
        let ends = self.holders.iter().filter_map(|(key, holder)| Some((holder.until?, *key)));
        let next = ends.min();
        let deadline = self.schedule.next_deadline();
        match (next, deadline) {
            (Some((at, _)), Some(deadline)) if deadline < at => {
                self.now = self.now.max(deadline);
                self.hear(Event::Tick)
            }
            (Some((at, key)), _) => {
                self.now = self.now.max(at);
                self.attempt_ends(key)
            }
            (None, Some(deadline)) => {
                self.now = self.now.max(deadline);
                self.hear(Event::Tick)
            }
            (None, None) => self.a_service_is_ready(),
        }
    }

    fn attempt_ends(&mut self, key: (usize, u32)) -> Result<(), Crash> {
        let Some(holder) = self.holders.get(&key) else { return Ok(()) };
        let end = holder.end.clone();
        self.told(key, end)
    }

    /// An attempt's end is heard: on record first, then its holder is let go.
    fn told(&mut self, (task, attempt): (usize, u32), end: AttemptEnd) -> Result<(), Crash> {
        let ended = Fact::AttemptEnded { attempt: self.name(task, attempt), end: end.clone() };
        self.commit(ended)?;
        if end == AttemptEnd::Succeeded {
            *self.succeeded.entry(task).or_default() += 1;
        }
        self.holders.remove(&(task, attempt));
        self.hear(Event::AttemptEnded { task, attempt, end })
    }

    /// Commit, then act: every boundary may be the last.
    fn hear(&mut self, event: Event) -> Result<(), Crash> {
        for effect in self.schedule.step(event, self.now) {
            match effect {
                Effect::Start { task, attempt, agent } => {
                    let agent = self.plan.agents[agent].name.clone();
                    let session = format!("s-{task}.{attempt}").as_str().into();
                    let attempt_id = self.name(task, attempt);
                    self.commit(Fact::AttemptStarted { attempt: attempt_id, agent, session })?;
                    self.start(task, attempt);
                    self.burn()?;
                }
                Effect::End { task, attempt, why } => {
                    if let Some(holder) = self.holders.get_mut(&(task, attempt)) {
                        holder.ending = true;
                        holder.until = Some(self.now.plus_ms(5));
                        holder.end = match why {
                            crate::scheduler::event::EndWhy::ServiceDone => AttemptEnd::Succeeded,
                            _ => AttemptEnd::Cancelled,
                        };
                    }
                    self.burn()?;
                }
                Effect::Moved { .. } => {}
                Effect::RunEnded { outcome, exit_code } => {
                    let counts = self.schedule.counts();
                    let run = self.run.clone();
                    self.ended = Some(outcome);
                    self.commit(Fact::RunEnded { run, outcome, exit_code, counts })?;
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, task: usize, attempt: u32) {
        assert!(self.started.insert((task, attempt)), "attempt {attempt} of {task} starts twice");
        let is_service = self.plan.tasks[task].service.is_some();
        assert!(
            is_service || !self.succeeded.contains_key(&task) || self.granted.contains_key(&task),
            "{task} runs again after its success was on record"
        );
        let end = match self.rng.random_range(0..10) {
            0..2 => failed(),
            2 => timed_out(),
            _ => AttemptEnd::Succeeded,
        };
        let lasts = self.rng.random_range(1..2_000);
        let until = (!is_service || end != AttemptEnd::Succeeded).then(|| self.now.plus_ms(lasts));
        self.holders.insert((task, attempt), Holder { until, end, ending: false });
    }

    /// A record that may be lost with the coordinator.
    fn keep(&mut self, fact: Fact) {
        self.loose.push((self.now, fact));
    }

    /// A record that is on the disk before anything follows from it, with all before it.
    fn commit(&mut self, fact: Fact) -> Result<(), Crash> {
        self.burn()?;
        self.durable.append(&mut self.loose);
        self.durable.push((self.now, fact));
        self.burn()
    }

    fn burn(&mut self) -> Result<(), Crash> {
        self.fuel -= 1;
        if self.fuel > 0 {
            return Ok(());
        }
        self.fuel =
            if self.crashes < CRASHES_MAX { self.rng.random_range(1..60) } else { usize::MAX };
        Err(Crash)
    }

    /// The next coordinator: the journal is folded, the holders that are there are adopted, the
    /// others are lost, and the run goes on.
    fn crash(&mut self) -> Result<(), String> {
        self.crashes += 1;
        // Of what was not durable any beginning may have reached the disk.
        let kept = self.rng.random_range(0..=self.loose.len());
        self.durable.extend(self.loose.drain(..).take(kept));
        self.now = self.now.plus_ms(self.rng.random_range(0..500));
        let mut recall = Recall::default();
        for (at, fact) in &self.durable {
            recall.fold(*at, fact);
        }
        let Some(recalled) = recall.take(&self.run) else {
            return Err("the run is forgotten".to_owned());
        };
        self.ended = recalled.ended.map(|(outcome, _)| outcome);
        let running = recalled.running();
        self.schedule = recalled.schedule;
        // Stragglers: nobody has their attempts any more.
        let present: BTreeSet<(usize, u32)> =
            running.iter().map(|(task, attempt, _)| (*task, *attempt)).collect();
        self.holders.retain(|key, _| present.contains(key));
        self.recall_is_whole()?;
        let mut gone = Vec::new();
        for key in present {
            let ending = self.schedule.task(key.0).and_then(|view| view.ending);
            match self.holders.get_mut(&key) {
                Some(holder) => {
                    if ending.is_some() && !holder.ending {
                        holder.until = Some(self.now.plus_ms(5));
                        holder.end = AttemptEnd::Cancelled;
                    }
                }
                None => gone.push(key),
            }
        }
        let lost = TaskReason::Command(Reason::Lost);
        let end = AttemptEnd::Failed { reason: lost, permanent: false, environment: false };
        for key in gone {
            // A crash within a recovery is the next turn's.
            if self.told(key, end.clone()).is_err() {
                return self.crash();
            }
        }
        match self.hear(Event::GoOn) {
            Ok(()) => Ok(()),
            Err(Crash) => self.crash(),
        }
    }

    /// What the journal has told is what was: attempts counted, successes kept.
    fn recall_is_whole(&self) -> Result<(), String> {
        for (&task, _) in self.succeeded.iter().filter(|(task, _)| {
            self.plan.tasks[**task].service.is_none() && !self.granted.contains_key(task)
        }) {
            let state = self.schedule.task(task).map(|view| view.state);
            if state != Some(TaskState::Succeeded) {
                return Err(format!("{task} had succeeded, and is {state:?}"));
            }
        }
        let mut counted: BTreeMap<usize, u32> = BTreeMap::new();
        for (_, fact) in &self.durable {
            if let Fact::AttemptStarted { attempt, .. } = fact {
                let task = self.plan.tasks.iter().position(|task| task.id == attempt.task);
                *counted.entry(task.unwrap_or(usize::MAX)).or_default() += 1;
            }
        }
        for (task, count) in counted {
            let attempts = self.schedule.task(task).map_or(0, |view| view.attempts);
            if attempts != count {
                return Err(format!("{task} has {count} recorded starts and {attempts} attempts"));
            }
        }
        Ok(())
    }

    fn resume(&mut self) -> Result<(), Crash> {
        self.resumed += 1;
        self.ended = None;
        let options = RunOptions { jobs: 2, ..RunOptions::default() };
        let run = self.run.clone();
        let resumed = Fact::RunResumed { run, options: options.clone(), detached: true };
        self.commit(resumed)?;
        self.hear(Event::Reopen { options })
    }

    /// The run has ended: every task is settled, within its budget.
    fn judge(&self) -> Result<usize, String> {
        for task in 0..self.plan.tasks.len() {
            let Some(view) = self.schedule.task(task) else { continue };
            if !view.state.is_terminal() {
                return Err(format!(
                    "the run has ended, and {task} is {:?}, after {:?}\n{}",
                    view.state,
                    self.plan.tasks[task].after,
                    self.story()
                ));
            }
            // A service that ended with its run is needed again by one that goes on, and by a
            // task of it that is tried again.
            let granted = match self.plan.tasks[task].service {
                Some(_) => self.granted.values().sum(),
                None => self.granted.get(&task).copied().unwrap_or(0),
            };
            let budget = 1 + self.plan.tasks[task].retries + granted + self.resumed;
            if view.attempts > budget {
                return Err(format!("{task} had {} attempts of {budget}", view.attempts));
            }
        }
        if !self.holders.is_empty() {
            return Err("the run has ended, and attempts are left".to_owned());
        }
        Ok(self.crashes)
    }

    /// The journal, for whoever reads of a failure.
    fn story(&self) -> String {
        let lines = self.durable.iter().skip(1).chain(&self.loose);
        lines.map(|(at, fact)| format!("{} {fact:?}\n", at.0)).collect()
    }

    fn name(&self, task: usize, attempt: u32) -> AttemptId {
        AttemptId { run: self.run.clone(), task: self.plan.tasks[task].id.clone(), attempt }
    }
}

fn a_plan(rng: &mut Xoshiro256PlusPlus) -> Plan {
    let count = rng.random_range(1..12);
    let tasks = (0..count).map(|at| {
        let mut task = spec(&format!("t{at}"));
        for _ in 0..rng.random_range(0..3) {
            if at > 0 {
                let when = match rng.random_range(0..6) {
                    0 => When::Failure,
                    1 => When::Done,
                    _ => When::Success,
                };
                let on = rng.random_range(0..at);
                if task.after.iter().all(|dependency| dependency.task != on) {
                    task.after.push(Dependency { task: on, when });
                }
            }
        }
        task.retries = rng.random_range(0..3);
        task.priority = rng.random_range(0..3);
        if rng.random_bool(0.15) {
            task.service = Some(Service { ready: Ready::Port(1) });
        }
        task
    });
    let tasks = tasks.collect();
    let agents = vec![agent("one", &[], rng.random_range(1..3)), agent("two", &[], 1)];
    of_specs(agents, tasks)
}
