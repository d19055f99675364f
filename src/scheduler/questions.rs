//! The escalations of a run: each asked once, answered at most once, all independent of each other.

use crate::domain::conflict::Answer;
use crate::domain::event::Event as Fact;
use crate::domain::ids::EscalationId;
use crate::domain::outcome::TaskState;
use crate::domain::time::Timestamp;

use super::event::Event;
use super::recall::Recalled;
use super::run::Schedule;
use super::unfit::Unfit;

/// Whom escalations are put to where no orchestrator is named.
pub const PERSON: &str = "person";

/// A task waited, or waits, for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its id.
    pub id: EscalationId,
    /// The task's place in the plan.
    pub task: usize,
    /// The attempt that led to it.
    pub attempt: u32,
    /// `input`, `verify`, `policy`, `conflict` …
    pub cause: String,
    /// Whom it is put to.
    pub to: String,
    /// What has happened, for reading.
    pub story: String,
    /// The question of its terminal, where it is one.
    pub prompt: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Until when an answer is expected; it may come later as well.
    pub deadline: Option<Timestamp>,
    /// The answer, once there is one.
    pub answer: Option<Given>,
}

/// An answer that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// It.
    pub answer: Answer,
    /// Whose it is.
    pub by: String,
    /// When it came.
    pub at: Timestamp,
}

impl Question {
    /// Whether it waits for an answer: it has none, and its task still stands where it was asked.
    /// A task that was cancelled or tried again meanwhile has withdrawn it.
    pub fn is_open(&self, schedule: &Schedule) -> bool {
        let stands = schedule.task(self.task).is_some_and(|view| {
            view.state == TaskState::Escalated && view.attempts == self.attempt
        });
        self.answer.is_none() && stands
    }
}

impl Recalled {
    /// An escalation was raised. One that is told again changes nothing.
    pub(super) fn asked(&mut self, fact: &Fact, at: Timestamp) -> Result<(), Unfit> {
        let Fact::EscalationRaised { escalation, task, cause, to, story, prompt, deadline, .. } =
            fact
        else {
            return Ok(());
        };
        let Some(view) = self.schedule.task(*task) else {
            return Err(Unfit::NoSuchTask(task.to_string()));
        };
        let attempt = view.attempts;
        if self.questions.iter().all(|known| known.id != *escalation) {
            self.questions.push(Question {
                id: escalation.clone(),
                task: *task,
                attempt,
                cause: cause.clone(),
                to: to.clone(),
                story: story.clone(),
                prompt: prompt.clone(),
                since: at,
                deadline: *deadline,
                answer: None,
            });
        }
        Ok(())
    }

    /// One was answered. The first answer holds.
    pub(super) fn decided(
        &mut self,
        id: &EscalationId,
        answer: &Answer,
        by: &str,
        at: Timestamp,
    ) -> Result<(), Unfit> {
        let Some(question) = self.questions.iter_mut().find(|known| known.id == *id) else {
            return Err(Unfit::NeverAsked(id.to_string()));
        };
        if question.is_open(&self.schedule) {
            let task = question.task;
            question.answer = Some(Given { answer: answer.clone(), by: by.to_owned(), at });
            self.hear(Event::Answered { task, answer: answer.clone() }, at);
        }
        Ok(())
    }
}
