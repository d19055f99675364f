//! One attempt of a task as a machine: a session of its own, the commands of `run` one after the
//! other, then `verify`, and an end that is told only when the session's tree is gone.
//!
//! ```text
//!   Begin ─► opening ─► running n ─► running n+1 ─► … ─► closing ─► over
//!               │           │ End: ending n ───────────────▲
//!               └───────────┴──────────────────────────────┘
//! ```
//!
//! Every phase has a deadline or a holder that keeps one: a session that does not open in time is
//! closed, a command that does not end when told to has its session closed, and a session that
//! does not close is killed from outside (`Effect::KillSession`).

use crate::domain::conflict::Conflict;
use crate::domain::event::AttemptEnd;
use crate::domain::outcome::Reason;
use crate::domain::plan::TaskSpec;
use crate::domain::result::Child;
use crate::domain::time::Timestamp;

use super::event::EndWhy;
use super::verdict;

pub use super::happening::{Effect, Event, Role};
pub use super::verdict::CommandEnded;

/// How long a session may take to open.
const OPENING_MS: u64 = 30_000;
/// How long a command may take to end. Its holder needs 3.5 s: INT, TERM, KILL, the shell's reply.
const ENDING_MS: u64 = 15_000;
/// How long a session may take to close. Its holder says so within 15 s, with the survivors.
const CLOSING_MS: u64 = 20_000;

/// One attempt of a task.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// How many entries `run` has.
    steps: usize,
    service: bool,
    verify: bool,
    /// How long a service may take to become ready; for ever without one.
    ready_within_ms: Option<u64>,
    /// What it has touched that another one holds.
    conflict: Option<Box<Conflict>>,
    phase: Phase,
    /// When the present phase has taken too long.
    deadline: Option<Timestamp>,
}

#[derive(Clone, Debug)]
enum Phase {
    Waiting,
    Opening,
    Running(Command),
    /// The command was told to end.
    Ending {
        command: Command,
        why: Cause,
    },
    /// The session was told to close.
    Closing {
        end: AttemptEnd,
    },
    Over,
}

/// Why a command was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Somebody above wants it.
    Asked(EndWhy),
    /// It has touched what another one holds.
    Conflicted,
    /// A service that has not become ready in its time.
    NotReady {
        /// The limit in ms.
        limit_ms: u64,
    },
    /// The folder that it works in is gone.
    WorkspaceMissing,
}

/// The command that runs.
#[derive(Clone, Debug)]
pub(super) struct Command {
    index: usize,
    role: Role,
    /// A service that is ready.
    pub(super) ready: bool,
    /// What it asks for, while it waits.
    pub(super) question: Option<Question>,
}

#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) prompt: String,
    pub(super) secret: bool,
}

impl Attempt {
    /// An attempt of the task, waiting for `Event::Begin`. The `verify` of a service is not run:
    /// its session is busy with the service from then on.
    pub fn new(task: &TaskSpec) -> Self {
        let service = task.service.is_some();
        Self {
            steps: task.run.len(),
            service,
            verify: task.verify.is_some() && !service,
            ready_within_ms: task.limits.timeout_ms,
            conflict: None,
            phase: Phase::Waiting,
            deadline: None,
        }
    }

    /// An attempt that runs already, since `since`: its session was given the command at `latest`
    /// last, or is only being opened. What has come of it is told as to any other.
    pub fn recalled(
        task: &TaskSpec,
        latest: Option<usize>,
        since: Timestamp,
        now: Timestamp,
    ) -> Self {
        let mut attempt = Self::new(task);
        match latest.and_then(|index| Some((index, attempt.role(index)?))) {
            Some((index, role)) => {
                attempt.deadline = attempt.ready_by(role, since);
                attempt.phase =
                    Phase::Running(Command { index, role, ready: false, question: None });
            }
            None => {
                attempt.phase = Phase::Opening;
                attempt.deadline = Some(now.plus_ms(OPENING_MS));
            }
        }
        attempt
    }

    /// When a command that began at `since` has to be ready.
    fn ready_by(&self, role: Role, since: Timestamp) -> Option<Timestamp> {
        match role {
            Role::Service => self.ready_within_ms.map(|ms| since.plus_ms(ms)),
            Role::Step | Role::Verify => None,
        }
    }

    /// When `Event::Tick` is to be sent at the latest.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// True once it has been told of a conflict.
    pub fn has_conflict(&self) -> bool {
        self.conflict.is_some()
    }

    /// True once `Effect::Done` has been said.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Hears one event and says what is to be done, in order.
    pub fn step(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match event {
            Event::Begin => self.begin(now),
            Event::Opened => self.opened(now),
            Event::OpenFailed { message } => {
                self.session_over(vec![], Reason::StartFailed { message })
            }
            Event::Awaiting { prompt, secret } => self.awaiting(Question { prompt, secret }),
            Event::Resumed => self.resumed(),
            Event::ServiceReady => self.service_ready(),
            Event::Ended(ended) => self.ended(&ended, now),
            Event::End(why) => self.end(Cause::Asked(why), now),
            Event::Conflicted { conflict } => self.conflicted(conflict, now),
            Event::WorkspaceMissing => self.end(Cause::WorkspaceMissing, now),
            Event::Closed { survivors } => self.session_over(survivors, Reason::SessionClosed),
            Event::Lost { survivors } => self.session_over(survivors, Reason::Lost),
            Event::Tick => self.tick(now),
        }
    }

    fn begin(&mut self, now: Timestamp) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Waiting) {
            return vec![];
        }
        self.phase = Phase::Opening;
        self.deadline = Some(now.plus_ms(OPENING_MS));
        vec![Effect::OpenSession]
    }

    fn opened(&mut self, now: Timestamp) -> Vec<Effect> {
        match self.phase {
            Phase::Opening => self.run_from(0, now),
            _ => vec![],
        }
    }

    /// Runs the command at `index`, or closes the session when there is none.
    fn run_from(&mut self, index: usize, now: Timestamp) -> Vec<Effect> {
        let Some(role) = self.role(index) else { return self.close(AttemptEnd::Succeeded, now) };
        self.deadline = self.ready_by(role, now);
        self.phase = Phase::Running(Command { index, role, ready: false, question: None });
        vec![Effect::RunCommand { index, role }]
    }

    fn role(&self, index: usize) -> Option<Role> {
        if index + 1 == self.steps && self.service {
            Some(Role::Service)
        } else if index < self.steps {
            Some(Role::Step)
        } else if index == self.steps && self.verify {
            Some(Role::Verify)
        } else {
            None
        }
    }

    fn awaiting(&mut self, question: Question) -> Vec<Effect> {
        let Phase::Running(command) = &mut self.phase else { return vec![] };
        command.question = Some(question);
        vec![Effect::InputAwaited]
    }

    fn resumed(&mut self) -> Vec<Effect> {
        let Phase::Running(command) = &mut self.phase else { return vec![] };
        answered(command)
    }

    fn service_ready(&mut self) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Running(command) if command.role == Role::Service && !command.ready => {
                command.ready = true;
                self.deadline = None;
                vec![Effect::ServiceReady]
            }
            _ => vec![],
        }
    }

    fn ended(&mut self, ended: &CommandEnded, now: Timestamp) -> Vec<Effect> {
        let (mut command, why) = match &self.phase {
            Phase::Running(command) => (command.clone(), None),
            Phase::Ending { command, why } => (command.clone(), Some(*why)),
            _ => return vec![],
        };
        if command.index != ended.index {
            return vec![];
        }
        let next = command.index + 1;
        let is_conflict = why == Some(Cause::Conflicted);
        let goes_on = ended.completed() && command.role != Role::Service && !is_conflict;
        let is_last = self.role(next).is_none();
        // It completed before our wish reached it: an attempt that has nothing left to do has
        // succeeded, and an answer that crossed our giving up lets it go on.
        if goes_on && (is_last || matches!(why, None | Some(Cause::Asked(EndWhy::Unanswered)))) {
            if !is_last && ended.session_ended {
                return self.close(verdict::of_step(Reason::ShellEnded), now);
            }
            let mut effects = if is_last { vec![] } else { answered(&mut command) };
            effects.extend(self.run_from(next, now));
            return effects;
        }
        let end = match why {
            // An answer crossed our giving up, and the command then failed by itself.
            Some(Cause::Asked(EndWhy::Unanswered)) if ended.has_own_status() => {
                verdict::of(ended, command.role, command.ready)
            }
            Some(why) => self.end_of(why, &command),
            None => verdict::of(ended, command.role, command.ready),
        };
        self.close(end, now)
    }

    fn end(&mut self, why: Cause, now: Timestamp) -> Vec<Effect> {
        let unanswered = why == Cause::Asked(EndWhy::Unanswered);
        match &mut self.phase {
            Phase::Waiting => self.over(AttemptEnd::Cancelled, vec![]),
            Phase::Opening if why == Cause::WorkspaceMissing => {
                self.close(verdict::of_missing(), now)
            }
            Phase::Opening => self.close(AttemptEnd::Cancelled, now),
            // A question that was answered meanwhile: the attempt goes on.
            Phase::Running(command) if unanswered && command.question.is_none() => {
                vec![]
            }
            Phase::Running(command) => {
                let command = command.clone();
                let index = command.index;
                let reason = match (&command.question, why) {
                    (Some(question), Cause::Asked(EndWhy::Unanswered)) => {
                        Reason::AwaitingInput { prompt: question.prompt.clone() }
                    }
                    (_, Cause::Conflicted) => {
                        self.conflict.as_ref().map_or(Reason::INTERRUPT, |what| what.reason())
                    }
                    (_, Cause::WorkspaceMissing) => Reason::WorkspaceMissing,
                    _ => Reason::INTERRUPT,
                };
                self.phase = Phase::Ending { command, why };
                self.deadline = Some(now.plus_ms(ENDING_MS));
                vec![Effect::EndCommand { index, reason }]
            }
            Phase::Ending { why: present, .. } => {
                if matches!(why, Cause::Asked(EndWhy::Cancelled | EndWhy::FailFast)) {
                    *present = why;
                }
                vec![]
            }
            Phase::Closing { .. } | Phase::Over => vec![],
        }
    }

    /// The first conflict is the one that counts.
    fn conflicted(&mut self, conflict: Box<Conflict>, now: Timestamp) -> Vec<Effect> {
        match self.phase {
            Phase::Running(_) => {
                self.conflict = Some(conflict);
                self.end(Cause::Conflicted, now)
            }
            // It has not begun, or is about to end anyway.
            Phase::Waiting
            | Phase::Opening
            | Phase::Ending { .. }
            | Phase::Closing { .. }
            | Phase::Over => vec![],
        }
    }

    /// What the attempt comes to that was ended for `why`.
    fn end_of(&self, why: Cause, command: &Command) -> AttemptEnd {
        match (&self.conflict, why) {
            (Some(conflict), Cause::Conflicted) => {
                AttemptEnd::Conflict { conflict: conflict.clone() }
            }
            _ => verdict::of_ending(why, command),
        }
    }

    /// The session is over, by our wish or not, and so is the attempt.
    fn session_over(&mut self, survivors: Vec<Child>, reason: Reason) -> Vec<Effect> {
        let end = match &self.phase {
            Phase::Over => return vec![],
            Phase::Closing { end } => end.clone(),
            Phase::Ending { command, why } => self.end_of(*why, command),
            Phase::Running(command) if command.role == Role::Service => {
                let ended = CommandEnded::without_status(command.index, reason);
                verdict::of(&ended, Role::Service, command.ready)
            }
            Phase::Running(_) | Phase::Opening | Phase::Waiting => verdict::of_step(reason),
        };
        self.over(end, survivors)
    }

    fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return vec![];
        }
        match &self.phase {
            Phase::Opening => {
                let message = format!("the session did not open in {} s", OPENING_MS / 1000);
                self.close(verdict::of_step(Reason::StartFailed { message }), now)
            }
            Phase::Ending { command, why } => {
                let end = self.end_of(*why, command);
                self.close(end, now)
            }
            Phase::Closing { .. } => {
                // Whoever kills it keeps at it until it is gone; there is nothing stronger to ask.
                self.deadline = None;
                vec![Effect::KillSession]
            }
            // Only a service that is not ready yet has a deadline while it runs.
            Phase::Running(_) => {
                let limit_ms = self.ready_within_ms.unwrap_or(0);
                self.end(Cause::NotReady { limit_ms }, now)
            }
            Phase::Waiting | Phase::Over => vec![],
        }
    }

    fn close(&mut self, end: AttemptEnd, now: Timestamp) -> Vec<Effect> {
        self.phase = Phase::Closing { end };
        self.deadline = Some(now.plus_ms(CLOSING_MS));
        vec![Effect::CloseSession]
    }

    fn over(&mut self, end: AttemptEnd, survivors: Vec<Child>) -> Vec<Effect> {
        self.phase = Phase::Over;
        self.deadline = None;
        vec![Effect::Done { end, survivors }]
    }
}

fn answered(command: &mut Command) -> Vec<Effect> {
    match command.question.take() {
        Some(_) => vec![Effect::InputAnswered],
        None => vec![],
    }
}
