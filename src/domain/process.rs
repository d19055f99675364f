//! Who a process is: a pid alone says nothing once it has been used again.

use serde::{Deserialize, Serialize};

/// A process for good: pids come round again, start times within one boot do not (`proc_pid_stat(5)`,
/// field 22), and boots have names of their own (`/proc/sys/kernel/random/boot_id`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its pid, in its pid namespace.
    pub pid: i32,
    /// When it started, in clock ticks since the boot.
    pub start_time: u64,
    /// The boot.
    pub boot_id: String,
    /// The inode of its pid namespace (`/proc/self/ns/pid`).
    pub pid_namespace: u64,
}
