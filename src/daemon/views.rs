//! What `status`, `run ls` and reports show of what the desk knows.

use super::calls::INPUT_TIMEOUT_MS;
use super::desk::Desk;
use super::runs::Run;
use super::sessions::{REPORT_KEEP, Session, SessionState};
use super::story::ReportDraft;
use crate::control::{RunLine, SessionLine, TaskLine, Waiting};
use crate::domain::board::BoardView;
use crate::domain::ids::RunId;
use crate::domain::outcome::TaskState;
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::Timestamp;
use crate::domain::worktree::WorktreeReport;

use crate::report::record::{RunReport, TaskReport};
use crate::scheduler::{Wait, WaitsOn};

impl Desk {
    /// All runs, newest first.
    pub(super) fn run_lines(&self, _now: Timestamp) -> Vec<RunLine> {
        let mut lines: Vec<RunLine> = self.past.clone();
        lines.extend(self.runs.values().filter(|run| !run.is_told()).map(|run| RunLine {
            run_id: run.id.clone(),
            outcome: None,
            exit_code: None,
            started_at: run.started_at,
            counts: run.schedule.counts(),
            cancelled: None,
        }));
        lines.sort_by_key(|line| std::cmp::Reverse(line.started_at));
        lines
    }

    /// Tasks of the runs that go on, but for those that are settled.
    pub(super) fn task_lines(&self) -> Vec<TaskLine> {
        self.runs.values().flat_map(|run| run.lines(|state| !state.is_terminal())).collect()
    }

    /// Open sessions.
    pub(super) fn session_lines(&self) -> Vec<SessionLine> {
        let mut lines: Vec<SessionLine> = self.sessions.values().map(Session::line).collect();
        lines.sort_by(|a, b| a.session_id.cmp(&b.session_id));
        lines
    }

    /// Everything that waits, and on what.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let mut lines = Vec::new();
        for run in self.runs.values() {
            lines.extend(run.schedule.waiting().map(|wait| Waiting {
                what: run.label(wait.task),
                on: self.words_of(run, wait.task, &wait.on),
                since: wait.since,
                deadline: wait.deadline.or_else(|| limit_of(run, wait.task, &wait)),
            }));
            lines.extend(run.ending_attempts());
        }
        lines.extend(self.dispatching.resting());
        lines.extend(self.sessions.values().filter_map(Session::waits));
        for session in self.sessions.values().filter(|session| !session.is_attempts()) {
            let waiting = session.commands.iter().filter(|record| record.end.is_none());
            lines.extend(waiting.filter_map(|record| {
                let since = record.asked_at?;
                Some(Waiting {
                    what: session.name().unwrap_or(session.id.as_str()).to_owned(),
                    on: format!("input: {}", record.awaiting.as_ref()?.prompt),
                    since,
                    deadline: Some(since.plus_ms(INPUT_TIMEOUT_MS)),
                })
            }));
        }
        lines
    }

    /// What a task waits for, in words.
    fn words_of(&self, run: &Run, task: usize, on: &WaitsOn) -> String {
        let tasks = match on {
            WaitsOn::Tasks(tasks) => tasks,
            WaitsOn::Decision(cause) => return run.decision_words(task, cause.as_str()),
            _ => return words_of(run, task, on),
        };
        let own = tasks.iter().map(|task| run.plan.tasks[*task].id.to_string());
        let others = self.dispatching.outside_of(&run.id, task).map(ToString::to_string);
        format!("task {}", own.chain(others).collect::<Vec<_>>().join(", "))
    }

    /// The report of a run that has not been written down yet, without texts.
    pub(super) fn report_draft(&self, run: &RunId, now: Timestamp) -> Option<ReportDraft> {
        self.runs.get(run).map(|run| self.draft(run, now))
    }

    pub(super) fn draft(&self, run: &Run, now: Timestamp) -> ReportDraft {
        self.draft_of(run, run.schedule.members(), now)
    }

    /// The same of some of its tasks alone.
    pub(super) fn draft_of(&self, run: &Run, members: &[usize], now: Timestamp) -> ReportDraft {
        let (outcome, exit_code) =
            run.ended.map_or((None, None), |(o, code)| (Some(o), Some(code)));
        let report = RunReport {
            schema_version: SCHEMA_VERSION,
            run_id: run.id.clone(),
            workspace_id: self.workspace.clone(),
            outcome,
            exit_code,
            started_at: run.started_at,
            duration_ms: now.ms_since(run.started_at),
            counts: run.schedule.counts(),
            cancelled: run.schedule.cancelled_why(),
            tasks: members.iter().map(|task| self.task_report(run, *task, now)).collect(),
            board: BoardView::of(self.workspace.clone(), Vec::new()),
            escalations: run.escalations(members),
        };
        let commands = members.iter().map(|task| self.task_stories(run, *task, now)).collect();
        let artifacts =
            members.iter().map(|task| run.plan.tasks[*task].artifacts.clone()).collect();
        let on_shelf = members.iter().enumerate().filter_map(|(place, task)| {
            let record = &run.tasks[*task];
            Some((place, record.session.clone().filter(|_| record.on_shelf)?))
        });
        ReportDraft {
            report,
            commands,
            on_shelf: on_shelf.collect(),
            sessions: self.folders.sessions.clone(),
            artifacts,
            root: self.folders.root.clone(),
        }
    }

    fn task_report(&self, run: &Run, task: usize, now: Timestamp) -> TaskReport {
        let spec = &run.plan.tasks[task];
        let view = run.schedule.task(task);
        let ran = view.and_then(|view| {
            let started = view.started_at?;
            Some((started, view.ended_at.unwrap_or(now).ms_since(started)))
        });
        TaskReport {
            id: spec.id.clone(),
            state: view.map_or(TaskState::Blocked, |view| view.state),
            agent: view
                .and_then(|view| view.agent)
                .map(|agent| run.plan.agents[agent].name.clone()),
            needs: spec.needs.clone(),
            attempts: view.map_or(0, |view| view.attempts),
            conflicts: view.map_or(0, |view| view.conflicts),
            session_id: run.tasks[task].session.clone(),
            started_at: ran.map(|(started, _)| started),
            duration_ms: ran.map_or(0, |(_, took)| took),
            reason: view.and_then(|view| view.reason).cloned(),
            class: run.class_of(task, view.and_then(|view| view.class)),
            waited_on: spec.after.iter().map(|edge| run.plan.tasks[edge.task].id.clone()).collect(),
            commands: Vec::new(),
            backoffs: run.schedule.backoffs(task),
            published: self.published(run, task),
            artifacts: Vec::new(),
            remarks: self.stale_remarks(run, task),
            worktree: (!spec.isolation.is_shared()).then(|| WorktreeReport {
                returned: run.tasks[task].returned.clone(),
                kept: Vec::new(),
            }),
        }
    }

    fn task_stories(
        &self,
        run: &Run,
        task: usize,
        now: Timestamp,
    ) -> Vec<super::story::CommandStory> {
        let record = &run.tasks[task];
        let open = record.session.as_ref().and_then(|id| self.sessions.get(id));
        open.map_or_else(|| record.stories.clone(), |session| session.stories(now, REPORT_KEEP))
    }
}

impl Run {
    /// Attempts that are being ended: by their machine's own deadline something stronger is done.
    fn ending_attempts(&self) -> impl Iterator<Item = Waiting> {
        self.attempts.iter().filter_map(|(task, live)| {
            let view = self.schedule.task(*task)?;
            view.ending?;
            Some(Waiting {
                what: self.label(*task),
                on: "its end".to_owned(),
                since: view.since,
                deadline: live.machine.deadline(),
            })
        })
    }
}

impl Session {
    /// What a session waits for that opens or closes; `None` for one that is open.
    fn waits(&self) -> Option<Waiting> {
        let (on, since, deadline) = match self.state {
            SessionState::Starting => ("its shell", self.opened_at, None),
            SessionState::Closing => ("the end of its processes", self.used, self.close_by),
            SessionState::Idle | SessionState::Busy => return None,
        };
        let what = self.name().unwrap_or(self.id.as_str()).to_owned();
        Some(Waiting { what, on: on.to_owned(), since, deadline })
    }
}

/// Until when a task may wait whose attempt runs.
fn limit_of(run: &Run, task: usize, wait: &Wait) -> Option<Timestamp> {
    match wait.on {
        WaitsOn::Input => {
            let limit = run.plan.tasks[task].limits.input_timeout_ms;
            Some(wait.since.plus_ms(limit.unwrap_or(INPUT_TIMEOUT_MS)))
        }
        WaitsOn::Readiness => run.attempts.get(&task)?.machine.deadline(),
        WaitsOn::Decision(_) => run.open_question(task)?.deadline,
        _ => None,
    }
}

fn words_of(run: &Run, task: usize, on: &WaitsOn) -> String {
    let spec = &run.plan.tasks[task];
    match on {
        WaitsOn::Tasks(_) => "other tasks".to_owned(),
        WaitsOn::Agent if spec.needs.is_empty() => "an agent with room".to_owned(),
        WaitsOn::Agent => {
            let tags: Vec<&str> = spec.needs.iter().map(crate::domain::ids::Tag::as_str).collect();
            format!("an agent with room that carries {}", tags.join(", "))
        }
        WaitsOn::Slot => "its turn (--jobs)".to_owned(),
        WaitsOn::Client => "its client, with the values of its `env_pass`".to_owned(),
        WaitsOn::Resource { resource, free: false } => {
            format!("{resource}, which another one holds")
        }
        WaitsOn::Resource { resource, free: true } => format!("its next try, after {resource}"),
        WaitsOn::Overlap { task, resource } => {
            format!("task {}, which wants {resource} as well", run.plan.tasks[*task].id)
        }
        WaitsOn::NextTry => "its next try".to_owned(),
        WaitsOn::Input => {
            let prompt = run.tasks[task].prompt.clone().unwrap_or_default();
            format!("input: {prompt}")
        }
        WaitsOn::Readiness => "its service to be ready".to_owned(),
        WaitsOn::Decision(cause) => format!("a decision: {}", cause.as_str()),
    }
}
