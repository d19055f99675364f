//! One session: its terminals, shell and commands, and what has come from each.

use std::collections::VecDeque;
use std::io;

use crate::command::event::{Event, Fate};
use crate::command::state::Command;
use crate::command::step::step;
use crate::domain::outcome::Reason;
use crate::domain::session::{CommandSpec, SessionSpec};
use crate::domain::time::Timestamp;
use crate::session::wire::{Ask, FactBody, KnownCommand};

use super::super::identity;
use super::super::os::pty::Terminal;
use super::super::profile::Profile;
use super::super::shells::find::find;
use super::super::shells::table;
use super::answers::Answers;
use super::capture::Capture;
use super::checker::{Checker, Verdict};
use super::closing::Closing;
use super::input::Queue;
use super::judge::Judging;
use super::looking::Looks;
use super::modes::Modes;
use super::newline::Newline;
use super::ports::PortWatch;
use super::quota::Quota;
use super::shell::{Doing, Shell};
use super::takeover::TakeOver;
use super::trace::Tracer;
use super::tree::Tree;
use super::turn::Clock;
use super::typed::Line;

/// The transcript's growth is told at most this often.
pub(super) const TELL_EVERY_MS: u64 = 20;

/// The session, and everything in it.
pub(super) struct Session {
    pub spec: SessionSpec,
    pub clock: Clock,
    pub main: Terminal,
    pub stderr: Terminal,
    pub shell: Shell,
    pub capture: Capture,
    pub tree: Tree,
    pub queue: VecDeque<Command>,
    /// What it was given, oldest first: a command that is given again is not run again.
    pub known: VecDeque<KnownCommand>,
    pub active: Option<Active>,
    pub judging: Judging,
    /// What has been typed at a shell within it.
    pub typed: Line,
    /// A person has the shell, or watches the running command.
    pub takeover: Option<TakeOver>,
    pub checker: Option<Checker>,
    pub input: Queue,
    pub modes: Modes,
    pub looks: Looks,
    pub ports: PortWatch,
    pub quota: Quota,
    /// What its processes change.
    pub tracer: Tracer,
    pub closing: Option<Closing>,
    /// Whether a coordinator has asked for that.
    pub told_to_close: bool,
    /// While a command's tree is being ended: when it is next looked at.
    pub tree_due_ms: Option<u64>,
    /// An interrupt is due, at the latest then.
    pub interrupt_by_ms: Option<u64>,
    /// The group that was interrupted last.
    pub interrupted_group: Option<i32>,
    /// The line end with which bash remarks on an interrupt.
    pub newline: Newline,
    /// What programs ask their terminal.
    pub answers: Answers,
    pub facts: Vec<FactBody>,
    /// What of the user's profile the shell has yet to read, and to be told.
    pub profile: Option<Profile>,
    /// Commands begun so far.
    pub begun: u32,
    pub told_end: u64,
    pub tell_at_ms: Option<u64>,
    pub buffer: Vec<u8>,
}

/// The command whose turn it is.
pub(super) struct Active {
    pub command: Command,
    pub number: u32,
    pub started: Option<Started>,
}

/// What is noted when a command starts.
#[derive(Clone, Copy)]
pub(super) struct Started {
    pub at: Timestamp,
    pub at_ms: u64,
    pub raw: u64,
    pub idx: u64,
}

impl Session {
    /// Opens terminals and transcript, and starts the shell.
    ///
    /// # Errors
    /// What could not be done, and where.
    pub(super) fn open(spec: SessionSpec, clock: Clock) -> io::Result<Self> {
        let capture = Capture::open(&spec.transcript, spec.size, &spec.limits)?;
        let (main, stderr) = (Terminal::open(spec.size)?, Terminal::open(spec.size)?);
        let mut spec = spec;
        let profile = use_profile(&mut spec)?;
        let quota = Quota::of(&spec);
        let trace = Tracer::prepare(&spec);
        let filter = trace.as_ref().and_then(|trace| trace.as_ref().ok());
        let shell = Shell::start(&spec, &main, &stderr, &quota.entrances(), filter)?;
        let tracer = Tracer::start(&spec, trace);
        let mut tree = Tree::below_this();
        tree.own_shell(shell.pid);
        Ok(Self {
            told_end: capture.raw_end(),
            profile,
            spec,
            clock,
            main,
            stderr,
            tracer,
            quota: quota.started(shell.pid),
            shell,
            capture,
            tree,
            queue: VecDeque::new(),
            known: VecDeque::new(),
            active: None,
            judging: Judging::default(),
            typed: Line::default(),
            takeover: None,
            checker: None,
            input: Queue::default(),
            modes: Modes::default(),
            looks: Looks::default(),
            ports: PortWatch::default(),
            closing: None,
            told_to_close: false,
            tree_due_ms: None,
            interrupt_by_ms: None,
            interrupted_group: None,
            newline: Newline::default(),
            answers: Answers::default(),
            facts: Vec::new(),
            begun: 0,
            tell_at_ms: None,
            buffer: Vec::new(),
        })
    }

    /// Takes what the coordinator asks.
    pub(super) fn asked(&mut self, ask: Ask, now_ms: u64) {
        let Some(ask) = self.keep_waiting(ask, now_ms) else { return };
        match ask {
            Ask::Run { spec } => self.enqueue(spec),
            Ask::TakeOver { command, by } => self.take_over(command, by, now_ms),
            Ask::HandBack => self.hand_back(now_ms),
            Ask::Type { bytes } => self.take_typing(&bytes, now_ms),
            Ask::Input { request, command, input } => {
                self.take_input(request, command.as_ref(), &input, now_ms);
            }
            Ask::End { command, reason } => {
                let queued = self.queue.iter().position(|queued| queued.spec().id == command);
                if let Some(queued) = queued.and_then(|index| self.queue.remove(index)) {
                    self.tell_unstarted(queued.spec(), reason);
                } else if self.active.as_ref().is_some_and(|a| a.command.spec().id == command) {
                    self.feed(Event::End { reason }, now_ms);
                }
            }
            Ask::Resize { size } => self.resize(size),
            Ask::Close => self.close_as_told(now_ms),
            // A second Open has no meaning; Ack is the outbox's.
            Ask::Open { .. } | Ask::Adopt { .. } | Ask::Ack { .. } => {}
            Ask::Attend { others } => self.tracer.attend(others, now_ms),
            Ask::Verdict { request, held_by } => {
                self.tracer.verdict(request, held_by.as_deref(), now_ms);
            }
        }
    }

    fn enqueue(&mut self, spec: CommandSpec) {
        if !self.is_news(&spec) {
            return;
        }
        if self.closing.is_some() || matches!(self.shell.doing, Doing::Gone(_)) {
            self.tell_unstarted(&spec, Reason::SessionClosed);
            return;
        }
        match Command::new(spec.clone()) {
            Ok(command) => self.queue.push_back(command.in_shell(self.spec.shell)),
            Err(message) => self.tell_unstarted(&spec, Reason::StartFailed { message }),
        }
    }

    /// Gives the next command its turn, if the shell is idle.
    pub(super) fn start_next(&mut self, now_ms: u64) {
        if self.takeover.is_some() {
            return self.enter_prompt(now_ms);
        }
        while self.active.is_none() && self.shell.is_ready(now_ms) && self.closing.is_none() {
            if self.queue.is_empty() {
                return;
            }
            if !self.may_start(now_ms) {
                // One that was refused has left the queue: the next is asked about at once.
                if self.judging.child.is_some() {
                    return;
                }
                continue;
            }
            let Some(command) = self.queue.pop_front() else { return };
            self.active = Some(Active { command, number: 0, started: None });
            self.feed(Event::Turn, now_ms);
        }
    }

    /// Lets the command's machine decide, and performs what it asks for.
    pub(super) fn feed(&mut self, event: Event<'_>, now_ms: u64) {
        let Some(active) = &mut self.active else { return };
        for effect in step(&mut active.command, event, now_ms) {
            self.perform(effect, now_ms);
        }
    }

    /// Takes what the shell reports: there is something to read.
    pub(super) fn take_reports(&mut self, now_ms: u64) {
        self.shell.read_reports();
        while let Some(report) = {
            let starting = self.shell.doing == Doing::Starting;
            self.shell.report(now_ms).map(|report| (starting, report))
        } {
            let (starting, report) = report;
            if !starting && self.stay_hears(true, now_ms) {
                continue;
            }
            if starting || self.active.is_none() {
                let text = self.profile.as_mut().map(|profile| std::mem::take(&mut profile.text));
                if let Some(text) = text.filter(|text| !text.is_empty())
                    && self.shell.give(None, false, &text).is_ok()
                {
                    // It is open once the shell has read it.
                    continue;
                }
                let holder = i32::try_from(std::process::id()).unwrap_or(0);
                let start_time = identity::own().map_or(0, |own| own.start_time);
                self.facts.push(FactBody::Opened { holder, start_time, shell: self.shell.pid });
                continue;
            }
            match report.status {
                Some(status) => {
                    self.settle_quota(now_ms);
                    self.interrupt_by_ms = None;
                    if self.tree_due_ms.is_some() {
                        self.tree_due_ms = Some(now_ms);
                    }
                    let pipe_status = report.pipe_status;
                    self.feed(Event::Reported { status, pipe_status }, now_ms);
                }
                None => {
                    let cwd = self.active.as_ref().and_then(|a| a.command.spec().cwd.clone());
                    let cwd = cwd.unwrap_or_default();
                    let message = format!("cannot go into {}", cwd.display());
                    self.feed(Event::StartFailed { message }, now_ms);
                }
            }
        }
        self.stay_hears(false, now_ms);
    }

    /// Takes what the parser found.
    pub(super) fn take_verdict(&mut self, now_ms: u64) {
        let Some(checker) = &mut self.checker else { return };
        if !checker.listen() {
            return;
        }
        let text = self.active.as_ref().map_or("", |active| &active.command.spec().text);
        let verdict = checker.verdict(&self.shell.path, text, now_ms);
        self.checker = None;
        match verdict {
            Verdict::Again(checker) => {
                self.tree.own(checker.pid);
                self.checker = Some(checker);
            }
            Verdict::Complete => self.feed(Event::Checked { incomplete: None }, now_ms),
            Verdict::Incomplete(message) => {
                self.feed(Event::Checked { incomplete: Some(message) }, now_ms);
            }
        }
    }

    /// A child of the holder's has died: the shell, a parser, or an orphan of the session.
    pub(super) fn died(&mut self, pid: i32, fate: Fate, now_ms: u64) {
        self.tree.disown(pid);
        if self.tree_due_ms.is_some() {
            self.tree_due_ms = Some(now_ms);
        }
        if let Some(closing) = &mut self.closing {
            closing.look_at(now_ms);
        }
        if pid != self.shell.pid || matches!(self.shell.doing, Doing::Gone(_)) {
            return;
        }
        self.settle_quota(now_ms);
        let idle = self.active.is_none() && self.takeover.is_none();
        let reads_profile = self.shell.doing == Doing::Busy && idle;
        let starting = self.shell.doing == Doing::Starting || reads_profile;
        self.shell.doing = Doing::Gone(fate);
        if starting {
            let message = format!("the shell ended before it was ready: {fate:?}");
            self.facts.push(FactBody::OpenFailed { message });
        }
        self.feed(Event::ShellGone { fate }, now_ms);
        self.stay_lost_shell(fate, now_ms);
        if self.active.is_none() {
            self.close(now_ms);
        }
    }

    /// Everything that is due.
    pub(super) fn tick(&mut self, peer_is_busy: bool, now_ms: u64) {
        if self.active.as_ref().and_then(|a| a.command.deadline()).is_some_and(|due| due <= now_ms)
        {
            self.feed(Event::Tick, now_ms);
        }
        if self.tree_due_ms.is_some_and(|due| due <= now_ms) {
            self.look_at_tree(now_ms);
        }
        self.tracer.tick(now_ms);
        self.facts.append(&mut self.tracer.take_facts());
        self.look_at_quota(now_ms);
        self.feed_input(now_ms);
        if self.shell.nudge_due().is_some_and(|due| due <= now_ms) {
            self.nudge_shell(now_ms);
        }
        if self.takeover.as_ref().and_then(TakeOver::due).is_some_and(|due| due <= now_ms) {
            self.tend_stay(now_ms);
        }
        if self.looks.is_due(now_ms) {
            self.look(now_ms);
        }
        if self.answers.is_due(now_ms) {
            self.answer(now_ms);
        }
        if self.ports.is_due(now_ms) {
            self.look_at_ports(now_ms);
        }
        if self.checker.as_ref().is_some_and(|checker| checker.due_ms <= now_ms) {
            self.drop_checker();
            self.feed(Event::Checked { incomplete: None }, now_ms);
        }
        if self.closing.as_ref().is_some_and(|closing| closing.is_due(now_ms)) {
            self.close_further(now_ms);
        }
        if self.tell_at_ms.is_some_and(|due| due <= now_ms) {
            self.tell_at_ms = if peer_is_busy { Some(now_ms + TELL_EVERY_MS) } else { None };
            if !peer_is_busy {
                self.tell_growth();
            }
        }
    }

    pub(super) fn tell_growth(&mut self) {
        let end = self.capture.raw_end();
        if end > self.told_end {
            self.told_end = end;
            self.facts.push(FactBody::Output { end });
        }
    }

    /// When `tick` has next something to do.
    pub(super) fn next_due(&self, now_ms: u64) -> Option<u64> {
        [
            self.active.as_ref().and_then(|active| active.command.deadline()),
            self.tree_due_ms,
            self.looks.due(),
            self.input.due(),
            self.ports.due(),
            self.tracer.due(),
            self.quota.due(),
            self.judging.child.as_ref().map(|child| child.due_ms),
            self.answers.due(),
            self.checker.as_ref().map(|checker| checker.due_ms),
            self.closing.as_ref().and_then(Closing::due),
            self.tell_at_ms,
            self.shell.nudge_due(),
            self.takeover.as_ref().and_then(TakeOver::due),
            self.shell
                .settles_at()
                .filter(|&at| at > now_ms && (self.takeover.is_some() || !self.queue.is_empty())),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The facts of this turn.
    pub(super) fn take_facts(&mut self) -> Vec<FactBody> {
        std::mem::take(&mut self.facts)
    }

    /// The transcript's end is told by another fact.
    pub(super) fn end_is_told(&mut self) {
        self.told_end = self.capture.raw_end();
        self.tell_at_ms = None;
    }
}

/// Puts the user's profile into the session's environment, where it is asked for.
fn use_profile(spec: &mut SessionSpec) -> io::Result<Option<Profile>> {
    let Some(wanted) = spec.profile.clone() else { return Ok(None) };
    let table = table::of(spec.shell);
    let mut profile = Profile::of(&wanted, spec, table, &find(table, spec)?);
    profile.apply(&wanted, &mut spec.env);
    Ok(Some(profile))
}
