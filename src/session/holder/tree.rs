//! The session's processes: everything below the holder, since orphans come to it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::domain::result::Child;

use super::super::os::process as os;
use super::proc::{self, Childless, OwnChildren, Process};

/// Levels of descent that are followed; a fork bomb in depth ends there.
const DEPTH_MAX: usize = 512;
/// A tree that changes more often than this during a look is looked at again anyway.
const WALKS_MAX: usize = 8;

/// How long a command's end waits for a forked child to execute its program. A subshell in the
/// background never does, and costs this once.
const SETTLE_MAX: Duration = Duration::from_millis(25);
/// The same while that child does not sleep but waits for a processor or a disk: on a busy machine
/// it may be long.
const SETTLE_BUSY_MAX: Duration = Duration::from_millis(250);
const SETTLE_STEP: Duration = Duration::from_micros(500);

/// Which of the session's processes belong to what.
#[derive(Default)]
pub(super) struct Tree {
    /// The parser and the shell: never part of a command's tree.
    own: HashSet<i32>,
    /// The holder's children; `None`: looked up by its pid.
    children: Option<OwnChildren>,
    /// The shell, as long as it is looked at.
    shell: Option<(i32, Childless)>,
    /// What earlier commands left behind, by pid and start.
    earlier: HashSet<(i32, u64)>,
    /// What the running command has been seen to have while it was being ended.
    ended: BTreeMap<(i32, u64), String>,
}

impl Tree {
    /// The tree below this process.
    pub(super) fn below_this() -> Self {
        Self { children: OwnChildren::open(), ..Self::default() }
    }

    fn roots(&self) -> Vec<i32> {
        self.children
            .as_ref()
            .and_then(OwnChildren::read)
            .unwrap_or_else(|| proc::children(i32::try_from(std::process::id()).unwrap_or(0)))
    }

    /// Names the shell, which is the holder's own, too.
    pub(super) fn own_shell(&mut self, pid: i32) {
        self.own(pid);
        self.shell = Childless::open(pid).map(|childless| (pid, childless));
    }

    /// True when nothing but the shell is there. Its children are asked for first: whatever loses
    /// its parent after that comes to the holder, whose own are asked for then.
    fn is_bare(&self) -> bool {
        let Some((shell, childless)) = &self.shell else { return false };
        childless.holds()
            && self.children.as_ref().and_then(OwnChildren::read).is_some_and(|all| all == [*shell])
    }

    /// Names a process of the holder's own.
    pub(super) fn own(&mut self, pid: i32) {
        self.own.insert(pid);
    }

    /// It is gone.
    pub(super) fn disown(&mut self, pid: i32) {
        self.own.remove(&pid);
    }

    /// A command begins: whatever is there now is not its own.
    pub(super) fn begin(&mut self) {
        self.ended.clear();
        // Only what was left behind can have borne anything since.
        if !self.earlier.is_empty() {
            self.earlier = self.everything().iter().map(|p| (p.pid, p.start)).collect();
        }
    }

    /// What was born while the command ran, and to nothing that is older.
    pub(super) fn born(&self) -> Vec<Process> {
        self.walk(&self.earlier)
    }

    /// Every process of the session but the shell.
    pub(super) fn everything(&self) -> Vec<Process> {
        self.walk(&HashSet::new())
    }

    /// The command has ended: what is left of it, and what was ended with it.
    pub(super) fn end(
        &mut self,
        tree_ended: bool,
        shell: &CStr,
        meanwhile: &mut dyn FnMut(),
    ) -> Vec<Child> {
        let mut left = self.settled(shell, meanwhile);
        for _ in 0..WALKS_MAX {
            if !left.iter().any(Process::is_exiting) {
                break;
            }
            // Whatever it has forked was there before it began to go (`setsid`, a double fork).
            left.retain(|process| !process.is_exiting());
            let known: HashSet<i32> = left.iter().map(|process| process.pid).collect();
            left.extend(self.born().into_iter().filter(|process| !known.contains(&process.pid)));
            if left.len() == known.len() {
                break;
            }
        }
        left.retain(|process| !process.is_exiting());
        let mut children: Vec<Child> = Vec::new();
        for process in &left {
            let command = process.command();
            let key = (process.pid, process.start);
            self.earlier.insert(key);
            self.ended.remove(&key);
            children.push(Child { pid: process.pid, command, ended: false });
        }
        if tree_ended {
            let gone = std::mem::take(&mut self.ended);
            let gone = gone.into_iter();
            children.extend(gone.map(|((pid, _), command)| Child { pid, command, ended: true }));
        }
        children
    }

    /// What is left of the command. A child that bash has only just forked is still a copy of
    /// bash: it gets a moment to become what it is to be, and `meanwhile` is done again and again.
    pub(super) fn settled(&self, shell: &CStr, meanwhile: &mut dyn FnMut()) -> Vec<Process> {
        if self.is_bare() {
            return Vec::new();
        }
        let mut left = self.born();
        if left.is_empty() {
            return left;
        }
        let program = proc::file_of(Path::new(OsStr::from_bytes(shell.to_bytes())));
        let started = Instant::now();
        loop {
            // In the middle of executing one it has no command line for a moment.
            let is_becoming = |process: &&Process| {
                proc::program_of(process.pid) == program || process.has_no_command_line()
            };
            let most = match left.iter().find(is_becoming) {
                None => return left,
                // Whoever reads a program in sleeps now and then.
                Some(copy) if copy.state != b'S' || copy.has_no_command_line() => SETTLE_BUSY_MAX,
                Some(_) => SETTLE_MAX,
            };
            if program.is_none() || started.elapsed() > most {
                return left;
            }
            // It may wait for us itself, to be let open a file.
            meanwhile();
            std::thread::sleep(SETTLE_STEP);
            left = self.born();
        }
    }

    /// Forgets what is no more; true while earlier commands' processes live.
    pub(super) fn prune(&mut self) -> bool {
        self.earlier.retain(|&(pid, start)| {
            proc::process(pid).is_some_and(|now| now.start == start && now.state != b'Z')
        });
        !self.earlier.is_empty()
    }

    /// Notes processes as ended with the command.
    pub(super) fn note_ended(&mut self, processes: &[Process]) {
        for process in processes {
            let key = (process.pid, process.start);
            // Again each time, since it may have become another program; but a corpse has
            // nothing left to be known by.
            if !self.ended.contains_key(&key)
                || !(process.is_exiting() || process.has_no_command_line())
            {
                self.ended.insert(key, process.command());
            }
        }
    }

    /// A process whose parent ends during a walk comes to the holder, whose children have been
    /// read by then. So they are read once more at the end: one that is new there was missed.
    fn walk(&self, without: &HashSet<(i32, u64)>) -> Vec<Process> {
        let mut level = self.roots();
        let mut found = Vec::new();
        for _ in 0..WALKS_MAX {
            let mut seen = HashSet::new();
            found = self.descend(level, without, &mut seen);
            level = self.roots();
            if level.iter().all(|pid| seen.contains(pid)) {
                break;
            }
        }
        found
    }

    fn descend(
        &self,
        roots: Vec<i32>,
        without: &HashSet<(i32, u64)>,
        seen: &mut HashSet<i32>,
    ) -> Vec<Process> {
        let mut found = Vec::new();
        let mut level = roots;
        for _ in 0..DEPTH_MAX {
            let mut next = Vec::new();
            for pid in level {
                if !seen.insert(pid) {
                    continue;
                }
                if self.own.contains(&pid) {
                    next.extend(proc::children(pid));
                    continue;
                }
                let Some(process) = proc::process(pid) else { continue };
                if without.contains(&(pid, process.start)) {
                    continue;
                }
                next.extend(proc::children(pid));
                // A corpse is its parent's to bury; ours are buried at once.
                if process.state != b'Z' {
                    found.push(process);
                }
            }
            if next.is_empty() {
                break;
            }
            level = next;
        }
        found
    }
}

/// Sends a signal to each of them; stopped ones are made to go on, so that it reaches them.
pub(in crate::session) fn signal_all(processes: &[Process], signal: Signal) {
    for process in processes {
        // What is another user's shows up among those that are left.
        drop(os::signal(process.pid, signal, || process.is_there()));
        if signal != Signal::KILL {
            drop(os::signal(process.pid, Signal::CONT, || process.is_there()));
        }
    }
}
