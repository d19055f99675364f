//! What a dead holder leaves behind. The coordinator is a subreaper too, so the orphans of a
//! holder that was killed become its own children.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::domain::result::Child;

use super::holder::proc::{self, Process};
use super::holder::tree::signal_all;

/// How long to go on killing. What outlasts it is another user's, or waits in the kernel.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

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
