//! Notices that the worktree of an attempt that runs is gone.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::daemon::inbox::Event;
use crate::domain::ids::AttemptId;

/// How often it is looked for. A watch of the kernel's would cost one of the user's few.
const EVERY: Duration = Duration::from_millis(250);

/// Looks after one worktree for as long as it is there.
#[derive(Debug)]
pub(in crate::daemon) struct Watch(JoinHandle<()>);

impl Watch {
    /// Tells the inbox once when the folder is gone.
    pub(in crate::daemon) fn begin(
        attempt: AttemptId,
        folder: PathBuf,
        inbox: mpsc::Sender<Event>,
    ) -> Self {
        Self(tokio::spawn(async move {
            while !is_gone(&folder) {
                tokio::time::sleep(EVERY).await;
            }
            drop(inbox.send(Event::WorktreeGone { attempt }).await);
        }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Without its `.git` it is no worktree any more, whatever else is left of it.
fn is_gone(folder: &Path) -> bool {
    let looked = folder.join(".git").symlink_metadata();
    matches!(looked, Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}
