//! Requests, replies and notices, by subject. Each document is one frame (`domain::frame`).

mod answer;
mod call;
mod escalation;
mod notice;
mod session;
mod status;
mod task;
mod work;

pub use answer::{Answer, Failure, FailureKind, Response};
pub use call::{CONTROL_VERSION, Call, Request};
pub use escalation::{EscalationCall, EscalationLine, EscalationState};
pub use notice::Notice;
pub use session::{
    Closed, ClosedWhy, CommandView, Echo, EnvSources, NewSession, Origin, Seen, SessionLine,
    SessionView,
};
pub use status::{CoordinatorLine, RunLine, Status, TaskLine, Waiting};
pub use task::{Dispatch, EndedTask, TASKS_NAMED_MAX, TaskAnswer, TaskCall, TaskRef, WaitMode};
pub use work::{Exec, Submit};
