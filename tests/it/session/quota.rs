//! Limits on memory, processes and processor time: by the kernel where it lets us, and by the
//! holder's own accounting, which a plain user always has.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard::domain::outcome::{CommandState, Reason};
use callboard::domain::result::Note;
use callboard::domain::session::{SessionLimits, Shell};
use callboard::session::link::Stage;

use super::house::{Session, lives, open_as, open_on, spec, stage, with};
use crate::house::skipped;

const MIB: u64 = 1 << 20;
/// Any user who is not root.
const NOBODY: u32 = 65_534;

/// Who holds a session to its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Kernel,
    Holder,
}

/// A session with limits, held to them as wanted; `None` where the machine does not allow it.
async fn open_by(by: By, shell: Shell, limits: SessionLimits) -> Option<Session> {
    let folder = tempfile::tempdir().unwrap();
    let stage = match by {
        By::Kernel => stage(),
        By::Holder => plain_stage(folder.path())?,
    };
    let spec = spec(folder.path());
    let is_root = rustix::process::geteuid().is_root();
    if by == By::Holder && is_root {
        for name in ["", "work", "transcript", "tmp"] {
            chown(folder.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let spec = callboard::domain::session::SessionSpec { shell, limits, ..spec };
    let session = open_as(stage, folder, spec).await.unwrap();
    let grouped = !groups_of(session.shell).is_empty();
    match (by, grouped) {
        (By::Kernel, false) => {
            skipped("limits by the kernel", "no control group can be made here");
            None
        }
        (By::Holder, true) => {
            skipped("limits by accounting", "a plain user can make control groups here");
            None
        }
        _ => Some(session),
    }
}

/// A stage without root's rights.
fn plain_stage(folder: &Path) -> Option<Arc<Stage>> {
    if !rustix::process::geteuid().is_root() {
        return Some(stage());
    }
    if !Path::new("/usr/bin/setpriv").exists() {
        skipped("limits by accounting", "no setpriv");
        return None;
    }
    // The program may lie where nobody else can get to.
    let program = folder.join("program");
    std::fs::copy(env!("CARGO_BIN_EXE_callboard"), &program).unwrap();
    let script = folder.join("stage");
    let ids = format!("--reuid={NOBODY} --regid={NOBODY} --clear-groups");
    let text = format!("#!/bin/sh\nexec setpriv {ids} -- {} \"$@\"\n", program.display());
    std::fs::write(&script, text).unwrap();
    for file in [&program, &script] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some(Arc::new(Stage::start(&script, [("PATH", "/usr/bin:/bin")]).unwrap()))
}

/// The groups made for sessions that a process is in.
fn groups_of(pid: i32) -> Vec<String> {
    let lines = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    lines.lines().filter(|line| line.contains("/callboard-")).map(str::to_owned).collect()
}

/// Folders of groups of this holder that are left anywhere.
fn folders_of(holder: i32) -> Vec<PathBuf> {
    fn walk(folder: &Path, end: &str, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("callboard-") && name.ends_with(end) {
                found.push(entry.path());
            } else if depth > 0 {
                walk(&entry.path(), end, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), &format!("-{holder}"), 6, &mut found);
    found
}

fn quota(resource: &str, limit: u64) -> Option<Reason> {
    Some(Reason::Quota { resource: resource.to_owned(), limit })
}

async fn close(session: Session) {
    let holder = session.holder;
    assert_eq!(session.close().await, 0);
    super::house::eventually("no group is left", || folders_of(holder).is_empty()).await;
}

#[test]
fn t56_who_takes_more_memory_than_it_may_is_ended() {
    for by in [By::Kernel, By::Holder] {
        with(async {
            let memory = Some(256 * MIB);
            let limits = SessionLimits { memory, ..SessionLimits::default() };
            let Some(mut session) = open_by(by, Shell::Bash, limits).await else { return };
            let mut beside = open_on(stage()).await.unwrap();
            assert_eq!(session.run("echo before").await.stdout, "before\n");
            for text in [
                "python3 -c 'b=bytearray(1<<30); input()'",
                "sh -c 'sleep 300 & python3 -c \"b=bytearray(1<<30); input()\"; sleep 300'",
            ] {
                let ended = session.run(text).await;
                assert_eq!(ended.end.state, CommandState::Failed, "{by:?} {text}: {ended:?}");
                assert_eq!(ended.end.reason, quota("memory", 256 * MIB), "{by:?} {text}");
                assert_eq!(ended.end.exit_code, None, "{by:?} {text}");
                assert!(ended.end.duration_ms < 5_000, "{by:?} {text}: {ended:?}");
                for child in &ended.end.children {
                    assert!(child.ended && !lives(child.pid), "{by:?} {text}: {child:?}");
                }
                assert!(!ended.end.notes.contains(&Note::SessionEnded), "{by:?} {ended:?}");
                // The session goes on.
                assert_eq!(session.run("echo next").await.stdout, "next\n", "{by:?} {text}");
            }
            // What stays below its limit is left alone, forked copies of the same memory included.
            let forked = "python3 -c 'import os,time\nb=bytearray(120<<20)\n\
                 for i in range(3):\n if os.fork()==0: time.sleep(0.5); os._exit(0)\n\
                 for i in range(3): os.wait()\nprint(len(b))'";
            let ended = session.run(forked).await;
            assert_eq!(ended.end.state, CommandState::Completed, "{by:?} {ended:?}");
            assert_eq!(beside.run("echo unharmed").await.stdout, "unharmed\n");
            close(session).await;
            assert_eq!(beside.close().await, 0);
        });
    }
}

#[test]
fn t56_a_shell_that_takes_the_memory_itself_goes_and_says_so() {
    for by in [By::Kernel, By::Holder] {
        with(async {
            let memory = Some(64 * MIB);
            let limits = SessionLimits { memory, ..SessionLimits::default() };
            let Some(mut session) = open_by(by, Shell::Bash, limits).await else { return };
            let ended = session.run("x=x; while :; do x=$x$x; done").await;
            assert_eq!(ended.end.reason, quota("memory", 64 * MIB), "{by:?} {ended:?}");
            assert!(ended.end.notes.contains(&Note::SessionEnded), "{by:?} {ended:?}");
            let holder = session.holder;
            while session.fact().await.is_some() {}
            super::house::eventually("no group is left", || folders_of(holder).is_empty()).await;
        });
    }
}

#[test]
fn t56_who_starts_more_processes_than_it_may_is_ended() {
    for by in [By::Kernel, By::Holder] {
        for shell in [Shell::Bash, Shell::Sh] {
            with(async {
                let limits = SessionLimits { processes: Some(64), ..SessionLimits::default() };
                let Some(mut session) = open_by(by, shell, limits).await else { return };
                let mut beside = open_on(stage()).await.unwrap();
                for text in [
                    "for i in $(seq 500); do sleep 30 & done",
                    "bash -c 'for i in $(seq 500); do setsid sleep 30 & done; wait'",
                    "python3 -c 'import threading,time\nfor i in range(500): threading.Thread(target=time.sleep, args=(30,)).start()'",
                ] {
                    let ended = session.run(text).await;
                    assert_eq!(ended.end.state, CommandState::Failed, "{by:?} {text}: {ended:?}");
                    assert_eq!(ended.end.reason, quota("processes", 64), "{by:?} {text}");
                    assert!(ended.end.duration_ms < 5_000, "{by:?} {text}: {ended:?}");
                    assert!(ended.end.children.iter().all(|child| child.ended), "{by:?} {text}");
                    for child in &ended.end.children {
                        assert!(!lives(child.pid), "{by:?} {text}: {child:?}");
                    }
                    assert!(!ended.end.notes.contains(&Note::SessionEnded), "{by:?} {ended:?}");
                    let next = session.run("echo next").await;
                    assert_eq!(next.stdout, "next\n", "{by:?} {text}: {next:?}");
                }
                // Each makes two, and so on; six times, so that it ends even if nobody ends it.
                let doubling =
                    "f(){ [ $1 = 0 ] || { f $(($1-1)) & f $(($1-1)) & }; sleep 20; }; f 6";
                let text = format!("bash -c '{doubling}'");
                let ended = session.run(&text).await;
                assert_eq!(ended.end.reason, quota("processes", 64), "{by:?} {ended:?}");
                assert!(ended.end.children.iter().all(|child| !lives(child.pid)), "{by:?}");
                // As many as it may have, at the same time, and every process has left by the next.
                for _ in 0..2 {
                    let many = "bash -c 'for i in $(seq 50); do sleep 0.3 & done; wait; echo fine'";
                    let ended = session.run(many).await;
                    assert_eq!(ended.end.state, CommandState::Completed, "{by:?} {ended:?}");
                }
                assert_eq!(beside.run("echo unharmed").await.stdout, "unharmed\n");
                close(session).await;
                assert_eq!(beside.close().await, 0);
            });
        }
    }
}

#[test]
fn what_a_command_left_behind_is_held_to_the_limit_as_well() {
    for by in [By::Kernel, By::Holder] {
        with(async {
            let memory = Some(128 * MIB);
            let limits = SessionLimits { memory, ..SessionLimits::default() };
            let Some(mut session) = open_by(by, Shell::Bash, limits).await else { return };
            let grows =
                "python3 -c 'import time; time.sleep(0.3); b=bytearray(1<<30); time.sleep(99)'";
            let ended = session.run(&format!("{grows} & echo $!")).await;
            assert_eq!(ended.end.state, CommandState::Completed, "{by:?} {ended:?}");
            let job: i32 = ended.stdout.trim().parse().unwrap();
            super::house::eventually("the job is killed", || !lives(job)).await;
            // Nobody else is blamed for it.
            let next = session.run("echo next").await;
            assert_eq!((next.end.state, &*next.stdout), (CommandState::Completed, "next\n"));
            close(session).await;
        });
    }
}

#[test]
fn processor_time_is_counted_over_the_whole_tree() {
    with(async {
        let limits = SessionLimits { cpu_ms: Some(600), ..SessionLimits::default() };
        let Some(mut session) = open_by(By::Holder, Shell::Bash, limits).await else { return };
        let burn = "while :; do :; done";
        for text in [
            burn,
            &format!("bash -c '{burn}'"),
            // In short pieces that nobody sees alive twice.
            "while :; do bash -c 'for ((i=0;i<20000;i++)); do :; done'; done",
            &format!("(bash -c '{burn}' &); (bash -c '{burn}' &); sleep 60"),
        ] {
            let ended = session.run(text).await;
            assert_eq!(ended.end.state, CommandState::Failed, "{text}: {ended:?}");
            assert_eq!(ended.end.reason, quota("cpu", 600), "{text}");
            assert_eq!(session.run("echo next").await.stdout, "next\n", "{text}");
        }
        // Time that passes is not time that is used, and each command has its own. An earlier job's
        // is not the command's, not even when the shell buries it.
        let job = session.run("(end=$((SECONDS+1)); while [ $SECONDS -lt $end ]; do :; done) &");
        assert_eq!(job.await.end.state, CommandState::Completed);
        let ended = session.run("sleep 0.8; wait; echo fine").await;
        assert_eq!(ended.end.state, CommandState::Completed, "{ended:?}");
        close(session).await;
    });
}

#[test]
fn what_a_killed_holder_had_made_is_removed() {
    with(async {
        let limits = SessionLimits { processes: Some(64), ..SessionLimits::default() };
        let Some(session) = open_by(By::Kernel, Shell::Bash, limits).await else { return };
        let holder = session.holder;
        assert!(!folders_of(holder).is_empty());
        let pid = rustix::process::Pid::from_raw(holder).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        // The next session that needs a group looks for those that nobody has.
        super::house::eventually("the shell is gone", || !lives(session.shell)).await;
        super::house::eventually("the holder is gone", || !lives(holder)).await;
        let limits = SessionLimits { processes: Some(64), ..SessionLimits::default() };
        let next = open_by(By::Kernel, Shell::Bash, limits).await.unwrap();
        assert!(folders_of(holder).is_empty());
        close(next).await;
    });
}
