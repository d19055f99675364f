//! How much memory a process has, as `/proc` says.

use super::proc::Process;

/// What the processes have together, once it is more than `limit` bytes. Files that were only read
/// are not counted: the kernel takes their memory back when it needs it. What several processes
/// share counts once, but dividing it is dear, so that is left until the plain sum is too great.
pub(super) fn memory_over(processes: &[Process], limit: u64) -> bool {
    let whole = processes.iter().map(|process| resident(process.pid)).sum::<u64>();
    whole > limit && processes.iter().map(|process| share(process.pid)).sum::<u64>() > limit
}

/// What it has in memory or swap and could not be had from a file again, in bytes.
pub(super) fn resident(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    sum_of(&status, &["RssAnon:", "RssShmem:", "VmSwap:"]).unwrap_or(0)
}

/// The same with what is shared divided among those that share it; the whole where a kernel or
/// another user's process does not say.
fn share(pid: i32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    sum_of(&rollup, &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"]).unwrap_or_else(|| resident(pid))
}

/// The sum of these fields, in bytes; `None` where not one is there.
fn sum_of(text: &str, fields: &[&str]) -> Option<u64> {
    let kib = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next().filter(|name| fields.contains(name))?;
        words.next()?.parse::<u64>().ok()
    });
    kib.reduce(|sum, next| sum.saturating_add(next)).map(|kib| kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::holder::proc;

    #[test]
    fn fields_are_added() {
        let status = "Name:\tRssAnon: 7\nRssAnon:\t  100 kB\nRssFile:\t 50 kB\nRssShmem:\t 1 kB\n";
        assert_eq!(sum_of(status, &["RssAnon:", "RssShmem:"]), Some(101 * 1024));
        assert_eq!(sum_of(status, &["Pss_Anon:"]), None);
    }

    #[test]
    fn what_is_touched_counts_and_what_is_shared_counts_once() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let before = resident(pid);
        let touched = vec![1_u8; 64 << 20];
        assert!(resident(pid) >= before + (60 << 20), "{before}");
        assert!(share(pid) >= 60 << 20);
        let me = proc::process(pid).unwrap();
        assert!(memory_over(std::slice::from_ref(&me), 48 << 20));
        assert!(!memory_over(&[me], 1 << 40));
        drop(touched);
    }
}
