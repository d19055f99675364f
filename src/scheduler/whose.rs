//! The run that a record is of.

use crate::domain::conflict::Party;
use crate::domain::event::Event as Fact;
use crate::domain::ids::RunId;

/// The run that an event is of, if it is of one.
pub(super) fn run_of(fact: &Fact) -> Option<&RunId> {
    match fact {
        Fact::RunSubmitted { run, .. }
        | Fact::RunResumed { run, .. }
        | Fact::TaskAdded { run, .. }
        | Fact::RunSealed { run }
        | Fact::TaskSettled { run, .. }
        | Fact::RunCancelled { run, .. }
        | Fact::TaskCancelled { run, .. }
        | Fact::TaskRetried { run, .. }
        | Fact::EscalationRaised { run, .. }
        | Fact::EscalationResolved { run, .. }
        | Fact::RunEnded { run, .. } => Some(run),
        Fact::AttemptStarted { attempt, .. }
        | Fact::AttemptReady { attempt }
        | Fact::ContractChanged { attempt, .. }
        | Fact::ConflictSeen { party: Party::Attempt { attempt }, .. }
        | Fact::AttemptReturning { attempt }
        | Fact::AttemptReturned { attempt, .. }
        | Fact::AttemptEnded { attempt, .. } => Some(&attempt.run),
        Fact::CoordinatorStarted { .. }
        | Fact::CommandStarted { .. }
        | Fact::CommandEnded { .. }
        | Fact::SessionOpened { .. }
        | Fact::SessionClosed { .. }
        | Fact::Touched { .. }
        | Fact::ConflictSeen { party: Party::Command { .. } | Party::Commit { .. }, .. }
        | Fact::Board { .. } => None,
    }
}
