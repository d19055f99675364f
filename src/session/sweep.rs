//! What a dead holder leaves behind. The coordinator is a subreaper too, so the orphans of a
//! holder that was killed become its own children.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::domain::result::Child;

use super::cgroup;
use super::holder::proc::{self, Process};
use super::holder::tree::signal_all;

/// How long to go on killing. What outlasts it is another user's, or waits in the kernel.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// How far up a holder is looked for.
const ANCESTORS_MAX: usize = 4096;

/// Ends what the holder `dead` has left behind: every child of this process that is not among
/// `kept` (the stage, and holders that live on should the stage have died), with all below it.
/// Blocks until they are gone, and names those that cannot be ended.
///
/// A dying process closes its descriptors first, by which its death is known, and hands its
/// children on last: so its own end is waited for. Where its pid was never told there is at most
/// a shell below it, which ends with its terminal.
pub fn strays(dead: Option<i32>, kept: &[i32]) -> Vec<Child> {
    let started = Instant::now();
    while dead.is_some_and(lives) && started.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
    }
    loop {
        // Only when no child is left at all, corpses included, is nothing below one: a walk alone
        // can miss what changes its parent meanwhile.
        bury(kept);
        if orphans(kept).is_empty() {
            cgroup::tidy();
            return Vec::new();
        }
        signal_all(&below(kept), Signal::KILL);
        if started.elapsed() > PATIENCE {
            let child = |process: &Process| Child {
                pid: process.pid,
                command: process.command(),
                ended: false,
            };
            return below(kept).iter().map(child).collect();
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends what sessions of the coordinator at `socket` have left running although no holder lives
/// above it any more: both the holder and the coordinator were killed. What a living holder has
/// is its own to end.
pub fn orphans_of(socket: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let marked = |pid: &i32| {
        let path = format!("/proc/{pid}");
        std::fs::metadata(&path).is_ok_and(|metadata| metadata.uid() == own)
            && std::fs::read(format!("{path}/environ"))
                .is_ok_and(|environ| names_socket(&environ, socket))
    };
    let marked: Vec<i32> =
        pids().into_iter().filter(marked).filter(|pid| !has_holder(*pid)).collect();
    let mut found = Vec::new();
    let mut pids = marked;
    while let Some(pid) = pids.pop() {
        let Some(process) = proc::process(pid).filter(|p| p.state != b'Z') else { continue };
        if found.iter().any(|known: &Process| known.pid == pid) {
            continue;
        }
        pids.extend(proc::children(pid));
        found.push(process);
    }
    signal_all(&found, Signal::KILL);
    cgroup::tidy();
}

fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn names_socket(environ: &[u8], socket: &Path) -> bool {
    let socket = socket.as_os_str().as_bytes();
    environ
        .split(|byte| *byte == 0)
        .any(|variable| variable.strip_prefix(b"CALLBOARD_SOCKET=").is_some_and(|s| s == socket))
}

/// True when a holder, or the stage that forks them, is above the process.
fn has_holder(pid: i32) -> bool {
    let mut at = pid;
    for _ in 0..ANCESTORS_MAX {
        let Some(parent) = parent(at).filter(|parent| *parent > 1) else { return false };
        let line = std::fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).nth(1) == Some(b"__stage") {
            return true;
        }
        at = parent;
    }
    // So deep a tree is not judged.
    true
}

fn parent(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Our children that are not kept.
fn orphans(kept: &[i32]) -> Vec<i32> {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    proc::children(me).into_iter().filter(|pid| !kept.contains(pid)).collect()
}

fn lives(pid: i32) -> bool {
    proc::process(pid).is_some_and(|process| process.state != b'Z')
}

/// The children that are not kept, and all below them, corpses left out.
fn below(kept: &[i32]) -> Vec<Process> {
    let mut pids = orphans(kept);
    let mut found = Vec::new();
    while let Some(pid) = pids.pop() {
        let Some(process) = proc::process(pid) else { continue };
        pids.extend(proc::children(pid));
        if process.state != b'Z' {
            found.push(process);
        }
    }
    found
}

/// Reaps corpses among our children; the kept ones' statuses are their owner's to take.
fn bury(kept: &[i32]) {
    for pid in orphans(kept) {
        let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_no_holder_has_is_ended_and_nothing_else() {
        let sleeper = |socket: &str| {
            let mut command = Command::new("sleep");
            command.arg("600").env("CALLBOARD_SOCKET", socket).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        let own = format!("/tmp/callboard-sweep-{}/control.sock", std::process::id());
        let (mut orphan, mut other) = (sleeper(&own), sleeper(&format!("{own}-2")));
        orphans_of(Path::new(&own));
        assert_eq!(orphan.wait().unwrap().signal(), Some(9));
        assert_eq!(other.try_wait().unwrap(), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
