//! Which lines of a journal still matter: what a snapshot keeps.
//!
//! Folding what is kept gives the same as folding all of it: the runs that go on or can go on, whole;
//! of other runs that they were, and how they ended; open sessions; the board's latest entries; and
//! of commands the latest, for what their like may take.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use crate::domain::conflict::Party;
use crate::domain::event::Event;
use crate::domain::ids::{CommandId, RunId, SessionId};
use crate::journal::snapshot::{self, Reach};
use crate::journal::{JournalError, Line};
use crate::scheduler::recall::Recall;

/// How many runs that are over are remembered by name: the latest.
const RUNS_MAX: usize = 1_000;
/// How many commands are remembered for their durations: the latest.
const COMMANDS_MAX: usize = 5_000;

/// Takes a snapshot of the journal as far as it reaches, if one is due.
///
/// # Errors
/// When the journal cannot be read, or the snapshot cannot be written.
pub(super) fn compact_when_due(dir: &Path, reach: Reach) -> Result<bool, JournalError> {
    if !snapshot::is_due(dir, reach)? {
        return Ok(false);
    }
    let mut matters = Matters::default();
    snapshot::read_to(dir, reach, &mut |line| matters.learn(&line))?;
    matters.settle();
    snapshot::take(dir, reach, &mut |line| matters.keeps(line))?;
    Ok(true)
}

/// What matters of a journal, learnt in a first reading.
#[derive(Debug, Default)]
struct Matters {
    recall: Recall,
    /// Runs that are remembered with all their events.
    whole: BTreeSet<RunId>,
    /// Runs of which only beginning and end are.
    named: Vec<RunId>,
    names: HashSet<RunId>,
    open: HashSet<SessionId>,
    /// The line of each board key's latest entry.
    board: HashMap<String, u64>,
    commands: Vec<CommandId>,
    timed: HashSet<CommandId>,
}

impl Matters {
    fn learn(&mut self, line: &Line) {
        self.recall.fold(line.at, &line.event);
        match &line.event {
            Event::RunSubmitted { run, .. } => self.named.push(run.clone()),
            Event::SessionOpened { session, .. } => {
                self.open.insert(session.clone());
            }
            Event::SessionClosed { session } => {
                self.open.remove(session);
            }
            Event::Board { entry } => {
                self.board.insert(entry.key.clone(), line.seq);
            }
            Event::CommandEnded { command, .. } => {
                self.commands.push(command.clone());
                if self.commands.len() > 2 * COMMANDS_MAX {
                    self.commands.drain(..COMMANDS_MAX);
                }
            }
            _ => {}
        }
    }

    /// The first reading is over.
    fn settle(&mut self) {
        let recall = std::mem::take(&mut self.recall);
        self.whole = recall.into_runs().map(|(run, _)| run).collect();
        let surplus = self.named.len().saturating_sub(RUNS_MAX);
        self.names = self.named.drain(..).skip(surplus).collect();
        let surplus = self.commands.len().saturating_sub(COMMANDS_MAX);
        self.timed = self.commands.drain(..).skip(surplus).collect();
    }

    fn keeps(&self, line: &Line) -> bool {
        match &line.event {
            Event::RunSubmitted { run, .. } | Event::RunEnded { run, .. } => {
                self.whole.contains(run) || self.names.contains(run)
            }
            Event::RunResumed { run, .. }
            | Event::RunCancelled { run, .. }
            | Event::RunSealed { run }
            | Event::TaskAdded { run, .. }
            | Event::TaskCancelled { run, .. }
            | Event::TaskRetried { run, .. }
            | Event::EscalationRaised { run, .. }
            | Event::EscalationResolved { run, .. }
            | Event::TaskSettled { run, .. } => self.whole.contains(run),
            Event::AttemptStarted { attempt, .. }
            | Event::AttemptReady { attempt }
            | Event::ConflictSeen { party: Party::Attempt { attempt }, .. }
            | Event::ContractChanged { attempt, .. }
            | Event::AttemptReturning { attempt }
            | Event::AttemptReturned { attempt, .. }
            | Event::AttemptEnded { attempt, .. } => self.whole.contains(&attempt.run),
            Event::SessionOpened { session, .. } => self.open.contains(session),
            Event::SessionClosed { .. }
            | Event::CoordinatorStarted { .. }
            | Event::ConflictSeen { party: Party::Command { .. } | Party::Commit { .. }, .. } => {
                false
            }
            Event::Touched { session, .. } => self.open.contains(session),
            Event::CommandStarted { command, .. } | Event::CommandEnded { command, .. } => {
                self.timed.contains(command)
            }
            Event::Board { entry } => self.board.get(&entry.key) == Some(&line.seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::daemon::history::History;
    use crate::domain::board::{BoardEntry, Version, Writer};
    use crate::domain::event::{AttemptEnd, RunOptions, Stamped};
    use crate::domain::ids::AttemptId;
    use crate::domain::outcome::{CommandState, RunOutcome};
    use crate::domain::plan::{Plan, TaskSpec};
    use crate::domain::process::ProcessIdentity;
    use crate::domain::session::SessionOwner;
    use crate::domain::time::Timestamp;
    use crate::journal::{self, Journal};

    fn submitted(run: &str) -> Event {
        let plan = Plan {
            workspace_id: None,
            root: "/".into(),
            agents: vec![crate::domain::plan::Agent {
                name: "local".into(),
                tags: Vec::new(),
                adapter: crate::domain::plan::AdapterKind::Shell,
                capacity: 1,
                env: Default::default(),
                env_pass: Vec::new(),
                policy: Default::default(),
                resources: Default::default(),
            }],
            default_env: Default::default(),
            default_env_pass: Vec::new(),
            session_defaults: Default::default(),
            policy: Default::default(),
            default_shell: Default::default(),
            tasks: vec![TaskSpec::new("a", &["true"]), TaskSpec::new("b", &["true"])],
        };
        Event::RunSubmitted {
            run: run.into(),
            plan: Box::new(plan),
            options: RunOptions::default(),
            selected: None,
            allowed: Default::default(),
            detached: true,
            open_ended: false,
            origin: None,
            parent: None,
        }
    }

    fn attempt(run: &str) -> AttemptId {
        AttemptId { run: run.into(), task: "a".into(), attempt: 1 }
    }

    fn history_of(dir: &Path) -> History {
        let mut history = History::default();
        journal::read(dir, &mut |line| {
            history.fold(line);
            ControlFlow::Continue(())
        })
        .unwrap();
        history
    }

    fn note(n: i64) -> Event {
        let version = Version { wall_ms: n, logical: 0, node: "n".to_owned() };
        let (key, value) = ("note/x".to_owned(), Some(serde_json::json!(n)));
        Event::Board { entry: BoardEntry { key, value, version, writer: Writer::default() } }
    }

    /// Two hundred runs; the last of them goes on.
    fn written(dir: &Path) {
        let (journal, _) = Journal::open(dir, |_| {}).unwrap();
        let mut at = 0;
        let mut write = |event: Event| {
            at += 1;
            journal.append(vec![Stamped { at: Timestamp(at), event }], false).wait().unwrap();
        };
        let holder =
            ProcessIdentity { pid: 1, start_time: 1, boot_id: "b".to_owned(), pid_namespace: 1 };
        for n in 0..200 {
            let run = format!("r{n}");
            write(submitted(&run));
            let session = SessionId::new(format!("s{n}"));
            write(Event::AttemptStarted {
                attempt: attempt(&run),
                agent: "local".into(),
                session: session.clone(),
            });
            let owner = SessionOwner::Attempt { attempt: attempt(&run) };
            write(Event::SessionOpened { session: session.clone(), owner, holder: holder.clone() });
            let command = CommandId::new(format!("s{n}.1"));
            write(Event::CommandStarted {
                session: session.clone(),
                command: command.clone(),
                text: "true".to_owned(),
            });
            write(Event::CommandEnded {
                session: session.clone(),
                command,
                state: CommandState::Completed,
                reason: None,
                exit_code: Some(0),
                duration_ms: n,
            });
            write(note(i64::try_from(n).unwrap()));
            if n < 199 {
                write(Event::SessionClosed { session });
                write(Event::AttemptEnded { attempt: attempt(&run), end: AttemptEnd::Succeeded });
                let outcome = RunOutcome::Incomplete;
                let counts = Default::default();
                write(Event::RunEnded { run: run.as_str().into(), outcome, exit_code: 3, counts });
            }
        }
    }

    /// What goes on: each run with the sessions of its attempts.
    fn open(history: &History) -> Vec<(RunId, SessionId)> {
        let runs = history.recall.open().flat_map(|(run, recalled)| {
            recalled.running().into_iter().map(|(_, _, session)| (run.clone(), session))
        });
        runs.collect()
    }

    #[test]
    fn a_fold_of_what_is_kept_is_a_fold_of_all() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path());
        let whole = history_of(dir.path());
        let mut matters = Matters::default();
        let mut lines = 0;
        journal::read(dir.path(), &mut |line| {
            lines += 1;
            matters.learn(&line);
            ControlFlow::Continue(())
        })
        .unwrap();
        matters.settle();
        let mut kept = 0;
        snapshot::take(dir.path(), Reach::End, &mut |line| {
            let keeps = matters.keeps(line);
            kept += usize::from(keeps);
            keeps
        })
        .unwrap();
        assert!(kept < lines * 2 / 3, "{kept} of {lines}");
        let again = history_of(dir.path());
        assert_eq!(again.runs, whole.runs);
        assert_eq!(again.durations.p95_ms("true"), whole.durations.p95_ms("true"));
        assert_eq!(again.open.keys().collect::<Vec<_>>(), whole.open.keys().collect::<Vec<_>>());
        assert_eq!(again.board.last(), whole.board.last());
        assert_eq!(open(&again), open(&whole));
        assert_eq!(open(&again).len(), 1);
        let ended = |history: &History| history.recall.ended().cloned().collect::<Vec<_>>();
        assert_eq!(ended(&again), ended(&whole));
    }
}
