//! Tasks that are dispatched one by one (`task dispatch`): they join a standing run, which is open
//! for more until it has rested for a while.
//!
//! ```text
//!   dispatch ──► a standing run of these agents and this environment, or a new one
//!                   │ add
//!                   ▼
//!               its tasks ── all settled, and nobody adds more for REST_MS ──► sealed, ended
//! ```
//!
//! What a task waits for in other runs is watched here: the run's machine only counts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::calls::shutting_down;
use super::desk::{Desk, no_room};
use super::dispatched::{Added, PastDispatches};
use super::names;
use super::rejoining::lacks;
use super::runs::{Run, TaskRecord};
use super::sessions::Asker;
use super::tasks::is_settled;
use crate::control::{Dispatch, Failure, FailureKind, TaskAnswer, TaskRef, Waiting};
use crate::domain::event::{ClientEnv, Event as Record, RunOptions};
use crate::domain::ids::{RunId, TaskId};
use crate::domain::outcome::TaskState;
use crate::domain::plan::{Dependency, Plan, TaskSpec, When};
use crate::domain::time::Timestamp;
use crate::scheduler::Schedule;
use crate::scheduler::event::Event;

/// How long a standing run whose tasks are all settled stays open for more.
const REST_MS: u64 = 10_000;
/// How many standing runs there may be at a time: one for each set of agents and environment.
const STANDING_MAX: usize = 32;

/// The runs that tasks can be added to.
#[derive(Debug, Default)]
pub(super) struct Dispatching {
    standing: BTreeMap<RunId, Standing>,
    /// What an earlier coordinator had added.
    past: PastDispatches,
}

/// A run that tasks can be added to.
#[derive(Debug, Default)]
struct Standing {
    /// Its tasks that are not settled.
    open: BTreeSet<usize>,
    /// When it is sealed, unless somebody adds more before.
    seal_at: Option<Timestamp>,
    /// The tasks by the client's names for their calls.
    tickets: BTreeMap<String, usize>,
    /// What its tasks wait for in other runs.
    outside: BTreeMap<usize, BTreeSet<TaskRef>>,
}

/// What a condition in another run has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Yes,
    NotYet,
    Never(TaskState),
}

impl Dispatching {
    /// What is known of runs that an earlier coordinator has left.
    pub(super) fn after(past: PastDispatches) -> Self {
        Self { standing: BTreeMap::new(), past }
    }

    /// When the next run is sealed.
    pub(super) fn next_seal(&self) -> Option<Timestamp> {
        self.standing.values().filter_map(|standing| standing.seal_at).min()
    }

    /// What a task waits for in other runs.
    pub(super) fn outside_of(&self, run: &RunId, task: usize) -> impl Iterator<Item = &TaskRef> {
        let outside = self.standing.get(run).and_then(|standing| standing.outside.get(&task));
        outside.into_iter().flatten()
    }

    /// The runs that rest: they wait for more.
    pub(super) fn resting(&self) -> impl Iterator<Item = Waiting> {
        self.standing.iter().filter_map(|(run, standing)| {
            let deadline = standing.seal_at?;
            Some(Waiting {
                what: run.to_string(),
                on: "more tasks, as a standing run".to_owned(),
                since: Timestamp(deadline.0 - REST_MS.cast_signed()),
                deadline: Some(deadline),
            })
        })
    }

    /// A run has ended.
    pub(super) fn forget(&mut self, run: &RunId) {
        self.standing.remove(run);
    }
}

impl Desk {
    /// Adds a task to the standing run that it belongs to.
    pub(super) fn dispatch(&mut self, asker: Asker, dispatch: Dispatch, now: Timestamp) {
        match self.add(dispatch, now) {
            Ok(task) => self.tell_tasks(asker, TaskAnswer::Dispatched { task }),
            Err(failure) => self.refuse(asker.connection, asker.request, *failure),
        }
    }

    fn add(&mut self, dispatch: Dispatch, now: Timestamp) -> Result<TaskRef, Box<Failure>> {
        if self.is_terminating() {
            return Err(Box::new(shutting_down()));
        }
        if let Some(known) = self.dispatched(&dispatch.ticket) {
            return Ok(known);
        }
        if !self.has_room {
            return Err(Box::new(no_room()));
        }
        let Dispatch { mut plan, jobs, env, after, after_ended, ticket } = dispatch;
        if let Some(failure) = lacks(&plan, &env) {
            return Err(Box::new(failure));
        }
        let (Some(mut spec), true) = (plan.tasks.pop(), plan.tasks.is_empty()) else {
            return Err(Box::new(malformed("a dispatch is of one task")));
        };
        if let Some(agents) = unable(&plan, &spec) {
            return Err(Box::new(malformed(agents)));
        }
        let places = self.places(&after)?;
        let run = self.standing_run(&plan, env, jobs, now)?;
        let Some(index) = self.runs.get(&run).map(|run| run.plan.tasks.len()) else {
            return Err(Box::new(malformed("the standing run is gone")));
        };
        spec.id = TaskId::new(format!("t{}", index + 1));
        spec.after = places
            .iter()
            .filter(|(of, _)| *of == run)
            .map(|(_, task)| Dependency { task: *task, when: When::Success })
            .collect();
        let mut outside: BTreeSet<TaskRef> =
            after.into_iter().filter(|task| task.run != run).collect();
        outside.retain(|task| self.met(task) != Met::Yes);
        let lost = after_ended.into_iter().find(|ended| ended.state != TaskState::Succeeded);
        let record = Record::TaskAdded {
            run: run.clone(),
            task: Box::new(spec.clone()),
            after_others: outside.iter().map(ToString::to_string).collect(),
            ticket: Some(ticket.clone()),
        };
        self.record_durably(record, now);
        let task = TaskRef { run: run.clone(), task: spec.id.clone() };
        let conditions = outside.len() + usize::from(lost.is_some());
        if let Some(standing) = self.dispatching.standing.get_mut(&run) {
            standing.open.insert(index);
            standing.seal_at = None;
            standing.tickets.insert(ticket, index);
            if !outside.is_empty() {
                standing.outside.insert(index, outside);
            }
        }
        self.take_task(&run, spec, conditions, now);
        if let Some(lost) = lost {
            self.outside_failed(&run, index, &lost.task, lost.state, now);
        }
        self.look_outside(&run, index, now);
        Ok(task)
    }

    /// Gives a run's machine one more task.
    fn take_task(&mut self, id: &RunId, spec: TaskSpec, conditions: usize, now: Timestamp) {
        if let Some(run) = self.runs.get_mut(id) {
            Arc::make_mut(&mut run.plan).tasks.push(spec.clone());
            run.tasks.push(TaskRecord::default());
        }
        self.run_step(id, Event::Add { task: Box::new(spec), outside: conditions }, now);
    }

    /// The task that this call has made before.
    fn dispatched(&self, ticket: &str) -> Option<TaskRef> {
        self.dispatching.standing.iter().find_map(|(run, standing)| {
            let index = *standing.tickets.get(ticket)?;
            let task = self.runs.get(run)?.plan.tasks.get(index)?.id.clone();
            Some(TaskRef { run: run.clone(), task })
        })
    }

    /// The standing run of these agents and this environment; a new one where there is none.
    fn standing_run(
        &mut self,
        plan: &Plan,
        env: ClientEnv,
        jobs: u32,
        now: Timestamp,
    ) -> Result<RunId, Box<Failure>> {
        let fits = |run: &&Run| {
            self.dispatching.standing.contains_key(&run.id)
                && run.schedule.is_open()
                && run.env == env
                && run.plan.is_of_the_same_agents(plan)
        };
        if let Some(run) = self.runs.values().find(fits) {
            return Ok(run.id.clone());
        }
        if self.dispatching.standing.len() >= STANDING_MAX {
            return Err(Box::new(Failure {
                kind: FailureKind::Environment,
                message: format!(
                    "{STANDING_MAX} standing runs go on, each of other agents or another environment"
                ),
                hint: Some("let one of them end first: `callboard status` shows them".to_owned()),
            }));
        }
        let run = names::run();
        self.used_for_run();
        self.heed(plan.session_defaults);
        let options = RunOptions { jobs, seed: names::seed(), ..RunOptions::default() };
        let schedule = Schedule::new(plan, None, &options).open_ended();
        self.record_durably(
            Record::RunSubmitted {
                run: run.clone(),
                plan: Box::new(plan.clone()),
                options: options.clone(),
                selected: None,
                allowed: env.allowed.clone(),
                detached: true,
                open_ended: true,
                parent: None,
                origin: None,
            },
            now,
        );
        let standing = Run {
            id: run.clone(),
            plan: Arc::new(plan.clone()),
            parent: None,
            options,
            schedule,
            started_at: now,
            ended: None,
            tasks: Vec::new(),
            env,
            detached: true,
            client: None,
            deserted_until: None,
            followers: Vec::new(),
            attempts: BTreeMap::new(),
            stopped: BTreeMap::new(),
            origin: None,
            returning: BTreeMap::new(),
            warm: Vec::new(),
            brisk: false,
            questions: Vec::new(),
        };
        self.runs.insert(run.clone(), standing);
        self.run_step(&run, Event::Begin, now);
        self.dispatching.standing.insert(run.clone(), Standing::default());
        Ok(run)
    }

    /// A task is where it stays, or gets another attempt: its run may rest, or not any more, and
    /// those of other runs that wait for it are told.
    pub(super) fn follow_dispatched(
        &mut self,
        run: &RunId,
        task: usize,
        state: TaskState,
        now: Timestamp,
    ) {
        if let Some(standing) = self.dispatching.standing.get_mut(run) {
            if is_settled(state) {
                standing.open.remove(&task);
                if state.is_terminal() {
                    standing.outside.remove(&task);
                }
            } else {
                standing.open.insert(task);
            }
            standing.seal_at = standing.open.is_empty().then(|| now.plus_ms(REST_MS));
        }
        self.tell_waiting(run, task, now);
    }

    /// Those that wait for this task in other runs look at it again.
    pub(super) fn tell_waiting(&mut self, run: &RunId, task: usize, now: Timestamp) {
        if self.dispatching.standing.values().all(|standing| standing.outside.is_empty()) {
            return;
        }
        let Some(id) = self.runs.get(run).map(|run| run.plan.tasks[task].id.clone()) else {
            return;
        };
        let moved = TaskRef { run: run.clone(), task: id };
        let mut waiting = Vec::new();
        for (of, standing) in &self.dispatching.standing {
            let tasks = standing.outside.iter().filter(|(_, outside)| outside.contains(&moved));
            waiting.extend(tasks.map(|(task, _)| (of.clone(), *task)));
        }
        for (of, task) in waiting {
            self.look_outside(&of, task, now);
        }
    }

    /// A run has ended: what is not settled in it never will be.
    pub(super) fn run_is_over(&mut self, run: &RunId, now: Timestamp) {
        self.dispatching.forget(run);
        let mut waiting = Vec::new();
        for (of, standing) in &self.dispatching.standing {
            let tasks = standing.outside.iter();
            let tasks = tasks.filter(|(_, outside)| outside.iter().any(|task| task.run == *run));
            waiting.extend(tasks.map(|(task, _)| (of.clone(), *task)));
        }
        for (of, task) in waiting {
            self.look_outside(&of, task, now);
        }
    }

    /// Takes in what the tasks of other runs have come to that this one waits for.
    fn look_outside(&mut self, run: &RunId, task: usize, now: Timestamp) {
        let Some(standing) = self.dispatching.standing.get(run) else { return };
        let outside: Vec<TaskRef> =
            standing.outside.get(&task).into_iter().flatten().cloned().collect();
        for on in outside {
            let met = self.met(&on);
            if met == Met::NotYet {
                continue;
            }
            if let Some(standing) = self.dispatching.standing.get_mut(run)
                && let Some(open) = standing.outside.get_mut(&task)
            {
                open.remove(&on);
                if open.is_empty() {
                    standing.outside.remove(&task);
                }
            }
            match met {
                Met::Yes => self.run_step(run, Event::OutsideMet { task }, now),
                Met::Never(state) => self.outside_failed(run, task, &on, state, now),
                Met::NotYet => {}
            }
        }
    }

    fn outside_failed(
        &mut self,
        run: &RunId,
        task: usize,
        on: &TaskRef,
        state: TaskState,
        now: Timestamp,
    ) {
        let on = TaskId::new(on.to_string());
        self.run_step(run, Event::OutsideFailed { task, on, state }, now);
    }

    /// What the condition on a task of a run that goes on has come to; one that has vanished has
    /// ended meanwhile, with nothing that could be relied on.
    fn met(&self, on: &TaskRef) -> Met {
        let view = self.place(on).and_then(|(run, task)| {
            let run = self.runs.get(&run)?;
            Some((run.is_told(), run.schedule.task(task)?))
        });
        match view {
            None if self.dispatching.past.has_succeeded(on) => Met::Yes,
            None => Met::Never(TaskState::Cancelled),
            Some((_, view)) if view.state == TaskState::Succeeded || view.ready_since.is_some() => {
                Met::Yes
            }
            Some((ended, view)) if view.state.is_terminal() || ended => Met::Never(view.state),
            Some(_) => Met::NotYet,
        }
    }

    /// Goes on with the runs that an earlier coordinator has left open for more.
    fn take_up_standing(&mut self, now: Timestamp) {
        let left =
            |run: &&Run| run.schedule.is_open() && !self.dispatching.standing.contains_key(&run.id);
        let left: Vec<RunId> = self.runs.values().filter(left).map(|run| run.id.clone()).collect();
        for id in left {
            let Some(run) = self.runs.get(&id) else { continue };
            let members = run.schedule.members().iter().copied();
            let open: BTreeSet<usize> = members
                .filter(|task| run.schedule.task(*task).is_some_and(|view| !is_settled(view.state)))
                .collect();
            let mut standing = Standing {
                seal_at: open.is_empty().then(|| now.plus_ms(REST_MS)),
                open,
                ..Standing::default()
            };
            let added = self.dispatching.past.added.remove(&id).unwrap_or_default();
            for (task, Added { others, ticket }) in added.into_iter().enumerate() {
                standing.tickets.extend(ticket.map(|ticket| (ticket, task)));
                if standing.open.contains(&task) && !others.is_empty() {
                    standing.outside.insert(task, others);
                }
            }
            let waiting: Vec<usize> = standing.outside.keys().copied().collect();
            self.dispatching.standing.insert(id.clone(), standing);
            for task in waiting {
                self.look_outside(&id, task, now);
            }
        }
    }

    /// Seals the runs that have rested for long enough.
    pub(super) fn seal_idle(&mut self, now: Timestamp) {
        self.take_up_standing(now);
        self.seal_those(|standing| standing.seal_at.is_some_and(|at| at <= now), now);
    }

    /// Seals the runs that rest: the coordinator is told to end.
    pub(super) fn seal_resting(&mut self, now: Timestamp) {
        self.seal_those(|standing| standing.open.is_empty(), now);
    }

    fn seal_those(&mut self, due: impl Fn(&Standing) -> bool, now: Timestamp) {
        let standing = self.dispatching.standing.iter();
        let runs: Vec<RunId> =
            standing.filter(|(_, standing)| due(standing)).map(|(run, _)| run.clone()).collect();
        for run in runs {
            self.dispatching.forget(&run);
            self.record_durably(Record::RunSealed { run: run.clone() }, now);
            self.run_step(&run, Event::Seal, now);
        }
    }
}

/// What keeps every agent from taking the task. The client has checked it in better words.
fn unable(plan: &Plan, spec: &TaskSpec) -> Option<&'static str> {
    let carries =
        |tags: &[crate::domain::ids::Tag]| spec.needs.iter().all(|need| tags.contains(need));
    let able = plan.agents.iter().any(|agent| carries(&agent.tags));
    (!able || spec.run.is_empty()).then_some("no agent can take the task")
}

fn malformed(message: &str) -> Failure {
    Failure { kind: FailureKind::Usage, message: message.to_owned(), hint: None }
}
