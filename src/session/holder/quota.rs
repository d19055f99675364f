//! What a session may take: memory, processes and processor time.
//!
//! Where the kernel holds a session to a limit (`session::cgroup`), it is asked how often it had to.
//! Otherwise, and always for processor time, the session's tree is looked at while a command runs,
//! and as long as anything else than the shell lives: the more often the shorter a look takes, and
//! never without a limit.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::command::event::Event;
use crate::domain::outcome::Reason;
use crate::domain::session::SessionSpec;

use super::super::cgroup::{Controller, Groups, Held};
use super::super::os::process;
use super::proc::{self, Process};
use super::session::Session;
use super::tree::signal_all;
use super::usage;

/// The first look after a command's start; the pauses double from there,
const PAUSE_FIRST_MS: u64 = 10;
/// to this,
const PAUSE_MAX_MS: u64 = 50;
/// or to so many times the processor time that the look itself took, up to this.
const PAUSE_PER_LOOK: u64 = 10;
const COST_PAUSE_MAX_MS: u64 = 250;
/// The longest pause where only processor time counts.
const CPU_PAUSE_MAX_MS: u64 = 500;
/// What multiplies is killed in passes without a pause in between, for at most so long.
const PASSES_TAKE: Duration = Duration::from_millis(200);

/// A session's limits, and what has been seen of how they are kept.
#[derive(Default)]
pub(super) struct Quota {
    memory: Option<u64>,
    processes: Option<u64>,
    cpu_ms: Option<u64>,
    groups: Groups,
    /// How often the kernel had held it before the running command.
    held: Held,
    cpu: CpuBefore,
    due_ms: Option<u64>,
    pause_ms: u64,
}

/// The processor time that is not the running command's.
#[derive(Default)]
struct CpuBefore {
    /// The shell's, and that of the dead.
    past_ms: u64,
    /// That of processes which live on, until they are among the dead.
    earlier: HashMap<(i32, u64), u64>,
}

/// The processor time of this process, in µs.
fn used_us() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs());
    seconds * 1_000_000 + nanoseconds / 1000
}

/// A limit on what grows that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Memory(u64),
    Processes(u64),
}

impl Broken {
    fn reason(self) -> Reason {
        let (resource, limit) = match self {
            Self::Memory(limit) => ("memory", limit),
            Self::Processes(limit) => ("processes", limit),
        };
        Reason::Quota { resource: resource.to_owned(), limit }
    }
}

impl Quota {
    /// The session's limits; its groups are made where they can be.
    pub(super) fn of(spec: &SessionSpec) -> Self {
        let limits = &spec.limits;
        // The shell itself is one.
        let tasks = limits.processes.map(|most| most.saturating_add(1));
        Self {
            memory: limits.memory,
            processes: limits.processes,
            cpu_ms: limits.cpu_ms,
            groups: Groups::make(spec.id.as_str(), limits.memory, tasks),
            ..Self::default()
        }
    }

    /// Where the shell enters its groups.
    pub(super) fn entrances(&self) -> Vec<OwnedFd> {
        self.groups.entrances()
    }

    /// The shell has started: what it has not entered does not hold it.
    pub(super) fn started(mut self, shell: i32) -> Self {
        self.groups.keep_those_with(shell);
        self
    }

    /// The session is over.
    pub(super) fn end(&mut self) {
        self.due_ms = None;
        self.groups.remove();
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> Option<u64> {
        self.due_ms
    }

    fn is_set(&self) -> bool {
        self.memory.or(self.processes).or(self.cpu_ms).is_some()
    }

    /// Limits on memory and processes that the kernel does not enforce.
    fn own(&self) -> (Option<u64>, Option<u64>) {
        let own =
            |limit: Option<u64>, controller| limit.filter(|_| !self.groups.enforce(controller));
        (own(self.memory, Controller::Memory), own(self.processes, Controller::Processes))
    }

    /// The limit to which the kernel has held the session since it was last asked.
    fn held_by_kernel(&mut self) -> Option<Broken> {
        let before = std::mem::replace(&mut self.held, self.groups.held());
        let killed = self.memory.filter(|_| self.held.kills > before.kills).map(Broken::Memory);
        let refused = || self.processes.filter(|_| self.held.forks > before.forks);
        killed.or_else(|| refused().map(Broken::Processes))
    }
}

impl Session {
    /// A command begins.
    pub(super) fn begin_quota(&mut self, now_ms: u64) {
        if !self.quota.is_set() {
            return;
        }
        self.quota.held = self.quota.groups.held();
        if self.quota.cpu_ms.is_some() {
            let earlier = self.tree.everything();
            self.quota.cpu = CpuBefore {
                past_ms: self.past_cpu_ms(),
                earlier: earlier.iter().map(|p| ((p.pid, p.start), p.cpu_ms)).collect(),
            };
        }
        self.quota.pause_ms = PAUSE_FIRST_MS;
        self.quota.due_ms = Some(now_ms + PAUSE_FIRST_MS);
    }

    /// The shell says that the running command has ended, or has died: what it took comes first.
    pub(super) fn settle_quota(&mut self, now_ms: u64) {
        self.heed_kernel(now_ms);
        let (memory, processes) = self.quota.own();
        if memory.or(processes).is_none() || self.active.is_none() {
            return;
        }
        let everything = self.tree.everything();
        let shell = proc::process(self.shell.pid);
        if let Some(broken) = self.takes_too_much(&everything, shell.as_ref()) {
            self.end_what_takes_too_much(broken, &everything, now_ms);
        }
    }

    fn heed_kernel(&mut self, now_ms: u64) {
        if self.active.as_ref().is_some_and(|active| active.started.is_some())
            && let Some(broken) = self.quota.held_by_kernel()
        {
            self.feed(Event::End { reason: broken.reason() }, now_ms);
        }
    }

    /// Looks whether the session keeps to its limits, if it is time.
    pub(super) fn look_at_quota(&mut self, now_ms: u64) {
        if self.quota.due_ms.is_none_or(|due| due > now_ms) {
            return;
        }
        // Not the time that passed: on a busy machine a look is long, and no less needed.
        let before_us = used_us();
        self.heed_kernel(now_ms);
        let counts = self.quota.own() != (None, None);
        let idle = self.active.is_none() && self.takeover.is_none();
        if idle && !counts {
            self.quota.due_ms = None;
            return;
        }
        if counts {
            let everything = self.tree.everything();
            if idle && everything.is_empty() {
                self.quota.due_ms = None;
                return;
            }
            let shell = proc::process(self.shell.pid);
            if let Some(broken) = self.takes_too_much(&everything, shell.as_ref()) {
                self.end_what_takes_too_much(broken, &everything, now_ms);
            }
        }
        if let Some(most) = self.quota.cpu_ms.filter(|_| !idle)
            && self.used_cpu_ms() > most
        {
            let reason = Reason::Quota { resource: "cpu".to_owned(), limit: most };
            self.feed(Event::End { reason }, now_ms);
        }
        let cost_us = used_us().saturating_sub(before_us);
        let cost_ms = (cost_us * PAUSE_PER_LOOK / 1000).min(COST_PAUSE_MAX_MS);
        let longest = if counts { PAUSE_MAX_MS } else { self.cpu_pause_ms() };
        self.quota.pause_ms = (self.quota.pause_ms * 2).min(longest);
        self.quota.due_ms = Some(now_ms + self.quota.pause_ms.max(cost_ms).max(1));
    }

    /// Looks at what the kernel does not see to.
    fn takes_too_much(&self, everything: &[Process], shell: Option<&Process>) -> Option<Broken> {
        let (memory, processes) = self.quota.own();
        let threads = everything.iter().map(|process| process.threads).sum::<u64>();
        if let Some(most) = processes.filter(|&most| threads > most) {
            return Some(Broken::Processes(most));
        }
        let most = memory?;
        let all: Vec<Process> = everything.iter().chain(shell).cloned().collect();
        usage::memory_over(&all, most).then_some(Broken::Memory(most))
    }

    /// Ends the running command. One that is being ended already, and what runs without one, is
    /// killed.
    fn end_what_takes_too_much(&mut self, broken: Broken, everything: &[Process], now_ms: u64) {
        let running = self.active.as_ref().filter(|active| active.started.is_some());
        let ending = running.is_some_and(|active| active.command.is_ending());
        if running.is_some() && !ending {
            self.feed(Event::End { reason: broken.reason() }, now_ms);
        } else if ending {
            let born = self.tree.born();
            self.tree.note_ended(&born);
            signal_all(&born, Signal::KILL);
        } else {
            signal_all(everything, Signal::KILL);
        }
        match broken {
            Broken::Processes(_) => self.outrun(),
            // Nobody but the shell has it.
            Broken::Memory(most) if usage::resident(self.shell.pid) > most => {
                self.signal_shell(Signal::KILL);
            }
            Broken::Memory(_) => {}
        }
    }

    /// Kills what was born since the last pass, until nothing was. Without their names, which would
    /// take longer than they need to multiply.
    fn outrun(&mut self) {
        let started = Instant::now();
        let idle = self.active.is_none();
        let mut before = Vec::new();
        while started.elapsed() < PASSES_TAKE {
            let left = if idle { self.tree.everything() } else { self.tree.born() };
            let pids: Vec<i32> = left.iter().map(|process| process.pid).collect();
            if pids.iter().all(|pid| before.contains(pid)) {
                return;
            }
            signal_all(&left, Signal::KILL);
            before = pids;
        }
    }

    /// The time of the shell, of all that it has waited for, and of what was left to us to bury.
    fn past_cpu_ms(&self) -> u64 {
        proc::process(self.shell.pid).map_or(0, |shell| shell.cpu_ms) + process::reaped_cpu_ms()
    }

    /// What the running command's tree has used.
    fn used_cpu_ms(&self) -> u64 {
        let before = &self.quota.cpu;
        let gone = before.earlier.iter().filter(|((pid, start), _)| {
            proc::process(*pid).is_none_or(|now| now.start != *start || now.state == b'Z')
        });
        let gone = gone.map(|(_, cpu_ms)| cpu_ms).sum::<u64>();
        let born = self.tree.born().iter().map(|process| process.cpu_ms).sum::<u64>();
        (self.past_cpu_ms() + born).saturating_sub(before.past_ms + gone)
    }

    /// How long the command cannot reach its limit, were it to use every processor.
    fn cpu_pause_ms(&self) -> u64 {
        let Some(most) = self.quota.cpu_ms else { return PAUSE_MAX_MS };
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let left = most.saturating_sub(self.used_cpu_ms());
        let soonest = left / u64::try_from(processors).unwrap_or(1);
        // The kernel's refusals are to be seen sooner than that.
        let enforced = self.quota.memory.or(self.quota.processes).is_some();
        let longest = if enforced { PAUSE_MAX_MS } else { CPU_PAUSE_MAX_MS };
        soonest.clamp(PAUSE_FIRST_MS, longest)
    }
}
