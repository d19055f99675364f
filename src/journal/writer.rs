//! The one thread that writes: batches, syncs, and undoes what failed.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::append::Committed;
use super::disk::{Disk, is_full};
use super::error::AppendError;
use super::line::{Chain, Unwritable};
use super::queue::{Group, Queue, Taken};
use super::room::Room;

/// How large a segment grows before the next one is begun.
pub(super) const SEGMENT_BYTES: u64 = 32 * 1024 * 1024;
/// How long a line that nobody waits for stays unsynced; the rest of the promised 50 ms is for the
/// sync itself.
const UNSYNCED_FOR: Duration = Duration::from_millis(35);
/// How much may be unsynced, and so kept in memory, before it is synced without being asked.
const UNSYNCED_BYTES: usize = 8 * 1024 * 1024;

/// The writer's side of a journal.
#[derive(Debug)]
pub(super) struct Writer<D> {
    disk: D,
    chain: Chain,
    segment_bytes: u64,
    /// Length of the current segment's good lines; `None` before the first segment.
    end: Option<u64>,
    /// Acknowledged lines at that end that are not synced yet.
    unsynced: Vec<u8>,
    sync_due: Option<Instant>,
    /// The segment may differ from what `end` and `unsynced` say it holds.
    out_of_step: bool,
    /// How much room is kept behind the end; 0 where that cannot be.
    reserve_bytes: u64,
    /// Up to where in the segment it is kept now.
    kept_to: u64,
    room: Arc<Room>,
}

impl<D: Disk> Writer<D> {
    /// Goes on at `chain`; `end` is the last segment's length, if there is one.
    pub(super) fn new(disk: D, chain: Chain, end: Option<u64>, segment_bytes: u64) -> Self {
        Self {
            disk,
            chain,
            segment_bytes,
            end,
            unsynced: Vec::new(),
            sync_due: None,
            out_of_step: false,
            reserve_bytes: 0,
            kept_to: 0,
            room: Arc::new(Room::of(Path::new("."))),
        }
    }

    /// The same that keeps so much room behind its last line, and tells `room` whether it could.
    pub(super) fn reserving(self, reserve_bytes: u64, room: Arc<Room>) -> Self {
        Self { reserve_bytes, room, ..self }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self, queue: &Arc<Queue>) {
        // However this thread ends, nobody is left waiting for it.
        let _abandon = AbandonOnDrop(Arc::clone(queue));
        self.keep_room();
        loop {
            match queue.take(self.sync_due) {
                Taken::Groups(groups) => self.commit(groups),
                Taken::Nothing => {}
                Taken::Closed => {
                    self.sync_unasked();
                    return;
                }
            }
            if self.sync_due.is_some_and(|due| due <= Instant::now()) {
                self.sync_unasked();
            }
        }
    }

    /// Writes all groups as one batch and tells each what became of it.
    pub(super) fn commit(&mut self, groups: VecDeque<Group>) {
        let before = self.chain;
        let mut batch = Vec::new();
        let mut durable = false;
        let mut told = Vec::with_capacity(groups.len());
        for group in groups {
            let encoded = self.encode(&group, &mut batch);
            durable |= group.durable && encoded.is_ok();
            told.push((group.done, encoded));
        }
        let written = self.write(&batch, before.next_seq, durable);
        if written.is_err() {
            self.chain = before;
        }
        for (done, encoded) in told {
            let outcome = encoded.and_then(|committed| written.clone().map(|()| committed));
            // Whoever has stopped waiting need not be told.
            drop(done.send(outcome));
        }
        self.keep_room();
    }

    /// All of a group or nothing of it.
    fn encode(&mut self, group: &Group, batch: &mut Vec<u8>) -> Result<Committed, AppendError> {
        let (before, start) = (self.chain, batch.len());
        for event in &group.events {
            if let Err(error) = self.chain.write(event, batch) {
                self.chain = before;
                batch.truncate(start);
                return Err(match error {
                    Unwritable::Json(error) => AppendError::Unwritable(Arc::new(error)),
                    Unwritable::TooLong(bytes) => AppendError::TooLong(bytes),
                });
            }
        }
        Ok(Committed { first_seq: before.next_seq, last_seq: self.chain.last_seq() })
    }

    fn write(&mut self, batch: &[u8], first_seq: u64, durable: bool) -> Result<(), AppendError> {
        self.come_into_step().map_err(disk_error("repairing"))?;
        let durable = durable || self.unsynced.len() + batch.len() > UNSYNCED_BYTES;
        if !batch.is_empty() {
            let end = self.place(first_seq)?;
            self.make_room(end, batch.len() as u64)?;
            if let Err(error) = self.disk.write_at(batch, end) {
                self.out_of_step = self.cut(end).is_err();
                return Err(disk_error("writing")(error));
            }
            if !durable {
                self.end = Some(end + batch.len() as u64);
                self.unsynced.extend_from_slice(batch);
                self.sync_due.get_or_insert_with(|| Instant::now() + UNSYNCED_FOR);
                return Ok(());
            }
        }
        if durable && (!batch.is_empty() || !self.unsynced.is_empty()) {
            if let Err(error) = self.disk.sync() {
                // `end` is still that of before the batch. At once, so that the refused lines are
                // not found by a replay; if it fails, before the next batch.
                self.out_of_step = true;
                self.sync_due = (!self.unsynced.is_empty()).then(|| Instant::now() + UNSYNCED_FOR);
                drop(self.come_into_step());
                return Err(disk_error("syncing")(error));
            }
            self.end = self.end.map(|end| end + batch.len() as u64);
            self.synced();
        }
        Ok(())
    }

    /// Where the next batch goes: in this segment, or in a new one. Without room the reserve of this
    /// one is all there is.
    fn place(&mut self, first_seq: u64) -> Result<u64, AppendError> {
        let goes_on = |end: &u64| *end < self.segment_bytes || !self.room.has_reserve();
        if let Some(end) = self.end.filter(goes_on) {
            return Ok(end);
        }
        // Only the last segment may be torn, so this one has to be whole before there is another.
        if !self.unsynced.is_empty() {
            if let Err(error) = self.disk.sync() {
                self.out_of_step = true;
                return Err(disk_error("syncing")(error));
            }
            self.synced();
        }
        match self.disk.start_segment(first_seq, self.reserve_bytes) {
            Ok(()) => {
                // Known for certain once it is asked for again.
                self.kept_to = 0;
                self.end = Some(0);
                Ok(0)
            }
            // It is longer than others are, and that is all.
            Err(error) if is_full(&error) && self.kept_to > self.end.unwrap_or(u64::MAX) => {
                self.room.set_reserve(false);
                Ok(self.end.unwrap_or(0))
            }
            Err(error) => Err(disk_error("starting a segment of")(error)),
        }
    }

    /// Sees that a batch fits before any of it is written: what fails half-way is cut off, and the
    /// reserve with it.
    fn make_room(&mut self, end: u64, bytes: u64) -> Result<(), AppendError> {
        if self.reserve_bytes == 0 || end + bytes <= self.kept_to {
            return Ok(());
        }
        let wanted = bytes + self.reserve_bytes;
        let kept = self.disk.reserve(end, wanted).map(|()| wanted);
        match kept.or_else(|_| self.disk.reserve(end, bytes).map(|()| bytes)) {
            Ok(bytes) => self.kept_to = end + bytes,
            Err(error) if is_full(&error) => {
                self.room.set_reserve(false);
                return Err(disk_error("writing")(error));
            }
            // Whatever it is: the write itself will tell.
            Err(_) => {}
        }
        Ok(())
    }

    /// Makes the reserve whole again once half of it is used up.
    fn keep_room(&mut self) {
        let Some(end) = self.end.filter(|_| self.reserve_bytes > 0) else { return };
        if self.kept_to.saturating_sub(end) < self.reserve_bytes / 2 || !self.room.has_reserve() {
            match self.disk.reserve(end, self.reserve_bytes) {
                Ok(()) => self.kept_to = end + self.reserve_bytes,
                Err(error) if is_full(&error) => return self.room.set_reserve(false),
                // Not on this file system: what is free is all there is to go by.
                Err(_) => self.reserve_bytes = 0,
            }
        }
        self.room.set_reserve(true);
    }

    /// Cuts the segment, and with it what was kept behind.
    fn cut(&mut self, end: u64) -> io::Result<()> {
        self.kept_to = end;
        self.disk.set_len(end)
    }

    /// After a failure: makes the segment hold exactly what has been acknowledged.
    fn come_into_step(&mut self) -> io::Result<()> {
        if let (true, Some(end)) = (self.out_of_step, self.end) {
            self.cut(end)?;
            // The kernel may have dropped pages that it could not sync: write them again.
            self.disk.write_at(&self.unsynced, end - self.unsynced.len() as u64)?;
            self.disk.sync()?;
            self.synced();
        }
        self.out_of_step = false;
        Ok(())
    }

    fn sync_unasked(&mut self) {
        if self.unsynced.is_empty() && !self.out_of_step {
            self.sync_due = None;
            return;
        }
        let synced = match self.out_of_step {
            true => self.come_into_step(),
            false => self.disk.sync(),
        };
        match synced {
            Ok(()) => self.synced(),
            Err(error) => {
                tracing::warn!(%error, "journal cannot be synced; trying again");
                self.out_of_step = true;
                self.sync_due = Some(Instant::now() + UNSYNCED_FOR);
            }
        }
    }

    fn synced(&mut self) {
        self.unsynced.clear();
        self.sync_due = None;
    }
}

fn disk_error(doing: &'static str) -> impl FnOnce(io::Error) -> AppendError {
    move |source| AppendError::Disk { doing, source: Arc::new(source) }
}

struct AbandonOnDrop(Arc<Queue>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
