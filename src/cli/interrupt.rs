//! Ctrl-C and its kin, turned into events of the verb that runs.

use std::{fs, io, thread};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Calls `heard` for each SIGINT, SIGTERM and SIGHUP from now on, from a thread of its own. A
/// signal that the caller was started to ignore (`nohup`, a background job of a script) stays
/// ignored.
///
/// # Errors
/// When the system does not let us listen.
pub(super) fn watch(heard: impl FnMut() + Send + 'static) -> io::Result<()> {
    listen(&[SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()], heard)
}

/// The same for each new size of the caller's window.
///
/// # Errors
/// When the system does not let us listen.
pub(super) fn watch_window(heard: impl FnMut() + Send + 'static) -> io::Result<()> {
    listen(&[SignalKind::window_change()], heard)
}

fn listen(kinds: &[SignalKind], mut heard: impl FnMut() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let ignored = ignored_signals();
    let mut signals = Vec::new();
    for kind in kinds {
        if !is_in(ignored, kind.as_raw_value()) {
            signals.push(signal(*kind)?);
        }
    }
    drop(entered);
    let listening = move || {
        runtime.block_on(async {
            while next(&mut signals).await {
                heard();
            }
        })
    };
    thread::Builder::new().name("signals".to_owned()).spawn(listening)?;
    Ok(())
}

/// Waits for any of them; false when none can come any more.
async fn next(signals: &mut [Signal]) -> bool {
    if signals.is_empty() {
        return false;
    }
    std::future::poll_fn(|context| {
        let arrived = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if arrived { std::task::Poll::Ready(true) } else { std::task::Poll::Pending }
    })
    .await
}

/// The mask of ignored signals that this process was born with; empty where it cannot be read.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    mask_in(&status)
}

fn mask_in(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_in(mask: u64, signal: i32) -> bool {
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_heard_instead_of_obeyed() {
        if is_in(ignored_signals(), 1) {
            return;
        }
        let (sender, heard) = std::sync::mpsc::channel();
        watch(move || sender.send(()).unwrap()).unwrap();
        for _ in 0..2 {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::HUP).unwrap();
            heard.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
        }
    }

    #[test]
    fn masks_are_read_as_the_kernel_writes_them() {
        let mask = mask_in("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n");
        assert!(is_in(mask, 1), "SIGHUP");
        assert!(is_in(mask, 13), "SIGPIPE");
        assert!(!is_in(mask, 2), "SIGINT");
        assert_eq!(mask_in("nothing of the kind"), 0);
    }
}
