//! The attempts of a task, as the journal tells of them: it has all, of runs that go on and of
//! those that have ended, with the session of each.

use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;

use super::failure::{Failure, Kind};
use crate::control::TaskRef;
use crate::domain::event::{AttemptEnd, Event};
use crate::domain::ids::{AgentName, AttemptId, SessionId};
use crate::domain::time::Timestamp;
use crate::journal::{self, JournalError};

/// One try of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct AttemptLine {
    /// From 1.
    pub(super) attempt: u32,
    /// Who had it.
    pub(super) agent: AgentName,
    /// Its session.
    pub(super) session_id: SessionId,
    /// When it began.
    pub(super) started_at: Timestamp,
    /// When it was over; null while it runs.
    pub(super) ended_at: Option<Timestamp>,
    /// What it came to; null while it runs.
    pub(super) end: Option<AttemptEnd>,
}

/// All attempts of a task, in order.
///
/// # Errors
/// When the journal cannot be read.
pub(super) fn of_task(state: &Path, task: &TaskRef) -> Result<Vec<AttemptLine>, Failure> {
    let mut lines: Vec<AttemptLine> = Vec::new();
    let is_its = |id: &AttemptId| id.run == task.run && id.task == task.task;
    let read = journal::read(&state.join("journal"), &mut |line| {
        match line.event {
            Event::AttemptStarted { attempt, agent, session } if is_its(&attempt) => {
                lines.push(AttemptLine {
                    attempt: attempt.attempt,
                    agent,
                    session_id: session,
                    started_at: line.at,
                    ended_at: None,
                    end: None,
                });
            }
            Event::AttemptEnded { attempt, end } if is_its(&attempt) => {
                let its = lines.iter_mut().rfind(|known| known.attempt == attempt.attempt);
                if let Some(known) = its {
                    known.ended_at = Some(line.at);
                    known.end = Some(end);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match read {
        Ok(_) | Err(JournalError::Missing { .. }) => Ok(lines),
        Err(error) => Err(Failure::new(Kind::Machine, error.to_string())),
    }
}
