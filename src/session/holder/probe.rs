//! A look at the foreground group: does a process there wait for one of our terminals?

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::command::awaiting::{Sight, Wait};
use crate::domain::result::Evidence;

use super::super::os::pty::Terminal;
use super::proc::{self, Blocked, Process};

/// `/dev/tty`, whatever it stands for.
const DEVICE_TTY: u64 = 5 << 8;
/// bash reads its own prompt's line with a buffer of this size, and its `read` never does.
const PROMPT_READ_BYTES: u64 = 0x400;
/// A poll that ends by itself so soon is a tick, not a question.
const POLL_MS_MIN: i64 = 10_000;
/// More descriptors than this nobody hands to poll who waits for a person.
const POLLED_MAX: u64 = 1024;

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

impl View<'_> {
    /// Looks at the foreground group; `tree` are the session's other processes.
    pub(super) fn look(&self, tree: &[Process]) -> Seen {
        let nothing = Seen { sight: Sight::Busy, at_stderr: false };
        let Some(group) = self.main.foreground() else { return nothing };
        let mut best = nothing;
        let shell = proc::process(self.shell).filter(|shell| shell.group == group);
        let members = shell.iter().chain(tree.iter().filter(|member| member.group == group));
        for member in members {
            for thread in proc::threads(member.pid) {
                match self.look_at(member.pid, thread) {
                    Some(seen) if is_certain(seen.sight) => return seen,
                    Some(seen) => best = seen,
                    None => {}
                }
            }
        }
        best
    }

    fn look_at(&self, pid: i32, thread: i32) -> Option<Seen> {
        let Ok(blocked) = proc::blocked_in(pid, thread) else {
            let sight = Sight::Hidden { secret: self.main.is_secret() };
            return Some(Seen { sight, at_stderr: false });
        };
        let blocked = blocked?;
        let (evidence, at_stderr) = if is_read(blocked.number) {
            (Evidence::TtyRead, self.terminal_of(pid, blocked.arguments[0])?)
        } else {
            (Evidence::TtyPoll, self.polled(pid, blocked)?)
        };
        let terminal = if at_stderr { self.stderr } else { self.main };
        // Something to read is there: it is about to wake.
        if terminal.unread() > 0 {
            return None;
        }
        let is_shell = pid == self.shell;
        let replaced = is_shell && proc::program_of(pid) != self.shell_program;
        let prompts = is_shell && !replaced && blocked.arguments[2] == PROMPT_READ_BYTES;
        let sight = if prompts && evidence == Evidence::TtyRead {
            Sight::ShellPrompt
        } else {
            let token = (thread, proc::waits(pid, thread));
            Sight::Waits(Wait { evidence, secret: terminal.is_secret(), token, replaced })
        };
        Some(Seen { sight, at_stderr })
    }

    /// `Some(true)`: the descriptor is the second terminal; `None`: neither.
    fn terminal_of(&self, pid: i32, descriptor: u64) -> Option<bool> {
        let device = proc::device_of(pid, descriptor)?;
        if device == self.main.device || device == DEVICE_TTY {
            Some(false)
        } else {
            (device == self.stderr.device).then_some(true)
        }
    }

    fn polled(&self, pid: i32, blocked: Blocked) -> Option<bool> {
        let [first, second, third, fourth, fifth, _] = blocked.arguments;
        let memory = Memory::of(pid)?;
        let number = blocked.number;
        let descriptors = if number == libc::SYS_ppoll || is_poll(number) {
            let patient = if number == libc::SYS_ppoll {
                memory.is_long_timespec(third)
            } else {
                is_long_ms(third)
            };
            patient.then(|| memory.polled(first, second))?
        } else if number == libc::SYS_pselect6 || is_select(number) {
            let patient = if number == libc::SYS_pselect6 {
                memory.is_long_timespec(fifth)
            } else {
                memory.is_long_timeval(fifth)
            };
            patient.then(|| memory.selected(first, second))?
        } else if number == libc::SYS_epoll_pwait || is_epoll(number) {
            is_long_ms(fourth).then(|| epolled(pid, first))?
        } else if number == libc::SYS_epoll_pwait2 {
            memory.is_long_timespec(fourth).then(|| epolled(pid, first))?
        } else {
            return None;
        };
        descriptors.into_iter().find_map(|descriptor| self.terminal_of(pid, descriptor))
    }
}

fn is_certain(sight: Sight) -> bool {
    match sight {
        Sight::ShellPrompt => true,
        Sight::Waits(wait) => wait.evidence == Evidence::TtyRead,
        Sight::Busy | Sight::Hidden { .. } => false,
    }
}

fn is_read(number: i64) -> bool {
    [libc::SYS_read, libc::SYS_readv].contains(&number)
}

#[cfg(target_arch = "x86_64")]
fn is_poll(number: i64) -> bool {
    number == libc::SYS_poll
}

#[cfg(target_arch = "x86_64")]
fn is_select(number: i64) -> bool {
    number == libc::SYS_select
}

#[cfg(target_arch = "x86_64")]
fn is_epoll(number: i64) -> bool {
    number == libc::SYS_epoll_wait
}

// Newer architectures have the `p` forms alone.
#[cfg(not(target_arch = "x86_64"))]
fn is_poll(_: i64) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn is_select(_: i64) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn is_epoll(_: i64) -> bool {
    false
}

/// A timeout argument in ms is a C `int`: its upper half means nothing.
fn is_long_ms(argument: u64) -> bool {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    let ms = i32::from_le_bytes([a, b, c, d]);
    ms < 0 || i64::from(ms) >= POLL_MS_MIN
}

/// What the epoll instance watches.
fn epolled(pid: i32, descriptor: u64) -> Vec<u64> {
    let watched = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}"));
    watched
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
            let descriptor = words.next()?.parse().ok()?;
            let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
            // EPOLLIN: who only waits to write waits for nobody.
            (events & 1 != 0).then_some(descriptor)
        })
        .collect()
}

/// Another process's memory: the arguments of its system call.
struct Memory(File);

impl Memory {
    fn of(pid: i32) -> Option<Self> {
        File::open(format!("/proc/{pid}/mem")).ok().map(Self)
    }

    fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    /// No address: for ever.
    fn is_long_timespec(&self, address: u64) -> bool {
        address == 0
            || self
                .read::<8>(address)
                .is_some_and(|seconds| i64::from_le_bytes(seconds) >= POLL_MS_MIN / 1000)
    }

    /// Its seconds come first, too.
    fn is_long_timeval(&self, address: u64) -> bool {
        self.is_long_timespec(address)
    }

    /// `struct pollfd { int fd; short events; short revents; }`
    fn polled(&self, address: u64, count: u64) -> Vec<u64> {
        (0..count.min(POLLED_MAX))
            .filter_map(|index| {
                let [a, b, c, d, events, ..] = self.read::<8>(address + index * 8)?;
                let wants_input = i16::from(events) & libc::POLLIN != 0;
                let descriptor = u64::try_from(i32::from_le_bytes([a, b, c, d])).ok()?;
                wants_input.then_some(descriptor)
            })
            .collect()
    }

    /// A bit for each descriptor.
    fn selected(&self, count: u64, address: u64) -> Vec<u64> {
        if address == 0 {
            return Vec::new();
        }
        (0..count.min(POLLED_MAX))
            .filter(|descriptor| {
                self.read::<1>(address + descriptor / 8)
                    .is_some_and(|[byte]| byte & (1 << (descriptor % 8)) != 0)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_timeouts_are_waits() {
        for (argument, long) in
            [(0xffff_ffff, true), (0, false), (9_999, false), (10_000, true), (u64::MAX, true)]
        {
            assert_eq!(is_long_ms(argument), long, "{argument}");
        }
    }
}
