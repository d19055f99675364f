//! The desk after an earlier coordinator was lost: runs as the journal recalls them, sessions as
//! their holders and records tell of them. What is observed beats what is recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::action::Action;
use super::adoption::{Found, Gone, Left};
use super::desk::Desk;
use super::names;
use super::ports::Posted;
use super::rejoining::{DESERTED_MS, lacks};
use super::runs::{Live, Run, TaskRecord};
use super::sessions::{Owner, Session, SessionState};
use super::shelf::Shelved;
use super::story::CommandRecord;
use super::worktrees::Returning;
use crate::control::ClosedWhy;
use crate::domain::event::{ClientEnv, Event as Record};
use crate::domain::ids::{AttemptId, CommandId, RunId, SessionId};
use crate::domain::plan::{Plan, Ready};
use crate::domain::session::SessionOwner;
use crate::domain::shown_path;
use crate::domain::time::Timestamp;
use crate::scheduler::attempt::{self, Attempt};
use crate::scheduler::event::Event;
use crate::scheduler::recall::{Recall, Recalled};
use crate::session::wire::{KnownCommand, Listener, Present};

impl Desk {
    /// Takes over what an earlier coordinator has left. Afterwards every run goes on.
    /// `unreported` are runs that have ended and have no report, `posted` the ports on the board.
    pub(super) fn recover(
        &mut self,
        recall: Recall,
        unreported: &BTreeSet<RunId>,
        left: Left,
        mut posted: Posted,
        now: Timestamp,
    ) {
        self.recall_runs(recall, unreported, now);
        for found in left.found {
            let ports = posted.take(&found.present.spec.id);
            self.take_found(found, ports, now);
        }
        for gone in left.gone {
            let ports = posted.take(&gone.session);
            self.take_gone(gone, ports, now);
        }
        // Their sessions ended right before that coordinator did.
        self.take_down(posted.into_rest(), now);
        std::mem::take(&mut self.recalled_stale).hand_to(&mut self.runs);
        self.take_down_stale(now);
        self.end_orphaned(now);
        let going = self.runs.values().filter(|run| run.ended.is_none());
        let runs: Vec<RunId> = going.map(|run| run.id.clone()).collect();
        let touched = std::mem::take(&mut self.recalled_touches);
        self.hold_again(touched, now);
        for run in runs {
            self.return_again(&run);
            self.go_on(&run, now);
        }
        self.tell_wanted(now);
    }

    fn recall_runs(&mut self, recall: Recall, unreported: &BTreeSet<RunId>, now: Timestamp) {
        for (id, recalled) in recall.into_runs() {
            let (ended, last_at) = (recalled.ended, recalled.last_at);
            let mut run = Run::recalled(id.clone(), recalled, now);
            if ended.is_some() {
                // Nothing follows, until it is resumed: its machine decides by itself then.
                let _nothing = run.schedule.step(Event::GoOn, now);
                if unreported.contains(&id) {
                    // Lost between the run's end and its report.
                    let draft = Box::new(self.draft(&run, last_at));
                    self.act(Action::FinishRun { draft, followers: Vec::new() });
                    self.runs.insert(id, run);
                } else {
                    self.keep_resumable(run);
                }
                continue;
            }
            self.past.retain(|line| line.run_id != id);
            // Where it was resumed, its earlier report may still be in the way.
            self.act(Action::SetReportAside { run: id.clone() });
            self.heed(run.plan.session_defaults);
            self.used_for_run();
            self.runs.insert(id, run);
        }
    }

    /// A session whose holder goes on.
    fn take_found(&mut self, found: Found, ports: Vec<Listener>, now: Timestamp) {
        let Found { present, record } = found;
        let id = present.spec.id.clone();
        let owner = self.owner_told(&present.spec.owner, &id);
        let is_straggler = owner.is_none();
        let owner = owner.unwrap_or_else(|| straggler(&present.spec.owner));
        let mut session = Session::found(&present, record.as_ref(), owner, self, now);
        session.listeners = ports;
        self.sessions.insert(id.clone(), session);
        if is_straggler {
            tracing::warn!(session = %id, owner = ?present.spec.owner, "a session of an attempt that is over");
            return self.close_session(&id, ClosedWhy::Closed, now);
        }
        if let Some(name) = self.sessions.get(&id).and_then(Session::name).map(str::to_owned) {
            self.names.insert(name, id.clone());
            self.stay_for_session(now);
        }
        self.meet_attempt(&id, &present.commands, now);
        if let Some(Owner::Attempt { run, task, .. }) =
            self.sessions.get(&id).map(|it| it.owner.clone())
        {
            self.watch_worktree(&run, task);
        }
        self.listening(&id, present.ports, now);
        if present.closing {
            let why = if present.told_to_close { ClosedWhy::Closed } else { ClosedWhy::ShellEnded };
            self.close_session(&id, why, now);
        }
    }

    /// Whose a session is; `None` for one of an attempt that is over.
    fn owner_told(&self, told: &SessionOwner, session: &SessionId) -> Option<Owner> {
        match told {
            SessionOwner::Attempt { attempt } | SessionOwner::Upcoming { attempt } => {
                self.attempt_of(attempt, session)
            }
            SessionOwner::Call => Some(Owner::Call { asker: None }),
            SessionOwner::Kept { name, by_exec, .. } => {
                Some(Owner::Kept { name: name.clone(), by_exec: *by_exec, askers: Vec::new() })
            }
        }
    }

    /// The attempt that a session is of, if that is the one that runs, and in this session.
    fn attempt_of(&self, attempt: &AttemptId, session: &SessionId) -> Option<Owner> {
        let run = self.runs.get(&attempt.run)?;
        let (task, live) = run.attempts.iter().find(|(_, live)| live.session == *session)?;
        Some(Owner::Attempt {
            run: run.id.clone(),
            task: *task,
            label: run.label(*task),
            service: run.plan.tasks[*task].service.is_some(),
            attempt: run.attempt_id(*task, live.number),
        })
    }

    /// Gives an attempt whose session goes on the machine of one that runs already.
    fn meet_attempt(&mut self, session: &SessionId, known: &[KnownCommand], now: Timestamp) {
        let Some(Owner::Attempt { run: id, task, .. }) =
            self.sessions.get(session).map(|session| session.owner.clone())
        else {
            return;
        };
        let Some(run) = self.runs.get_mut(&id) else { return };
        let spec = &run.plan.tasks[task];
        let Some(live) = run.attempts.get_mut(&task) else { return };
        let is_known = |command: &CommandId| known.iter().any(|known| known.command == *command);
        live.commands = (0..=spec.run.len())
            .map(|index| (index, command_at(session, index)))
            .filter(|(_, command)| is_known(command))
            .collect();
        let latest = live.commands.last_key_value().map(|(index, _)| *index);
        live.machine = Attempt::recalled(spec, latest, live.began, now);
        let last = spec.run.len().saturating_sub(1);
        let service = live.commands.get(&last).filter(|_| latest == Some(last)).cloned();
        let Some((command, service)) = service.zip(spec.service.clone()) else { return };
        if run.schedule.task(task).is_some_and(|view| view.ready_since.is_some()) {
            self.attempt_step(&id, task, attempt::Event::ServiceReady, now);
        } else if let Ready::Http(url) = service.ready {
            // The holder tells of ports and logs; a URL is ours to try.
            self.act(Action::Probe { session: session.clone(), command, url });
        }
    }

    /// A session whose holder is gone: what it said while nobody heard it is heard now.
    fn take_gone(&mut self, gone: Gone, ports: Vec<Listener>, now: Timestamp) {
        let id = gone.session.clone();
        let is_attempts = matches!(self.owner_told(&gone.owner, &id), Some(Owner::Attempt { .. }));
        if gone.is_on_record() && !is_attempts {
            // Everybody has been told, and only the journal has not.
            self.take_down(ports, now);
            let tmp = self.folders.tmp.join(id.as_str());
            self.act(Action::Forget { session: id.clone(), tmp });
            return self.record(Record::SessionClosed { session: id }, now);
        }
        tracing::warn!(session = %id, owner = ?gone.owner, "the session was lost with its holder");
        let owner = self.owner_told(&gone.owner, &id).unwrap_or_else(|| straggler(&gone.owner));
        let mut session = Session::gone(&gone, owner, self, now);
        session.listeners = ports;
        self.sessions.insert(id.clone(), session);
        let record = gone.record.as_ref();
        let known: Vec<KnownCommand> = record.map(Shelved::known).unwrap_or_default();
        self.meet_attempt(&id, &known, now);
        if let Some(end) = record.and_then(|record| record.commands().last()?.end.clone()) {
            self.command_ended(&id, end, now);
        }
        for fact in gone.unheard {
            self.fact(&id, fact, now);
        }
        self.link_lost(&id);
    }

    fn go_on(&mut self, id: &RunId, now: Timestamp) {
        let Some(run) = self.runs.get(id) else { return };
        let asked: Vec<(usize, attempt::Event)> = run
            .attempts
            .keys()
            .filter_map(|&task| {
                let why = run.schedule.task(task)?.ending?;
                Some((task, attempt::Event::End(why)))
            })
            .chain(run.stopped.iter().map(|(task, conflict)| {
                (*task, attempt::Event::Conflicted { conflict: conflict.clone() })
            }))
            .collect();
        let in_need = match lacks(&run.plan, &run.env) {
            Some(_) => crate::scheduler::recall::tasks_in_need(&run.plan),
            None => Vec::new(),
        };
        for (task, event) in asked {
            self.attempt_step(id, task, event, now);
        }
        self.run_step(id, Event::Withhold { tasks: in_need }, now);
        self.run_step(id, Event::GoOn, now);
    }
}

impl Run {
    /// A run as the journal recalls it.
    fn recalled(id: RunId, recalled: Recalled, now: Timestamp) -> Self {
        let running = recalled.running();
        let Recalled {
            plan,
            options,
            allowed,
            detached,
            started_at,
            parent,
            mut schedule,
            mut sessions,
            stopped,
            ended,
            origin,
            returning: merging,
            mut returned,
            questions,
            ..
        } = recalled;
        if ended.is_some() {
            // Nothing is told again any more: whoever reopens it finds a machine that decides.
            let _nothing_follows = schedule.step(Event::GoOn, now);
        }
        let mut attempts = BTreeMap::new();
        let mut returning = BTreeMap::new();
        for (task, number, session) in running {
            if merging.get(&task) == Some(&number) {
                returning.insert(task, Returning { number, session });
                continue;
            }
            let view = schedule.task(task);
            let machine = Attempt::recalled(&plan.tasks[task], None, now, now);
            let live = Live {
                number,
                agent: view.and_then(|view| view.agent).unwrap_or(0),
                session,
                began: view.map_or(now, |view| view.since),
                machine,
                commands: BTreeMap::new(),
                contracts: contracts_of(&plan, task),
            };
            attempts.insert(task, live);
        }
        let tasks = (0..plan.tasks.len()).map(|task| TaskRecord {
            session: sessions.remove(&task),
            returned: returned.remove(&task),
            on_shelf: true,
            ..TaskRecord::default()
        });
        Self {
            tasks: tasks.collect(),
            id,
            plan,
            parent,
            options,
            schedule,
            started_at,
            ended,
            env: ClientEnv { allowed, passed: BTreeMap::new() },
            detached,
            client: None,
            deserted_until: (!detached && recalled.ended.is_none())
                .then(|| now.plus_ms(DESERTED_MS)),
            followers: Vec::new(),
            attempts,
            stopped,
            origin,
            returning,
            warm: Vec::new(),
            brisk: false,
            questions,
        }
    }
}

impl Session {
    /// A session as its holder and its record tell of it.
    fn found(
        present: &Present,
        record: Option<&Shelved>,
        owner: Owner,
        desk: &Desk,
        now: Timestamp,
    ) -> Self {
        let mut session = Self::new(&present.spec, owner, &desk.person, now);
        session.holder = Some(present.holder.clone());
        session.shell = present.shell;
        if present.shell.is_some() {
            session.state = SessionState::Idle;
        }
        session.attends = None;
        session.end = present.end;
        session.recall(record, &present.commands);
        if let SessionOwner::Kept { ttl_ms, .. } = &present.spec.owner {
            session.ttl_ms = Some(*ttl_ms);
        }
        if matches!(session.owner, Owner::Call { .. }) {
            session.unclaimed_until = Some(now.plus_ms(DESERTED_MS));
        }
        session
    }

    /// A session of which only files are left.
    fn gone(gone: &Gone, owner: Owner, desk: &Desk, now: Timestamp) -> Self {
        let record = gone.record.as_ref();
        let cwd = record.map_or_else(
            || desk.folders.root.clone(),
            |record| shown_path::read(&record.session.cwd),
        );
        let told = gone.owner.clone();
        let mut spec = desk.session_spec(gone.session.clone(), told, &cwd, Vec::new());
        if let Some(record) = record {
            spec.shell = record.session.shell;
            spec.size = record.session.size;
        }
        let mut session = Self::new(&spec, owner, &desk.person, now);
        session.holder = gone.holder.clone();
        session.shell = record.and_then(|record| record.session.pid);
        session.charset = record.and_then(|record| record.charset.clone());
        session.recall(record, &[]);
        session
    }

    /// Takes its history in: what is on record, and what only the holder has been told. The end of
    /// the latest command is told again by whoever knows it.
    fn recall(&mut self, record: Option<&Shelved>, known: &[KnownCommand]) {
        if let Some(record) = record {
            self.is_on_shelf = true;
            self.opened_at = record.session.opened_at;
            self.commands = record.commands().to_vec();
        }
        for KnownCommand { command, text, ticket } in known {
            if self.index_of(command).is_none() {
                let record = CommandRecord::new(command.clone(), text.clone());
                self.commands.push(CommandRecord { ticket: ticket.clone(), ..record });
            }
        }
        self.asked = u32::try_from(self.commands.len()).unwrap_or(u32::MAX);
        if let Some(asked) = self.commands.iter().filter_map(|record| number(&record.id)).max() {
            self.asked = self.asked.max(asked);
        }
        if !self.is_kept()
            && let Some(latest) = self.commands.last_mut()
        {
            latest.is_retold = latest.end.take().is_some();
        }
        self.forget_old_commands();
    }
}

/// The contracts that a task's `after` tasks publish. Those that an attempt had read by itself are
/// not known any more.
fn contracts_of(plan: &Plan, task: usize) -> BTreeSet<String> {
    let after = plan.tasks[task].after.iter();
    let keys = after.flat_map(|edge| plan.tasks[edge.task].publish.keys());
    keys.filter(|key| key.starts_with("contract/")).cloned().collect()
}

/// The name of a task's command: they are counted from 1.
fn command_at(session: &SessionId, index: usize) -> CommandId {
    names::command(session, u32::try_from(index + 1).unwrap_or(u32::MAX))
}

/// The number of a command in its session.
fn number(command: &CommandId) -> Option<u32> {
    command.as_str().rsplit_once('.')?.1.parse().ok()
}

/// Whose a session is that no attempt has any more.
fn straggler(owner: &SessionOwner) -> Owner {
    match owner {
        SessionOwner::Attempt { attempt } | SessionOwner::Upcoming { attempt } => Owner::Upcoming {
            label: format!("{}/{}", attempt.run, attempt.task),
            attempt: attempt.clone(),
        },
        SessionOwner::Call | SessionOwner::Kept { .. } => Owner::Call { asker: None },
    }
}

#[cfg(test)]
mod tests;
