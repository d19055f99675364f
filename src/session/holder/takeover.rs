//! A take-over: a person at the session's own shell (design, section 4.4).
//!
//! ```text
//!   watching ──▶ entering ──▶ at the prompt ──▶ leaving ──▶ over
//!   (a command runs)                            (what the person runs has to end first)
//! ```
//!
//! To the shell it is a command: one that leaves the driver's loop for bash's own prompt, and whose
//! end is reported by the loop's next beginning. Commands and the agent's input wait meanwhile.

use rustix::process::Signal;

use crate::command::event::Event;
use crate::domain::ids::CommandId;
use crate::domain::key::{Refused, Written};
use crate::domain::outcome::Reason;
use crate::domain::result::Note;
use crate::domain::session::Size;
use crate::domain::session::{CommandSpec, Limit, Shell};
use crate::session::wire::{Ask, FactBody};

use super::super::driver;
use super::session::{Session, Started};

/// How long the shell may take from its loop to the prompt, and from there into the loop.
const STEP_MS: u64 = 5_000;
/// What waits for the hand-back: more of an agent's input is refused.
const WAITING_MAX: usize = 256;

/// A person's stay.
pub(super) struct TakeOver {
    pub(super) id: CommandId,
    pub(super) by: String,
    pub(super) number: u32,
    pub(super) started: Started,
    pub(super) stage: Stage,
    /// It was handed back before it had come to the prompt.
    pub(super) leave: bool,
    /// The agent's input.
    pub(super) waiting: Vec<Ask>,
    /// The queue: until when each command waits, and its limit.
    limits: Vec<(CommandId, u64, u64)>,
    /// Taken over again before the shell was back.
    pub(super) again: Option<(CommandId, String)>,
    /// What the person runs is to be ended: the next signal, and when.
    pub(super) end: Option<(Signal, u64)>,
}

/// How far a stay has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// A command runs, or the shell is not ready yet.
    Watching,
    /// On its way from the loop to the prompt.
    Entering { until_ms: u64 },
    /// The person has the prompt.
    AtPrompt,
    /// Back in the loop, it is told to leave it once more: readline is turned off at the prompt.
    Closing { until_ms: u64 },
    /// Handed back: the prompt gives way once nothing of the person's is in front.
    Leaving {
        since_ms: u64,
        due_ms: u64,
        /// When it was last told to give way, and how often.
        told_ms: Option<u64>,
        words: u32,
    },
}

impl TakeOver {
    /// True where the shell's output is that of this stay.
    pub(super) fn is_at_shell(&self) -> bool {
        self.stage != Stage::Watching
    }

    /// When it has something to do.
    pub(super) fn due(&self) -> Option<u64> {
        let stage = match self.stage {
            Stage::Watching | Stage::AtPrompt => None,
            Stage::Entering { until_ms } | Stage::Closing { until_ms } => Some(until_ms),
            Stage::Leaving { due_ms, .. } => Some(due_ms),
        };
        let limits = self.limits.iter().map(|&(_, due_ms, _)| due_ms);
        limits.chain(stage).chain(self.end.map(|(_, due_ms)| due_ms)).min()
    }

    fn limit(&mut self, spec: &CommandSpec, now_ms: u64) {
        // Who waits neither prints nor works: no heartbeat gives it more.
        if let Limit::Exact { ms } | Limit::Heartbeat { ms, .. } = spec.limit {
            self.limits.push((spec.id.clone(), now_ms.saturating_add(ms), ms));
        }
    }
}

impl Session {
    /// The window of whoever is at the terminal has another size.
    pub(super) fn resize(&mut self, size: Size) {
        // A terminal that cannot be resized keeps its size; the session goes on.
        drop(self.main.resize(size));
        drop(self.stderr.resize(size));
        self.spec.size = size;
        self.capture.resized(size, self.clock.micros());
        self.answers.resized();
    }

    /// A person wants the shell.
    pub(super) fn take_over(&mut self, id: CommandId, by: String, now_ms: u64) {
        if let Some(stay) = &mut self.takeover {
            let leaves = matches!(stay.stage, Stage::Leaving { .. } | Stage::Closing { .. });
            if leaves || stay.leave {
                stay.again = Some((id, by));
            } else {
                let message = "the session is taken over already".to_owned();
                self.tell_not_taken(id, Reason::StartFailed { message });
            }
            return;
        }
        if self.closing.is_some() {
            return self.tell_not_taken(id, Reason::SessionClosed);
        }
        if self.spec.shell != Shell::Bash {
            let message = format!(
                "a session's own shell can be taken over where it is bash; this one is {}",
                self.spec.shell.name()
            );
            return self.tell_not_taken(id, Reason::StartFailed { message });
        }
        self.read_terminals(now_ms);
        self.begun += 1;
        self.capture.cut();
        if self.active.is_none() {
            self.begin_quota(now_ms);
        }
        let started = Started {
            at: self.clock.stamp(now_ms),
            at_ms: now_ms,
            raw: self.capture.raw_end(),
            idx: self.capture.idx_end(),
        };
        let during = self.active.as_ref().map(|active| active.command.spec().id.clone());
        let mut stay = TakeOver {
            id: id.clone(),
            by: by.clone(),
            number: self.begun,
            started,
            stage: Stage::Watching,
            leave: false,
            waiting: Vec::new(),
            limits: Vec::new(),
            again: None,
            end: None,
        };
        for queued in &self.queue {
            stay.limit(queued.spec(), now_ms);
        }
        self.takeover = Some(stay);
        let (at, offset) = (started.at, started.raw);
        self.facts.push(FactBody::Started { command: id.clone(), at, offset });
        self.facts.push(FactBody::TakenOver { command: id, by, during });
        self.feed(Event::Held { held: true }, now_ms);
    }

    fn tell_not_taken(&mut self, id: CommandId, reason: Reason) {
        self.tell_never_ran(id, true, reason, Vec::new());
    }

    /// Keeps what has to wait for the hand-back; gives back what need not.
    pub(super) fn keep_waiting(&mut self, ask: Ask, now_ms: u64) -> Option<Ask> {
        let Some(stay) = &mut self.takeover else { return Some(ask) };
        match &ask {
            Ask::Input { .. } if stay.waiting.len() < WAITING_MAX => stay.waiting.push(ask),
            Ask::Input { request, .. } => {
                let written = Written { written: 0, refused: Some(Refused::Claimed) };
                self.facts.push(FactBody::Input { request: *request, written });
            }
            Ask::Run { spec } => {
                stay.limit(spec, now_ms);
                return Some(ask);
            }
            Ask::End { command, .. } if *command == stay.id => {
                stay.end = Some((Signal::INT, now_ms));
                self.hand_back(now_ms);
            }
            _ => return Some(ask),
        }
        None
    }

    /// What a person types, as it is typed.
    pub(super) fn take_typing(&mut self, bytes: &[u8], now_ms: u64) {
        if self.active.as_ref().is_some_and(|active| active.started.is_some()) {
            self.feed(Event::InputSent, now_ms);
            self.send(bytes, self.looks.at_stderr(), now_ms);
            self.looks.soon(now_ms);
        } else if self.takeover.is_some() {
            self.send(bytes, false, now_ms);
        }
    }

    /// Lets the shell out of its loop, once it is idle.
    pub(super) fn enter_prompt(&mut self, now_ms: u64) {
        let watching = self.takeover.as_ref().is_some_and(|stay| stay.stage == Stage::Watching);
        let free = self.active.is_none() && self.closing.is_none();
        if !watching || !free || !self.shell.is_ready(now_ms) {
            return;
        }
        self.read_terminals(now_ms);
        self.tree.begin();
        self.leave_loop(driver::FIRST_LINE, Stage::Entering { until_ms: now_ms + STEP_MS }, now_ms);
    }

    /// Lets the shell out of its loop to read `line` at its prompt.
    fn leave_loop(&mut self, line: &[u8], stage: Stage, now_ms: u64) {
        // Readline does not show what it reads of a terminal without echo.
        self.main.set_echo(false);
        self.send(line, false, now_ms);
        if let Err(error) = self.shell.give(None, true, driver::LEAVE_LOOP) {
            let message = format!("the shell cannot be told: {error}");
            return self.end_stay(Err(Reason::StartFailed { message }), now_ms);
        }
        if let Some(stay) = &mut self.takeover {
            stay.stage = stage;
        }
    }

    /// The shell has said something while a person has it. True when it was for the stay.
    pub(super) fn stay_hears(&mut self, ended: bool, now_ms: u64) -> bool {
        let Some(stay) = self.takeover.as_mut().filter(|stay| stay.is_at_shell()) else {
            return false;
        };
        match stay.stage {
            Stage::Entering { .. } if ended => {
                self.main.discard_input();
                let message = "the shell does not leave its loop".to_owned();
                self.end_stay(Err(Reason::StartFailed { message }), now_ms);
            }
            Stage::Entering { .. } if self.shell.may_be_given_again() => {
                stay.stage = Stage::AtPrompt;
                let leave = stay.leave;
                self.read_terminals(now_ms);
                self.main.restore_modes();
                self.capture.begin();
                // A shell that is gone by now is seen to be.
                drop(self.shell.say_go());
                if leave {
                    self.hand_back(now_ms);
                }
            }
            Stage::Closing { .. } if ended => self.end_stay(Ok(()), now_ms),
            _ if ended => {
                // Whatever was typed is not for what comes now.
                self.flush_input(&Refused::Ended);
                self.main.discard_input();
                let stage = Stage::Closing { until_ms: now_ms + STEP_MS };
                self.leave_loop(driver::LAST_LINE, stage, now_ms);
            }
            _ => {}
        }
        true
    }

    /// Commands wait for the hand-back at most their own limit.
    pub(super) fn expire_queue(&mut self, now_ms: u64) {
        while let Some(stay) = &mut self.takeover {
            let late = stay.limits.iter().position(|&(_, due_ms, _)| due_ms <= now_ms);
            let Some((id, _, limit_ms)) = late.map(|index| stay.limits.remove(index)) else {
                return;
            };
            let queued = self.queue.iter().position(|queued| queued.spec().id == id);
            if let Some(queued) = queued.and_then(|index| self.queue.remove(index)) {
                self.tell_unstarted(queued.spec(), Reason::Total { limit_ms });
            }
        }
    }

    /// Who has the session, as a remark on what ends meanwhile.
    pub(super) fn stay_note(&self) -> Option<Note> {
        self.takeover.as_ref().map(|stay| Note::TakenOver { by: stay.by.clone() })
    }
}
