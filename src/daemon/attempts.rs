//! The attempts of runs: what an attempt's machine asks for becomes actions, and what happens in
//! its session becomes events of the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::action::Action;
use super::calls::INPUT_TIMEOUT_MS;
use super::desk::{Desk, NO_ROOM};
use super::escalations::answers_given;
use super::names;
use super::sessions::{Owner, REPORT_KEEP, Session, SessionState};
use super::story::CommandRecord;
use crate::adapter;
use crate::command::tier;
use crate::control::{ClosedWhy, Notice};
use crate::domain::board::Writer;
use crate::domain::environment::{self, Layers, Origin, SessionFacts};
use crate::domain::event::Event as Record;
use crate::domain::ids::{CommandId, RunId, SessionId};
use crate::domain::outcome::Reason;
use crate::domain::plan::{Plan, Ready, TaskSpec, Unanswered};
use crate::domain::result::Awaiting;
use crate::domain::session::{CommandSpec, Limit, ProfileSpec, SessionSpec, UnansweredInput};
use crate::domain::time::Timestamp;
use crate::scheduler::Upcoming;
use crate::scheduler::attempt::{self, Role};
use crate::scheduler::event::Event;
use crate::session::wire::Ask;

/// How long a user's shell profile may take.
const PROFILE_LIMIT_MS: u64 = 5_000;

impl Desk {
    /// Tells an attempt's machine something and does what follows.
    pub(super) fn attempt_step(
        &mut self,
        id: &RunId,
        task: usize,
        event: attempt::Event,
        now: Timestamp,
    ) {
        use attempt::Effect as Do;
        let Some(live) = self.runs.get_mut(id).and_then(|run| run.attempts.get_mut(&task)) else {
            return;
        };
        let (number, session) = (live.number, live.session.clone());
        for effect in live.machine.step(event, now) {
            match effect {
                Do::OpenSession => self.open_for_attempt(id, task, now),
                Do::RunCommand { index, role } => self.run_for_attempt(id, task, index, role, now),
                Do::EndCommand { index, reason } => self.end_for_attempt(id, task, index, reason),
                Do::CloseSession => self.close_for_attempt(id, task, &session, now),
                Do::KillSession => {
                    let holder =
                        self.sessions.get(&session).and_then(|session| session.holder.clone());
                    self.act(Action::Kill { session: session.clone(), holder });
                }
                Do::InputAwaited => {
                    self.run_step(id, Event::InputAwaited { task, attempt: number }, now);
                }
                Do::InputAnswered => {
                    self.run_step(id, Event::InputAnswered { task, attempt: number }, now);
                }
                Do::ServiceReady => self.attempt_is_ready(id, task, number, now),
                Do::Done { end, survivors } => self.attempt_done(id, task, end, &survivors, now),
            }
        }
    }

    fn attempt_is_ready(&mut self, id: &RunId, task: usize, number: u32, now: Timestamp) {
        let Some(run) = self.runs.get(id) else { return };
        if run.schedule.task(task).is_some_and(|view| view.ready_since.is_some()) {
            // An earlier coordinator was told, and has told.
            return;
        }
        let attempt = run.attempt_id(task, number);
        let name = run.plan.tasks[task].id.clone();
        let session = run.attempts.get(&task).map(|live| live.session.clone());
        self.record(Record::AttemptReady { attempt }, now);
        if let Err(fault) = self.publish(id, task, now) {
            tracing::warn!(run = %id, task = %name, ?fault, "a service is ready and cannot publish");
        }
        self.tell_followers(id, &Notice::ServiceReady { run: id.clone(), task: name.clone() });
        if let Some(session) = session {
            let writer = self.writer_of(&session);
            let value = serde_json::json!({ "session": session });
            self.post(format!("service/{name}"), Some(value), writer, now);
        }
        self.run_step(id, Event::ServiceReady { task, attempt: number }, now);
    }

    fn open_for_attempt(&mut self, id: &RunId, task: usize, now: Timestamp) {
        let Some(run) = self.runs.get(id) else { return };
        let Some(live) = run.attempts.get(&task) else { return };
        let owner = Owner::Attempt {
            run: id.clone(),
            task,
            label: run.label(task),
            service: run.plan.tasks[task].service.is_some(),
            attempt: run.attempt_id(task, live.number),
        };
        let Some(warm) = self.sessions.get_mut(&live.session) else {
            let next = Upcoming { task, attempt: live.number, agent: live.agent };
            return self.open_for(id, next, live.session.clone(), owner, now);
        };
        warm.owner = owner;
        warm.used = now;
        if warm.state == SessionState::Idle {
            self.attempt_step(id, task, attempt::Event::Opened, now);
        }
    }

    /// Opens the session of an attempt that has begun, or comes next.
    pub(super) fn open_for(
        &mut self,
        id: &RunId,
        next: Upcoming,
        session: SessionId,
        owner: Owner,
        now: Timestamp,
    ) {
        let Some(run) = self.runs.get(id) else { return };
        let plan = Arc::clone(&run.plan);
        let spec = &plan.tasks[next.task];
        let facts = SessionFacts {
            task: Some(run.label(next.task)),
            attempt: Some(next.attempt),
            inputs: Some(self.inputs_of(run, next.task, &session).to_string_lossy().into_owned()),
            ..self.session_facts(&session)
        };
        let env = environment::snapshot(&Layers {
            client: &run.env,
            default_env: &plan.default_env,
            default_env_pass: &plan.default_env_pass,
            agent: Some(&plan.agents[next.agent]),
            task: Some(spec),
            command_line: &BTreeMap::new(),
            session: &facts,
        });
        let profile = spec.shell_profile.then(|| self.profile(&env, &plan, next.agent, spec));
        let shell = spec.shell.unwrap_or(plan.default_shell);
        let root = self.root_of(run, next.task);
        let cwd = spec.cwd.as_ref().map_or_else(|| root.clone(), |cwd| root.join(cwd));
        let told = owner.told(plan.session_defaults);
        let layers = [&plan.policy, &plan.agents[next.agent].policy, &spec.policy];
        let policy = layers.into_iter().filter(|layer| !layer.is_empty()).cloned().collect();
        let mut session =
            SessionSpec { shell, profile, policy, ..self.session_spec(session, told, &cwd, env) };
        if spec.isolation.is_shared() {
            self.watching.apply(spec.tracing, &mut session);
        }
        let resources = spec.resources.and(plan.agents[next.agent].resources);
        session.limits = session.limits.with(resources);
        self.register(&session, owner, now);
        if !self.has_room {
            // Whether it would fail is not tried: what it does could not be recorded.
            let message = NO_ROOM.to_owned();
            return self.act(Action::FailOpen { session: session.id, message });
        }
        self.act(Action::Open { spec: Box::new(session), then: Vec::new() });
    }

    /// How a task's sessions use the user's profile: it changes nothing that anybody has set.
    fn profile(
        &self,
        env: &[environment::Variable],
        plan: &Plan,
        agent: usize,
        task: &TaskSpec,
    ) -> ProfileSpec {
        let is_free = |variable: &environment::Variable| match variable.origin {
            Origin::AllowList => variable.name != "HOME",
            Origin::BuiltIn => variable.name == "PATH",
            _ => false,
        };
        let passed = [&plan.default_env_pass, &plan.agents[agent].env_pass, &task.env_pass];
        ProfileSpec {
            cache: self.folders.profiles.clone(),
            keep: env
                .iter()
                .filter(|variable| !is_free(variable))
                .map(|variable| variable.name.clone())
                .collect(),
            pass: passed.into_iter().flatten().cloned().collect(),
            limit_ms: PROFILE_LIMIT_MS,
        }
    }

    fn run_for_attempt(
        &mut self,
        id: &RunId,
        task: usize,
        index: usize,
        role: Role,
        now: Timestamp,
    ) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let plan = Arc::clone(&run.plan);
        let spec = &plan.tasks[task];
        let Some(live) = run.attempts.get_mut(&task) else { return };
        let kind = plan.agents[live.agent].adapter;
        let Some(text) = adapter::command(kind, spec, index).map(str::to_owned) else { return };
        let session = live.session.clone();
        let command = names::command(&session, u32::try_from(index + 1).unwrap_or(u32::MAX));
        live.commands.insert(index, command.clone());
        let p95_ms = self.durations.p95_ms(&text);
        let mut ask = command_spec(spec, command.clone(), text.clone(), role, p95_ms);
        ask.on_input.splice(0..0, answers_given(&run.questions, task));
        if let Some(session) = self.sessions.get_mut(&session) {
            session.take(CommandRecord::new(command.clone(), text), now);
        }
        let url = ask.ready.as_ref().and_then(|ready| match ready {
            Ready::Http(url) => Some(url.clone()),
            _ => None,
        });
        self.tell(&session, Ask::Run { spec: ask });
        if let Some(url) = url {
            self.act(Action::Probe { session, command, url });
        }
    }

    fn end_for_attempt(&mut self, id: &RunId, task: usize, index: usize, reason: Reason) {
        let Some(live) = self.runs.get(id).and_then(|run| run.attempts.get(&task)) else { return };
        let (session, command) = (live.session.clone(), live.commands.get(&index).cloned());
        if let Some(command) = command {
            self.tell(&session, Ask::End { command, reason });
        }
    }

    /// Closes the attempt's session. One that is over already has said so before, or says so now.
    fn close_for_attempt(&mut self, id: &RunId, task: usize, session: &SessionId, now: Timestamp) {
        if self.sessions.contains_key(session) {
            self.close_session(session, ClosedWhy::Closed, now);
        } else {
            self.attempt_step(id, task, attempt::Event::Closed { survivors: Vec::new() }, now);
        }
    }

    /// The attempt that owns a session: its run and its task.
    fn owner_of(&self, session: &SessionId) -> Option<(RunId, usize)> {
        match &self.sessions.get(session)?.owner {
            Owner::Attempt { run, task, .. } => Some((run.clone(), *task)),
            Owner::Upcoming { .. } | Owner::Call { .. } | Owner::Kept { .. } => None,
        }
    }

    /// Hands an attempt an event of its session.
    pub(super) fn attempt_hears(
        &mut self,
        session: &SessionId,
        event: attempt::Event,
        now: Timestamp,
    ) {
        let Some((run, task)) = self.owner_of(session) else { return };
        if let Some(live) = self.runs.get_mut(&run)
            && let Some(record) = live.tasks.get_mut(task)
        {
            match &event {
                attempt::Event::Awaiting { prompt, .. } => record.prompt = Some(prompt.clone()),
                attempt::Event::Resumed => record.prompt = None,
                _ => {}
            }
        }
        self.attempt_step(&run, task, event, now);
    }

    /// Tells those who follow the run that an attempt waits for input.
    pub(super) fn tell_awaiting(&mut self, session: &SessionId, awaiting: &Awaiting) {
        let Some((run, task)) = self.owner_of(session) else { return };
        let Some(name) = self.runs.get(&run).map(|run| run.plan.tasks[task].id.clone()) else {
            return;
        };
        let notice = Notice::Awaiting { run: run.clone(), task: name, awaiting: awaiting.clone() };
        self.tell_followers(&run, &notice);
    }

    /// The index under which the attempt's machine knows a command.
    pub(super) fn command_index(&self, session: &SessionId, command: &CommandId) -> Option<usize> {
        let (run, task) = self.owner_of(session)?;
        let live = self.runs.get(&run)?.attempts.get(&task)?;
        live.commands.iter().find(|(_, id)| *id == command).map(|(index, _)| *index)
    }

    /// An attempt's session is over: its commands are kept for the report.
    pub(super) fn attempt_closed(
        &mut self,
        session: &Session,
        event: attempt::Event,
        now: Timestamp,
    ) {
        let Owner::Attempt { run, task, service, .. } = &session.owner else { return };
        if let Some(live) = self.runs.get_mut(run)
            && live.tasks[*task].session.as_ref() == Some(&session.id)
        {
            live.tasks[*task].stories = session.stories(now, REPORT_KEEP);
        }
        if *service {
            self.withdraw_service(run.clone(), *task, now);
        }
        self.attempt_step(&run.clone(), *task, event, now);
    }

    fn withdraw_service(&mut self, run: RunId, task: usize, now: Timestamp) {
        let Some(name) = self.runs.get(&run).map(|run| run.plan.tasks[task].id.clone()) else {
            return;
        };
        self.post(format!("service/{name}"), None, Writer::default(), now);
    }
}

/// The command that a step of a task is, with every limit made out.
fn command_spec(
    task: &TaskSpec,
    id: CommandId,
    text: String,
    role: Role,
    p95_ms: Option<u64>,
) -> CommandSpec {
    let limit = match role {
        Role::Service => Limit::Unlimited,
        Role::Step | Role::Verify => tier::limit(&text, task.class, task.limits, p95_ms),
    };
    CommandSpec {
        ticket: None,
        limit,
        input_timeout_ms: task.limits.input_timeout_ms.unwrap_or(INPUT_TIMEOUT_MS),
        on_input: task.on_input.rules.clone(),
        inputs: Vec::new(),
        unanswered: match task.on_input.otherwise {
            Unanswered::Escalate => UnansweredInput::Wait,
            Unanswered::Fail => UnansweredInput::End,
        },
        stop_on: task.stop_on.clone(),
        merge: false,
        cwd: None,
        ready: match role {
            Role::Service => task.service.as_ref().map(|service| service.ready.clone()),
            Role::Step | Role::Verify => None,
        },
        id,
        text,
    }
}
