//! Tells when a file grows, as the kernel does.

use std::mem::MaybeUninit;
use std::path::Path;
use std::thread;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Calls `grown` from a thread of its own whenever the file is written to. False where the system
/// cannot tell: then it has to be looked at.
pub(super) fn watch(file: &Path, mut grown: impl FnMut() + Send + 'static) -> bool {
    let Ok(descriptor) = inotify::init(CreateFlags::CLOEXEC) else { return false };
    if inotify::add_watch(&descriptor, file, WatchFlags::MODIFY).is_err() {
        return false;
    }
    let watching = move || {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&descriptor, &mut buffer);
        loop {
            match events.next() {
                Ok(_) => grown(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    thread::Builder::new().name("growth".to_owned()).spawn(watching).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    #[test]
    fn what_is_written_is_told() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let (told, heard) = std::sync::mpsc::channel();
        assert!(super::watch(file.path(), move || told.send(()).unwrap()));
        for _ in 0..3 {
            file.write_all(b"x").unwrap();
            heard.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
        }
    }
}
