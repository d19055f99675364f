//! What can happen to a command, and what the machine asks for.

use crate::domain::outcome::Reason;
use crate::domain::result::Awaiting;

use super::awaiting::Sight;

/// What has happened to the command.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// The shell is idle, and the command's turn has come.
    Turn,
    /// The shell's own parser has read the text.
    Checked {
        /// What it lacks, in the parser's words; `None`: run it.
        incomplete: Option<String>,
    },
    /// It could not be started.
    StartFailed {
        /// What happened, and where.
        message: String,
    },
    /// The shell has been given the text.
    Started,
    /// Bytes came from the terminal.
    Output {
        /// They.
        bytes: &'a [u8],
        /// Over the second terminal: lines of the two streams are told apart.
        stderr: bool,
    },
    /// Someone sent it input.
    InputSent,
    /// A person has taken the terminal over, or has handed it back. Meanwhile the command goes on
    /// and its clock stands still; nobody is asked or answered in its name.
    Held {
        /// Taken over.
        held: bool,
    },
    /// The foreground process was looked at.
    Looked {
        /// What was seen.
        sight: Sight,
        /// The last line of the merged output, for prompts.
        last_line: &'a str,
    },
    /// The CPU time that its tree had used by now, as asked for by `Effect::SampleCpu`.
    Cpu {
        /// In ms.
        used_ms: u64,
    },
    /// A process of its tree listens on the port that shows the service to be ready.
    Listens,
    /// A deadline may have passed.
    Tick,
    /// Someone wants it ended.
    End {
        /// Why.
        reason: Reason,
    },
    /// The shell reported the command's end.
    Reported {
        /// Its status.
        status: i32,
        /// The statuses of its last pipeline, where known.
        pipe_status: Option<Vec<i32>>,
    },
    /// The shell is idle and has not reported the command's end: it never will.
    ReportLost,
    /// The shell's process is gone.
    ShellGone {
        /// How.
        fate: Fate,
    },
    /// While it is being ended: what is left of its tree.
    Tree {
        /// How many processes of it live.
        left: usize,
    },
}

/// How a process ended, as `waitpid` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// With a status.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

/// What the machine asks for.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Effect {
    /// Let the shell's own parser read the text, then say `Checked`.
    Check,
    /// Give the text to the shell, then say `Started` or `StartFailed`.
    Start,
    /// Write to the terminal at which it waits.
    Send {
        /// Byte for byte.
        text: String,
    },
    /// Tell the coordinator that it waits.
    TellAwaiting {
        /// What for.
        awaiting: Awaiting,
    },
    /// Tell the coordinator that it no longer does.
    TellResumed,
    /// Tell the coordinator that a question was answered.
    TellAnswered {
        /// The question.
        prompt: String,
    },
    /// Tell the coordinator that the service is ready.
    TellReady,
    /// Say `Cpu` with what its tree has used so far.
    SampleCpu,
    /// Interrupt the foreground group, as Ctrl-C would.
    Interrupt,
    /// Ask every process of its tree to end, stopped ones too.
    Terminate,
    /// Kill every process of its tree.
    Kill,
    /// Kill the shell as well: the session ends.
    KillShell,
    /// The shell stands at a prompt of its own: bring it back into the driver's loop.
    Nudge,
    /// It is over: read what is left of its output, then take `Command::end`.
    Finish,
}
