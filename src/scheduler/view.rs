//! What reports and `status` may see of a run.

use std::collections::BTreeMap;

use crate::domain::outcome::{TaskReason, TaskState};
use crate::domain::time::Timestamp;

use super::event::EndWhy;
use super::run::{Phase, Schedule};
use super::task::{EscalationCause, Standing, State};

/// `class` of a task that the environment made fail.
pub const CLASS_ENVIRONMENT: &str = "environment";
/// `class` of a task that failed first and succeeded on a retry.
pub const CLASS_FLAKY: &str = "flaky";

/// How many attempts are foreseen at most.
const UPCOMING_MAX: usize = 4;

/// An attempt that has not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// Its task.
    pub task: usize,
    /// The number that it will have.
    pub attempt: u32,
    /// The agent that will have it.
    pub agent: usize,
}

/// One task as it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskView<'a> {
    /// Where it is.
    pub state: TaskState,
    /// Since when.
    pub since: Timestamp,
    /// How many starts.
    pub attempts: u32,
    /// How many of them were retries that failures, time-outs and interruptions spent.
    pub retries_spent: u32,
    /// How many conflicts.
    pub conflicts: u32,
    /// Who has, or had, its last attempt: an index into the plan's agents.
    pub agent: Option<usize>,
    /// When its first attempt started.
    pub started_at: Option<Timestamp>,
    /// When its last attempt ended; `None` as well while it runs.
    pub ended_at: Option<Timestamp>,
    /// Why it is where it is.
    pub reason: Option<&'a TaskReason>,
    /// What kind of failure it was, where that is known.
    pub class: Option<&'static str>,
    /// Running: since when its service is ready.
    pub ready_since: Option<Timestamp>,
    /// Running: since when it waits for input.
    pub awaiting_since: Option<Timestamp>,
    /// Running: why it was asked to end.
    pub ending: Option<EndWhy>,
}

/// Something a task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task.
    pub task: usize,
    /// What for.
    pub on: WaitsOn,
    /// Since when.
    pub since: Timestamp,
    /// Until when at most; `None` where something else has the deadline.
    pub deadline: Option<Timestamp>,
}

/// What a task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsOn {
    /// Other tasks.
    Tasks(Vec<usize>),
    /// An agent with room that carries the task's `needs`.
    Agent,
    /// Its turn: as many tasks run as may.
    Slot,
    /// Another task that means to write or bind the same.
    Overlap {
        /// Which.
        task: usize,
        /// What both want, as a board key.
        resource: String,
    },
    /// The time of its next try.
    NextTry,
    /// A resource that another one holds, or the time after a conflict.
    Resource {
        /// The board key.
        resource: String,
        /// Whether nobody holds it any more.
        free: bool,
    },
    /// A client with the values of its `env_pass`.
    Client,
    /// Input for its terminal.
    Input,
    /// Its own service, which is not ready yet.
    Readiness,
    /// A decision.
    Decision(EscalationCause),
}

impl Schedule {
    /// The tasks that take part, in the manifest's order.
    pub fn members(&self) -> &[usize] {
        &self.graph.members
    }

    /// The number of the attempt of a task that runs.
    pub fn attempt(&self, task: usize) -> Option<u32> {
        match self.tasks.get(task)?.state {
            State::Running(running) => Some(running.attempt),
            _ => None,
        }
    }

    /// A task as it stands; `None` when it takes no part.
    pub fn task(&self, task: usize) -> Option<TaskView<'_>> {
        if !self.graph.has(task) {
            return None;
        }
        let record = &self.tasks[task];
        let class = match record.state {
            State::Failed { environment: true, .. } => Some(CLASS_ENVIRONMENT),
            State::Succeeded if record.stumbled => Some(CLASS_FLAKY),
            _ => None,
        };
        let running = match record.state {
            State::Running(running) => Some(running),
            _ => None,
        };
        Some(TaskView {
            state: record.state.name(),
            since: record.since,
            attempts: record.attempts,
            retries_spent: record.retries_spent,
            conflicts: record.conflicts,
            agent: record.agent,
            started_at: record.started_at,
            ended_at: if running.is_some() { None } else { record.ended_at },
            reason: record.state.reason(),
            class,
            ready_since: running.and_then(|running| running.ready),
            awaiting_since: running.and_then(|running| running.awaiting),
            ending: running.and_then(|running| running.ending),
        })
    }

    /// How many tasks are in each state; states that none is in are left out.
    pub fn counts(&self) -> BTreeMap<TaskState, usize> {
        let mut counts = BTreeMap::new();
        for &task in &self.graph.members {
            *counts.entry(self.tasks[task].state.name()).or_insert(0) += 1;
        }
        counts
    }

    /// Everything that waits, and on what.
    pub fn waiting(&self) -> impl Iterator<Item = Wait> + '_ {
        self.graph.members.iter().filter_map(|task| self.wait(*task))
    }

    /// What a task waits for; `None` when it does not, or takes no part.
    pub fn wait(&self, task: usize) -> Option<Wait> {
        if !self.graph.has(task) {
            return None;
        }
        let record = &self.tasks[task];
        let mut since = record.since;
        let mut deadline = None;
        let on = match &record.state {
            State::Blocked { .. } => WaitsOn::Tasks(self.unmet(task)),
            State::Ready if self.withheld.contains(&task) => WaitsOn::Client,
            State::Ready if let Some((task, resource)) = self.waits_for_overlap(task) => {
                WaitsOn::Overlap { task, resource }
            }
            State::Ready => {
                let pool = self.dispatch.pool();
                let group = pool.group(task);
                if self.dispatch.has_slot() || !pool.has_room(group) {
                    WaitsOn::Agent
                } else {
                    WaitsOn::Slot
                }
            }
            State::Retrying { until, .. } => {
                deadline = Some(*until);
                WaitsOn::NextTry
            }
            State::BackingOff(waits) => {
                deadline = Some(if waits.free { waits.until } else { waits.latest });
                let (resource, free) = (waits.resource.clone(), waits.free);
                WaitsOn::Resource { resource, free }
            }
            State::Escalated { cause, .. } => WaitsOn::Decision(*cause),
            State::Running(running) if running.standing() == Standing::Awaiting => {
                since = running.awaiting?;
                WaitsOn::Input
            }
            State::Running(running) if record.service && running.ready.is_none() => {
                WaitsOn::Readiness
            }
            _ => return None,
        };
        Some(Wait { task, on, since, deadline })
    }

    /// The attempts that will start next, as things stand: of the tasks that are ready and wait for
    /// room, as many as run at a time. Nothing has been decided: another task may become ready and
    /// come before them.
    pub fn upcoming(&self) -> Vec<Upcoming> {
        if self.phase != Phase::Going {
            return Vec::new();
        }
        let jobs = usize::try_from(self.options.jobs).unwrap_or(UPCOMING_MAX);
        let picks = self.dispatch.foresee(jobs.min(UPCOMING_MAX)).into_iter();
        let upcoming = picks.map(|pick| {
            let task = pick.rank.task;
            Upcoming {
                task,
                attempt: self.tasks[task].attempts.saturating_add(1),
                agent: pick.agent,
            }
        });
        upcoming.collect()
    }

    /// The tasks whose conditions do not hold yet, each once.
    fn unmet(&self, task: usize) -> Vec<usize> {
        let edges = self.graph.dependencies(task).iter();
        let mut tasks: Vec<usize> =
            edges.filter(|edge| !self.holds(edge.task, edge.when)).map(|edge| edge.task).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }
}
