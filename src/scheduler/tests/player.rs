//! Plays a run at random and keeps the records of it, as a coordinator does: each before what
//! follows from it.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::laws::{Case, end_of};
use super::plans::spec;
use crate::domain::event::{AttemptEnd, CancelWhy, Event as Fact, RunOptions};
use crate::domain::ids::{AttemptId, RunId};
use crate::domain::outcome::{Reason, RunOutcome, TaskReason, TaskState};
use crate::domain::plan::{Dependency, Plan, Ready, Service, TaskSpec, When};
use crate::domain::time::Timestamp;
use crate::scheduler::Schedule;
use crate::scheduler::event::{Effect, EndWhy, Event};
use crate::scheduler::recall::{Recall, Recalled};

/// Turns after which a run has to have ended.
const TURNS_MAX: usize = 3_000;
/// How many tasks are added, retried, and how often the run is reopened.
const EXTRA_MAX: u32 = 4;

pub(super) type Facts = Vec<(Timestamp, Fact)>;

/// What a run looked like once a step and all its records were through.
#[derive(Debug)]
pub(super) struct Shot {
    /// How many records there were.
    pub(super) facts: usize,
    pub(super) at: Timestamp,
    pub(super) picture: Vec<String>,
    /// The deadlines of the tasks that waited for their next try.
    pub(super) retries: Retries,
}

/// Deadlines by task, attempts and retries spent.
pub(super) type Retries = BTreeMap<(usize, u32, u32), Timestamp>;

#[derive(Debug)]
pub(super) struct Player {
    pub(super) plan: Plan,
    pub(super) schedule: Schedule,
    pub(super) now: Timestamp,
    pub(super) facts: Facts,
    pub(super) shots: Vec<Shot>,
    /// Whether each start is checked to be lawful; not after records that make no sense.
    pub(super) lawful: bool,
    pub(super) ended: bool,
    requests: bool,
    rng: Xoshiro256PlusPlus,
}

pub(super) fn run() -> RunId {
    RunId::from("r")
}

impl Player {
    pub(super) fn new(case: &Case) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(case.choices);
        let open_ended = rng.random_bool(0.3);
        let schedule = Schedule::new(&case.plan, case.selected.as_deref(), &case.options);
        let submitted = Fact::RunSubmitted {
            run: run(),
            plan: Box::new(case.plan.clone()),
            options: case.options.clone(),
            selected: case.selected.clone(),
            allowed: BTreeMap::new(),
            detached: true,
            open_ended,
            origin: None,
            parent: None,
        };
        Self {
            plan: case.plan.clone(),
            schedule: if open_ended { schedule.open_ended() } else { schedule },
            now: Timestamp(0),
            facts: vec![(Timestamp(0), submitted)],
            shots: Vec::new(),
            lawful: true,
            ended: false,
            requests: case.requests,
            rng,
        }
    }

    /// Goes on with what the records tell, some time later. Of the attempts that ran some are lost.
    pub(super) fn after(facts: &[(Timestamp, Fact)], recalled: Recalled, seed: u64) -> Self {
        let now = facts.last().map_or(Timestamp(0), |(at, _)| *at).plus_ms(seed % 900);
        let mut player = Self {
            plan: (*recalled.plan).clone(),
            ended: recalled.ended.is_some(),
            schedule: recalled.schedule,
            now,
            facts: facts.to_vec(),
            shots: Vec::new(),
            lawful: true,
            requests: seed.is_multiple_of(2),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        };
        for (task, attempt, _) in player.running() {
            if player.rng.random_bool(0.4) {
                let reason = TaskReason::Command(Reason::Lost);
                let end = AttemptEnd::Failed { reason, permanent: false, environment: false };
                player.attempt_ends(task, attempt, end);
            }
        }
        player
    }

    /// Plays from here to the run's end.
    pub(super) fn play(&mut self, first: Event) {
        self.hear(first);
        for _turn in 0..TURNS_MAX {
            if self.ended && !self.go_on_after_the_end() {
                return;
            }
            self.happen();
        }
        panic!("the run never ends: {:?}\n{}", self.schedule, self.story());
    }

    /// The records, for whoever reads of a failure.
    pub(super) fn story(&self) -> String {
        story(&self.facts)
    }

    fn keep(&mut self, fact: Fact) {
        self.facts.push((self.now, fact));
    }

    fn hear(&mut self, event: Event) {
        for effect in self.schedule.step(event, self.now) {
            match effect {
                Effect::Start { task, attempt, agent } => self.starts(task, attempt, agent),
                Effect::Moved { task, state, reason } => {
                    if state.is_terminal() || state == TaskState::Escalated {
                        self.keep(Fact::TaskSettled { run: run(), task, state, reason });
                    }
                }
                Effect::End { .. } => {}
                Effect::RunEnded { outcome, exit_code } => {
                    let counts = self.schedule.counts();
                    self.keep(Fact::RunEnded { run: run(), outcome, exit_code, counts });
                    self.ended = true;
                }
            }
        }
        self.shots.push(Shot {
            facts: self.facts.len(),
            at: self.now,
            picture: picture(&self.schedule),
            retries: retries(&self.schedule),
        });
    }

    fn starts(&mut self, task: usize, attempt: u32, agent: usize) {
        if self.lawful {
            self.check_start(task, attempt);
        }
        let started = Fact::AttemptStarted {
            attempt: self.name(task, attempt),
            agent: self.plan.agents[agent].name.clone(),
            session: format!("s-{task}.{attempt}").as_str().into(),
        };
        self.keep(started);
    }

    /// Attempts count on, stay within their budget, and what has succeeded does not run again.
    fn check_start(&self, task: usize, attempt: u32) {
        let id = &self.plan.tasks[task].id;
        let is_service = self.plan.tasks[task].service.is_some();
        let (mut latest, mut budget, mut is_done) = (0, 1 + self.plan.tasks[task].retries, false);
        for (_, fact) in &self.facts {
            match fact {
                Fact::AttemptStarted { attempt, .. } if attempt.task == *id => {
                    latest = attempt.attempt;
                }
                Fact::AttemptEnded { attempt, end } if attempt.task == *id => {
                    is_done = *end == AttemptEnd::Succeeded && !is_service;
                }
                Fact::TaskRetried { task: again, .. } if *again == task || is_service => {
                    budget += 1;
                    is_done = false;
                }
                Fact::RunResumed { .. } => budget += 1,
                _ => {}
            }
        }
        assert!(!is_done, "{id} has succeeded, and starts again\n{}", self.story());
        assert_eq!(attempt, latest + 1, "attempts of {id} count on\n{}", self.story());
        assert!(attempt <= budget, "{id} has {budget} attempts\n{}", self.story());
    }

    fn running(&self) -> Vec<(usize, u32, Option<EndWhy>)> {
        let members = self.schedule.members().iter();
        let running = members.filter_map(|&task| {
            let attempt = self.schedule.attempt(task)?;
            Some((task, attempt, self.schedule.task(task)?.ending))
        });
        running.collect()
    }

    fn attempt_ends(&mut self, task: usize, attempt: u32, end: AttemptEnd) {
        let ended = Fact::AttemptEnded { attempt: self.name(task, attempt), end: end.clone() };
        self.keep(ended);
        self.hear(Event::AttemptEnded { task, attempt, end });
    }

    fn times(&self, kind: fn(&Fact) -> bool) -> u32 {
        u32::try_from(self.facts.iter().filter(|(_, fact)| kind(fact)).count()).unwrap()
    }

    fn go_on_after_the_end(&mut self) -> bool {
        let reopened = self.times(|fact| matches!(fact, Fact::RunResumed { .. }));
        let failed = self.schedule.outcome() != Some(RunOutcome::Succeeded);
        if failed && self.requests && reopened < 2 && self.rng.random_bool(0.6) {
            let options = RunOptions { jobs: 2, seed: self.rng.random(), ..RunOptions::default() };
            self.ended = false;
            let resumed = Fact::RunResumed { run: run(), options: options.clone(), detached: true };
            self.keep(resumed);
            self.hear(Event::Reopen { options });
            return true;
        }
        self.rng.random_bool(0.3) && self.retry_something()
    }

    fn retry_something(&mut self) -> bool {
        let retried = self.times(|fact| matches!(fact, Fact::TaskRetried { .. }));
        let settled: Vec<usize> = (self.schedule.members().iter().copied())
            .filter(|task| {
                let state = self.schedule.task(*task).unwrap().state;
                state.is_terminal() || state == TaskState::Escalated
            })
            .collect();
        if retried >= EXTRA_MAX || settled.is_empty() || !self.schedule.takes_retries() {
            return false;
        }
        let task = settled[self.rng.random_range(0..settled.len())];
        self.ended = false;
        self.keep(Fact::TaskRetried { run: run(), task });
        self.hear(Event::RetryTask { task });
        true
    }

    fn add_something(&mut self) {
        let count = self.plan.tasks.len();
        let mut task =
            TaskSpec { priority: self.rng.random_range(0..3), ..spec(&format!("x{count}")) };
        task.retries = self.rng.random_range(0..2);
        if self.rng.random_bool(0.2) {
            task.service = Some(Service { ready: Ready::Port(1) });
        }
        let members = self.schedule.members();
        if !members.is_empty() && self.rng.random_bool(0.7) {
            let on = members[self.rng.random_range(0..members.len())];
            let when = [When::Success, When::Success, When::Failure, When::Done]
                [self.rng.random_range(0..4)];
            task.after.push(Dependency { task: on, when });
        }
        let added = self.times(|fact| matches!(fact, Fact::TaskAdded { .. }));
        if added >= EXTRA_MAX || self.schedule.may_add(&task).is_err() {
            return;
        }
        self.plan.tasks.push(task.clone());
        let boxed = Box::new(task);
        self.keep(Fact::TaskAdded {
            run: run(),
            task: boxed.clone(),
            after_others: Vec::new(),
            ticket: None,
        });
        self.hear(Event::Add { task: boxed, outside: 0 });
    }

    fn request(&mut self) {
        match self.rng.random_range(0..12) {
            0 => {
                let why = CancelWhy::Requested;
                self.keep(Fact::RunCancelled { run: run(), why });
                self.hear(Event::CancelRun { why });
            }
            1..5 if !self.schedule.members().is_empty() => {
                let members = self.schedule.members();
                let task = members[self.rng.random_range(0..members.len())];
                self.keep(Fact::TaskCancelled { run: run(), task });
                self.hear(Event::CancelTask { task });
            }
            5..8 => drop(self.retry_something()),
            _ => self.add_something(),
        }
    }

    /// One thing happens.
    fn happen(&mut self) {
        if self.requests && self.rng.random_bool(0.1) {
            return self.request();
        }
        let running = self.running();
        if running.is_empty() {
            return match self.schedule.next_deadline() {
                Some(deadline) => {
                    self.now = self.now.max(deadline);
                    self.hear(Event::Tick)
                }
                None if self.schedule.is_open() => {
                    self.keep(Fact::RunSealed { run: run() });
                    self.hear(Event::Seal)
                }
                None => self.hear(Event::Tick),
            };
        }
        let (task, attempt, ending) = running[self.rng.random_range(0..running.len())];
        let view = self.schedule.task(task).unwrap();
        let (ready, asks) = (view.ready_since.is_some(), view.awaiting_since.is_some());
        let is_service = self.plan.tasks[task].service.is_some();
        match (self.rng.random_range(0..16), ending) {
            (0..=4, None) if is_service && !ready => {
                let attempt_id = self.name(task, attempt);
                self.keep(Fact::AttemptReady { attempt: attempt_id });
                self.hear(Event::ServiceReady { task, attempt })
            }
            (5, None) if !asks => self.hear(Event::InputAwaited { task, attempt }),
            (6, None | Some(EndWhy::Unanswered)) if asks => {
                self.hear(Event::InputAnswered { task, attempt })
            }
            (7, _) => {
                self.now = self.now.plus_ms(self.rng.random_range(0..700));
                self.hear(Event::Tick)
            }
            (kind, ending) => {
                self.now = self.now.plus_ms(self.rng.random_range(0..3));
                self.attempt_ends(task, attempt, end_of(kind, ending))
            }
        }
    }

    fn name(&self, task: usize, attempt: u32) -> AttemptId {
        AttemptId { run: run(), task: self.plan.tasks[task].id.clone(), attempt }
    }

    /// Every task is where it stays, or waits for a decision or behind one, or for a run that was
    /// ended before it could.
    pub(super) fn check_end(&self) {
        let running = self.running();
        assert!(running.is_empty(), "{running:?} are left\n{}", self.story());
        assert_eq!(self.schedule.next_deadline(), None);
        let states: BTreeSet<TaskState> = self.schedule.counts().into_keys().collect();
        let decision = states.contains(&TaskState::Escalated);
        for state in states {
            let waits = state == TaskState::Escalated || decision && state == TaskState::Blocked;
            assert!(state.is_terminal() || waits, "{state:?} is left\n{}", self.story());
        }
    }
}

pub(super) fn story(facts: &[(Timestamp, Fact)]) -> String {
    facts.iter().skip(1).map(|(at, fact)| format!("{} {fact:?}\n", at.0)).collect()
}

/// The fold of these records.
pub(super) fn recall(facts: &[(Timestamp, Fact)]) -> Recall {
    let mut recall = Recall::default();
    for (at, fact) in facts {
        recall.fold(*at, fact);
    }
    recall
}

/// What is on record of a run, in words: all but what an attempt asks, and what we have asked of
/// one by ourselves. That is told anew.
pub(super) fn picture(schedule: &Schedule) -> Vec<String> {
    let task = |task: &usize| {
        let view = schedule.task(*task).unwrap();
        let ending = view.ending.filter(|why| matches!(why, EndWhy::Cancelled | EndWhy::FailFast));
        // Ready again after a wait is nothing that is recorded.
        let since = if view.state == TaskState::Ready { Timestamp(0) } else { view.since };
        format!(
            "{task}: {:?} {since:?} {} {} {:?} {:?} {:?} {:?} {:?} {:?} {ending:?}",
            view.state,
            view.attempts,
            view.retries_spent,
            view.agent,
            view.started_at,
            view.ended_at,
            view.reason,
            view.class,
            view.ready_since,
        )
    };
    let mut picture: Vec<String> = schedule.members().iter().map(task).collect();
    picture.push(format!(
        "{:?} {:?} {:?} {}",
        schedule.outcome(),
        schedule.next_deadline(),
        schedule.cancelled_why(),
        schedule.is_open()
    ));
    picture
}

pub(super) fn retries(schedule: &Schedule) -> Retries {
    let waits = schedule.waiting().filter(|wait| {
        schedule.task(wait.task).is_some_and(|view| view.state == TaskState::Retrying)
    });
    let deadlines = waits.map(|wait| {
        let view = schedule.task(wait.task).unwrap();
        ((wait.task, view.attempts, view.retries_spent), wait.deadline.unwrap())
    });
    deadlines.collect()
}
