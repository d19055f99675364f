//! The journal as its owner holds it.

use std::fs::{DirBuilder, File, TryLockError};
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::disk::{Files, sync_folder};
use super::error::{AppendError, JournalError};
use super::line::Line;
use super::queue::{Group, Queue};
use super::reading::{Replay, cut, walk};
use super::room::{RESERVE_BYTES, Room};
use super::writer::{SEGMENT_BYTES, Writer};
use crate::domain::event::Stamped;

/// An open journal. Dropping it writes and syncs what is queued, then closes it.
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    room: Arc<Room>,
    thread: Option<JoinHandle<()>>,
    /// Locked: one writer a folder, whatever the workspace's own lock says.
    lock: File,
}

/// Where a group went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The number of its first line; `last_seq + 1` for a group of nothing.
    pub first_seq: u64,
    /// The number of its last line.
    pub last_seq: u64,
}

/// A group on its way to the disk. Resolves once it is written and, if asked for, synced. Dropping
/// it does not call the group back.
#[derive(Debug)]
#[must_use = "an event is a fact only once its commit has resolved"]
pub struct Commit(oneshot::Receiver<Result<Committed, AppendError>>);

impl Journal {
    /// Opens the journal in `dir`, made if need be, and replays it: every line goes to `on_line`.
    /// A torn tail is cut; the answer tells of it. Blocks, on disk alone.
    ///
    /// # Errors
    /// When the folder cannot be used, another process has it open, or the journal is damaged.
    pub fn open(dir: &Path, mut on_line: impl FnMut(Line)) -> Result<(Self, Replay), JournalError> {
        Self::open_with(dir, SEGMENT_BYTES, &mut on_line)
    }

    pub(super) fn open_with(
        dir: &Path,
        segment_bytes: u64,
        on_line: &mut dyn FnMut(Line),
    ) -> Result<(Self, Replay), JournalError> {
        let io = JournalError::io;
        if !dir.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(io("making", dir))?;
            if let Some(parent) = dir.parent() {
                sync_folder(parent).map_err(io("syncing", parent))?;
            }
        }
        let lock = File::open(dir).map_err(io("opening", dir))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::Locked { dir: dir.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(io("locking", dir)(error)),
        }
        let reached = walk(dir, &mut |line| {
            on_line(line);
            ControlFlow::Continue(())
        })?;
        if let Some(torn) = &reached.torn {
            cut(torn).map_err(io("cutting", &torn.segment))?;
        }
        let last = reached.segments.last().map(|segment| segment.path.as_path());
        let disk = Files::open(dir, last).map_err(io("opening", last.unwrap_or(dir)))?;
        let end = last.map(|_| reached.end);
        let room = Arc::new(Room::of(dir));
        let writer = Writer::new(disk, reached.chain, end, segment_bytes)
            .reserving(RESERVE_BYTES, Arc::clone(&room));
        let queue = Arc::new(Queue::default());
        let theirs = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&theirs))
            .map_err(io("starting the writer of", dir))?;
        Ok((Self { queue, room, thread: Some(thread), lock }, reached.replay()))
    }

    /// Appends events, all of them or none, behind everything appended before. With `durable` the
    /// commit resolves once they have reached the disk, otherwise once they are written; they reach
    /// it within 50 ms. No events, durable: resolves once all that was appended before has reached
    /// the disk.
    ///
    /// Returns at once unless very much is queued (`queue::EVENTS_MAX` events). A crash while a
    /// group is written may leave the first of its events alone in the journal; they were then not
    /// acknowledged, and happened all the same.
    pub fn append(&self, events: Vec<Stamped>, durable: bool) -> Commit {
        let (done, commit) = oneshot::channel();
        self.queue.push(Group { events, durable, done });
        Commit(commit)
    }

    /// False on a disk that is full or as good as: nothing new should be begun then. What is under
    /// way can still be told to its end, within the reserve. May be asked often: the disk is looked
    /// at ten times a second at most.
    pub fn has_room(&self) -> bool {
        self.room.is_there(|| {
            // The writer tries to make its reserve whole behind every group.
            let (done, _nobody_waits) = oneshot::channel();
            self.queue.push(Group { events: Vec::new(), durable: false, done });
        })
    }
}

impl Commit {
    /// For callers without a runtime.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(self) -> Result<Committed, AppendError> {
        self.0.blocking_recv().unwrap_or(Err(AppendError::Closed))
    }
}

impl Future for Commit {
    type Output = Result<Committed, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(answer.unwrap_or(Err(AppendError::Closed)))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own thread.
            drop(thread.join());
        }
        // Closing the file is not enough: a child between fork and exec still has it open.
        drop(self.lock.unlock());
    }
}
