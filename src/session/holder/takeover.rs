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

use crate::command::awaiting::Sight;
use crate::command::event::{Event, Fate};
use crate::command::outcome::of_fate;
use crate::domain::ids::CommandId;
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::{Evidence, Note};
use crate::domain::session::{CommandSpec, Limit};
use crate::session::wire::{Ask, CommandEnd, FactBody, Span};

use super::super::driver;
use super::super::os::process;
use super::probe::View;
use super::session::{Session, Started};

/// How long the shell may take from its loop to the prompt, and from there into the loop.
const STEP_MS: u64 = 5_000;
/// How often a shell on its way back is looked at.
const LOOK_EVERY_MS: u64 = 10;
/// And where a person's program keeps it.
const LOOK_LATER_MS: u64 = 250;
/// From then on less often.
const LOOK_LATER_AFTER_MS: u64 = 1_000;
/// How long a prompt may take to give way before it is told otherwise.
const GIVE_WAY_MS: u64 = 300;
/// A prompt that does not give way after so many words never does.
const WORDS_MAX: u32 = 10;
/// What waits for the hand-back: more of an agent's input is refused.
const WAITING_MAX: usize = 256;
/// From one step of ending a person's program to the next.
const END_STEP_MS: u64 = 1_000;

/// A person's stay.
pub(super) struct TakeOver {
    id: CommandId,
    by: String,
    pub(super) number: u32,
    started: Started,
    stage: Stage,
    /// It was handed back before it had come to the prompt.
    leave: bool,
    /// The agent's input.
    waiting: Vec<Ask>,
    /// The queue: until when each command waits, and its limit.
    limits: Vec<(CommandId, u64, u64)>,
    /// Taken over again before the shell was back.
    again: Option<(CommandId, String)>,
    /// What the person runs is to be ended: the next signal, and when.
    end: Option<(Signal, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A command runs, or the shell is not ready yet.
    Watching,
    Entering {
        until_ms: u64,
    },
    AtPrompt,
    /// Back in the loop, it is told to leave it once more: readline is turned off at the prompt.
    Closing {
        until_ms: u64,
    },
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
        self.read_terminals(now_ms);
        self.begun += 1;
        self.capture.cut();
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
        let (raw, idx) = (self.capture.raw_end(), self.capture.idx_end());
        let end = Box::new(CommandEnd {
            command: id,
            state: CommandState::Failed,
            reason: Some(reason),
            exit_code: None,
            pipe_status: None,
            cwd: self.shell.cwd().0,
            started_at: None,
            duration_ms: 0,
            children: Vec::new(),
            notes: Vec::new(),
            awaiting: None,
            span: Span { raw_start: raw, raw_end: raw, idx_start: idx, idx_end: idx },
            merged: true,
        });
        self.facts.push(FactBody::Ended { end });
    }

    /// Keeps what has to wait for the hand-back; gives back what need not.
    pub(super) fn keep_waiting(&mut self, ask: Ask, now_ms: u64) -> Option<Ask> {
        let Some(stay) = &mut self.takeover else { return Some(ask) };
        match &ask {
            Ask::Input { .. } if stay.waiting.len() < WAITING_MAX => stay.waiting.push(ask),
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
            self.send(bytes, self.looks.is_at_stderr());
            self.looks.soon(now_ms);
        } else if self.takeover.is_some() {
            self.send(bytes, false);
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
        self.send(line, false);
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
                self.input.discard();
                self.main.discard_input();
                let stage = Stage::Closing { until_ms: now_ms + STEP_MS };
                self.leave_loop(driver::LAST_LINE, stage, now_ms);
            }
            _ => {}
        }
        true
    }

    /// The person has gone, or wants no more.
    pub(super) fn hand_back(&mut self, now_ms: u64) {
        let Some(stay) = &mut self.takeover else { return };
        match stay.stage {
            Stage::Watching => self.end_stay(Ok(()), now_ms),
            Stage::Entering { .. } => stay.leave = true,
            Stage::Leaving { .. } | Stage::Closing { .. } => stay.again = None,
            Stage::AtPrompt => {
                stay.stage = Stage::Leaving {
                    since_ms: now_ms,
                    due_ms: now_ms,
                    told_ms: None,
                    words: 0,
                };
                // The next prompt finds the word and takes it, whoever causes it.
                if self.shell.give(None, true, driver::HAND_BACK).is_err() {
                    self.end_stay(Err(Reason::ShellReplaced), now_ms);
                    self.close(now_ms);
                }
            }
        }
    }

    /// What is due.
    pub(super) fn tend_stay(&mut self, now_ms: u64) {
        self.expire_queue(now_ms);
        self.end_persons_program(now_ms);
        let Some(stay) = &self.takeover else { return };
        match stay.stage {
            Stage::Entering { until_ms } | Stage::Closing { until_ms } if until_ms <= now_ms => {
                // Where it stands nobody knows.
                self.end_stay(Err(Reason::ShellReplaced), now_ms);
                self.close(now_ms);
            }
            Stage::Leaving { due_ms, .. } if due_ms <= now_ms => self.look_for_prompt(now_ms),
            _ => {}
        }
    }

    /// A prompt that stands there gives way. Anything else that runs has its time.
    fn look_for_prompt(&mut self, now_ms: u64) {
        let at_prompt = self.stands_at_prompt();
        let Some(stay) = &mut self.takeover else { return };
        let Stage::Leaving { since_ms, due_ms, told_ms, words } = &mut stay.stage else { return };
        let late = now_ms.saturating_sub(*since_ms) > LOOK_LATER_AFTER_MS;
        *due_ms = now_ms + if late { LOOK_LATER_MS } else { LOOK_EVERY_MS };
        if !at_prompt || told_ms.is_some_and(|told| now_ms < told + GIVE_WAY_MS) {
            return;
        }
        *told_ms = Some(now_ms);
        *words += 1;
        match *words {
            // What is half typed is dropped, as by Ctrl-C.
            1 => self.signal_shell(Signal::INT),
            // It has a PROMPT_COMMAND of its own, or ignores interrupts.
            words if words <= WORDS_MAX => self.send(driver::NUDGE_AT_PROMPT, false),
            _ => {
                self.end_stay(Err(Reason::ShellReplaced), now_ms);
                self.close(now_ms);
            }
        }
    }

    /// The shell itself is in front and waits for a line.
    fn stands_at_prompt(&self) -> bool {
        if self.main.foreground() != Some(self.shell.pid) {
            return false;
        }
        let shell = self.shell.pid;
        let view = View {
            main: &self.main,
            stderr: &self.stderr,
            shell,
            shell_program: self.shell.program,
        };
        match view.look(&[]).sight {
            Sight::ShellPrompt => true,
            Sight::Waits(wait) => wait.evidence == Evidence::TtyPoll && wait.token.0 == shell,
            Sight::Busy | Sight::Hidden { .. } => false,
        }
    }

    /// A person's program that somebody wants ended: the foreground, unless it is the shell.
    fn end_persons_program(&mut self, now_ms: u64) {
        let Some(stay) = &mut self.takeover else { return };
        let Some((signal, _)) = stay.end.filter(|&(_, due_ms)| due_ms <= now_ms) else { return };
        let next = if signal == Signal::INT { Signal::TERM } else { Signal::KILL };
        stay.end = Some((next, now_ms + END_STEP_MS));
        match self.main.foreground() {
            Some(group) if group != self.shell.pid => {
                process::signal_group(group, signal);
                process::signal_group(group, Signal::CONT);
            }
            _ => stay.end = None,
        }
    }

    /// Commands wait for the hand-back at most their own limit.
    fn expire_queue(&mut self, now_ms: u64) {
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

    /// The person has ended the shell.
    pub(super) fn stay_lost_shell(&mut self, fate: Fate, now_ms: u64) {
        if self.takeover.as_ref().is_some_and(TakeOver::is_at_shell) {
            let (state, reason, exit_code) = match self.closing {
                Some(_) => (CommandState::Failed, Some(Reason::SessionClosed), None),
                None => of_fate(fate),
            };
            self.tell_stay(state, reason, exit_code, true, now_ms);
        }
    }

    /// The stay is over: it is told, and what has waited for its end goes on.
    pub(super) fn end_stay(&mut self, how: Result<(), Reason>, now_ms: u64) {
        let (state, reason) = match how {
            Ok(()) => (CommandState::Completed, None),
            Err(reason) => (CommandState::Failed, Some(reason)),
        };
        self.tell_stay(state, reason, None, false, now_ms);
    }

    fn tell_stay(
        &mut self,
        state: CommandState,
        reason: Option<Reason>,
        exit_code: Option<i32>,
        session_ended: bool,
        now_ms: u64,
    ) {
        if self.takeover.as_ref().is_some_and(TakeOver::is_at_shell) {
            self.read_terminals(now_ms);
        }
        let note = self.stay_note();
        let Some(stay) = self.takeover.take() else { return };
        let mut notes: Vec<Note> = note.into_iter().collect();
        let mut children = Vec::new();
        if stay.is_at_shell() {
            children = self.tree.end(false, &self.shell.path);
            let discarded = self.put_terminals_right();
            if discarded > 0 {
                notes.push(Note::InputDiscarded { bytes: discarded });
            }
        }
        if session_ended {
            notes.push(Note::SessionEnded);
        }
        if children.iter().any(|child| !child.ended) {
            self.ports.watch_leftovers(now_ms);
        }
        let (cwd, exists) = self.shell.cwd();
        if !exists {
            notes.push(Note::CwdMissing { path: cwd.clone() });
        }
        self.end_is_told();
        let started = stay.started;
        let end = Box::new(CommandEnd {
            command: stay.id.clone(),
            state,
            reason,
            exit_code,
            pipe_status: None,
            cwd,
            started_at: Some(started.at),
            duration_ms: now_ms.saturating_sub(started.at_ms),
            children,
            notes,
            awaiting: None,
            span: Span {
                raw_start: started.raw,
                raw_end: self.capture.raw_end(),
                idx_start: started.idx,
                idx_end: self.capture.idx_end(),
            },
            merged: true,
        });
        self.facts.push(FactBody::Ended { end });
        self.facts.push(FactBody::HandedBack { command: stay.id });
        self.capture.cut();
        self.feed(Event::Held { held: false }, now_ms);
        for ask in stay.waiting {
            self.asked(ask, now_ms);
        }
        if let Some((id, by)) = stay.again {
            self.take_over(id, by, now_ms);
        }
    }
}
