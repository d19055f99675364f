//! Escalations: what waits for somebody's decision, and decisions.

use serde::{Deserialize, Serialize};

use crate::domain::conflict::Answer;
use crate::domain::ids::EscalationId;
use crate::domain::time::Timestamp;

/// What can be asked of escalations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum EscalationCall {
    /// All of the runs that go on or can be resumed, answered ones too.
    List,
    /// Answer one. It is answered once; the answer is durable before it is done.
    Resolve {
        /// Which.
        escalation: EscalationId,
        /// How.
        answer: Answer,
    },
}

/// An escalation as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationLine {
    /// Its id, `e-…`.
    pub id: EscalationId,
    /// Its task, `RUN/ID`.
    pub task_id: String,
    /// `input`, `verify`, `policy`, `conflict` …
    pub cause: String,
    /// Whom it is put to.
    pub to: String,
    /// What has happened, for reading.
    pub story: String,
    /// How it stands.
    pub state: EscalationState,
    /// Since when.
    pub since: Timestamp,
    /// Until when an answer is expected. One that comes later is as good.
    pub deadline: Option<Timestamp>,
    /// The answer's name, once there is one.
    pub answer: Option<String>,
    /// Whose it is.
    pub by: Option<String>,
}

/// How an escalation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationState {
    /// It waits for an answer.
    Open,
    /// It waits still, and its deadline is over.
    Unanswered,
    /// It is answered.
    Answered,
    /// Its task goes on or has ended without an answer: it was cancelled, or tried again.
    Withdrawn,
}
