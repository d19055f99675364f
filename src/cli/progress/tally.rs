//! Where each task of a run stands, as far as the notices tell, and what to say of a change.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::control::Notice;
use crate::domain::ids::{AgentName, TaskId};
use crate::domain::outcome::TaskState;
use crate::domain::time::Timestamp;
use crate::report::record::{RunReport, TaskReport};
use crate::report::words::{asked, span, state_words, words};

/// A run's tasks by state.
#[derive(Debug)]
pub(in crate::cli) struct Tally {
    started_at: Timestamp,
    /// The coordinator's clock as it was last told, and when that was: news without a time of
    /// their own are stamped by it.
    clock: (Timestamp, Instant),
    /// Where each task is, and in which attempt.
    states: HashMap<TaskId, (TaskState, u32)>,
    /// How many tasks are in each state.
    pub(super) counts: BTreeMap<TaskState, usize>,
    /// What runs, by task.
    pub(super) running: BTreeMap<TaskId, Running>,
    total: usize,
}

/// A task that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) agent: Option<AgentName>,
    pub(super) since: Timestamp,
    /// What it waits for, once it does.
    pub(super) prompt: Option<String>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            started_at: Timestamp::default(),
            clock: (Timestamp::default(), Instant::now()),
            states: HashMap::new(),
            counts: BTreeMap::new(),
            running: BTreeMap::new(),
            total: 0,
        }
    }
}

impl Tally {
    pub(super) fn of(report: &RunReport) -> Self {
        let mut tally = Self {
            started_at: report.started_at,
            clock: (report.started_at.plus_ms(report.duration_ms), Instant::now()),
            counts: report.counts.clone(),
            total: report.counts.values().sum(),
            ..Self::default()
        };
        for task in &report.tasks {
            tally.states.insert(task.id.clone(), (task.state, task.attempts));
            if task.state == TaskState::Running {
                let since = task.started_at.unwrap_or(report.started_at);
                let running = Running { agent: task.agent.clone(), since, prompt: None };
                tally.running.insert(task.id.clone(), running);
            }
        }
        tally
    }

    /// Takes a notice in. The answer is the line for a log, where there is anything to say.
    pub(super) fn hear(&mut self, notice: &Notice) -> Option<String> {
        match notice {
            Notice::Task { task, state, agent, attempt, reason, at, .. } => {
                self.clock = (*at, Instant::now());
                if self.states.get(task) == Some(&(*state, *attempt)) {
                    // Told before, by an earlier coordinator or in answer to a question.
                    return None;
                }
                let ran = self.moved(task, (*state, *attempt), agent.clone(), *at);
                let more = match (state, ran) {
                    (TaskState::Blocked | TaskState::Ready, _) => return None,
                    (TaskState::Running, _) => {
                        let agent = agent.as_ref().map(|name| format!(" on {name}"));
                        let again = (*attempt > 1).then(|| format!(", attempt {attempt}"));
                        agent.unwrap_or_default() + &again.unwrap_or_default()
                    }
                    (_, Some(ran)) => format!(" after {}", span(at.ms_since(ran.since))),
                    (_, None) => String::new(),
                };
                let why = reason.as_ref().map(|reason| format!(": {}", words(reason)));
                let why = why.unwrap_or_default();
                Some(format!("{}{task}: {}{more}{why}", self.stamp(*at), state_words(*state)))
            }
            Notice::ServiceReady { task, .. } => {
                Some(format!("{}{task}: ready", self.stamp(self.now())))
            }
            Notice::Awaiting { task, awaiting, .. } => {
                let prompt = awaiting.prompt.trim().to_owned();
                let what = if awaiting.secret { "a secret" } else { "input" };
                let stamp = self.stamp(self.now());
                let line = format!("{stamp}{task}: waits for {what}{}", asked(&prompt));
                if let Some(running) = self.running.get_mut(task) {
                    running.prompt = Some(prompt);
                }
                Some(line)
            }
            Notice::Claimed { task, claim, .. } => {
                Some(format!("{}{task}: its terminal is held by {claim}", self.stamp(self.now())))
            }
            Notice::RunEnded { .. }
            | Notice::Gap { .. }
            | Notice::Board { .. }
            | Notice::BoardAnew
            | Notice::BoardThrough { .. } => None,
        }
    }

    /// What has happened according to a report and has not been heard of. News overtakes a report
    /// that is being made: only what is further than the news counts.
    pub(super) fn missed(&self, report: &RunReport) -> Vec<Notice> {
        let at = report.started_at.plus_ms(report.duration_ms);
        let is_further = |task: &&TaskReport| {
            let known = self.states.get(&task.id).map_or((0, 0), |(state, n)| (*n, stage(*state)));
            (task.attempts, stage(task.state)) > known
        };
        let notice = |task: &TaskReport| Notice::Task {
            run: report.run_id.clone(),
            task: task.id.clone(),
            state: task.state,
            attempt: task.attempts,
            agent: task.agent.clone(),
            reason: task.reason.clone(),
            at: match (task.state, task.started_at) {
                (state, Some(began)) if state.is_terminal() => began.plus_ms(task.duration_ms),
                _ => at,
            },
        };
        report.tasks.iter().filter(is_further).map(notice).collect()
    }

    /// How many tasks are settled, and how many there are.
    pub(super) fn settled(&self) -> (usize, usize) {
        let settled = self.counts.iter().filter(|(state, _)| state.is_terminal());
        (settled.map(|(_, number)| number).sum(), self.total)
    }

    fn moved(
        &mut self,
        task: &TaskId,
        (state, attempt): (TaskState, u32),
        agent: Option<AgentName>,
        at: Timestamp,
    ) -> Option<Running> {
        if let Some((before, _)) = self.states.insert(task.clone(), (state, attempt)) {
            if let Some(number) = self.counts.get_mut(&before) {
                *number = number.saturating_sub(1);
            }
        } else {
            // The report that a run begins with need not list its tasks one by one.
            self.forget_one_waiting();
        }
        *self.counts.entry(state).or_default() += 1;
        let ran = self.running.remove(task);
        if state == TaskState::Running {
            self.running.insert(task.clone(), Running { agent, since: at, prompt: None });
        }
        ran
    }

    fn forget_one_waiting(&mut self) {
        for state in [TaskState::Blocked, TaskState::Ready] {
            if let Some(number) = self.counts.get_mut(&state).filter(|number| **number > 0) {
                *number -= 1;
                return;
            }
        }
        self.total += 1;
    }

    /// The coordinator's time, as far as it can be told from here.
    pub(super) fn now(&self) -> Timestamp {
        let passed = self.clock.1.elapsed().as_millis();
        self.clock.0.plus_ms(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn stamp(&self, at: Timestamp) -> String {
        let ms = at.ms_since(self.started_at);
        format!("[{:>4}.{}s] ", ms / 1000, ms % 1000 / 100)
    }
}

/// How far a task is within one attempt.
fn stage(state: TaskState) -> u8 {
    match state {
        TaskState::Blocked | TaskState::Ready => 0,
        TaskState::Running => 1,
        TaskState::Retrying | TaskState::BackingOff => 2,
        TaskState::Escalated => 3,
        TaskState::Succeeded
        | TaskState::Failed
        | TaskState::TimedOut
        | TaskState::Cancelled
        | TaskState::Skipped => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::stand_in::report;
    use crate::domain::outcome::{Reason, TaskReason};

    fn moved(state: TaskState, attempt: u32, after_ms: u64, code: Option<i32>) -> Notice {
        Notice::Task {
            run: "R1".into(),
            task: "build".into(),
            state,
            attempt,
            agent: Some("rust-1".into()),
            reason: code.map(|code| TaskReason::Command(Reason::Exit { code })),
            at: report().started_at.plus_ms(after_ms),
        }
    }

    #[test]
    fn a_task_from_start_to_end() {
        let mut tally = Tally::of(&report());
        assert_eq!(tally.settled(), (0, 1));
        for (notice, line) in [
            (moved(TaskState::Ready, 0, 0, None), None),
            (moved(TaskState::Running, 1, 100, None), Some("[   0.1s] build: running on rust-1")),
            (
                moved(TaskState::Retrying, 1, 3300, Some(2)),
                Some("[   3.3s] build: retrying after 3.2 s: exit code 2"),
            ),
            (
                moved(TaskState::Running, 2, 4000, None),
                Some("[   4.0s] build: running on rust-1, attempt 2"),
            ),
            (
                moved(TaskState::TimedOut, 2, 65_000, None),
                Some("[  65.0s] build: timed out after 1 min 1 s"),
            ),
        ] {
            assert_eq!(tally.hear(&notice).as_deref(), line);
        }
        let notice = Notice::ServiceReady { run: "R1".into(), task: "web".into() };
        let line = tally.hear(&notice).unwrap();
        assert!(line.starts_with("[  65.") && line.ends_with("s] web: ready"), "{line}");
        assert_eq!(tally.settled(), (1, 1));
        assert_eq!(tally.counts.get(&TaskState::TimedOut), Some(&1));
        assert!(tally.running.is_empty());
    }
}
