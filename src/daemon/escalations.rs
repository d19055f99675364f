//! Escalations: a task that waits for a decision asks for it by name, and each is answered at most
//! once, whether its run goes on or has ended. They know nothing of each other: one that nobody
//! answers holds up no other.

use std::fmt::Write as _;

use super::calls::shutting_down;
use super::desk::{Desk, not_found};
use super::names;
use super::runs::Run;
use super::sessions::Asker;
use crate::control::{
    Answer, EscalationCall, EscalationLine, EscalationState, Failure, FailureKind,
};
use crate::domain::conflict::{Answer as Word, Conflict};
use crate::domain::event::Event as Record;
use crate::domain::ids::{EscalationId, RunId};
use crate::domain::outcome::{Reason, TaskCause, TaskReason};
use crate::domain::plan::InputRule;
use crate::domain::time::Timestamp;
use crate::report::record::Escalation;
use crate::scheduler::event::Event;
use crate::scheduler::{Given, PERSON, Question, Schedule};

/// The cause of what did not resolve itself.
const CONFLICT: &str = "conflict";
/// How long whoever is asked has (design, section 3).
const DEADLINE_MS: u64 = 10 * 60_000;

impl Desk {
    /// A task waits for a decision. What says so is durable before anybody is told.
    pub(super) fn raise(&mut self, id: &RunId, task: usize, now: Timestamp) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let Some(view) = run.schedule.task(task) else { return };
        let Some(reason) = view.reason else { return };
        let (cause, mut story) = told(view.attempts, reason);
        if cause == CONFLICT {
            tell_conflicts(&run.schedule, task, &mut story);
        }
        let prompt = match reason {
            TaskReason::Task(TaskCause::Input { prompt, .. }) => Some(prompt.clone()),
            _ => None,
        };
        let question = Question {
            id: names::escalation(),
            task,
            attempt: view.attempts,
            cause: cause.to_owned(),
            to: PERSON.to_owned(),
            story,
            prompt,
            since: now,
            deadline: Some(now.plus_ms(DEADLINE_MS)),
            answer: None,
        };
        let raised = Record::EscalationRaised {
            escalation: question.id.clone(),
            run: id.clone(),
            task,
            cause: question.cause.clone(),
            to: question.to.clone(),
            story: question.story.clone(),
            prompt: question.prompt.clone(),
            deadline: question.deadline,
        };
        run.questions.push(question);
        self.record_durably(raised, now);
    }

    pub(super) fn asked_of_escalations(
        &mut self,
        asker: Asker,
        call: EscalationCall,
        now: Timestamp,
    ) {
        let lines = match call {
            EscalationCall::List => Ok(self.escalation_lines(now)),
            EscalationCall::Resolve { escalation, answer } => {
                self.resolve(asker, &escalation, answer, now)
            }
        };
        match lines {
            Ok(escalations) => {
                self.reply(asker.connection, asker.request, Answer::Escalations { escalations });
            }
            Err(failure) => self.refuse_asker(asker, failure),
        }
    }

    fn escalation_lines(&self, now: Timestamp) -> Vec<EscalationLine> {
        let runs = self.runs.values().chain(self.resumable.values());
        let lines = runs.flat_map(|run| run.questions.iter().map(|one| run.told_of(one, now)));
        let mut lines: Vec<EscalationLine> = lines.collect();
        // Stable: within a run they stand in their order.
        lines.sort_by_key(|line| line.since);
        lines
    }

    fn resolve(
        &mut self,
        asker: Asker,
        id: &EscalationId,
        answer: Word,
        now: Timestamp,
    ) -> Result<Vec<EscalationLine>, Failure> {
        if self.is_terminating() {
            return Err(shutting_down());
        }
        let Some(run_id) = self.run_asked_by(id) else {
            let hint = "`callboard escalation ls` lists them";
            return Err(not_found(&format!("escalation `{id}`"), hint));
        };
        let by = match self.inside(asker.connection) {
            Some(session) => format!("session {session}"),
            None => PERSON.to_owned(),
        };
        let run = self.runs.get_mut(&run_id).or_else(|| self.resumable.get_mut(&run_id));
        let Some(run) = run else { return Ok(Vec::new()) };
        let Some(place) = run.questions.iter().position(|one| one.id == *id) else {
            return Ok(Vec::new());
        };
        run.may_answer(&run.questions[place], &answer, now)?;
        let task = run.questions[place].task;
        run.questions[place].answer =
            Some(Given { answer: answer.clone(), by: by.clone(), at: now });
        let goes_on = run.ended.is_none();
        let resolved = Record::EscalationResolved {
            escalation: id.clone(),
            run: run_id.clone(),
            answer: answer.clone(),
            by,
        };
        self.record_durably(resolved, now);
        let event = Event::Answered { task, answer };
        if goes_on {
            self.run_step(&run_id, event, now);
        } else if let Some(run) =
            self.runs.get_mut(&run_id).or_else(|| self.resumable.get_mut(&run_id))
        {
            // Nothing is done before the run goes on; where the task stands is on record.
            let _nothing_follows = run.schedule.step(event, now);
        }
        let run = self.runs.get(&run_id).or_else(|| self.resumable.get(&run_id));
        let line = run.and_then(|run| Some(run.told_of(run.questions.get(place)?, now)));
        Ok(line.into_iter().collect())
    }

    /// The run whose task asks.
    pub(super) fn run_asked_by(&self, id: &EscalationId) -> Option<RunId> {
        let mut runs = self.runs.values().chain(self.resumable.values());
        let asks = |run: &&Run| run.questions.iter().any(|one| one.id == *id);
        runs.find(asks).map(|run| run.id.clone())
    }
}

impl Run {
    /// The escalation that a task waits for.
    pub(super) fn open_question(&self, task: usize) -> Option<&Question> {
        let of_task = |one: &&Question| one.task == task && one.is_open(&self.schedule);
        self.questions.iter().rfind(of_task)
    }

    /// What a task waits for that waits for a decision.
    pub(super) fn decision_words(&self, task: usize, cause: &str) -> String {
        match self.open_question(task) {
            Some(question) => format!("a decision: {cause} (escalation {})", question.id),
            None => format!("a decision: {cause}"),
        }
    }

    /// The escalations of some of its tasks, as reports show them.
    pub(super) fn escalations(&self, members: &[usize]) -> Vec<Escalation> {
        let asked = self.questions.iter().filter(|one| members.contains(&one.task));
        let told = asked.map(|one| Escalation {
            id: one.id.to_string(),
            task: self.plan.tasks[one.task].id.clone(),
            cause: one.cause.clone(),
            to: one.to.clone(),
            story: one.story.clone(),
            answer: one.answer.as_ref().map(|given| given.answer.name().to_owned()),
        });
        told.collect()
    }

    fn told_of(&self, question: &Question, now: Timestamp) -> EscalationLine {
        let is_late = question.deadline.is_some_and(|deadline| deadline <= now);
        let state = match (&question.answer, question.is_open(&self.schedule)) {
            (Some(_), _) => EscalationState::Answered,
            (None, false) => EscalationState::Withdrawn,
            (None, true) if is_late => EscalationState::Unanswered,
            (None, true) => EscalationState::Open,
        };
        let given = question.answer.as_ref();
        EscalationLine {
            id: question.id.clone(),
            task_id: self.label(question.task),
            cause: question.cause.clone(),
            to: question.to.clone(),
            story: question.story.clone(),
            state,
            since: question.since,
            deadline: question.deadline,
            answer: given.map(|given| given.answer.name().to_owned()),
            by: given.map(|given| given.by.clone()),
        }
    }

    /// Whether an answer is one to this question.
    fn may_answer(
        &self,
        question: &Question,
        answer: &Word,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let line = self.told_of(question, now);
        let view = self.schedule.task(question.task);
        let is_secret = view.and_then(|view| view.reason).is_some_and(|reason| {
            matches!(reason, TaskReason::Task(TaskCause::Input { secret: true, .. }))
        });
        let (why, hint) = match (line.state, answer) {
            (EscalationState::Answered, _) => {
                let answer = line.answer.unwrap_or_default();
                let by = line.by.unwrap_or_default();
                (format!("it was answered already: {answer}, by {by}"), "it is answered once")
            }
            (EscalationState::Withdrawn, _) => (
                "its task does not wait for it any more".to_owned(),
                "`callboard task show` tells how the task stands",
            ),
            (_, Word::Wait | Word::Force) if question.cause != CONFLICT => (
                format!(
                    "`{}` is an answer to a conflict, and this is `{}`",
                    answer.name(),
                    line.cause
                ),
                "the answers to it are retry, skip and fail",
            ),
            (_, Word::Input { .. }) if question.cause != "input" => (
                format!("its task did not wait for input: this is `{}`", line.cause),
                "the answers to it are retry, skip and fail",
            ),
            (_, Word::Input { .. }) if is_secret => (
                "it asked for a secret, and answers are written down".to_owned(),
                "answer `retry`, and type it with `callboard session send ID --secret` while it waits",
            ),
            _ => return Ok(()),
        };
        let message = format!("escalation `{}` cannot be resolved so: {why}", question.id);
        Err(Failure { kind: FailureKind::Usage, message, hint: Some(hint.to_owned()) })
    }
}

/// The rules that answer in a task's further attempts what has been asked and answered: the same
/// question gets the same answer.
pub(super) fn answers_given(questions: &[Question], task: usize) -> Vec<InputRule> {
    let of_task = questions.iter().filter(|one| one.task == task);
    let given = of_task.filter_map(|one| match &one.answer.as_ref()?.answer {
        Word::Input { text } => {
            let pattern = regex::escape(one.prompt.as_deref()?);
            Some(InputRule { pattern, send: text.clone() })
        }
        _ => None,
    });
    given.collect()
}

/// The whole story of a task's conflicts: who held what, since when, and how long it waited each time.
fn tell_conflicts(schedule: &Schedule, task: usize, story: &mut String) {
    let waits = schedule.conflicts(task).iter();
    let waits = waits.map(|one| (&one.conflict, format!("; waited {} ms", one.wait_ms)));
    let last = schedule.last_conflict(task).map(|conflict| (conflict, String::new()));
    for (number, (conflict, waited)) in waits.chain(last).enumerate() {
        let Conflict { resource, mode, holder, since, at, prevented, .. } = conflict;
        // Formatting into a string cannot fail.
        let _ = write!(
            story,
            "\n{}. {at}: {mode} {resource}, held by {holder} since {since}{waited}",
            number + 1
        );
        if !prevented {
            story.push_str(" (it was written: what the holder had in it may be lost)");
        }
    }
}

/// The cause of an escalation and its story.
fn told(attempt: u32, reason: &TaskReason) -> (&'static str, String) {
    match reason {
        TaskReason::Task(TaskCause::Input { prompt, secret }) => {
            let what = if *secret { "a secret" } else { "input" };
            ("input", format!("attempt {attempt} waited for {what}: {prompt}"))
        }
        TaskReason::Task(TaskCause::Verify { code }) => {
            let status = code.map(|code| format!(" with status {code}")).unwrap_or_default();
            let story =
                format!("attempt {attempt} ended well, but its verify script failed{status}");
            ("verify", story)
        }
        TaskReason::Command(Reason::Policy { message, .. }) => {
            ("policy", format!("attempt {attempt} would run what is to be asked for: {message}"))
        }
        TaskReason::Command(Reason::Conflict { resource, holder }) => {
            let story = format!("attempt {attempt} wanted {resource}, which {holder} held");
            (CONFLICT, story)
        }
        other => ("other", crate::report::words::words(other)),
    }
}
