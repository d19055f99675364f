//! What the coordinator and a holder say to each other. Each document is one frame
//! (`domain::frame`) on the Unix socket that the holder was born with.

use serde::{Deserialize, Serialize};

use crate::domain::conflict::Touches;
use crate::domain::ids::CommandId;
use crate::domain::key::{Input, Written};
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::process::ProcessIdentity;
use crate::domain::result::{Awaiting, Child, Note, Touched};
use crate::domain::session::{CommandSpec, SessionSpec, Size};
use crate::domain::time::Timestamp;

/// What the coordinator asks of a holder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Always the first: what the session is made of.
    Open {
        /// The session.
        spec: Box<SessionSpec>,
    },
    /// Run a command once those before it have ended.
    Run {
        /// The command.
        spec: CommandSpec,
    },
    /// Input for the running command. `FactBody::Input` is the receipt.
    Input {
        /// The receipt's name, the coordinator's to choose.
        request: u64,
        /// Only while this command runs; any otherwise.
        command: Option<CommandId>,
        /// What to send.
        input: Input,
    },
    /// End a command's tree; a queued one is dropped.
    End {
        /// Which.
        command: CommandId,
        /// Why: it becomes the command's reason (`Interrupted`, `Conflict`, `AwaitingInput` …).
        reason: Reason,
    },
    /// A person takes the shell over: its own prompt, once the running command has ended. Commands
    /// and input wait meanwhile. To the session's history it is a command: `Started`, `TakenOver`,
    /// `Ended`, `HandedBack`.
    TakeOver {
        /// Its name among the commands.
        command: CommandId,
        /// Who, for people.
        by: String,
    },
    /// The person hands it back. What is half typed is dropped; what runs has its time.
    HandBack,
    /// Raw bytes that a person types: to the running command, or at the prompt.
    Type {
        /// As they come from the keyboard.
        bytes: Vec<u8>,
    },
    /// A new window size.
    Resize {
        /// The size.
        size: Size,
    },
    /// End everything in the session, then say `Closed`.
    Close,
    /// The first word of a coordinator that takes the session on from another one. An epoch that
    /// is smaller than the last is refused: its coordinator has been replaced. A holder whose
    /// coordinator is still there listens to no other: two that own one workspace cannot be.
    Adopt {
        /// The coordinator's epoch: the number of its `CoordinatorStarted` in the journal.
        epoch: u64,
    },
    /// What a traced session's processes are about to change, other live parties may hold: from now
    /// on `FactBody::MayTouch` is asked before, or not any more.
    Attend {
        /// True when others are alive.
        others: bool,
    },
    /// The answer to `FactBody::MayTouch`.
    Verdict {
        /// Which.
        request: u64,
        /// Who holds it; `None` when the call may go on.
        held_by: Option<String>,
    },
    /// Facts up to this number are on record.
    Ack {
        /// The number.
        through: u64,
    },
}

/// A numbered fact. Numbers count from 1 and have no gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Its number.
    pub seq: u64,
    /// What is so.
    pub body: FactBody,
}

/// What a holder reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactBody {
    /// The shell is there and idle.
    Opened {
        /// The holder's own pid.
        holder: i32,
        /// When it started, in clock ticks since the boot.
        #[serde(default)]
        start_time: u64,
        /// The shell's.
        shell: i32,
    },
    /// The first word of a holder to a coordinator that adopts it; its number is 0. All facts that
    /// no coordinator has acknowledged follow under their own numbers, and with them the latest
    /// command's, whether acknowledged or not.
    Present {
        /// Who and how it is.
        present: Box<Present>,
    },
    /// The session could not be opened; the holder ends.
    OpenFailed {
        /// What happened, and where.
        message: String,
    },
    /// A command began.
    Started {
        /// Which.
        command: CommandId,
        /// When.
        at: Timestamp,
        /// Where its bytes begin in `out.raw`.
        offset: u64,
    },
    /// The transcript has grown: at most one of these each 20 ms, and none while nothing grows.
    Output {
        /// The end of `out.raw`.
        end: u64,
    },
    /// A command waits for input that nothing has answered.
    Awaiting {
        /// Which.
        command: CommandId,
        /// What for.
        awaiting: Awaiting,
    },
    /// It no longer does.
    Resumed {
        /// Which.
        command: CommandId,
    },
    /// A rule or a given input answered a question.
    Answered {
        /// Which command.
        command: CommandId,
        /// The question.
        prompt: String,
    },
    /// What has become of an input: it is in the terminal's queue, or the rest of it was refused.
    Input {
        /// As it was asked.
        request: u64,
        /// How much, and why not all.
        written: Written,
    },
    /// A remark on a running command; its end repeats it.
    Noted {
        /// Which command.
        command: CommandId,
        /// The remark.
        note: Note,
    },
    /// A service's `ready` condition holds (port and log; http is the coordinator's to try).
    ServiceReady {
        /// Which command.
        command: CommandId,
    },
    /// A person has taken the session over.
    TakenOver {
        /// The take-over's own name among the commands.
        command: CommandId,
        /// Who.
        by: String,
        /// The command that runs meanwhile; its clock stands still.
        during: Option<CommandId>,
    },
    /// The session is its own again; what has waited goes on.
    HandedBack {
        /// The take-over.
        command: CommandId,
    },
    /// What the session's processes were seen to change, in order; at most one of these each 20 ms.
    Touched {
        /// What.
        touches: Touches,
    },
    /// A process of the session is about to change this, and is held until `Ask::Verdict`, for 250 ms
    /// at most: then the call goes on, and is told as inferred.
    MayTouch {
        /// The verdict's name.
        request: u64,
        /// Its command, if one runs.
        command: Option<CommandId>,
        /// What.
        touched: Touched,
    },
    /// The ports on which the session's processes listen have changed.
    Listening {
        /// All of them, as they are now.
        ports: Vec<Listener>,
    },
    /// A command ended; what was to end with it is gone.
    Ended {
        /// How.
        end: Box<CommandEnd>,
    },
    /// The session is over and its tree gone.
    Closed {
        /// Processes that could not be ended (another uid, uninterruptible), by pid.
        survivors: Vec<Child>,
    },
}

/// Version of what a coordinator and the holders of an earlier one say to each other.
pub const LINK_VERSION: u32 = 1;

/// A holder as it introduces itself to a coordinator that it was not born with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Present {
    /// `LINK_VERSION` of the holder.
    pub version: u32,
    /// What the session was made of.
    pub spec: SessionSpec,
    /// The holder.
    pub holder: ProcessIdentity,
    /// The shell's pid, once it is there.
    pub shell: Option<i32>,
    /// The commands that it was given, oldest first: the latest that have ended, the one that runs,
    /// and those that wait. Texts of ended ones are left out where they are too much.
    pub commands: Vec<KnownCommand>,
    /// The end of `out.raw`.
    pub end: u64,
    /// The ports that its processes listen on.
    pub ports: Vec<Listener>,
    /// True while everything in it is being ended.
    pub closing: bool,
    /// True when that was asked for; otherwise its shell has ended.
    #[serde(default)]
    pub told_to_close: bool,
}

/// A command that a holder was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownCommand {
    /// Its id.
    pub command: CommandId,
    /// Its text.
    pub text: String,
    /// The client's own name for it.
    pub ticket: Option<String>,
}

/// A listening socket of the session's tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Listener {
    /// The address it is bound to, as in `127.0.0.1` or `::`.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The process that holds it.
    pub pid: i32,
}

/// How a command ended, and where in the transcript it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// Which.
    pub command: CommandId,
    /// `completed`, `failed` or `timeout`.
    pub state: CommandState,
    /// Why it did not complete.
    pub reason: Option<Reason>,
    /// The shell's status, where known.
    pub exit_code: Option<i32>,
    /// The statuses of the last pipeline, where known.
    pub pipe_status: Option<Vec<i32>>,
    /// The shell's working directory afterwards. As `shown_path` writes it.
    pub cwd: String,
    /// When it started; `None` when it never did.
    pub started_at: Option<Timestamp>,
    /// How long it took.
    pub duration_ms: u64,
    /// What it left behind, or what was ended with it.
    pub children: Vec<Child>,
    /// Remarks.
    pub notes: Vec<Note>,
    /// What it waited for when it was ended.
    pub awaiting: Option<Awaiting>,
    /// Its part of the transcript.
    pub span: Span,
    /// True when both streams came over one terminal.
    pub merged: bool,
    /// Output that could not be stored, as far as it was kept in memory: its first and last bytes.
    /// Empty but for a disk that is full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unstored: Vec<Unstored>,
}

/// A piece of output that is not in `out.raw`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unstored {
    /// Where it would be.
    pub offset: u64,
    /// It came over the second terminal.
    pub stderr: bool,
    /// The bytes; each is written as the character of that number.
    #[serde(with = "bytes_as_chars")]
    pub bytes: Vec<u8>,
}

mod bytes_as_chars {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&bytes.iter().map(|&byte| char::from(byte)).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = text.chars().map(u8::try_from).collect::<Result<_, _>>();
        bytes.map_err(|_| serde::de::Error::custom("a character that stands for no byte"))
    }
}

/// A command's part of a session's transcript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// First byte in `out.raw`.
    pub raw_start: u64,
    /// End in `out.raw`.
    pub raw_end: u64,
    /// First byte in `out.idx`.
    pub idx_start: u64,
    /// End in `out.idx`.
    pub idx_end: u64,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A command that completed.
    pub(in crate::session) fn end(command: &str) -> CommandEnd {
        CommandEnd {
            command: command.into(),
            state: CommandState::Completed,
            reason: None,
            exit_code: Some(0),
            pipe_status: None,
            cwd: "/".to_owned(),
            started_at: None,
            duration_ms: 1,
            children: Vec::new(),
            notes: Vec::new(),
            awaiting: None,
            span: Span::default(),
            merged: false,
            unstored: Vec::new(),
        }
    }

    /// A holder's first word.
    pub(in crate::session) fn present() -> Present {
        let spec = SessionSpec {
            traced: false,
            root: None,
            id: "s-1".into(),
            cwd: "/".into(),
            env: Vec::new(),
            shell: Default::default(),
            profile: None,
            size: Size::default(),
            transcript: "/t".into(),
            tmp: "/tmp".into(),
            policy: Vec::new(),
            limits: Default::default(),
            parent: None,
            owner: crate::domain::session::SessionOwner::Call,
            door: "/h".into(),
            patience_ms: 1,
        };
        let holder =
            ProcessIdentity { pid: 1, start_time: 1, boot_id: "b".to_owned(), pid_namespace: 1 };
        Present {
            version: LINK_VERSION,
            spec,
            holder,
            shell: None,
            commands: Vec::new(),
            end: 0,
            ports: Vec::new(),
            closing: false,
            told_to_close: false,
        }
    }

    #[test]
    fn unstored_bytes_come_back_as_they_were() {
        let unstored = Unstored { offset: 7, stderr: true, bytes: (0..=255).collect() };
        let text = serde_json::to_string(&unstored).unwrap();
        assert_eq!(serde_json::from_str::<Unstored>(&text).unwrap(), unstored);
        let wide = r#"{"offset":7,"stderr":false,"bytes":"€"}"#;
        assert!(serde_json::from_str::<Unstored>(wide).is_err());
    }
}
