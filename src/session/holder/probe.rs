//! A look at the foreground group: does a process there wait for one of our terminals?

use crate::command::awaiting::{Poll, Sight, Wait};
use crate::domain::result::Evidence;

use super::super::os::pty::{Taking, Terminal};
use super::polled::{Polled, polled};
use super::proc::{self, Process, Slave};

/// `/dev/tty`, whatever it stands for.
const DEVICE_TTY: u64 = 5 << 8;
/// The master of any pseudo-terminal.
const DEVICE_PTMX: u64 = 5 << 8 | 2;
/// Pseudo-terminals within pseudo-terminals that are followed.
const RELAYS_MAX: usize = 3;
/// More threads than this are not asked whether they have stirred: looking is as cheap.
const STILL_THREADS_MAX: usize = 16;
/// bash reads its own prompt's line with a buffer of this size, and its `read` never does.
const PROMPT_READ_BYTES: u64 = 0x400;

/// Whom the look is for.
pub(super) struct View<'a> {
    pub main: &'a Terminal,
    pub stderr: &'a Terminal,
    pub shell: i32,
    /// The shell's own program file.
    pub shell_program: Option<(u64, u64)>,
}

/// What was seen, and over which terminal an answer reaches whoever waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub sight: Sight,
    pub at_stderr: bool,
}

/// The threads of a foreground group, and for how long each has run: as long as none has run again,
/// and the group is the same, a look would show the same.
#[derive(Debug)]
pub(super) struct Still {
    group: i32,
    threads: Vec<(i32, i32, u64)>,
}

impl Still {
    /// True while nobody there has stirred.
    pub(super) fn holds(&self, main: &Terminal) -> bool {
        main.foreground() == Some(self.group)
            && self.threads.iter().all(|&(pid, thread, ran)| proc::ran_ns(pid, thread) == Some(ran))
    }
}

/// A terminal as its processes see it.
#[derive(Clone, Copy, Debug)]
enum Face {
    /// The session's own.
    Session,
    /// The slave of a pseudo-terminal that a process relays: `script`, `sudo`, `expect`.
    Relayed(Slave),
}

impl View<'_> {
    /// Looks at the foreground group; `tree` are the session's other processes.
    pub(super) fn look(&self, tree: &[Process]) -> (Seen, Option<Still>) {
        let nothing = Seen { sight: Sight::Busy, at_stderr: false };
        let Some(group) = self.main.foreground() else { return (nothing, None) };
        // The leader of a session cannot leave the group that bears its name.
        let shell = (group == self.shell).then(|| proc::process(self.shell)).flatten();
        let members = shell.iter().chain(tree.iter().filter(|member| member.group == group));
        // Before they are looked at: who runs in between is seen to have run.
        let still = self.still(group, members.clone(), tree);
        let seen = self.best_of(members, tree, Face::Session, RELAYS_MAX).unwrap_or(nothing);
        (seen, still)
    }

    /// `None` where a look would take more than the group: other terminals are relayed, or there
    /// are many threads.
    fn still<'p>(
        &self,
        group: i32,
        members: impl Iterator<Item = &'p Process>,
        tree: &[Process],
    ) -> Option<Still> {
        if tree.iter().any(|process| process.tty != 0 && process.tty != self.main.device) {
            return None;
        }
        let mut threads = Vec::new();
        for member in members {
            for thread in proc::threads(member.pid) {
                threads.push((member.pid, thread, proc::ran_ns(member.pid, thread)?));
                if threads.len() > STILL_THREADS_MAX {
                    return None;
                }
            }
        }
        (!threads.is_empty()).then_some(Still { group, threads })
    }

    fn best_of<'p>(
        &self,
        members: impl Iterator<Item = &'p Process>,
        tree: &[Process],
        face: Face,
        relays: usize,
    ) -> Option<Seen> {
        let mut best: Option<Seen> = None;
        for member in members {
            for thread in proc::threads(member.pid) {
                let Some(seen) = self.look_at(member, thread, tree, face, relays) else { continue };
                if rank(seen.sight) == Rank::Certain {
                    return Some(seen);
                }
                if best.is_none_or(|best| rank(best.sight) < rank(seen.sight)) {
                    best = Some(seen);
                }
            }
        }
        best
    }

    fn look_at(
        &self,
        member: &Process,
        thread: i32,
        tree: &[Process],
        face: Face,
        relays: usize,
    ) -> Option<Seen> {
        let pid = member.pid;
        let Ok(blocked) = proc::blocked_in(pid, thread) else {
            // What its state shows is open to everyone: who works does not wait.
            let sight = Sight::Hidden { secret: self.taking(face, false) == Taking::Secrets };
            let sleeps = member.state == b'S';
            return sleeps.then_some(Seen { sight, at_stderr: false });
        };
        let blocked = blocked?;
        let (poll, at_stderr) = if is_read(blocked.number) {
            (None, self.terminal_of(face, pid, blocked.arguments[0])?)
        } else {
            let polled = polled(pid, blocked)?;
            let mut terminals =
                polled.descriptors.iter().filter_map(|&fd| self.terminal_of(face, pid, fd));
            let at_stderr = terminals.next()?;
            if let Some(inner) = polled.descriptors.iter().find_map(|&fd| relayed(pid, fd)) {
                return self.behind(inner, tree, relays);
            }
            let poll = Poll {
                limit_ms: polled.limit_ms,
                company: self.has_company(face, member, thread, &polled, tree),
                keys: self.taking(face, at_stderr) == Taking::Keys,
                cpu_ms: member.cpu_ms,
            };
            (Some(poll), at_stderr)
        };
        // Something to read is there: it is about to wake.
        if matches!(face, Face::Session) && self.terminal(at_stderr).unread() > 0 {
            return None;
        }
        let is_shell = pid == self.shell;
        let replaced = is_shell && proc::program_of(pid) != self.shell_program;
        let prompts = is_shell && !replaced && blocked.arguments[2] == PROMPT_READ_BYTES;
        let sight = if prompts && poll.is_none() {
            Sight::ShellPrompt
        } else {
            let evidence = if poll.is_none() { Evidence::TtyRead } else { Evidence::TtyPoll };
            let token = (thread, proc::waits(pid, thread));
            let secret = self.taking(face, at_stderr) == Taking::Secrets;
            Sight::Waits(Wait { evidence, secret, token, replaced, poll })
        };
        Some(Seen { sight, at_stderr })
    }

    /// A process that relays another terminal waits for nobody itself: those on it may.
    fn behind(&self, inner: Slave, tree: &[Process], relays: usize) -> Option<Seen> {
        let relays = relays.checked_sub(1)?;
        let is_member =
            |member: &&Process| member.tty == inner.device && member.group == member.foreground;
        let members = tree.iter().filter(is_member);
        let seen = self.best_of(members, tree, Face::Relayed(inner), relays)?;
        // Whoever answers does so by way of the relay, on the session's own terminal.
        Some(Seen { at_stderr: false, ..seen })
    }

    /// `Some(true)`: the descriptor is the second terminal; `None`: neither.
    fn terminal_of(&self, face: Face, pid: i32, descriptor: u64) -> Option<bool> {
        let opened = proc::device_of(pid, descriptor)?;
        let device = match face {
            Face::Session => self.main.device,
            Face::Relayed(slave) => slave.device,
        };
        if opened == device || opened == DEVICE_TTY {
            return Some(false);
        }
        (matches!(face, Face::Session) && opened == self.stderr.device).then_some(true)
    }

    fn terminal(&self, at_stderr: bool) -> &Terminal {
        if at_stderr { self.stderr } else { self.main }
    }

    fn taking(&self, face: Face, at_stderr: bool) -> Taking {
        match face {
            Face::Session => self.terminal(at_stderr).taking(),
            // The relay has taken the line mode from the session's own terminal.
            Face::Relayed(slave) => Taking::of_slave(slave.number).unwrap_or(Taking::Keys),
        }
    }

    /// True when it may as well be waiting for something else than the terminal.
    fn has_company(
        &self,
        face: Face,
        member: &Process,
        thread: i32,
        polled: &Polled,
        tree: &[Process],
    ) -> bool {
        let pid = member.pid;
        let others = polled
            .descriptors
            .iter()
            .filter(|&&descriptor| self.terminal_of(face, pid, descriptor).is_none());
        others.into_iter().any(|&descriptor| proc::leads_elsewhere(pid, descriptor))
            || tree.iter().any(|child| child.parent == pid && !b"ZTt".contains(&child.state))
            || proc::threads(pid).into_iter().any(|other| other != thread && works(pid, other))
    }
}

/// True for a thread that runs, waits for a disk, or polls for an answer that may not come (the look-up
/// of a name): what an idle one does has no limit.
fn works(pid: i32, thread: i32) -> bool {
    proc::thread_works(pid, thread)
        || proc::blocked_in(pid, thread)
            .ok()
            .flatten()
            .and_then(|blocked| polled(pid, blocked))
            .is_some_and(|polled| polled.limit_ms.is_some())
}

/// How much a sight weighs against another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Busy,
    Limited,
    Hidden,
    Unlimited,
    Certain,
}

fn rank(sight: Sight) -> Rank {
    match sight {
        Sight::Busy => Rank::Busy,
        Sight::ShellPrompt => Rank::Certain,
        Sight::Hidden { .. } => Rank::Hidden,
        Sight::Waits(wait) => match wait.poll {
            None => Rank::Certain,
            Some(poll) if poll.limit_ms.is_none() => Rank::Unlimited,
            Some(_) => Rank::Limited,
        },
    }
}

/// The terminal whose master this descriptor is.
fn relayed(pid: i32, descriptor: u64) -> Option<Slave> {
    let is_master = proc::device_of(pid, descriptor)? == DEVICE_PTMX;
    is_master.then(|| proc::slave_of(pid, descriptor)).flatten()
}

fn is_read(number: i64) -> bool {
    [libc::SYS_read, libc::SYS_readv].contains(&number)
}
