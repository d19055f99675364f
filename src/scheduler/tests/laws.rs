//! Laws that hold for every run: random graphs, ends, orders and requests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::plans::{agent, of_specs, spec};
use super::stage::{broken_environment, failed, needs_input, not_verified, timed_out};
use crate::domain::event::{AttemptEnd, RunOptions};
use crate::domain::outcome::TaskState;
use crate::domain::plan::{Dependency, Plan, Ready, Service, When};
use crate::domain::time::Timestamp;
use crate::scheduler::Schedule;
use crate::scheduler::event::{Effect, EndWhy, Event};

const TAGS: [&str; 3] = ["a", "b", "c"];

/// What a run is made of.
#[derive(Clone, Debug)]
struct Case {
    plan: Plan,
    options: RunOptions,
    selected: Option<Vec<usize>>,
    /// Seeds the choice of what happens next.
    choices: u64,
    /// Whether requests from outside are among what happens.
    requests: bool,
}

prop_compose! {
    fn a_task(at: usize)(
        after in prop::collection::vec((0..at.max(1), 0..6_u8), if at == 0 { 0..=0 } else { 0..=3 }),
        needs in prop::collection::btree_set(0..TAGS.len(), 0..=2),
        priority in 0..3_i64,
        retries in 0..3_u32,
        service in prop::bool::weighted(0.15),
    ) -> crate::domain::plan::TaskSpec {
        let mut task = spec(&format!("t{at}"));
        task.after = after
            .into_iter()
            .map(|(task, when)| Dependency {
                task,
                when: match when { 4 => When::Failure, 5 => When::Done, _ => When::Success },
            })
            .collect();
        task.needs = needs.into_iter().map(|tag| TAGS[tag].into()).collect();
        task.priority = priority;
        task.retries = retries;
        task.service = service.then_some(Service { ready: Ready::Port(1) });
        task
    }
}

fn a_case() -> impl Strategy<Value = Case> {
    (0..12_usize).prop_flat_map(|count| {
        let tasks: Vec<_> = (0..count).map(a_task).collect();
        let capacities = prop::collection::vec(1..3_u32, 3);
        let selected = prop::option::weighted(0.2, prop::collection::vec(0..12_usize, 0..8));
        let options = (1..5_u32, any::<bool>(), any::<bool>(), any::<u64>());
        let choices = any::<u64>();
        (tasks, capacities, selected, options, choices, any::<bool>()).prop_map(
            |(
                tasks,
                capacities,
                selected,
                (jobs, fail_fast, attended, seed),
                choices,
                requests,
            )| {
                let tags = [&TAGS[..], &TAGS[..1], &TAGS[1..]];
                let agents = capacities
                    .iter()
                    .zip(tags)
                    .enumerate()
                    .map(|(at, (capacity, tags))| agent(&format!("agent{at}"), tags, *capacity))
                    .collect();
                let options = RunOptions { jobs, fail_fast, attended, seed };
                Case { plan: of_specs(agents, tasks), options, selected, choices, requests }
            },
        )
    })
}

/// What a watcher of the effects alone knows of an attempt.
#[derive(Clone, Copy, Debug)]
struct Live {
    attempt: u32,
    agent: usize,
    ready: bool,
    asking: bool,
    ending: Option<EndWhy>,
}

/// Plays a case and checks each step from outside.
struct Watcher<'a> {
    case: &'a Case,
    schedule: Schedule,
    now: Timestamp,
    live: BTreeMap<usize, Live>,
    settled: BTreeMap<usize, TaskState>,
    attempts: BTreeMap<usize, u32>,
    trace: Vec<(Event, Timestamp, Vec<Effect>)>,
    ended: bool,
}

impl<'a> Watcher<'a> {
    fn new(case: &'a Case) -> Self {
        Self {
            case,
            schedule: Schedule::new(&case.plan, case.selected.as_deref(), &case.options),
            now: Timestamp(0),
            live: BTreeMap::new(),
            settled: BTreeMap::new(),
            attempts: BTreeMap::new(),
            trace: Vec::new(),
            ended: false,
        }
    }

    fn hear(&mut self, event: Event) {
        match &event {
            Event::ServiceReady { task, .. } => self.live.get_mut(task).unwrap().ready = true,
            Event::InputAwaited { task, .. } => self.live.get_mut(task).unwrap().asking = true,
            Event::InputAnswered { task, .. } => {
                let live = self.live.get_mut(task).unwrap();
                live.asking = false;
                if live.ending == Some(EndWhy::Unanswered) {
                    live.ending = None;
                }
            }
            Event::AttemptEnded { task, attempt, .. } => {
                // A straggler's end is nobody's end.
                self.live.retain(|at, live| at != task || live.attempt != *attempt);
            }
            _ => {}
        }
        let effects = self.schedule.step(event.clone(), self.now);
        for effect in &effects {
            self.saw(effect);
        }
        self.trace.push((event, self.now, effects));
    }

    fn saw(&mut self, effect: &Effect) {
        assert!(!self.ended, "nothing follows the end");
        match effect {
            Effect::Start { task, attempt, agent } => self.saw_start(*task, *attempt, *agent),
            Effect::End { task, attempt, why } => {
                let live = self.live.get_mut(task).expect("only what runs is ended");
                assert_eq!(live.attempt, *attempt);
                live.ending = Some(*why);
                self.saw_end(*why);
            }
            Effect::Moved { task, state, .. } => {
                if state.is_terminal() {
                    assert!(!self.live.contains_key(task), "a tree is still there");
                    assert_eq!(self.settled.insert(*task, *state), None, "settled twice");
                } else {
                    assert!(!self.settled.contains_key(task), "left an end");
                }
            }
            Effect::RunEnded { .. } => {
                assert!(self.live.is_empty(), "an attempt is left");
                self.ended = true;
            }
        }
    }

    /// Nothing is given up while something can proceed by itself.
    fn saw_end(&self, why: EndWhy) {
        let idle = |live: &Live| match why {
            EndWhy::Unanswered => live.asking || live.ready,
            EndWhy::ServiceDone => live.ready,
            EndWhy::Cancelled | EndWhy::FailFast => true,
        };
        assert!(self.live.values().all(idle), "{why:?} too early");
        if matches!(why, EndWhy::Unanswered | EndWhy::ServiceDone) {
            assert_eq!(self.schedule.next_deadline(), None, "{why:?} before a retry");
        }
        assert!(why != EndWhy::Unanswered || !self.case.options.attended);
    }

    fn saw_start(&mut self, task: usize, attempt: u32, agent: usize) {
        let spec = &self.case.plan.tasks[task];
        let carried = &self.case.plan.agents[agent];
        assert!(spec.needs.iter().all(|tag| carried.tags.contains(tag)), "agent without the tags");
        let count = self.attempts.entry(task).or_insert(0);
        *count += 1;
        assert_eq!(*count, attempt, "attempts count from 1 without gaps");
        assert!(attempt <= 1 + spec.retries, "more tries than there are");
        let selected = |on: usize| self.case.selected.as_ref().is_none_or(|s| s.contains(&on));
        assert!(selected(task));
        for dependency in spec.after.iter().filter(|dependency| selected(dependency.task)) {
            let state = self.settled.get(&dependency.task).copied();
            let ready = self.live.get(&dependency.task).is_some_and(|live| live.ready);
            let holds = match dependency.when {
                When::Success => state == Some(TaskState::Succeeded) || ready || attempt > 1,
                When::Failure => matches!(
                    state,
                    Some(TaskState::Failed | TaskState::TimedOut | TaskState::Cancelled)
                ),
                When::Done => state.is_some(),
            };
            assert!(holds, "t{task} started before t{} allowed it", dependency.task);
        }
        let live = Live { attempt, agent, ready: false, asking: false, ending: None };
        assert!(self.live.insert(task, live).is_none(), "two attempts at a time");
        let holding = || self.live.values().filter(|live| !live.ready);
        assert!(holding().count() <= self.case.options.jobs as usize, "more than jobs");
        let on_agent = holding().filter(|live| live.agent == agent).count();
        assert!(on_agent <= carried.capacity as usize, "more than the agent's capacity");
    }

    /// One thing that may happen now, by the given number.
    fn happen(&mut self, choice: u32) {
        let pick = choice as usize / 16;
        if self.case.requests && choice.is_multiple_of(97) {
            return self.hear(Event::CancelRun { why: Default::default() });
        }
        if self.case.requests && choice.is_multiple_of(13) && !self.case.plan.tasks.is_empty() {
            return self.hear(Event::CancelTask { task: pick % self.case.plan.tasks.len() });
        }
        let running: Vec<(usize, Live)> = self.live.iter().map(|(t, l)| (*t, *l)).collect();
        let Some(&(task, live)) = running.get(pick % running.len().max(1)) else {
            if let Some(deadline) = self.schedule.next_deadline() {
                self.now = self.now.max(deadline);
            }
            return self.hear(Event::Tick);
        };
        let attempt = live.attempt;
        let service = self.case.plan.tasks[task].service.is_some();
        let event = match (choice % 16, live.ending) {
            (0..=3, None) if service && !live.ready => Event::ServiceReady { task, attempt },
            (4, None) if !live.asking => Event::InputAwaited { task, attempt },
            (5, None | Some(EndWhy::Unanswered)) if live.asking => {
                Event::InputAnswered { task, attempt }
            }
            (6, _) => {
                self.now = self.now.plus_ms(u64::from(choice % 700));
                Event::Tick
            }
            (7, _) => {
                let end = AttemptEnd::Succeeded;
                Event::AttemptEnded { task, attempt: attempt + 1, end }
            }
            (kind, ending) => Event::AttemptEnded { task, attempt, end: end_of(kind, ending) },
        };
        self.hear(event);
    }

    fn play(&mut self) {
        self.hear(Event::Begin);
        let mut choices = Xoshiro256PlusPlus::seed_from_u64(self.case.choices);
        for _turn in 0..2_000 {
            if self.ended {
                break;
            }
            self.happen(choices.random());
        }
        assert!(self.ended, "the run never ends: {:?}", self.schedule);
    }
}

/// How an attempt ends that was asked to, or was not.
fn end_of(kind: u32, ending: Option<EndWhy>) -> AttemptEnd {
    match (ending, kind % 8) {
        (Some(EndWhy::ServiceDone), 1..) => AttemptEnd::Succeeded,
        (Some(EndWhy::Unanswered), 1..) => needs_input(),
        (Some(EndWhy::Cancelled | EndWhy::FailFast), 1..) => AttemptEnd::Cancelled,
        (_, 0) => failed(),
        (None, 1) => timed_out(),
        (None, 2) => broken_environment(),
        (None, 3) => not_verified(),
        (None, _) => AttemptEnd::Succeeded,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Each task settles exactly once unless it waits for a decision, never too many run, nothing
    /// starts early, and every run ends.
    #[test]
    fn every_run_keeps_its_promises(case in a_case()) {
        let mut watcher = Watcher::new(&case);
        watcher.play();
        let mut waits_for_decision = false;
        let states: Vec<TaskState> = watcher
            .schedule
            .members()
            .iter()
            .map(|task| watcher.schedule.task(*task).unwrap().state)
            .collect();
        for state in &states {
            waits_for_decision |= *state == TaskState::Escalated;
        }
        for state in states {
            let left_behind = waits_for_decision && state == TaskState::Blocked;
            prop_assert!(state.is_terminal() || state == TaskState::Escalated || left_behind);
        }
        prop_assert_eq!(watcher.schedule.next_deadline(), None);
    }

    /// The same events at the same times give the same effects.
    #[test]
    fn a_replay_is_the_run(case in a_case()) {
        let mut watcher = Watcher::new(&case);
        watcher.play();
        let mut again = Schedule::new(&case.plan, case.selected.as_deref(), &case.options);
        for (event, at, effects) in watcher.trace {
            prop_assert_eq!(again.step(event, at), effects);
        }
    }

    /// Both that need a failed gate are skipped, in whatever order things end.
    #[test]
    fn a_failed_gate_lets_nobody_through(
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
        jobs in 1..7_u32,
    ) {
        let mut tasks: Vec<_> = (0..6).map(|at| spec(&format!("t{at}"))).collect();
        let gate = order[0];
        for name in ["x", "y"] {
            let mut task = spec(name);
            task.after = (0..6).map(|task| Dependency { task, when: When::Success }).collect();
            tasks.push(task);
        }
        let plan = of_specs(vec![agent("local", &[], 9)], tasks);
        let options = RunOptions { jobs, ..RunOptions::default() };
        let mut schedule = Schedule::new(&plan, None, &options);
        let now = Timestamp(0);
        let mut effects = schedule.step(Event::Begin, now);
        while schedule.outcome().is_none() {
            let running: Vec<usize> = order
                .iter()
                .copied()
                .filter(|task| schedule.task(*task).unwrap().state == TaskState::Running)
                .collect();
            let task = running[running.len() / 2];
            let end = if task == gate { failed() } else { AttemptEnd::Succeeded };
            effects.extend(schedule.step(Event::AttemptEnded { task, attempt: 1, end }, now));
        }
        for task in [6, 7] {
            prop_assert_eq!(schedule.task(task).unwrap().state, TaskState::Skipped);
            let starts = |effect: &Effect| {
                matches!(effect, Effect::Start { task: started, .. } if *started == task)
            };
            prop_assert!(!effects.iter().any(starts));
        }
    }
}
