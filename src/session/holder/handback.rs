//! The end of a take-over: the shell is brought back into the driver's loop, and the stay is told.

use rustix::process::Signal;

use crate::command::awaiting::Sight;
use crate::command::event::{Event, Fate};
use crate::command::outcome::of_fate;
use crate::domain::outcome::{CommandState, Reason};
use crate::domain::result::{Evidence, Note};
use crate::session::wire::{CommandEnd, FactBody, Span};

use super::super::driver;
use super::super::os::process;
use super::probe::View;
use super::session::Session;
use super::takeover::{Stage, TakeOver};

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
/// From one step of ending a person's program to the next.
const END_STEP_MS: u64 = 1_000;

impl Session {
    /// The person has gone, or wants no more.
    pub(super) fn hand_back(&mut self, now_ms: u64) {
        let Some(stay) = &mut self.takeover else { return };
        match stay.stage {
            Stage::Watching => self.end_stay(Ok(()), now_ms),
            Stage::Entering { .. } => stay.leave = true,
            Stage::Leaving { .. } | Stage::Closing { .. } => stay.again = None,
            Stage::AtPrompt => {
                stay.stage =
                    Stage::Leaving { since_ms: now_ms, due_ms: now_ms, told_ms: None, words: 0 };
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
            words if words <= WORDS_MAX => self.send(driver::NUDGE_AT_PROMPT, false, now_ms),
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
        match view.look(&[]).0.sight {
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
            let tracer = &mut self.tracer;
            children = self.tree.end(false, &self.shell.path, &mut || tracer.serve(now_ms));
            notes.extend(self.put_terminals_right());
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
            unstored: Vec::new(),
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
