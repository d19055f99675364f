//! One run as a machine.
//!
//! `Schedule` is a whole run: it is told what happened (`event::Event`) and at what time, and
//! answers with what is to be done (`event::Effect`). `attempt::Attempt` is one try of one task in
//! its session. Neither knows a clock, a process or a file; the same events at the same times
//! always give the same effects, which is how a run is rebuilt from the journal.
//!
//! ```text
//!   events ──► Schedule::step ──► Start, End, Moved, RunEnded
//!                 ▲                   │
//!                 │ AttemptEnded …    ▼ Begin, End
//!              Attempt::step ◄── facts of the session
//!                 └─────► OpenSession, RunCommand, EndCommand, CloseSession, Done
//! ```

mod answers;
pub mod attempt;
pub mod conflicts;
mod dispatch;
mod ending;
pub mod event;
mod graph;
mod happening;
mod intentions;
mod open;
mod pool;
mod questions;
pub mod recall;
mod reopening;
mod retry;
mod run;
mod settle;
mod task;
mod unfit;
mod verdict;
mod view;
mod whose;

#[cfg(test)]
mod tests;

pub use ending::exit_code;
pub use questions::{Given, PERSON, Question};
pub use reopening::AddError;
pub use run::Schedule;
pub use task::EscalationCause;
pub use view::{CLASS_ENVIRONMENT, CLASS_FLAKY, TaskView, Upcoming, Wait, WaitsOn};
