//! What the command's machine asks for, done.

use rustix::process::Signal;

use crate::command::event::{Effect, Event};
use crate::domain::key::Refused;
use crate::domain::plan::Ready;
use crate::session::wire::FactBody;

use super::super::os::process;
use super::checker::Checker;
use super::modes::Modes;
use super::proc::{self, Process};
use super::session::{Session, Started};
use super::tree::signal_all;

/// How long an interrupt waits for the shell to be blocked.
const SAFE_WAIT_MS: u64 = 50;
/// How often a tree that is being ended is looked at.
const TREE_EVERY_MS: u64 = 5;
impl Session {
    /// Does what the machine asks.
    pub(super) fn perform(&mut self, effect: Effect, now_ms: u64) {
        let Some(active) = &self.active else { return };
        let command = active.command.spec().id.clone();
        match effect {
            Effect::Check => self.check(now_ms),
            Effect::Start => self.start(now_ms),
            Effect::Send { text } => {
                // Fed once the machine has done: it is told what was written.
                self.send_answer(&text, now_ms);
                self.looks.soon(now_ms);
            }
            Effect::TellAwaiting { awaiting } => {
                self.facts.push(FactBody::Awaiting { command, awaiting });
            }
            Effect::TellResumed => self.facts.push(FactBody::Resumed { command }),
            Effect::TellAnswered { prompt } => {
                self.facts.push(FactBody::Answered { command, prompt });
            }
            Effect::TellReady => self.facts.push(FactBody::ServiceReady { command }),
            Effect::SampleCpu => {
                let used_ms = self.cpu_ms();
                self.feed(Event::Cpu { used_ms }, now_ms);
            }
            Effect::Interrupt => {
                self.tree.note_ended(&self.tree.born());
                self.flush_input(&Refused::Ended);
                self.interrupt_soon(now_ms);
            }
            Effect::Terminate => self.end_tree(Signal::TERM, now_ms),
            Effect::Kill => self.end_tree(Signal::KILL, now_ms),
            Effect::KillShell => self.signal_shell(Signal::KILL),
            Effect::Nudge => {
                // Nothing of it may be seen; the boundary puts the echo back.
                self.main.set_echo(false);
                // A terminal that takes nothing more has a line to end the prompt with.
                let _ = rustix::io::write(&self.main.master, self.shell.table.nudge);
            }
            Effect::Finish => self.finish(now_ms),
        }
    }

    /// Interrupts the foreground group at the next good moment.
    pub(super) fn interrupt_soon(&mut self, now_ms: u64) {
        self.interrupt_by_ms = Some(now_ms + SAFE_WAIT_MS);
        self.interrupt(now_ms);
        self.tree_due_ms = Some(now_ms + 1);
        self.looks.soon(now_ms);
    }

    /// Interrupts the foreground group. An interrupt that falls while bash parses can leave it with
    /// the end of the parsed text for its input, and it goes. So where the shell itself is meant, a
    /// moment is waited for at which it is blocked: a command that is over so soon needs none.
    pub(super) fn interrupt(&mut self, now_ms: u64) {
        let Some(by_ms) = self.interrupt_by_ms else { return };
        let Some(group) = self.main.foreground() else { return };
        let is_shell = group == self.shell.pid;
        if is_shell && now_ms < by_ms && !self.shell.is_interruptible() {
            return;
        }
        self.interrupt_by_ms = None;
        if is_shell {
            self.shell.note_interrupt();
        }
        // What comes from here on may be bash's remark on the interrupt.
        self.read_terminals(now_ms);
        self.newline.expect();
        // The terminal's own signal reaches what we may not signal, but also whoever has become the
        // foreground group in the meantime: the shell, at a bad moment.
        let is_foreign = |member: &Process| member.group == group && !member.is_ours();
        let foreign = !is_shell && self.tree.everything().iter().any(is_foreign);
        if !(foreign && self.main.interrupt()) {
            process::signal_group(group, Signal::INT);
        }
        // One that is stopped has to go on to notice.
        process::signal_group(group, Signal::CONT);
        self.interrupted_group = Some(group);
    }

    /// The interrupt may have fallen between two programs of a loop: the next one gets it, too, as
    /// from a person who presses Ctrl-C again. In a session that is closed the next one is its exit
    /// trap's.
    fn interrupt_again(&mut self) {
        if self.closing.is_some() {
            return;
        }
        let Some(group) = self.main.foreground() else { return };
        let is_next = group != self.shell.pid && self.interrupted_group != Some(group);
        let interrupted = self.active.as_ref().is_some_and(|a| a.command.is_interrupted());
        if is_next && interrupted && self.interrupt_by_ms.is_none() {
            self.interrupted_group = Some(group);
            process::signal_group(group, Signal::INT);
        }
    }

    fn check(&mut self, now_ms: u64) {
        let Some(active) = &self.active else { return };
        match Checker::start(
            self.shell.table,
            &self.shell.path,
            &active.command.spec().text,
            now_ms,
        ) {
            Ok(checker) => {
                self.tree.own(checker.pid);
                self.checker = Some(checker);
            }
            // The shell itself will find whatever is wrong with the text.
            Err(_) => self.feed(Event::Checked { incomplete: None }, now_ms),
        }
    }

    fn start(&mut self, now_ms: u64) {
        // Whatever earlier jobs have printed by now is not this command's.
        self.read_terminals(now_ms);
        self.begin_quota(now_ms);
        let Some(active) = &mut self.active else { return };
        let spec = active.command.spec();
        // A job of an earlier command may have changed them since the boundary.
        self.modes = Modes::default();
        self.main.restore_modes();
        self.stderr.restore_modes();
        // Before the shell has the text: from then on its processes are the command's.
        self.tree.begin();
        self.tracer.begin(&spec.id, now_ms);
        self.facts.append(&mut self.tracer.take_facts());
        let missing = spec.cwd.as_ref().filter(|cwd| !cwd.is_dir());
        let given = match missing {
            Some(cwd) => Err(format!("no folder {}", cwd.display())),
            None => self
                .shell
                .give(spec.cwd.as_deref(), spec.merge, &spec.text)
                .map_err(|error| format!("the text cannot be given to the shell: {error}")),
        };
        if let Err(message) = given {
            self.feed(Event::StartFailed { message }, now_ms);
            return;
        }
        self.begun += 1;
        self.capture.begin();
        self.answers.begin();
        active.number = self.begun;
        let (raw, idx) = (self.capture.raw_end(), self.capture.idx_end());
        let at = self.clock.stamp(now_ms);
        active.started = Some(Started { at, at_ms: now_ms, raw, idx });
        let command = spec.id.clone();
        let service = spec.ready.clone();
        self.facts.push(FactBody::Started { command, at, offset: raw });
        self.looks.soon(now_ms);
        if let Some(ready) = service {
            self.ports.watch_service(matches!(ready, Ready::Port(_)), now_ms);
        }
        self.feed(Event::Started, now_ms);
    }

    /// Looks at what is left of a tree that is being ended.
    pub(super) fn look_at_tree(&mut self, now_ms: u64) {
        if !self.active.as_ref().is_some_and(|active| active.command.is_ending()) {
            // An interrupt that was typed waits for its moment.
            self.interrupt(now_ms);
            self.tree_due_ms = self.interrupt_by_ms.map(|_| now_ms + 1);
            return;
        }
        self.tree_due_ms = Some(now_ms + TREE_EVERY_MS);
        self.interrupt(now_ms);
        self.interrupt_again();
        let left = self.tree.born();
        self.tree.note_ended(&left);
        self.feed(Event::Tree { left: left.len() }, now_ms);
    }

    fn end_tree(&mut self, signal: Signal, now_ms: u64) {
        // Named by what they became, not by the shell that forked them.
        let born = match signal {
            Signal::KILL => self.tree.born(),
            _ => self.tree.settled(&self.shell.path, &mut || self.tracer.serve(now_ms)),
        };
        self.tree.note_ended(&born);
        signal_all(&born, signal);
        self.tree_due_ms = Some(now_ms + 1);
    }

    /// Brings a shell back that stands at a prompt of its own with no command open. Not by way of
    /// the input: what is written there belongs to a command.
    pub(super) fn nudge_shell(&mut self, now_ms: u64) {
        match self.shell.nudge(now_ms) {
            Ok(Some(text)) => {
                self.main.set_echo(false);
                // What is not taken is told again.
                let _ = rustix::io::write(&self.main.master, text);
            }
            Ok(None) => {}
            Err(()) => self.signal_shell(Signal::KILL),
        }
    }

    /// Sends the shell a signal.
    pub(super) fn signal_shell(&self, signal: Signal) {
        // It is our own child: until it is reaped its pid cannot become another's.
        drop(process::signal(self.shell.pid, signal, || true));
    }

    /// CPU time of the running command's tree, and of what it has left to us to bury.
    fn cpu_ms(&self) -> u64 {
        let living = self.tree.born();
        let shell = proc::process(self.shell.pid);
        living.iter().chain(&shell).map(|process| process.cpu_ms).sum::<u64>()
            + process::reaped_cpu_ms()
    }

    /// Stops a parser that is not needed any more.
    pub(super) fn drop_checker(&mut self) {
        if let Some(checker) = self.checker.take() {
            drop(process::signal(checker.pid, Signal::KILL, || true));
        }
    }
}
