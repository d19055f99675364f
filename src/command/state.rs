//! Where a command stands, with the facts that only that state has.

use std::collections::VecDeque;

use regex::Regex;

use crate::domain::outcome::{CommandState, Reason};
use crate::domain::plan::Ready;
use crate::domain::result::{Awaiting, Note};
use crate::domain::session::{CommandSpec, Limit, Shell};

use super::answer::{Answer, Repeats};
use super::awaiting::{Rounds, Wait};
use super::lines::Lines;

/// Output or CPU use within this time is a sign of life.
pub(super) const LIFE_MS: u64 = 10_000;
/// CPU use in a command's first moments is every program's own start, and no sign of life.
pub(super) const START_MS: u64 = 1_000;

/// One command, from its place in the queue to its end.
#[derive(Debug)]
pub struct Command {
    pub(super) spec: CommandSpec,
    pub(super) phase: Phase,
    pub(super) clock: Clock,
    pub(super) watch: Watch,
    /// What looks over time have shown.
    pub(super) rounds: Rounds,
    /// Given inputs that have not been sent yet.
    pub(super) inputs: VecDeque<String>,
    /// The last answer that was sent.
    pub(super) answered: Option<Answer>,
    /// How often rules have given the same answers.
    pub(super) repeats: Repeats,
    /// Who reads its text.
    pub(super) shell: Shell,
    /// How often the shell had to be brought back into the loop.
    pub(super) nudges: u32,
    /// A person has the terminal.
    pub(super) held: bool,
}

#[derive(Debug)]
pub(super) enum Phase {
    Pending,
    /// The shell's parser reads the text.
    Checking,
    /// The text is on its way to the shell.
    Starting,
    Running,
    Awaiting(Question),
    Ending(Ending),
    Ended(Outcome),
}

/// A question that nothing has answered.
#[derive(Debug)]
pub(super) struct Question {
    pub wait: Wait,
    pub awaiting: Awaiting,
    pub since_ms: u64,
    /// Output or input has come since: another token means another question.
    pub stirred: bool,
}

/// A command that is being ended, or whose shell is gone.
#[derive(Debug)]
pub(super) struct Ending {
    pub outcome: Outcome,
    pub step: EndStep,
    /// The last step that something was left for, the shell included.
    pub needed: EndStep,
    /// When the step was taken.
    pub since_ms: u64,
    pub shell: ShellStands,
    /// From when on the shell has nothing to wait for any more.
    pub alone_since_ms: Option<u64>,
    /// What is left of the tree, as last seen; `None` before the first look.
    pub left: Option<usize>,
}

/// How far the ending has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EndStep {
    Interrupted,
    Terminated,
    Killed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellStands {
    /// It has not reported the command's end.
    Busy,
    Idle,
    /// It was told to go, or is gone; then the session is, too.
    Killed,
    Gone,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `completed`, `failed` or `timeout`.
    pub state: CommandState,
    /// Why it did not complete.
    pub reason: Option<Reason>,
    /// Its own status, where it had one.
    pub exit_code: Option<i32>,
    /// The statuses of its last pipeline, where known.
    pub pipe_status: Option<Vec<i32>>,
    /// Remarks.
    pub notes: Vec<Note>,
    /// What it waited for when it was ended.
    pub awaiting: Option<Awaiting>,
    /// True when its tree was ended with it.
    pub tree_ended: bool,
}

/// Time as the command's limits count it: it stands still while input is awaited.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub started_ms: u64,
    /// Counted before `counting_since_ms`.
    pub counted_ms: u64,
    pub counting_since_ms: Option<u64>,
    pub last_output_ms: Option<u64>,
    pub last_input_ms: Option<u64>,
    /// The heartbeat's next look, in counted time.
    pub look_at_ms: u64,
    /// CPU time at the look before.
    pub cpu_before_ms: Option<u64>,
    /// A sample is on its way: no second one is asked for.
    pub sampling: bool,
}

impl Clock {
    pub(super) fn counted(&self, now_ms: u64) -> u64 {
        let running = self.counting_since_ms.map_or(0, |since| now_ms.saturating_sub(since));
        self.counted_ms + running
    }

    pub(super) fn stop(&mut self, now_ms: u64) {
        self.counted_ms = self.counted(now_ms);
        self.counting_since_ms = None;
    }

    /// When the counted time will have reached `counted_ms`; `None` while it stands still.
    pub(super) fn when(&self, counted_ms: u64) -> Option<u64> {
        let since = self.counting_since_ms?;
        Some(since.saturating_add(counted_ms.saturating_sub(self.counted_ms)))
    }

    /// How long nothing has come from it, or gone to it.
    pub(super) fn quiet_ms(&self, now_ms: u64) -> u64 {
        let last = self.last_output_ms.max(self.last_input_ms).unwrap_or(self.started_ms);
        now_ms.saturating_sub(last.max(self.started_ms))
    }
}

/// The patterns that are looked for in its output.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub stops: Vec<Regex>,
    pub ready: Vec<Regex>,
    pub questions: Vec<Regex>,
    pub main: Lines,
    pub stderr: Lines,
}

impl Command {
    /// A command in the queue.
    ///
    /// # Errors
    /// A pattern that is none, as a sentence.
    pub fn new(spec: CommandSpec) -> Result<Self, String> {
        let compile = |pattern: &str| {
            Regex::new(pattern).map_err(|error| format!("`{pattern}` is not a pattern: {error}"))
        };
        let stops =
            spec.stop_on.iter().map(|rule| compile(&rule.pattern)).collect::<Result<_, _>>()?;
        let questions =
            spec.on_input.iter().map(|rule| compile(&rule.pattern)).collect::<Result<_, _>>()?;
        let ready = match &spec.ready {
            Some(Ready::Log(pattern)) => vec![compile(pattern)?],
            Some(Ready::Port(_) | Ready::Http(_)) | None => Vec::new(),
        };
        let watch = Watch { stops, ready, questions, ..Watch::default() };
        let inputs = spec.inputs.iter().cloned().collect();
        Ok(Self {
            spec,
            phase: Phase::Pending,
            clock: Clock::default(),
            watch,
            rounds: Rounds::default(),
            inputs,
            answered: None,
            repeats: Repeats::default(),
            nudges: 0,
            shell: Shell::default(),
            held: false,
        })
    }

    /// Read by this shell; by bash, if not said.
    #[must_use]
    pub fn in_shell(mut self, shell: Shell) -> Self {
        self.shell = shell;
        self
    }

    /// What was asked for.
    pub fn spec(&self) -> &CommandSpec {
        &self.spec
    }

    /// Where it stands, by name.
    pub fn state(&self) -> CommandState {
        match &self.phase {
            Phase::Pending | Phase::Checking | Phase::Starting => CommandState::Pending,
            Phase::Running | Phase::Ending(_) => CommandState::Running,
            Phase::Awaiting(_) => CommandState::AwaitingInput,
            Phase::Ended(outcome) => outcome.state,
        }
    }

    /// How it ended; `None` before.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// True while its tree is being ended: the session reports what is left of it.
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending(_))
    }

    /// True while it has been interrupted and nothing more: a loop of its shell's may have gone on
    /// to the next program.
    pub fn is_interrupted(&self) -> bool {
        matches!(&self.phase, Phase::Ending(ending) if ending.step == EndStep::Interrupted)
    }

    /// True while a look at the foreground group can change anything.
    pub fn wants_looks(&self) -> bool {
        match &self.phase {
            Phase::Running | Phase::Awaiting(_) => true,
            // The shell may stand at its own prompt after the interrupt.
            Phase::Ending(ending) => ending.shell == ShellStands::Busy,
            _ => false,
        }
    }

    /// How long it has been quiet, for the schedule of looks.
    pub fn quiet_ms(&self, now_ms: u64) -> u64 {
        self.clock.quiet_ms(now_ms)
    }

    /// The next time at which `Tick` can change anything.
    pub fn deadline(&self) -> Option<u64> {
        match &self.phase {
            Phase::Running | Phase::Awaiting(_) if self.held => None,
            Phase::Running => self.running_deadline(),
            Phase::Awaiting(question) => {
                Some(question.since_ms.saturating_add(self.spec.input_timeout_ms))
            }
            Phase::Ending(ending) => ending.deadline(),
            _ => None,
        }
    }

    fn running_deadline(&self) -> Option<u64> {
        match self.spec.limit {
            Limit::Unlimited => None,
            Limit::Exact { ms } => self.clock.when(ms),
            Limit::Heartbeat { hard_ms, .. } => {
                let next =
                    if self.clock.sampling { hard_ms } else { self.clock.look_at_ms.min(hard_ms) };
                self.clock.when(next)
            }
        }
    }
}
