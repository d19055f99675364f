//! The runs that go on: each a `Schedule`, with an `Attempt` for each task that runs (`attempts`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::action::Action;
use super::calls::shutting_down;
use super::desk::{Desk, no_room};
use super::inbox::ConnectionId;
use super::names;
use super::rejoining::lacks;
use super::sessions::Asker;
use super::story::CommandStory;
use super::warming::Warm;
use super::worktrees::Returning;
use crate::control::{Answer, ClosedWhy, Failure, FailureKind, Notice, Response, RunLine, Submit};
use crate::domain::conflict::{Conflict, Party};
use crate::domain::event::{CancelWhy, ClientEnv, Event as Record, RunOptions};
use crate::domain::ids::{AttemptId, CommandId, RunId, SessionId};
use crate::domain::letters;
use crate::domain::outcome::{RunOutcome, TaskReason, TaskState};
use crate::domain::plan::Plan;
use crate::domain::time::Timestamp;
use crate::domain::worktree::{Origin, Returned};
use crate::scheduler::attempt::{self, Attempt};
use crate::scheduler::event::{Effect, EndWhy, Event};
use crate::scheduler::{Question, Schedule, Upcoming};

/// A run that goes on, or whose report is being written.
#[derive(Debug)]
pub(super) struct Run {
    /// Its id.
    pub id: RunId,
    /// What it works from.
    pub plan: Arc<Plan>,
    /// Its options.
    pub(super) options: RunOptions,
    /// The session from inside of which it was submitted: it ends with that.
    pub(super) parent: Option<SessionId>,
    /// The machine.
    pub schedule: Schedule,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// How it ended, once it has.
    pub ended: Option<(RunOutcome, u8)>,
    /// What is kept of each task, by index.
    pub tasks: Vec<TaskRecord>,
    pub(super) env: ClientEnv,
    /// True when it outlives its client.
    pub(super) detached: bool,
    /// The client that the run lives as long as.
    pub(super) client: Option<ConnectionId>,
    /// Its client was lost with a coordinator: until when it may come back.
    pub(super) deserted_until: Option<Timestamp>,
    pub(super) followers: Vec<ConnectionId>,
    pub(super) attempts: BTreeMap<usize, Live>,
    /// Attempts that an earlier coordinator has stopped for a conflict.
    pub(super) stopped: BTreeMap<usize, Box<Conflict>>,
    /// Where it began, when it has tasks with worktrees.
    pub(super) origin: Option<Box<Origin>>,
    /// The attempts whose work is being merged.
    pub(super) returning: BTreeMap<usize, Returning>,
    /// Sessions opened ahead.
    pub(super) warm: Vec<Warm>,
    /// The last attempt was so short that sessions are worth opening ahead.
    pub(super) brisk: bool,
    /// What its tasks wait or waited for somebody to decide, in order.
    pub(super) questions: Vec<Question>,
}

/// What is kept of a task besides its state.
#[derive(Debug, Default)]
pub(super) struct TaskRecord {
    /// The session of its last attempt.
    pub session: Option<SessionId>,
    /// The commands of its last attempt, once that session has closed.
    pub stories: Vec<CommandStory>,
    /// They are only on the disk: an earlier coordinator had them.
    pub on_shelf: bool,
    /// What it waits for now.
    pub prompt: Option<String>,
    /// Contracts that changed while its last attempt ran, and who changed them.
    pub stale: BTreeMap<String, String>,
    /// What became of what it did in a worktree.
    pub returned: Option<Returned>,
}

/// An attempt that runs.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) number: u32,
    /// Index of the agent that has it.
    pub(super) agent: usize,
    pub(super) session: SessionId,
    pub(super) began: Timestamp,
    pub(super) machine: Attempt,
    /// Its commands by the machine's index.
    pub(super) commands: BTreeMap<usize, CommandId>,
    /// The contracts on the board that it depends on.
    pub(super) contracts: BTreeSet<String>,
}

impl Run {
    /// `RUN/ID`.
    pub(super) fn label(&self, task: usize) -> String {
        format!("{}/{}", self.id, self.plan.tasks[task].id)
    }

    /// True once its end has been told: it is among the past runs then.
    pub(super) fn is_told(&self) -> bool {
        self.ended.is_some()
    }

    /// When one of its machines has to be told the time.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let attempts = self.attempts.values().filter_map(|live| live.machine.deadline());
        attempts.chain(self.schedule.next_deadline()).chain(self.deserted_until).min()
    }

    /// The number of the attempt that runs.
    pub(super) fn attempt_number(&self, task: usize) -> Option<u32> {
        self.attempts.get(&task).map(|live| live.number)
    }

    /// Takes a client away; true when the run was to end with it.
    pub(super) fn client_gone(&mut self, connection: ConnectionId) -> bool {
        self.followers.retain(|follower| *follower != connection);
        let ends = self.client == Some(connection) && self.ended.is_none();
        if ends {
            self.client = None;
        }
        ends
    }

    pub(super) fn attempt_id(&self, task: usize, attempt: u32) -> AttemptId {
        AttemptId { run: self.id.clone(), task: self.plan.tasks[task].id.clone(), attempt }
    }
}

impl Desk {
    /// Why no run is begun now.
    fn takes_nothing(&self) -> Option<Failure> {
        if self.is_terminating() {
            return Some(shutting_down());
        }
        (!self.has_room).then(no_room)
    }

    pub(super) fn accept(
        &mut self,
        asker: Asker,
        submit: Submit,
        origin: Option<Box<Origin>>,
        now: Timestamp,
    ) {
        let Asker { connection, request: id } = asker;
        let Submit { plan, selected, mut options, env, run, detach } = submit;
        if let Some(run) = run.as_ref().filter(|run| !self.is_free(run)) {
            if !self.is_known_to(connection, run) {
                return self.refuse(connection, id, run_is_taken(run));
            }
            // Its client has not heard the answer.
            return self.answer_again(asker, run, env, detach, now);
        }
        if let Some(failure) = self.takes_nothing().or_else(|| lacks(&plan, &env)) {
            return self.refuse(connection, id, failure);
        }
        let parent = match self.room_inside(asker) {
            Ok(parent) => parent,
            Err(failure) => return self.refuse(connection, id, failure),
        };
        if let Some(inside) = &parent {
            self.limit_inside(inside, &mut options);
        }
        self.used_for_run();
        self.heed(plan.session_defaults);
        options.seed = names::seed();
        let run = run.unwrap_or_else(names::run);
        self.record_durably(
            Record::RunSubmitted {
                run: run.clone(),
                plan: Box::new(plan.clone()),
                options: options.clone(),
                selected: selected.clone(),
                allowed: env.allowed.clone(),
                detached: detach,
                parent: parent.clone(),
                open_ended: false,
                origin: origin.clone(),
            },
            now,
        );
        self.runs.insert(
            run.clone(),
            Run {
                id: run.clone(),
                tasks: untouched(&plan),
                schedule: Schedule::new(&plan, selected.as_deref(), &options),
                plan: Arc::new(plan),
                parent,
                options,
                started_at: now,
                ended: None,
                env,
                detached: detach,
                client: (!detach).then_some(connection),
                deserted_until: None,
                followers: if detach { Vec::new() } else { vec![connection] },
                attempts: BTreeMap::new(),
                stopped: BTreeMap::new(),
                origin,
                returning: BTreeMap::new(),
                warm: Vec::new(),
                brisk: false,
                questions: Vec::new(),
            },
        );
        if let Some(report) = self.opening_report(&run, now) {
            self.reply(connection, id, Answer::Submitted { run: run.clone(), report });
        }
        self.run_step(&run, Event::Begin, now);
    }

    /// What a run from inside of a session may not have.
    fn limit_inside(&self, inside: &SessionId, options: &mut RunOptions) {
        // Nobody sits at an agent's terminal.
        options.attended = false;
        let most = self.jobs_inside(inside).unwrap_or(options.jobs);
        options.jobs = options.jobs.min(most);
    }

    /// Whether the run may be this client's own, which asks for it a second time.
    fn is_known_to(&self, connection: ConnectionId, run: &RunId) -> bool {
        let is_known =
            self.runs.contains_key(run) || self.past.iter().any(|line| line.run_id == *run);
        is_known && self.has_say_over(connection, run)
    }

    /// Whether a client may call its run so.
    fn is_free(&self, run: &RunId) -> bool {
        let is_known =
            self.runs.contains_key(run) || self.past.iter().any(|line| line.run_id == *run);
        letters::is_run(run.as_str()) && !is_known
    }

    pub(super) fn cancel_run(
        &mut self,
        run: &RunId,
        why: CancelWhy,
        at_once: bool,
        now: Timestamp,
    ) {
        // Whoever asked is answered after this: a coordinator that comes next ends it as well.
        self.record_durably(Record::RunCancelled { run: run.clone(), why }, now);
        self.run_step(run, Event::CancelRun { why }, now);
        if at_once {
            // Closing ends everything without the courtesies that a command's end has.
            let sessions: Vec<SessionId> = self
                .runs
                .get(run)
                .into_iter()
                .flat_map(|run| run.attempts.values().map(|live| live.session.clone()))
                .collect();
            for session in sessions {
                self.close_session(&session, ClosedWhy::Closed, now);
            }
        }
    }

    pub(super) fn due_runs(&self, now: Timestamp) -> Vec<RunId> {
        let due = |run: &&Run| run.next_deadline().is_some_and(|at| at <= now);
        self.runs.values().filter(due).map(|run| run.id.clone()).collect()
    }

    pub(super) fn run_tick(&mut self, id: &RunId, now: Timestamp) {
        let Some(run) = self.runs.get(id) else { return };
        let due: Vec<usize> = run
            .attempts
            .iter()
            .filter(|(_, live)| live.machine.deadline().is_some_and(|at| at <= now))
            .map(|(task, _)| *task)
            .collect();
        let schedule_is_due = run.schedule.next_deadline().is_some_and(|at| at <= now);
        for task in due {
            self.attempt_step(id, task, attempt::Event::Tick, now);
        }
        if schedule_is_due {
            self.run_step(id, Event::Tick, now);
        }
    }

    /// Tells a run's machine something and does what follows.
    pub(super) fn run_step(&mut self, id: &RunId, event: Event, now: Timestamp) {
        let Some(run) = self.runs.get_mut(id) else { return };
        for effect in run.schedule.step(event, now) {
            match effect {
                Effect::Start { task, attempt, agent } => {
                    self.start_attempt(id, task, attempt, agent, now);
                }
                Effect::End { task, why, .. } => {
                    self.attempt_step(id, task, attempt::Event::End(why), now);
                    if why == EndWhy::Cancelled {
                        tracing::info!(run = %id, task, "ending an attempt on request");
                    }
                }
                Effect::Moved { task, state, reason } => self.moved(id, task, state, reason, now),
                Effect::RunEnded { outcome, exit_code } => {
                    self.run_ended(id, outcome, exit_code, now);
                }
            }
        }
        self.warm_ahead(id, now);
    }

    fn start_attempt(
        &mut self,
        id: &RunId,
        task: usize,
        number: u32,
        agent: usize,
        now: Timestamp,
    ) {
        let warm = self.take_warm(id, Upcoming { task, attempt: number, agent }, now);
        let session = warm.unwrap_or_else(names::session);
        let Some(run) = self.runs.get_mut(id) else { return };
        run.tasks[task] = TaskRecord { session: Some(session.clone()), ..TaskRecord::default() };
        let machine = Attempt::new(&run.plan.tasks[task]);
        let attempt = run.attempt_id(task, number);
        let started = Record::AttemptStarted {
            attempt: attempt.clone(),
            agent: run.plan.agents[agent].name.clone(),
            session: session.clone(),
        };
        let live = Live {
            number,
            agent,
            session: session.clone(),
            began: now,
            machine,
            commands: BTreeMap::new(),
            contracts: BTreeSet::new(),
        };
        run.attempts.insert(task, live);
        self.record_durably(started, now);
        self.hand_inputs(id, task, &session);
        self.party_begins(Party::Attempt { attempt: attempt.clone() }, &session);
        self.exempt(id, task, attempt);
        if !self.make_worktree(id, task, now) {
            self.attempt_step(id, task, attempt::Event::Begin, now);
        }
    }

    fn moved(
        &mut self,
        id: &RunId,
        task: usize,
        state: TaskState,
        reason: Option<TaskReason>,
        now: Timestamp,
    ) {
        let Some(run) = self.runs.get(id) else { return };
        let view = run.schedule.task(task);
        let notice = Notice::Task {
            run: id.clone(),
            task: run.plan.tasks[task].id.clone(),
            state,
            attempt: view.map_or(0, |view| view.attempts),
            agent: view
                .and_then(|view| view.agent)
                .map(|agent| run.plan.agents[agent].name.clone()),
            reason: reason.clone(),
            at: now,
        };
        self.tell_followers(id, &notice);
        if state.is_terminal() || state == TaskState::Escalated {
            self.record(Record::TaskSettled { run: id.clone(), task, state, reason }, now);
        }
        if state == TaskState::Escalated {
            self.raise(id, task, now);
        }
        self.follow_dispatched(id, task, state, now);
        self.task_moved(id, task);
    }

    pub(super) fn tell_followers(&mut self, id: &RunId, notice: &Notice) {
        let followers = self.runs.get(id).map_or_else(Vec::new, |run| run.followers.clone());
        for connection in followers {
            let notice = Box::new(notice.clone());
            self.respond(connection, Response::Notice { notice });
        }
    }

    fn run_ended(&mut self, id: &RunId, outcome: RunOutcome, exit_code: u8, now: Timestamp) {
        let Some(run) = self.runs.get_mut(id) else { return };
        run.ended = Some((outcome, exit_code));
        let followers = std::mem::take(&mut run.followers);
        let line = RunLine {
            run_id: id.clone(),
            outcome: Some(outcome),
            exit_code: Some(exit_code),
            started_at: run.started_at,
            counts: run.schedule.counts(),
            cancelled: run.schedule.cancelled_why(),
        };
        let counts = line.counts.clone();
        self.past.push(line);
        self.release_files(id, now);
        self.record_durably(Record::RunEnded { run: id.clone(), outcome, exit_code, counts }, now);
        self.tasks_are_over(id);
        self.run_is_over(id, now);
        if let Some(draft) = self.report_draft(id, now) {
            self.act(Action::FinishRun { draft: Box::new(draft), followers });
        }
    }

    /// The report of a run is on the disk: nothing more is kept of it here.
    pub(super) fn run_reported(
        &mut self,
        report: Box<crate::report::record::RunReport>,
        followers: &[ConnectionId],
    ) {
        if let Some(run) = self.runs.remove(&report.run_id) {
            self.keep_resumable(run);
        }
        for connection in followers {
            let notice = Box::new(Notice::RunEnded { report: report.clone() });
            self.respond(*connection, Response::Notice { notice });
        }
    }
}

fn untouched(plan: &Plan) -> Vec<TaskRecord> {
    plan.tasks.iter().map(|_| TaskRecord::default()).collect()
}

fn run_is_taken(run: &RunId) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!(
            "no run can be called `{run}`: it is known already, or not of our letters"
        ),
        hint: Some("leave the choice to the coordinator".to_owned()),
    }
}
