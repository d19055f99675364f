//! Looking at the machine, for `doctor`. Changes nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use super::os::{features, notify};
use super::shells::table;
use super::{cgroup, identity};
use crate::domain::machine::{Machine, Means};
use crate::domain::session::Shell;

/// How long a program may take to say its version.
const VERSION_MAX: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// Looks. Takes some tens of milliseconds: programs are asked for their versions.
pub fn look() -> Machine {
    let temporary = std::env::temp_dir();
    let path = std::env::var_os("PATH").unwrap_or_default();
    Machine {
        kernel: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
        ptys: (number("/proc/sys/kernel/pty/max"), number("/proc/sys/kernel/pty/nr")),
        pty_opens: rustix::pty::openpt(rustix::pty::OpenptFlags::NOCTTY).is_ok(),
        notify: Some(features::notify()),
        landlock: features::landlock(),
        groups: cgroup::offered(),
        pidfd: identity::own().is_ok_and(|own| {
            let pid = rustix::process::Pid::from_raw(own.pid);
            pid.is_some_and(|pid| {
                rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).is_ok()
            })
        }),
        subreaper: rustix::process::child_subreaper().is_ok(),
        user_namespaces: features::user_namespaces(),
        inotify: (
            number("/proc/sys/fs/inotify/max_user_instances"),
            number("/proc/sys/fs/inotify/max_user_watches"),
        ),
        files: limit(Resource::Nofile),
        processes: (limit(Resource::Nproc).0, own_processes()),
        hidepid: hidepid(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()),
        ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope"),
        temporary_executes: executes(&temporary),
        temporary: (temporary.clone(), folder_trouble(&temporary, false)),
        runtime: std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()).map(
            |value| {
                let folder = PathBuf::from(value);
                let trouble = folder_trouble(&folder, true);
                (folder, trouble)
            },
        ),
        shells: [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Sh]
            .map(|shell| (shell, shell_version(shell, &path.to_string_lossy())))
            .into(),
        git: version("git".as_ref(), &["--version"]),
        tracing: means(),
        is_root: rustix::process::geteuid().is_root(),
    }
}

/// What it takes to trace sessions here.
pub fn means() -> Means {
    notify::means()
}

fn line(file: &str) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn number(file: &str) -> Option<u64> {
    line(file)?.parse().ok()
}

fn limit(resource: Resource) -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(resource);
    (limit.current, limit.maximum)
}

/// Processes of our user that `/proc` shows.
fn own_processes() -> u64 {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |entry: &fs::DirEntry| {
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<i32>().is_ok());
        is_process && entry.metadata().is_ok_and(|metadata| metadata.uid() == own)
    };
    fs::read_dir("/proc").map_or(0, |entries| entries.flatten().filter(is_own).count() as u64)
}

/// The option of that name on the mount at `/proc`.
fn hidepid(mounts: &str) -> Option<String> {
    let proc = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let options = proc.split_once(" - ")?.1.split(' ').nth(2)?;
    options.split(',').find_map(|option| option.strip_prefix("hidepid=")).map(str::to_owned)
}

/// What is wrong with a folder of the user's.
fn folder_trouble(folder: &Path, private: bool) -> Option<String> {
    let found = match folder.metadata() {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    if !found.is_dir() {
        return Some("it is no folder".to_owned());
    }
    let own = rustix::process::geteuid().as_raw();
    if private && found.uid() != own {
        return Some(format!("it belongs to user {}", found.uid()));
    }
    if private && found.mode() & 0o077 != 0 {
        return Some(format!("its mode is {:03o}: others may enter it", found.mode() & 0o777));
    }
    let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK);
    writable.err().map(|error| format!("it cannot be written to: {error}"))
}

/// Whether a script in a folder can be executed: one is tried.
fn executes(folder: &Path) -> Option<bool> {
    let script = folder.join(format!("callboard-doctor-{}", std::process::id()));
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&script);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, b"#!/bin/sh\n"));
    let answer = written.ok().map(|()| {
        let tried = Command::new(&script).stdin(Stdio::null()).status();
        !tried.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    });
    // What cannot be removed was never made.
    drop(fs::remove_file(&script));
    answer
}

fn shell_version(shell: Shell, path: &str) -> Option<String> {
    let program = table::file_of(table::of(shell), path)?;
    // A plain sh need not know the flag; that it is there is all that counts.
    let told = match shell {
        Shell::Sh => None,
        _ => version(&program, &["--version"]),
    };
    Some(told.unwrap_or_else(|| program.display().to_string()))
}

/// The first line of what a program says, if it says it in time.
fn version(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let started = Instant::now();
    while !matches!(child.try_wait(), Ok(Some(_))) {
        if started.elapsed() > VERSION_MAX {
            drop(child.kill());
            drop(child.wait());
            return None;
        }
        std::thread::sleep(PAUSE);
    }
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_looked_at_and_nothing_is_left() {
        let machine = look();
        assert!(machine.pidfd && machine.subreaper && !machine.kernel.is_empty(), "{machine:?}");
        assert!(machine.shells.iter().any(|(shell, told)| *shell == Shell::Sh && told.is_some()));
        let left = std::env::temp_dir().join(format!("callboard-doctor-{}", std::process::id()));
        assert!(!left.exists());
    }

    #[test]
    fn the_last_mount_at_proc_counts() {
        let mounts = "1 0 0:1 / /proc rw - proc proc rw\n\
                      2 0 0:2 / /proc rw,nosuid - proc proc rw,hidepid=invisible,gid=5\n";
        assert_eq!(hidepid(mounts).as_deref(), Some("invisible"));
        assert_eq!(hidepid("1 0 0:1 / /proc rw - proc proc rw\n"), None);
        assert_eq!(hidepid(""), None);
    }
}
