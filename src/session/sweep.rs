//! What a dead holder leaves behind. The coordinator is a subreaper too, so the orphans of a
//! holder that was killed become its own children.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::domain::ids::SessionId;
use crate::domain::process::ProcessIdentity;
use crate::domain::result::Child;

use super::holder::proc::{self, Process};
use super::holder::tree::signal_all;
use super::{cgroup, identity};

/// How long to go on killing. What outlasts it is another user's, or waits in the kernel.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// How long a process may take from the end of its link to its own.
const DYING: Duration = Duration::from_millis(500);
/// How far up a holder is looked for.
const ANCESTORS_MAX: usize = 4096;

/// Ends what a session's dead holder has left behind: every child of this process that is not among
/// `kept` (the stage, and holders that live on should the stage have died), with all below it, and
/// whatever carries the session's mark and has no holder: of one that was adopted nothing comes to
/// us. Blocks until they are gone, and names those that cannot be ended.
///
/// A dying process closes its descriptors first, by which its death is known, and hands its
/// children on last: so its own end is waited for, and brought about where it only let go of its
/// link. Where it was never told who it is there is at most a shell below it, which ends with its
/// terminal.
pub fn strays(session: &SessionId, dead: Option<&ProcessIdentity>, kept: &[i32]) -> Vec<Child> {
    let started = Instant::now();
    while dead.is_some_and(identity::lives) && started.elapsed() < PATIENCE {
        if let Some(dead) = dead.filter(|_| started.elapsed() > DYING) {
            // What cannot be signalled is named below, with the rest of it.
            drop(identity::signal(dead, Signal::KILL));
        }
        std::thread::sleep(PAUSE);
    }
    let mark = format!("CALLBOARD_SESSION={session}");
    loop {
        // Only when no child is left at all, corpses included, is nothing below one: a walk alone
        // can miss what changes its parent meanwhile.
        bury(kept);
        let mut left = if orphans(kept).is_empty() { Vec::new() } else { below(kept) };
        left.extend(marked(mark.as_bytes()));
        // Whatever has put its mark away is in the session's groups still, where there are any.
        left.extend(cgroup::members(session.as_str()).into_iter().filter_map(living));
        if left.is_empty() && orphans(kept).is_empty() {
            cgroup::tidy();
            return Vec::new();
        }
        signal_all(&left, Signal::KILL);
        if started.elapsed() > PATIENCE {
            let child = |process: &Process| Child {
                pid: process.pid,
                command: process.command(),
                ended: false,
            };
            let mut named: Vec<Child> = left.iter().map(child).collect();
            named.sort_by_key(|child| child.pid);
            named.dedup_by_key(|child| child.pid);
            return named;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends what sessions of the coordinator at `socket` have left running although no holder lives
/// above it any more: both the holder and the coordinator were killed. What a living holder has
/// is its own to end.
pub fn orphans_of(socket: &Path) {
    let mut mark = b"CALLBOARD_SOCKET=".to_vec();
    mark.extend_from_slice(socket.as_os_str().as_bytes());
    signal_all(&marked(&mark), Signal::KILL);
    cgroup::tidy();
}

/// A process that no holder has any more.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// Which, for good.
    pub identity: ProcessIdentity,
    /// Its command line, for recognising it.
    pub command: String,
}

/// What `orphans_of` would end.
pub fn list_orphans(socket: &Path) -> Vec<Orphan> {
    let mut mark = b"CALLBOARD_SOCKET=".to_vec();
    mark.extend_from_slice(socket.as_os_str().as_bytes());
    let orphan = |process: Process| {
        let identity = identity::of(process.pid).ok()?;
        // Another one may have the pid by now.
        let is_it = identity.start_time == process.start;
        is_it.then(|| Orphan { identity, command: process.command() })
    };
    marked(&mark).into_iter().filter_map(orphan).collect()
}

/// Ends an orphan, if it still is that very process; true when it was there.
///
/// # Errors
/// When it may not be ended.
pub fn end_orphan(orphan: &Orphan) -> std::io::Result<bool> {
    identity::signal(&orphan.identity, Signal::KILL)
}

/// The holder that writes the transcript in this folder, for one that was never told who it is.
pub fn holder_of(transcript: &Path) -> Option<ProcessIdentity> {
    let own = rustix::process::geteuid().as_raw();
    let is_holder = |pid: &i32| {
        let path = format!("/proc/{pid}");
        std::fs::metadata(&path).is_ok_and(|metadata| metadata.uid() == own)
            && std::fs::read_to_string(format!("{path}/comm"))
                .is_ok_and(|n| n.trim() == "cb-holder")
            && std::fs::read_dir(format!("{path}/fd")).is_ok_and(|mut open| {
                open.any(|entry| {
                    let link = entry.and_then(|entry| std::fs::read_link(entry.path()));
                    link.is_ok_and(|file| file.starts_with(transcript))
                })
            })
    };
    pids().into_iter().find(is_holder).and_then(|pid| identity::of(pid).ok())
}

/// Processes of our user with this variable in their environment and no holder above them, and all
/// below those, corpses left out.
fn marked(variable: &[u8]) -> Vec<Process> {
    let own = rustix::process::geteuid().as_raw();
    let is_marked = |pid: &i32| {
        let path = format!("/proc/{pid}");
        std::fs::metadata(&path).is_ok_and(|metadata| metadata.uid() == own)
            && std::fs::read(format!("{path}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|v| v == variable))
    };
    let mut pids: Vec<i32> =
        pids().into_iter().filter(is_marked).filter(|pid| !has_holder(*pid)).collect();
    let mut found: Vec<Process> = Vec::new();
    while let Some(pid) = pids.pop() {
        let Some(process) = living(pid) else { continue };
        if found.iter().any(|known: &Process| known.pid == pid) {
            continue;
        }
        pids.extend(proc::children(pid));
        found.push(process);
    }
    found
}

fn living(pid: i32) -> Option<Process> {
    proc::process(pid).filter(|process| process.state != b'Z')
}

fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
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
