//! Runs as the journal tells them: the fold of its events into the machines of all runs that have
//! not ended, and of those that can be resumed.
//!
//! Recorded decisions are not made again. An attempt's start is in the journal before it happens,
//! so what the journal lacks has not happened; and a later release that would choose otherwise
//! recalls what this one chose.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::domain::event::{CancelWhy, Event as Fact, RunOptions};
use crate::domain::ids::{AttemptId, RunId, SessionId};
use crate::domain::outcome::RunOutcome;
use crate::domain::plan::Plan;
use crate::domain::time::Timestamp;

use super::event::Event;
use super::run::Schedule;

/// How many runs that have ended are remembered: the latest. Older ones cannot be resumed.
pub const RESUMABLE_MAX: usize = 64;

/// The fold of a journal's runs.
#[derive(Debug, Default)]
pub struct Recall {
    runs: BTreeMap<RunId, Recalled>,
    /// Those of them that have ended, oldest first.
    ended: VecDeque<RunId>,
}

/// A run as far as it has gone.
#[derive(Debug)]
pub struct Recalled {
    /// What it works from, added tasks included.
    pub plan: Arc<Plan>,
    /// Its options.
    pub options: RunOptions,
    /// The allow-listed part of its client's environment.
    pub allowed: BTreeMap<String, String>,
    /// True when it outlives its client.
    pub detached: bool,
    /// The session from inside of which it was submitted.
    pub parent: Option<SessionId>,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub last_at: Timestamp,
    /// Its machine, in recall.
    pub schedule: Schedule,
    /// The session of each task's last attempt.
    pub sessions: BTreeMap<usize, SessionId>,
    /// How it ended, if it has.
    pub ended: Option<(RunOutcome, u8)>,
    /// Why it was cancelled, if it was.
    pub cancelled: Option<CancelWhy>,
    /// Places of tasks and agents by name: a plan of 50,000 tasks is not searched for each event.
    places: BTreeMap<String, usize>,
}

impl Recall {
    /// Takes one event in, in order, with its time. Events of runs that are not known, or that a
    /// run cannot have, change nothing.
    pub fn fold(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::RunSubmitted { run, .. } => {
                if let Some(recalled) = Recalled::submitted(fact, at) {
                    self.runs.insert(run.clone(), recalled);
                }
            }
            Fact::RunEnded { run, outcome, exit_code, .. } => {
                self.end(run, *outcome, *exit_code, at);
            }
            Fact::RunResumed { run, options, detached } => {
                self.ended.retain(|ended| ended != run);
                if let Some(recalled) = self.runs.get_mut(run) {
                    recalled.options = options.clone();
                    recalled.detached = *detached;
                    recalled.reopened();
                    recalled.hear(Event::Reopen { options: options.clone() }, at);
                }
            }
            Fact::TaskRetried { run, task } => {
                self.ended.retain(|ended| ended != run);
                if let Some(recalled) = self.runs.get_mut(run) {
                    recalled.reopened();
                    recalled.hear(Event::RetryTask { task: *task }, at);
                }
            }
            Fact::RunCancelled { run, why } => {
                if let Some(recalled) = self.runs.get_mut(run) {
                    recalled.cancelled = Some(*why);
                    recalled.hear(Event::CancelRun { why: *why }, at);
                }
            }
            Fact::TaskCancelled { run, task } => {
                self.tell(run, Event::CancelTask { task: *task }, at);
            }
            Fact::TaskAdded { run, task, after_others, .. } => {
                if let Some(recalled) = self.runs.get_mut(run) {
                    recalled.add(task, after_others.len(), at);
                }
            }
            Fact::RunSealed { run } => self.tell(run, Event::Seal, at),
            Fact::AttemptStarted { attempt, agent, session } => {
                if let Some(recalled) = self.runs.get_mut(&attempt.run) {
                    let agents = recalled.plan.agents.iter();
                    let agent = agents.clone().position(|known| known.name == *agent);
                    recalled.started(attempt, agent, session, at);
                }
            }
            Fact::AttemptReady { attempt } => {
                self.tell_of(attempt, at, |task, attempt| Event::ServiceReady { task, attempt })
            }
            Fact::AttemptEnded { attempt, end } => self.tell_of(attempt, at, |task, attempt| {
                Event::AttemptEnded { task, attempt, end: end.clone() }
            }),
            Fact::CoordinatorStarted { .. }
            | Fact::CommandStarted { .. }
            | Fact::CommandEnded { .. }
            | Fact::SessionOpened { .. }
            | Fact::SessionClosed { .. }
            | Fact::TaskSettled { .. }
            | Fact::Board { .. } => {}
        }
    }

    /// All of them.
    pub fn into_runs(self) -> impl Iterator<Item = (RunId, Recalled)> {
        self.runs.into_iter()
    }

    /// Those that have ended, the latest of them.
    pub fn ended(&self) -> impl Iterator<Item = &RunId> {
        self.ended.iter()
    }

    /// A run; `None` when it is not known, or has ended too long ago.
    pub fn run(&self, run: &RunId) -> Option<&Recalled> {
        self.runs.get(run)
    }

    /// Takes a run out.
    pub fn take(&mut self, run: &RunId) -> Option<Recalled> {
        self.ended.retain(|ended| ended != run);
        self.runs.remove(run)
    }

    /// The runs that have not ended.
    pub fn open(&self) -> impl Iterator<Item = (&RunId, &Recalled)> {
        self.runs.iter().filter(|(_, recalled)| recalled.ended.is_none())
    }

    fn end(&mut self, run: &RunId, outcome: RunOutcome, exit_code: u8, at: Timestamp) {
        let Some(recalled) = self.runs.get_mut(run) else { return };
        recalled.hear(Event::RecalledEnd { outcome }, at);
        recalled.ended = Some((outcome, exit_code));
        self.ended.push_back(run.clone());
        if self.ended.len() > RESUMABLE_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.runs.remove(&oldest);
        }
    }

    fn tell(&mut self, run: &RunId, event: Event, at: Timestamp) {
        if let Some(recalled) = self.runs.get_mut(run) {
            recalled.hear(event, at);
        }
    }

    fn tell_of(
        &mut self,
        attempt: &AttemptId,
        at: Timestamp,
        event: impl FnOnce(usize, u32) -> Event,
    ) {
        if let Some(recalled) = self.runs.get_mut(&attempt.run)
            && let Some(&task) = recalled.places.get(attempt.task.as_str())
        {
            recalled.hear(event(task, attempt.attempt), at);
        }
    }
}

impl Recalled {
    /// The attempts that run, as far as the journal says: task, number and session.
    pub fn running(&self) -> Vec<(usize, u32, SessionId)> {
        let members = self.schedule.members().iter();
        let running = members.filter_map(|&task| {
            let attempt = self.schedule.attempt(task)?;
            Some((task, attempt, self.sessions.get(&task)?.clone()))
        });
        running.collect()
    }

    /// The tasks that cannot start without values of `env_pass`.
    pub fn in_need(&self) -> Vec<usize> {
        tasks_in_need(&self.plan)
    }

    /// A run that was accepted then.
    fn submitted(fact: &Fact, at: Timestamp) -> Option<Self> {
        let Fact::RunSubmitted {
            plan,
            options,
            selected,
            allowed,
            detached,
            open_ended,
            parent,
            ..
        } = fact
        else {
            return None;
        };
        let plan = Arc::new((**plan).clone());
        let mut schedule = Schedule::recalled(&plan, selected.as_deref(), options);
        if *open_ended {
            schedule = schedule.open_ended();
        }
        let _nothing_is_decided = schedule.step(Event::Begin, at);
        let places = places(&plan);
        Some(Self {
            plan,
            options: options.clone(),
            allowed: allowed.clone(),
            detached: *detached,
            parent: parent.clone(),
            started_at: at,
            last_at: at,
            schedule,
            sessions: BTreeMap::new(),
            ended: None,
            cancelled: None,
            places,
        })
    }

    fn hear(&mut self, event: Event, at: Timestamp) {
        self.last_at = at;
        // What follows from it was done then, or is done once the recall is over.
        let _done = self.schedule.step(event, at);
    }

    fn reopened(&mut self) {
        self.ended = None;
        self.cancelled = None;
    }

    fn started(
        &mut self,
        attempt: &AttemptId,
        agent: Option<usize>,
        session: &SessionId,
        at: Timestamp,
    ) {
        let (Some(&task), Some(agent)) = (self.places.get(attempt.task.as_str()), agent) else {
            return;
        };
        self.sessions.insert(task, session.clone());
        self.hear(Event::Recalled { task, attempt: attempt.attempt, agent }, at);
    }

    fn add(&mut self, task: &crate::domain::plan::TaskSpec, outside: usize, at: Timestamp) {
        let plan = Arc::make_mut(&mut self.plan);
        self.places.insert(task.id.to_string(), plan.tasks.len());
        plan.tasks.push(task.clone());
        self.hear(Event::Add { task: Box::new(task.clone()), outside }, at);
    }
}

/// The tasks of a plan that cannot start without values of `env_pass`.
pub fn tasks_in_need(plan: &Plan) -> Vec<usize> {
    let by_all = !plan.default_env_pass.is_empty()
        || plan.agents.iter().any(|agent| !agent.env_pass.is_empty());
    let tasks = plan.tasks.iter().enumerate();
    tasks.filter(|(_, task)| by_all || !task.env_pass.is_empty()).map(|(task, _)| task).collect()
}

fn places(plan: &Plan) -> BTreeMap<String, usize> {
    plan.tasks.iter().enumerate().map(|(place, task)| (task.id.to_string(), place)).collect()
}
