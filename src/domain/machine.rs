//! What a machine gives: facts that a check-up judges.

use std::path::PathBuf;

use super::session::Shell;

/// What was found. `None` is always: it cannot be told here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// Pseudo-terminals: at most, and in use.
    pub ptys: (Option<u64>, Option<u64>),
    /// One could be opened.
    pub pty_opens: bool,
    /// Seccomp user notification, and whether a notified call can wait unharmed (Linux 5.19).
    pub notify: Option<Notify>,
    /// The Landlock ABI; `None` without Landlock.
    pub landlock: Option<u32>,
    /// A control group for sessions' limits can be made.
    pub groups: Vec<(&'static str, bool)>,
    /// pidfds are there (Linux 5.3).
    pub pidfd: bool,
    /// `PR_SET_CHILD_SUBREAPER` is there.
    pub subreaper: bool,
    /// A user namespace could be made.
    pub user_namespaces: Option<bool>,
    /// inotify: instances and watches that a user may have.
    pub inotify: (Option<u64>, Option<u64>),
    /// Open files: the soft and the hard limit; `None` is unlimited.
    pub files: (Option<u64>, Option<u64>),
    /// Processes of the user: soft limit, and how many there are.
    pub processes: (Option<u64>, u64),
    /// The value of `hidepid` that `/proc` is mounted with.
    pub hidepid: Option<String>,
    /// Yama's `ptrace_scope`.
    pub ptrace_scope: Option<u64>,
    /// The temporary folder, and what is wrong with it.
    pub temporary: (PathBuf, Option<String>),
    /// Programs in a temporary folder can be executed.
    pub temporary_executes: Option<bool>,
    /// `XDG_RUNTIME_DIR`, where it is set, and what is wrong with it.
    pub runtime: Option<(PathBuf, Option<String>)>,
    /// Shells, and the version that each tells; `None` for one that is not there.
    pub shells: Vec<(Shell, Option<String>)>,
    /// What git says of its version.
    pub git: Option<String>,
    /// What it takes to have calls told.
    pub tracing: Means,
    /// True for root.
    pub is_root: bool,
}

/// What it takes to have the kernel tell which files a session changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// Nothing: this process may install filters.
    Free,
    /// `NO_NEW_PRIVS`, with which sudo and other set-user-id programs have no effect.
    CostsRights,
    /// The kernel cannot (before Linux 5.19, or without seccomp).
    #[default]
    Missing,
}

/// How much of seccomp user notification there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// None.
    Missing,
    /// Without `WAIT_KILLABLE_RECV`: a signal cuts a notified call off (`seccomp(2)`).
    Interruptible,
    /// All that is needed.
    Killable,
}
