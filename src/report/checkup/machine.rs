//! What a machine's facts mean.

use super::{Finding, Level};
use crate::domain::machine::{Machine, Means, Notify};
use crate::domain::session::Shell;

/// Open files that many sessions at a time need.
const FILES_WANTED: u64 = 4096;
/// Pseudo-terminals that should be free: two a session.
const PTYS_WANTED: u64 = 64;
/// Processes that should be possible beside those there are.
const PROCESSES_WANTED: u64 = 512;

/// Judges each fact.
pub fn judge(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![
        kernel(machine),
        ptys(machine),
        notify(machine),
        landlock(machine),
        groups(machine),
        needed(
            "pidfd",
            machine.pidfd,
            "a signal reaches the very process it is meant for (Linux 5.3)",
        ),
        needed(
            "subreaper",
            machine.subreaper,
            "whole process trees end with their session (Linux 3.4)",
        ),
        user_namespaces(machine),
        inotify(machine),
        files(machine),
        processes(machine),
        hidepid(machine),
        ptrace(machine),
        temporary(machine),
        runtime(machine),
    ];
    findings
        .extend(machine.shells.iter().map(|(shell, told)| self::shell(*shell, told.as_deref())));
    findings.push(git(machine));
    findings
}

fn kernel(machine: &Machine) -> Finding {
    let means = "Linux 5.19 and later have all that sessions use";
    let (found, id) = (format!("Linux {}", machine.kernel), "kernel");
    match release(&machine.kernel) {
        Some(release) if release >= (5, 19) => Finding::ok(id, found, means),
        Some(release) if release >= (5, 4) => Finding::new(id, Level::Note, found, means)
            .todo("nothing has to be done: what is missing is named below"),
        _ => Finding::new(id, Level::Problem, found, "Linux 5.4 is the oldest that is supported")
            .todo("use a machine with a newer kernel"),
    }
}

fn release(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn ptys(machine: &Machine) -> Finding {
    let means = "each session has two pseudo-terminals";
    let (most, used) = machine.ptys;
    if !machine.pty_opens {
        return Finding::new("ptys", Level::Problem, "none can be opened", means)
            .todo("mount devpts at /dev/pts with ptmxmode=666, or raise kernel.pty.max");
    }
    let (Some(most), Some(used)) = (most, used) else {
        return Finding::ok("ptys", "one can be opened; how many is not told", means);
    };
    let found = format!("{used} of {most} in use");
    if most.saturating_sub(used) >= PTYS_WANTED {
        return Finding::ok("ptys", found, means);
    }
    Finding::new("ptys", Level::Warning, found, means).todo("raise kernel.pty.max with sysctl")
}

fn notify(machine: &Machine) -> Finding {
    let means = "for telling which attempt wrote a file; without it, what changed is told by \
                 watching the workspace, and marked as inferred";
    match machine.notify {
        Some(Notify::Killable) => match machine.tracing {
            Means::Free => Finding::ok("seccomp-notify", "whole, and used", means),
            Means::CostsRights => Finding::new(
                "seccomp-notify",
                Level::Note,
                "whole, but not used by itself without CAP_SYS_ADMIN",
                means,
            )
            .todo("write `tracing = \"on\"` in a manifest; sudo has no effect in its tasks then"),
            Means::Missing => {
                Finding::new("seccomp-notify", Level::Note, "not for this processor", means)
            }
        },
        Some(Notify::Interruptible) => Finding::new(
            "seccomp-notify",
            Level::Note,
            "without WAIT_KILLABLE_RECV (Linux 5.19)",
            means,
        ),
        Some(Notify::Missing) | None => {
            Finding::new("seccomp-notify", Level::Note, "missing", means)
        }
    }
}

fn landlock(machine: &Machine) -> Finding {
    let means = "for keeping a session's writes in their folders; without it only the policy's \
                 reading of commands holds, which is advisory";
    match machine.landlock {
        Some(abi) => Finding::ok("landlock", format!("ABI {abi}"), means),
        None => Finding::new("landlock", Level::Note, "missing", means),
    }
}

fn groups(machine: &Machine) -> Finding {
    let means = "the kernel holds sessions to `memory` and `processes` limits; without it the \
                 session's own accounting does, which sees what is over a little later";
    let words = |wanted| {
        let names = machine.groups.iter().filter(|(_, can)| *can == wanted).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    let (can, cannot) = (words(true), words(false));
    if cannot.is_empty() {
        return Finding::ok("cgroups", format!("groups can be made for {can}"), means);
    }
    let found = format!("no group can be made for {cannot}");
    Finding::new("cgroups", Level::Note, found, means)
        .todo("nothing has to be done; `systemd-run --user --scope -p Delegate=yes` gives a shell that can")
}

fn needed(id: &'static str, is_there: bool, means: &str) -> Finding {
    if is_there {
        return Finding::ok(id, "there", means);
    }
    Finding::new(id, Level::Problem, "missing", means).todo("use a machine with a newer kernel")
}

fn user_namespaces(machine: &Machine) -> Finding {
    let means = "for networks of a session's own; without them, ports are leased";
    match machine.user_namespaces {
        Some(true) => Finding::ok("user-namespaces", "can be made", means),
        Some(false) => Finding::new("user-namespaces", Level::Note, "cannot be made", means),
        None => Finding::new("user-namespaces", Level::Note, "cannot be tried", means),
    }
}

fn inotify(machine: &Machine) -> Finding {
    let means = "a workspace is watched by one instance, and needs a watch for each folder";
    let (Some(instances), Some(watches)) = machine.inotify else {
        return Finding::new("inotify", Level::Note, "missing", means);
    };
    let found = format!("{instances} instances, {watches} watches a user");
    if watches >= 8192 && instances >= 16 {
        return Finding::ok("inotify", found, means);
    }
    Finding::new("inotify", Level::Warning, found, means)
        .todo("raise fs.inotify.max_user_watches to 65536 and max_user_instances to 128")
}

fn files(machine: &Machine) -> Finding {
    let means = "the coordinator has some descriptors open for each session and client";
    let (soft, hard) = machine.files;
    let words = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |most| most.to_string());
    let found = format!("{} open files, at most {}", words(soft), words(hard));
    match soft {
        Some(soft) if soft < 256 => Finding::new("open-files", Level::Problem, found, means)
            .todo(format!("`ulimit -n {FILES_WANTED}` before the coordinator is started")),
        Some(soft) if soft < FILES_WANTED => Finding::new("open-files", Level::Note, found, means)
            .todo(format!("for more than some fifty sessions: `ulimit -n {FILES_WANTED}`")),
        _ => Finding::ok("open-files", found, means),
    }
}

fn processes(machine: &Machine) -> Finding {
    let means = "every session is a process and runs others";
    let (soft, there) = machine.processes;
    match soft {
        // Root's are not counted (`setrlimit(2)`).
        Some(soft) if !machine.is_root && soft.saturating_sub(there) < PROCESSES_WANTED => {
            let found = format!("{there} of {soft} in use");
            Finding::new("processes", Level::Warning, found, means).todo("`ulimit -u` raises it")
        }
        Some(soft) => Finding::ok("processes", format!("{there} of {soft} in use"), means),
        None => Finding::ok("processes", format!("{there} in use, no limit"), means),
    }
}

fn hidepid(machine: &Machine) -> Finding {
    let means = "/proc shows what a session's processes do; with hidepid those of other users are \
                 not seen, and a command run by sudo cannot be told to wait for input";
    match machine.hidepid.as_deref() {
        None | Some("0" | "off") => Finding::ok("proc", "shows all processes", means),
        Some(value) if machine.is_root => {
            Finding::ok("proc", format!("hidepid={value}, which root is not subject to"), means)
        }
        Some(value) => Finding::new("proc", Level::Note, format!("hidepid={value}"), means),
    }
}

fn ptrace(machine: &Machine) -> Finding {
    let means = "/proc/PID/syscall tells that a program reads from its terminal; where it is not \
                 to be read, quiet and the look of the prompt have to do";
    match machine.ptrace_scope {
        Some(scope) if scope >= 2 && !machine.is_root => {
            Finding::new("ptrace-scope", Level::Note, scope.to_string(), means)
                .todo("nothing has to be done; kernel.yama.ptrace_scope=1 is enough for it")
        }
        Some(scope) => Finding::ok("ptrace-scope", scope.to_string(), means),
        None => Finding::ok("ptrace-scope", "not restricted", means),
    }
}

fn temporary(machine: &Machine) -> Finding {
    let means = "programs put their temporary files there, and sessions get folders of their own";
    let (folder, trouble) = &machine.temporary;
    let place = folder.display();
    if let Some(trouble) = trouble {
        let found = format!("`{place}`: {trouble}");
        return Finding::new("temporary", Level::Problem, found, means)
            .todo("set TMPDIR to a folder that can be written to");
    }
    match machine.temporary_executes {
        Some(false) => {
            Finding::new("temporary", Level::Note, format!("`{place}` is mounted noexec"), means)
                .todo("builds that execute what they put there fail: set TMPDIR to another folder")
        }
        _ => Finding::ok("temporary", format!("`{place}`"), means),
    }
}

fn runtime(machine: &Machine) -> Finding {
    let means = "sockets lie there; where it will not do, they lie in /tmp/callboard-UID";
    match &machine.runtime {
        None => Finding::ok("runtime-dir", "XDG_RUNTIME_DIR is not set: /tmp is used", means),
        Some((folder, None)) => {
            Finding::ok("runtime-dir", format!("`{}`", folder.display()), means)
        }
        Some((folder, Some(trouble))) => {
            let found = format!("`{}`: {trouble}", folder.display());
            Finding::new("runtime-dir", Level::Warning, found, means)
                .todo("unset XDG_RUNTIME_DIR, or have it be a folder of yours with mode 0700")
        }
    }
}

fn shell(shell: Shell, told: Option<&str>) -> Finding {
    let (id, means) = match shell {
        Shell::Bash => ("bash", "the shell of sessions that ask for no other"),
        Shell::Zsh => ("zsh", "for sessions that ask for it"),
        Shell::Fish => ("fish", "for sessions that ask for it"),
        Shell::Sh => ("sh", "for sessions that ask for it"),
    };
    match told {
        None if shell == Shell::Bash => {
            Finding::new(id, Level::Problem, "missing", means).todo("install bash 4.4 or later")
        }
        None => Finding::ok(id, "not installed", means),
        Some(words) if shell == Shell::Bash && bash_is_old(words) => {
            Finding::new(id, Level::Problem, words, means).todo("install bash 4.4 or later")
        }
        Some(words) => Finding::ok(id, words, means),
    }
}

fn bash_is_old(words: &str) -> bool {
    let version = words.split_once("version ").and_then(|(_, rest)| release(rest));
    version.is_some_and(|version| version < (4, 4))
}

fn git(machine: &Machine) -> Finding {
    let means = "for worktrees and for what git ignores; without it every file counts";
    match &machine.git {
        Some(words) => Finding::ok("git", words.as_str(), means),
        None => Finding::new("git", Level::Note, "missing", means).todo("install git"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Machine {
        Machine {
            kernel: "6.8.0-31-generic".to_owned(),
            ptys: (Some(4096), Some(10)),
            pty_opens: true,
            tracing: Means::Free,
            notify: Some(Notify::Killable),
            landlock: Some(4),
            groups: vec![("memory", true), ("pids", true)],
            pidfd: true,
            subreaper: true,
            user_namespaces: Some(true),
            inotify: (Some(128), Some(65536)),
            files: (Some(65536), None),
            processes: (Some(10_000), 100),
            ptrace_scope: Some(1),
            temporary: ("/tmp".into(), None),
            temporary_executes: Some(true),
            runtime: Some(("/run/user/1000".into(), None)),
            shells: vec![(Shell::Bash, Some("GNU bash, version 5.2.15(1)-release".to_owned()))],
            git: Some("git version 2.43.0".to_owned()),
            ..Machine::default()
        }
    }

    #[test]
    fn a_good_machine_has_no_findings_and_each_fault_has_one() {
        assert!(judge(&good()).iter().all(|finding| finding.level == Level::Ok));
        let table: Vec<(&str, Level, Machine)> = vec![
            ("kernel", Level::Problem, Machine { kernel: "4.19.0".to_owned(), ..good() }),
            ("kernel", Level::Note, Machine { kernel: "5.10.0-8".to_owned(), ..good() }),
            ("kernel", Level::Problem, Machine { kernel: String::new(), ..good() }),
            ("ptys", Level::Problem, Machine { pty_opens: false, ..good() }),
            ("ptys", Level::Warning, Machine { ptys: (Some(100), Some(90)), ..good() }),
            ("seccomp-notify", Level::Note, Machine { notify: Some(Notify::Missing), ..good() }),
            ("seccomp-notify", Level::Note, Machine { tracing: Means::CostsRights, ..good() }),
            ("seccomp-notify", Level::Note, Machine { tracing: Means::Missing, ..good() }),
            ("landlock", Level::Note, Machine { landlock: None, ..good() }),
            ("cgroups", Level::Note, Machine { groups: vec![("memory", false)], ..good() }),
            ("pidfd", Level::Problem, Machine { pidfd: false, ..good() }),
            ("subreaper", Level::Problem, Machine { subreaper: false, ..good() }),
            ("user-namespaces", Level::Note, Machine { user_namespaces: Some(false), ..good() }),
            ("inotify", Level::Warning, Machine { inotify: (Some(128), Some(100)), ..good() }),
            ("open-files", Level::Note, Machine { files: (Some(1024), None), ..good() }),
            ("open-files", Level::Problem, Machine { files: (Some(64), None), ..good() }),
            ("processes", Level::Warning, Machine { processes: (Some(200), 100), ..good() }),
            ("proc", Level::Note, Machine { hidepid: Some("2".to_owned()), ..good() }),
            ("ptrace-scope", Level::Note, Machine { ptrace_scope: Some(2), ..good() }),
            ("temporary", Level::Note, Machine { temporary_executes: Some(false), ..good() }),
            ("git", Level::Note, Machine { git: None, ..good() }),
            ("bash", Level::Problem, Machine { shells: vec![(Shell::Bash, None)], ..good() }),
            (
                "bash",
                Level::Problem,
                Machine {
                    shells: vec![(Shell::Bash, Some("GNU bash, version 3.2.57".to_owned()))],
                    ..good()
                },
            ),
            (
                "runtime-dir",
                Level::Warning,
                Machine { runtime: Some(("/x".into(), Some("gone".to_owned()))), ..good() },
            ),
        ];
        for (id, level, machine) in table {
            let found = judge(&machine);
            let bad: Vec<_> = found.iter().filter(|finding| finding.level != Level::Ok).collect();
            assert_eq!(bad.len(), 1, "{id}: {bad:?}");
            assert_eq!((bad[0].id, bad[0].level), (id, level), "{bad:?}");
            assert!(level == Level::Note || bad[0].todo.is_some(), "{bad:?}");
        }
    }

    #[test]
    fn root_is_above_some_limits() {
        let root = Machine {
            is_root: true,
            hidepid: Some("2".to_owned()),
            ptrace_scope: Some(3),
            processes: (Some(10), 10),
            ..good()
        };
        assert!(judge(&root).iter().all(|finding| finding.level == Level::Ok));
    }
}
