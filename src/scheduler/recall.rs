//! Runs as the journal tells them: the fold of its events into the machines of all runs that have
//! not ended, and of those that can be resumed.
//!
//! Recorded decisions are not made again. An attempt's start is in the journal before it happens,
//! so what the journal lacks has not happened; and a later release that would choose otherwise
//! recalls what this one chose.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::domain::conflict::{Conflict, Party};
use crate::domain::event::{CancelWhy, Event as Fact, RunOptions};
use crate::domain::ids::{AgentName, AttemptId, RunId, SessionId};
use crate::domain::outcome::{RunOutcome, TaskState};
use crate::domain::plan::{Plan, TaskSpec};
use crate::domain::time::Timestamp;
use crate::domain::worktree::{Origin, Returned};

use super::event::Event;
use super::questions::Question;
use super::run::Schedule;
use super::whose::run_of;

pub use super::unfit::{Misfit, Unfit};

/// How many runs that have ended without success are remembered: the latest. Older ones cannot be
/// resumed.
pub const RESUMABLE_MAX: usize = 64;
/// How many runs that have succeeded are remembered: the latest. Nothing of them is left to do, but
/// their coordinator may have been lost before it wrote their reports.
pub const SUCCEEDED_MAX: usize = 16;
/// How many records that do not fit are kept for whoever looks.
pub const MISFITS_MAX: usize = 16;

/// The fold of a journal's runs.
#[derive(Debug, Default)]
pub struct Recall {
    runs: BTreeMap<RunId, Recalled>,
    /// Those of them that have ended without success, in the order of their ends.
    unfinished: VecDeque<RunId>,
    /// Those that have succeeded.
    succeeded: VecDeque<RunId>,
    misfits: Vec<Misfit>,
    misfits_seen: u64,
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
    /// The attempts that are being ended for a conflict.
    pub stopped: BTreeMap<usize, Box<Conflict>>,
    /// Where it began, when it has tasks with worktrees.
    pub origin: Option<Box<Origin>>,
    /// Tasks whose latest attempt had done all that it was to do, and was being merged: with its number.
    pub returning: BTreeMap<usize, u32>,
    /// What became of what attempts left in worktrees.
    pub returned: BTreeMap<usize, Returned>,
    /// How it ended, if it has.
    pub ended: Option<(RunOutcome, u8)>,
    /// Why it was cancelled, if it was.
    pub cancelled: Option<CancelWhy>,
    /// What its tasks wait or waited for somebody to decide, in order.
    pub questions: Vec<Question>,
    /// Places of tasks and agents by name: a plan of 50,000 tasks is not searched for each event.
    places: BTreeMap<String, usize>,
}

impl Recall {
    /// Takes one event in, in order, with its time. What was taken in before changes nothing, nor
    /// do events of runs that are not known (any more), nor those that a run cannot have: of the
    /// latter `misfits` tells.
    pub fn fold(&mut self, at: Timestamp, fact: &Fact) {
        let Some(run) = run_of(fact) else { return };
        let taken = match fact {
            Fact::RunSubmitted { .. } => self.submitted(run, fact, at),
            Fact::RunEnded { outcome, exit_code, .. } => {
                self.end(run, *outcome, *exit_code, at);
                Ok(())
            }
            _ => match self.runs.get_mut(run) {
                Some(recalled) => recalled.fold(at, fact),
                None => Ok(()),
            },
        };
        match taken {
            Err(why) => {
                self.misfits_seen += 1;
                if self.misfits.len() < MISFITS_MAX {
                    self.misfits.push(Misfit { at, run: run.clone(), why });
                }
            }
            // Those that take a run up again.
            Ok(()) if matches!(fact, Fact::RunResumed { .. } | Fact::TaskRetried { .. }) => {
                self.forget_end(run);
            }
            Ok(()) => {}
        }
    }

    /// The records that do not fit, the first of them, and how many there were.
    pub fn misfits(&self) -> (&[Misfit], u64) {
        (&self.misfits, self.misfits_seen)
    }

    /// All of them.
    pub fn into_runs(self) -> impl Iterator<Item = (RunId, Recalled)> {
        self.runs.into_iter()
    }

    /// Those that have ended, the latest of them: without success, then the others.
    pub fn ended(&self) -> impl Iterator<Item = &RunId> {
        self.unfinished.iter().chain(&self.succeeded)
    }

    /// A run; `None` when it is not known, or has ended too long ago.
    pub fn run(&self, run: &RunId) -> Option<&Recalled> {
        self.runs.get(run)
    }

    /// Takes a run out.
    pub fn take(&mut self, run: &RunId) -> Option<Recalled> {
        self.forget_end(run);
        self.runs.remove(run)
    }

    /// The runs that have not ended.
    pub fn open(&self) -> impl Iterator<Item = (&RunId, &Recalled)> {
        self.runs.iter().filter(|(_, recalled)| recalled.ended.is_none())
    }

    fn submitted(&mut self, run: &RunId, fact: &Fact, at: Timestamp) -> Result<(), Unfit> {
        match self.runs.get(run) {
            Some(known) if known.started_at == at => Ok(()),
            Some(_) => Err(Unfit::RunKnown),
            None => {
                if let Some(recalled) = Recalled::submitted(fact, at) {
                    self.runs.insert(run.clone(), recalled);
                }
                Ok(())
            }
        }
    }

    fn end(&mut self, run: &RunId, outcome: RunOutcome, exit_code: u8, at: Timestamp) {
        let Some(recalled) = self.runs.get_mut(run).filter(|run| run.ended.is_none()) else {
            return;
        };
        recalled.hear(Event::RecalledEnd { outcome }, at);
        recalled.ended = Some((outcome, exit_code));
        let (ended, most) = match outcome {
            RunOutcome::Succeeded => (&mut self.succeeded, SUCCEEDED_MAX),
            _ => (&mut self.unfinished, RESUMABLE_MAX),
        };
        ended.push_back(run.clone());
        if ended.len() > most
            && let Some(oldest) = ended.pop_front()
        {
            self.runs.remove(&oldest);
        }
    }

    /// A run goes on after its end, or nobody wants to know of it any more.
    fn forget_end(&mut self, run: &RunId) {
        self.unfinished.retain(|ended| ended != run);
        self.succeeded.retain(|ended| ended != run);
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
            origin,
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
            origin: origin.clone(),
            returning: BTreeMap::new(),
            returned: BTreeMap::new(),
            parent: parent.clone(),
            started_at: at,
            last_at: at,
            schedule,
            sessions: BTreeMap::new(),
            stopped: BTreeMap::new(),
            ended: None,
            cancelled: None,
            questions: Vec::new(),
            places,
        })
    }

    pub(super) fn hear(&mut self, event: Event, at: Timestamp) {
        self.last_at = at;
        // What follows from it was done then, or is done once the recall is over.
        let _done = self.schedule.step(event, at);
    }

    /// Takes an event of this run in.
    fn fold(&mut self, at: Timestamp, fact: &Fact) -> Result<(), Unfit> {
        match fact {
            Fact::RunResumed { options, detached, .. } => self.resumed(options, *detached, at),
            Fact::TaskRetried { task, .. } => self.retried(*task, at),
            Fact::RunCancelled { why, .. } => {
                if self.ended.is_none() {
                    self.cancelled.get_or_insert(*why);
                    self.hear(Event::CancelRun { why: *why }, at);
                }
                Ok(())
            }
            Fact::TaskCancelled { task, .. } => {
                self.is_member(*task)?;
                self.hear(Event::CancelTask { task: *task }, at);
                Ok(())
            }
            Fact::TaskSettled { task, state, reason, .. } => {
                self.is_member(*task)?;
                let (task, state, reason) = (*task, *state, reason.clone());
                self.hear(Event::RecalledSettled { task, state, reason }, at);
                Ok(())
            }
            Fact::TaskAdded { task, after_others, .. } => self.add(task, after_others.len(), at),
            Fact::RunSealed { .. } => {
                self.hear(Event::Seal, at);
                Ok(())
            }
            Fact::AttemptStarted { attempt, agent, session } => {
                self.started(attempt, agent, session, at)
            }
            Fact::AttemptReady { attempt } => {
                let (task, attempt) = self.has_started(attempt)?;
                self.hear(Event::ServiceReady { task, attempt }, at);
                Ok(())
            }
            Fact::ConflictSeen { party: Party::Attempt { attempt }, conflict } => {
                let (task, attempt) = self.has_started(attempt)?;
                if self.schedule.attempt(task) == Some(attempt) {
                    self.stopped.entry(task).or_insert_with(|| conflict.clone());
                }
                Ok(())
            }
            Fact::AttemptReturning { attempt } => {
                let (task, attempt) = self.has_started(attempt)?;
                self.returning.insert(task, attempt);
                Ok(())
            }
            Fact::AttemptReturned { attempt, returned } => {
                let (task, _) = self.has_started(attempt)?;
                self.returned.insert(task, returned.clone());
                Ok(())
            }
            Fact::AttemptEnded { attempt, end } => {
                let (task, attempt) = self.has_started(attempt)?;
                self.stopped.remove(&task);
                self.returning.remove(&task);
                self.hear(Event::AttemptEnded { task, attempt, end: end.clone() }, at);
                Ok(())
            }
            Fact::EscalationRaised { .. } => self.asked(fact, at),
            Fact::EscalationResolved { escalation, answer, by, .. } => {
                self.decided(escalation, answer, by, at)
            }
            _ => Ok(()),
        }
    }

    fn resumed(
        &mut self,
        options: &RunOptions,
        detached: bool,
        at: Timestamp,
    ) -> Result<(), Unfit> {
        if self.ended.is_none() {
            let is_repeated = self.options == *options && self.detached == detached;
            return if is_repeated { Ok(()) } else { Err(Unfit::RunOpen) };
        }
        self.options = options.clone();
        self.detached = detached;
        self.reopened();
        self.hear(Event::Reopen { options: options.clone() }, at);
        Ok(())
    }

    fn retried(&mut self, task: usize, at: Timestamp) -> Result<(), Unfit> {
        self.is_member(task)?;
        let is_settled = self
            .schedule
            .task(task)
            .is_some_and(|view| view.state.is_terminal() || view.state == TaskState::Escalated);
        if !is_settled || !self.schedule.takes_retries() {
            return Err(Unfit::NotSettled(self.plan.tasks[task].id.to_string()));
        }
        self.reopened();
        self.hear(Event::RetryTask { task }, at);
        Ok(())
    }

    fn reopened(&mut self) {
        self.ended = None;
        self.cancelled = None;
    }

    fn started(
        &mut self,
        attempt: &AttemptId,
        agent: &AgentName,
        session: &SessionId,
        at: Timestamp,
    ) -> Result<(), Unfit> {
        let task = self.place(attempt)?;
        let agent = self
            .plan
            .agents
            .iter()
            .position(|known| known.name == *agent)
            .ok_or_else(|| Unfit::NoSuchAgent(agent.to_string()))?;
        let latest = self.schedule.task(task).map_or(0, |view| view.attempts);
        if attempt.attempt <= latest {
            let is_repeated =
                attempt.attempt == latest && self.sessions.get(&task) == Some(session);
            let (task, attempt) = (attempt.task.to_string(), attempt.attempt);
            let back = Unfit::AttemptsGoBack { task, attempt, latest };
            return if is_repeated { Ok(()) } else { Err(back) };
        }
        if self.ended.is_some() {
            return Err(Unfit::RunEnded);
        }
        self.sessions.insert(task, session.clone());
        self.hear(Event::Recalled { task, attempt: attempt.attempt, agent }, at);
        Ok(())
    }

    fn add(&mut self, task: &TaskSpec, outside: usize, at: Timestamp) -> Result<(), Unfit> {
        if let Some(&known) = self.places.get(task.id.as_str()) {
            let is_repeated = self.plan.tasks[known] == *task;
            return if is_repeated { Ok(()) } else { Err(Unfit::TaskKnown(task.id.to_string())) };
        }
        if self.ended.is_some() {
            return Err(Unfit::RunEnded);
        }
        let count = self.plan.tasks.len();
        if let Some(unknown) = task.after.iter().find(|edge| edge.task >= count) {
            return Err(Unfit::NoSuchTask(unknown.task.to_string()));
        }
        let plan = Arc::make_mut(&mut self.plan);
        self.places.insert(task.id.to_string(), count);
        plan.tasks.push(task.clone());
        self.hear(Event::Add { task: Box::new(task.clone()), outside }, at);
        Ok(())
    }

    /// The place of an attempt's task.
    fn place(&self, attempt: &AttemptId) -> Result<usize, Unfit> {
        let known = self.places.get(attempt.task.as_str()).copied();
        known
            .filter(|task| self.schedule.task(*task).is_some())
            .ok_or_else(|| Unfit::NoSuchTask(attempt.task.to_string()))
    }

    /// The place and number of an attempt that has started.
    fn has_started(&self, attempt: &AttemptId) -> Result<(usize, u32), Unfit> {
        let task = self.place(attempt)?;
        let latest = self.schedule.task(task).map_or(0, |view| view.attempts);
        if attempt.attempt > latest {
            let (task, attempt) = (attempt.task.to_string(), attempt.attempt);
            return Err(Unfit::NeverStarted { task, attempt });
        }
        Ok((task, attempt.attempt))
    }

    fn is_member(&self, task: usize) -> Result<(), Unfit> {
        match self.schedule.task(task) {
            Some(_) => Ok(()),
            None => Err(Unfit::NoSuchTask(task.to_string())),
        }
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
