//! Clients that come back, to a run or to a command, and runs that go on after their end.

use super::action::Action;
use super::desk::{Desk, no_room, not_found};
use super::inbox::ConnectionId;
use super::runs::Run;
use super::sessions::{Asker, Owner};
use crate::control::{Answer, Call, ClosedWhy, Failure, FailureKind, Request};
use crate::domain::environment;
use crate::domain::event::{CancelWhy, ClientEnv, Event as Record, RunOptions};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::outcome::RunOutcome;
use crate::domain::plan::Plan;
use crate::domain::time::Timestamp;
use crate::scheduler::event::Event;
use crate::scheduler::recall::RESUMABLE_MAX;

use super::calls::shutting_down;
use super::names;

/// How long a run waits for its client, and a command for whoever asked for it, after a coordinator
/// was lost.
pub(super) const DESERTED_MS: u64 = 10_000;

/// What a run that goes on is given.
#[derive(Debug)]
pub(super) struct Resumption {
    /// Its options from now on; as before otherwise.
    pub options: Option<RunOptions>,
    /// The caller's environment.
    pub env: ClientEnv,
    /// True when it outlives its client.
    pub detach: bool,
}

impl Desk {
    /// A client goes on following its run.
    pub(super) fn rejoin(&mut self, asker: Asker, id: &RunId, env: ClientEnv, now: Timestamp) {
        let Asker { connection, request } = asker;
        if let Some(run) = self.runs.get_mut(id).filter(|run| run.ended.is_none()) {
            if !run.detached {
                run.client = Some(connection);
                run.deserted_until = None;
            }
            if run.take_env(env) {
                self.run_step(id, Event::Release, now);
            }
        }
        let call = Call::WatchRun { run: id.clone() };
        self.asked(connection, Request { id: request, call }, now);
    }

    pub(super) fn watch_run(
        &mut self,
        connection: ConnectionId,
        id: u64,
        run: &RunId,
        now: Timestamp,
    ) {
        if let Some(live) = self.runs.get_mut(run)
            && live.ended.is_none()
        {
            if !live.followers.contains(&connection) {
                live.followers.push(connection);
            }
            if let Some(report) = self.opening_report(run, now) {
                self.reply(connection, id, Answer::Report { report });
            }
            return;
        }
        let call = crate::control::Call::Report { run: run.clone() };
        self.asked(connection, crate::control::Request { id, call }, now);
    }

    /// What whoever follows a run begins with. Counts are enough, and at once: news follows right
    /// behind.
    pub(super) fn opening_report(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> Option<Box<crate::report::record::RunReport>> {
        let mut report = Box::new(self.report_draft(run, now)?.report);
        report.tasks.clear();
        Some(report)
    }

    /// Goes on with a run that has ended without success, or joins one that goes on.
    pub(super) fn resume(&mut self, asker: Asker, id: &RunId, with: Resumption, now: Timestamp) {
        let Asker { connection, request } = asker;
        if self.is_terminating() {
            return self.refuse_asker(asker, shutting_down());
        }
        if self.runs.get(id).is_some_and(|run| run.ended.is_none()) {
            return self.join(asker, id, with, now);
        }
        if self.runs.contains_key(id) {
            // Its report is only being written.
            let message = format!("run `{id}` is just ending");
            let hint = Some("call again in a moment".to_owned());
            return self.refuse(
                connection,
                request,
                Failure { kind: FailureKind::Environment, message, hint },
            );
        }
        let Some(run) = self.resumable.get(id) else {
            return self.refuse_asker(asker, self.not_resumable(id));
        };
        if !self.has_room {
            return self.refuse_asker(asker, no_room());
        }
        if let Some(failure) = lacks(&run.plan, &with.env) {
            return self.refuse_asker(asker, failure);
        }
        let mut options = with.options.clone().unwrap_or_else(|| run.options.clone());
        options.seed = names::seed();
        let resumed =
            Record::RunResumed { run: id.clone(), options: options.clone(), detached: with.detach };
        self.record_durably(resumed, now);
        self.used_for_run();
        if !self.reopen(id) {
            return;
        }
        if let Some(run) = self.runs.get_mut(id) {
            run.options = options.clone();
            run.detached = with.detach;
            run.deserted_until = None;
            run.client = (!with.detach).then_some(connection);
            run.take_env(with.env);
            if !with.detach {
                run.followers.push(connection);
            }
        }
        if let Some(report) = self.opening_report(id, now) {
            self.reply(connection, request, Answer::Submitted { run: id.clone(), report });
        }
        self.run_step(id, Event::Reopen { options }, now);
    }

    /// Takes a run that has ended among those that go on; its machine is told by the caller.
    pub(super) fn reopen(&mut self, id: &RunId) -> bool {
        let Some(mut run) = self.resumable.remove(id) else { return false };
        self.past.retain(|line| line.run_id != *id);
        run.ended = None;
        self.act(Action::SetReportAside { run: id.clone() });
        self.runs.insert(id.clone(), run);
        true
    }

    /// Says again what the client did not hear: the run that its request made.
    pub(super) fn answer_again(
        &mut self,
        asker: Asker,
        id: &RunId,
        env: ClientEnv,
        detach: bool,
        now: Timestamp,
    ) {
        if self.runs.get(id).is_some_and(|run| run.ended.is_none()) {
            let with = Resumption { options: None, env, detach };
            return self.join(asker, id, with, now);
        }
        // Whoever has chosen its id may know.
        let call = Call::Report { run: id.clone() };
        let request = Request { id: asker.request, call };
        self.asked(asker.connection, request, now);
    }

    fn join(&mut self, asker: Asker, id: &RunId, with: Resumption, now: Timestamp) {
        let Asker { connection, request } = asker;
        if let Some(run) = self.runs.get_mut(id) {
            if !with.detach && run.client.is_none() && !run.detached {
                run.client = Some(connection);
            }
            if with.detach {
                run.detached = true;
            }
            run.deserted_until = None;
            if !with.detach && !run.followers.contains(&connection) {
                run.followers.push(connection);
            }
            if run.take_env(with.env) {
                self.run_step(id, Event::Release, now);
            }
        }
        if let Some(report) = self.opening_report(id, now) {
            self.reply(connection, request, Answer::Submitted { run: id.clone(), report });
        }
    }

    fn not_resumable(&self, id: &RunId) -> Failure {
        let Some(line) = self.past.iter().find(|line| line.run_id == *id) else {
            return not_found(&format!("run `{id}`"), "`callboard run ls` lists the runs");
        };
        let (message, hint) = if line.outcome == Some(RunOutcome::Succeeded) {
            (format!("run `{id}` has succeeded: nothing of it is left to do"), None)
        } else {
            let message = format!(
                "run `{id}` ended too long ago: only the latest {RESUMABLE_MAX} can be resumed"
            );
            (message, Some("run its manifest again".to_owned()))
        };
        Failure { kind: FailureKind::Usage, message, hint }
    }

    /// A run has ended: if it can go on later, what that needs is kept.
    pub(super) fn keep_resumable(&mut self, run: Run) {
        if run.ended.is_none_or(|(outcome, _)| outcome == RunOutcome::Succeeded) {
            return;
        }
        if self.resumable.len() >= RESUMABLE_MAX {
            let oldest = self.resumable.values().min_by_key(|run| run.started_at);
            if let Some(oldest) = oldest.map(|run| run.id.clone()) {
                self.resumable.remove(&oldest);
            }
        }
        let run = run.at_rest();
        self.resumable.insert(run.id.clone(), run);
    }

    /// Runs whose clients have not come back are cancelled, as they are when a client goes.
    pub(super) fn end_deserted(&mut self, now: Timestamp) {
        let due = |run: &&mut Run| run.deserted_until.is_some_and(|until| until <= now);
        let mut deserted = Vec::new();
        for run in self.runs.values_mut().filter(due) {
            run.deserted_until = None;
            if run.ended.is_none() {
                deserted.push(run.id.clone());
            }
        }
        for run in deserted {
            tracing::warn!(%run, "its client has not come back");
            self.cancel_run(&run, CancelWhy::ClientLost, false, now);
        }
    }

    /// A client comes back for the command that it had asked for.
    pub(super) fn reclaim(
        &mut self,
        asker: Asker,
        ticket: &str,
        told: Option<&str>,
        now: Timestamp,
    ) {
        self.stay_for_exec(now);
        let found = self.sessions.values().find_map(|session| {
            let holds =
                |record: &super::story::CommandRecord| record.ticket.as_deref() == Some(ticket);
            Some((session.id.clone(), session.commands.iter().position(holds)?))
        });
        let Some((id, index)) = found else {
            if let Some(told) = told {
                // An open session knows all that it was given, but for what it has let go of.
                let id = self.names.get(told).cloned().unwrap_or_else(|| told.into());
                let knows_all = self
                    .sessions
                    .get(&id)
                    .is_some_and(|session| session.asked as usize <= session.commands.len());
                let failure = if knows_all { unknown_ticket() } else { lost_ticket() };
                return self.refuse_asker(asker, failure);
            }
            let Some(session) = names::of_ticket(ticket) else {
                return self.refuse_asker(asker, lost_ticket());
            };
            return self.act(Action::AnswerShelved { asker, session });
        };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.unclaimed_until = None;
        let record = &session.commands[index];
        let (command, has_answer) =
            (record.id.clone(), record.end.is_some() || record.awaiting.is_some());
        match &mut session.owner {
            Owner::Call { asker: who } => *who = Some(asker),
            Owner::Kept { askers, .. } if !has_answer => askers.push((command, asker)),
            Owner::Kept { .. } => self.answer(&id, asker, index, now),
            Owner::Attempt { .. } | Owner::Upcoming { .. } => {
                self.refuse_asker(asker, unknown_ticket());
            }
        }
    }

    /// Commands for which nobody has come back are ended, as they are when their client goes.
    pub(super) fn close_unclaimed(&mut self, now: Timestamp) {
        let due = |session: &&mut super::sessions::Session| {
            session.unclaimed_until.is_some_and(|until| until <= now)
        };
        let mut unclaimed: Vec<SessionId> = Vec::new();
        for session in self.sessions.values_mut().filter(due) {
            session.unclaimed_until = None;
            unclaimed.push(session.id.clone());
        }
        for session in unclaimed {
            self.close_session(&session, ClosedWhy::Closed, now);
        }
    }

    /// When the next of them is.
    pub(super) fn next_unclaimed(&self) -> Option<Timestamp> {
        self.sessions.values().filter_map(|session| session.unclaimed_until).min()
    }

    /// Ends here, and leaves everything to the coordinator that comes next.
    pub(super) fn hand_over(&mut self, asker: Asker) {
        self.handing_over = true;
        // The answer is behind all that there is to commit.
        self.decision.durable = true;
        self.reply(asker.connection, asker.request, Answer::HandingOver);
    }
}

impl Run {
    /// Takes in what a client has brought. True when tasks may start that could not without.
    pub(super) fn take_env(&mut self, env: ClientEnv) -> bool {
        let lacked = lacks(&self.plan, &self.env).is_some();
        if self.env.allowed.is_empty() {
            self.env.allowed = env.allowed;
        }
        self.env.passed.extend(env.passed);
        lacked && lacks(&self.plan, &self.env).is_none()
    }

    /// What is kept of it once it has ended: its commands are on the disk, and values of `env_pass`
    /// are given up.
    fn at_rest(mut self) -> Self {
        for task in &mut self.tasks {
            task.on_shelf = true;
            task.stories.clear();
        }
        self.env.passed.clear();
        self.client = None;
        self.followers.clear();
        self
    }
}

/// The refusal of an environment that lacks a name in some `env_pass`.
pub(super) fn lacks(plan: &Plan, env: &ClientEnv) -> Option<Failure> {
    let missing =
        environment::names_to_pass(plan).into_iter().find(|name| !env.passed.contains_key(name))?;
    Some(Failure {
        kind: FailureKind::Usage,
        message: format!("`env_pass` names {missing}, which the client does not have"),
        hint: Some(format!("export {missing} before the call, or take it off the list")),
    })
}

/// The refusal for a command that may have run, and nobody can tell how it ended.
pub(super) fn lost_ticket() -> Failure {
    Failure {
        kind: FailureKind::Unknown,
        message: "nobody can tell what became of that command: it may have run".to_owned(),
        hint: Some("look at what it was to do before it is run again".to_owned()),
    }
}

/// The refusal for a command of which nothing is known: it was never begun.
pub(super) fn unknown_ticket() -> Failure {
    not_found("that command", "it was never begun: call again")
}
