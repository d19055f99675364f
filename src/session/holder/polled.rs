//! What a thread polls: the descriptors and the time limit of the system call in which it waits,
//! read from its process's memory.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::proc::{Blocked, link_of};

/// More descriptors than this nobody hands to poll who waits for a person.
const POLLED_MAX: u64 = 1024;
/// A poll that was stopped and went on shows as `restart_syscall`, and so does a sleep; only the
/// number of descriptors tells them apart, and only a small one does so safely.
const RESTARTED_MAX: u64 = 8;

/// A wait for descriptors to have something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Polled {
    pub descriptors: Vec<u64>,
    /// `None`: for ever.
    pub limit_ms: Option<u64>,
}

/// What this system call waits for; `None` when it is no poll of any kind, or cannot be read.
pub(super) fn polled(pid: i32, blocked: Blocked) -> Option<Polled> {
    let [first, second, third, fourth, fifth, _] = blocked.arguments;
    let number = blocked.number;
    let memory = || Memory::of(pid);
    let polled = if number == libc::SYS_ppoll {
        let memory = memory()?;
        Polled { limit_ms: memory.timespec_ms(third)?, descriptors: memory.polled(first, second) }
    } else if is_poll(number) || (is_restarted(number) && (1..=RESTARTED_MAX).contains(&second)) {
        Polled { limit_ms: int_ms(third), descriptors: memory()?.polled(first, second) }
    } else if number == libc::SYS_pselect6 {
        let memory = memory()?;
        Polled { limit_ms: memory.timespec_ms(fifth)?, descriptors: memory.selected(first, second) }
    } else if is_select(number) {
        let memory = memory()?;
        Polled { limit_ms: memory.timeval_ms(fifth)?, descriptors: memory.selected(first, second) }
    } else if number == libc::SYS_epoll_pwait || is_epoll(number) {
        Polled { limit_ms: int_ms(fourth), descriptors: epolled(pid, first) }
    } else if number == libc::SYS_epoll_pwait2 {
        Polled { limit_ms: memory()?.timespec_ms(fourth)?, descriptors: epolled(pid, first) }
    } else {
        return None;
    };
    Some(polled.with_nested(pid))
}

impl Polled {
    /// An epoll instance among the descriptors stands for what it watches.
    fn with_nested(mut self, pid: i32) -> Self {
        let is_epoll = |descriptor: &u64| {
            *descriptor > 2
                && link_of(pid, *descriptor).is_some_and(|link| link == "anon_inode:[eventpoll]")
        };
        let nested: Vec<u64> = self.descriptors.iter().copied().filter(is_epoll).collect();
        for descriptor in nested {
            self.descriptors.extend(epolled(pid, descriptor));
        }
        self
    }
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

#[cfg(target_arch = "x86_64")]
fn is_restarted(number: i64) -> bool {
    number == libc::SYS_restart_syscall
}

// Newer architectures have the `p` forms alone, and these restart as themselves.
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

#[cfg(not(target_arch = "x86_64"))]
fn is_restarted(_: i64) -> bool {
    false
}

/// A limit in ms is a C `int`: its upper half means nothing, and below 0 there is none.
fn int_ms(argument: u64) -> Option<u64> {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    u64::try_from(i32::from_le_bytes([a, b, c, d])).ok()
}

/// What the epoll instance watches.
fn epolled(pid: i32, descriptor: u64) -> Vec<u64> {
    let watched = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}"));
    watched.unwrap_or_default().lines().filter_map(watched_for_input).collect()
}

/// A line of an epoll instance's `fdinfo`: the descriptor, if it is watched for input.
fn watched_for_input(line: &str) -> Option<u64> {
    let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let descriptor = words.next()?.parse().ok()?;
    let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
    // EPOLLIN: who only waits to write waits for nobody.
    (events & 1 != 0).then_some(descriptor)
}

/// Another process's memory: the arguments of its system call.
struct Memory(File);

impl Memory {
    fn of(pid: i32) -> Option<Self> {
        File::open(format!("/proc/{pid}/mem")).ok().map(Self)
    }

    /// Two numbers of 64 bits: seconds and a part of one.
    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        let mut bytes = [0; 16];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        let (first, second) = bytes.split_first_chunk::<8>()?;
        let number = |bytes: &[u8; 8]| u64::try_from(i64::from_le_bytes(*bytes)).unwrap_or(0);
        Some((number(first), number(second.first_chunk()?)))
    }

    /// `Some(None)`: no address, for ever. `None`: it cannot be read.
    fn timespec_ms(&self, address: u64) -> Option<Option<u64>> {
        self.time_ms(address, 1_000_000)
    }

    fn timeval_ms(&self, address: u64) -> Option<Option<u64>> {
        self.time_ms(address, 1_000)
    }

    fn time_ms(&self, address: u64, parts_per_ms: u64) -> Option<Option<u64>> {
        if address == 0 {
            return Some(None);
        }
        let (seconds, parts) = self.pair(address)?;
        Some(Some(seconds.saturating_mul(1000).saturating_add(parts / parts_per_ms)))
    }

    /// `struct pollfd { int fd; short events; short revents; }`
    fn polled(&self, address: u64, count: u64) -> Vec<u64> {
        let mut bytes = vec![0; usize::try_from(count.min(POLLED_MAX) * 8).unwrap_or(0)];
        if self.0.read_exact_at(&mut bytes, address).is_err() {
            return Vec::new();
        }
        bytes.chunks_exact(8).filter_map(pollfd_for_input).collect()
    }

    /// A bit for each descriptor.
    fn selected(&self, count: u64, address: u64) -> Vec<u64> {
        let mut bytes = vec![0; usize::try_from(count.min(POLLED_MAX).div_ceil(8)).unwrap_or(0)];
        if address == 0 || self.0.read_exact_at(&mut bytes, address).is_err() {
            return Vec::new();
        }
        let is_in = |&descriptor: &u64| {
            let byte = usize::try_from(descriptor / 8).ok().and_then(|index| bytes.get(index));
            byte.is_some_and(|byte| byte & (1 << (descriptor % 8)) != 0)
        };
        (0..count.min(POLLED_MAX)).filter(is_in).collect()
    }
}

fn pollfd_for_input(bytes: &[u8]) -> Option<u64> {
    let [a, b, c, d, low, high, ..] = *bytes else { return None };
    let wants_input = i16::from_le_bytes([low, high]) & libc::POLLIN != 0;
    let descriptor = u64::try_from(i32::from_le_bytes([a, b, c, d])).ok()?;
    wants_input.then_some(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_ints() {
        for (argument, limit) in [
            (0xffff_ffff, None),
            (0, Some(0)),
            (9_999, Some(9_999)),
            (0x1_0000_2710, Some(10_000)),
            (u64::MAX, None),
        ] {
            assert_eq!(int_ms(argument), limit, "{argument}");
        }
    }

    #[test]
    fn only_what_is_watched_for_input_counts() {
        let line = "tfd:        7 events:       19 data:                7  pos:0 ino:3 sdev:d";
        assert_eq!(watched_for_input(line), Some(7));
        assert_eq!(watched_for_input(&line.replace("19", "1c")), None);
        assert_eq!(watched_for_input("flags:\t02"), None);
        assert_eq!(pollfd_for_input(&[3, 0, 0, 0, 1, 0, 0, 0]), Some(3));
        assert_eq!(pollfd_for_input(&[3, 0, 0, 0, 4, 0, 0, 0]), None);
        assert_eq!(pollfd_for_input(&[255, 255, 255, 255, 1, 0, 0, 0]), None);
    }

    #[test]
    fn own_memory_is_read_as_another_s() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let fds: [u8; 16] = [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
        let limit: [u8; 16] = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0x65, 0xcd, 0x1d, 0, 0, 0, 0];
        let arguments = [fds.as_ptr().addr() as u64, 2, limit.as_ptr().addr() as u64, 0, 0, 0];
        let blocked = Blocked { number: libc::SYS_ppoll, arguments };
        let seen = Polled { descriptors: vec![0, 2], limit_ms: Some(2_500) };
        assert_eq!(polled(pid, blocked), Some(seen));
        let set: [u8; 8] = [0b101, 0, 0, 0, 0, 0, 0, 0];
        let arguments = [3, set.as_ptr().addr() as u64, 0, 0, 0, 0];
        let seen = Polled { descriptors: vec![0, 2], limit_ms: None };
        assert_eq!(polled(pid, Blocked { number: libc::SYS_pselect6, arguments }), Some(seen));
        assert_eq!(polled(pid, Blocked { number: libc::SYS_read, arguments }), None);
    }
}
