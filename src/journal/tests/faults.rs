//! A disk that refuses: nothing acknowledged is lost, nothing refused is found.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tokio::sync::oneshot;

use super::{event, events, read_all};
use crate::domain::event::Stamped;
use crate::journal::disk::Disk;
use crate::journal::error::AppendError;
use crate::journal::line::Chain;
use crate::journal::queue::Group;
use crate::journal::room::Room;
use crate::journal::segment::path_of;
use crate::journal::writer::Writer;

/// A disk in memory that knows what would survive a power loss.
#[derive(Clone, Debug, Default)]
struct Platter(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    /// First line's number, bytes as readers see them, bytes that are safe.
    segments: Vec<(u64, Vec<u8>, Vec<u8>)>,
    /// Bytes that may still be written.
    room: Option<usize>,
    /// Up to where in the last segment room is kept.
    kept_to: usize,
    /// True for a file system that keeps none.
    keeps_none: bool,
    /// How many of each call fail.
    syncs: u32,
    cuts: u32,
    starts: u32,
}

fn spend(failures: &mut u32) -> io::Result<()> {
    match failures.checked_sub(1) {
        None => Ok(()),
        Some(left) => {
            *failures = left;
            Err(io::Error::from_raw_os_error(5))
        }
    }
}

impl Disk for Platter {
    fn start_segment(&mut self, first_seq: u64, reserve: u64) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        spend(&mut content.starts)?;
        let reserve = if content.keeps_none { 0 } else { usize::try_from(reserve).unwrap() };
        if content.room.is_some_and(|room| room < reserve) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        content.room = content.room.map(|room| room - reserve);
        content.segments.push((first_seq, Vec::new(), Vec::new()));
        content.kept_to = reserve;
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        let kept = content.kept_to.saturating_sub(offset).min(bytes.len());
        let free = content.room.map_or(bytes.len(), |room| room.min(bytes.len() - kept));
        let fits = bytes.len().min(kept + free);
        let seen = &mut content.segments.last_mut().unwrap().1;
        assert!(offset <= seen.len(), "a hole");
        seen.resize(seen.len().max(offset + fits), 0);
        seen[offset..offset + fits].copy_from_slice(&bytes[..fits]);
        content.room = content.room.map(|room| room - (fits - kept));
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        spend(&mut content.cuts)?;
        let length = usize::try_from(length).unwrap();
        content.segments.last_mut().unwrap().1.resize(length, 0);
        // What was kept anybody can take now.
        content.kept_to = length.min(content.kept_to);
        Ok(())
    }

    fn reserve(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        if content.keeps_none {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let to = usize::try_from(offset + bytes).unwrap();
        let more = to - content.kept_to.max(usize::try_from(offset).unwrap()).min(to);
        match content.room {
            Some(room) if room < more => Err(io::ErrorKind::StorageFull.into()),
            room => {
                content.room = room.map(|room| room - more);
                content.kept_to = content.kept_to.max(to);
                Ok(())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let failed = spend(&mut content.syncs);
        let (_, seen, safe) = content.segments.last_mut().unwrap();
        if failed.is_err() {
            // As the kernel does it: what could not be synced is dropped.
            let kept = safe.len().min(seen.len());
            seen[kept..].fill(0);
            return failed;
        }
        safe.clone_from(seen);
        Ok(())
    }
}

impl Platter {
    /// What a replay of the readers' bytes, or of the safe ones, gives.
    fn replayed(&self, safe: bool) -> Vec<Stamped> {
        let dir = tempfile::tempdir().unwrap();
        for (first_seq, seen, synced) in &self.0.lock().unwrap().segments {
            let bytes = if safe { synced } else { seen };
            std::fs::write(path_of(dir.path(), *first_seq), bytes).unwrap();
        }
        read_all(dir.path()).unwrap().0
    }
}

/// A writer on such a disk, driven by hand, and what it has acknowledged.
struct Rig {
    platter: Platter,
    writer: Writer<Platter>,
    acknowledged: Vec<Stamped>,
    durable: usize,
}

impl Rig {
    fn new(segment_bytes: u64) -> Self {
        let platter = Platter::default();
        let writer = Writer::new(platter.clone(), Chain::START, None, segment_bytes);
        Self { platter, writer, acknowledged: Vec::new(), durable: 0 }
    }

    /// The same with a reserve behind its lines.
    fn reserving(segment_bytes: u64, reserve: u64) -> (Self, Arc<Room>) {
        let rig = Self::new(segment_bytes);
        let room = Arc::new(Room::of(std::path::Path::new("/")));
        let writer = rig.writer.reserving(reserve, Arc::clone(&room));
        (Self { writer, ..rig }, room)
    }

    /// Commits groups of one batch; the answers.
    fn commit(&mut self, batch: Vec<(Vec<Stamped>, bool)>) -> Vec<Result<(), AppendError>> {
        let (mut groups, mut answers) = (VecDeque::new(), Vec::new());
        for (events, durable) in batch {
            let (done, answer) = oneshot::channel();
            answers.push((answer, events.clone(), durable));
            groups.push_back(Group { events, durable, done });
        }
        self.writer.commit(groups);
        let outcomes = answers.into_iter().map(|(answer, events, durable)| {
            let committed = answer.blocking_recv().unwrap()?;
            self.acknowledged.extend(events);
            assert_eq!(committed.last_seq, self.acknowledged.len() as u64);
            if durable {
                self.durable = self.acknowledged.len();
            }
            Ok(())
        });
        outcomes.collect()
    }

    fn faults(&self, change: impl FnOnce(&mut Content)) {
        change(&mut self.platter.0.lock().unwrap());
    }

    fn check_safe(&self) {
        let safe = self.platter.replayed(true);
        assert!(safe.len() >= self.durable, "a durable line is lost");
        assert_eq!(safe[..], self.acknowledged[..safe.len()], "a refused line is found");
    }
}

#[test]
fn a_full_disk_is_told_and_undone() {
    let mut rig = Rig::new(u64::MAX);
    assert!(rig.commit(vec![(events(1, 3), true)])[0].is_ok());
    for room in [0, 1, 150, 500] {
        rig.faults(|disk| disk.room = Some(room));
        let answers = rig.commit(vec![(events(5, 8), false), (events(8, 9), true)]);
        for answer in answers {
            let error = answer.unwrap_err();
            assert!(error.is_disk_full(), "{error}");
            assert!(error.to_string().starts_with("writing the journal: "), "{error}");
        }
        assert_eq!(rig.platter.replayed(false), events(1, 3), "cut back at once");
    }
    rig.faults(|disk| disk.room = None);
    assert!(rig.commit(vec![(events(3, 5), true)])[0].is_ok());
    assert_eq!(rig.platter.replayed(true), events(1, 5));
}

#[test]
fn a_failed_sync_refuses_the_batch_and_keeps_what_was_acknowledged() {
    let mut rig = Rig::new(u64::MAX);
    assert!(rig.commit(vec![(events(1, 4), false)])[0].is_ok());
    rig.faults(|disk| disk.syncs = 1);
    assert!(rig.commit(vec![(vec![event(9)], true)])[0].is_err());
    // The disk dropped the first three lines too, and they were written again.
    assert_eq!(rig.platter.replayed(true), events(1, 4));
    assert!(rig.commit(vec![(vec![event(4)], true)])[0].is_ok());
    assert_eq!(rig.platter.replayed(true), events(1, 5));
}

#[test]
fn a_failed_cut_is_made_up_for_before_the_next_line() {
    let mut rig = Rig::new(u64::MAX);
    assert!(rig.commit(vec![(events(1, 2), false)])[0].is_ok());
    rig.faults(|disk| (disk.room, disk.cuts) = (Some(30), 2));
    assert!(rig.commit(vec![(events(7, 9), false)])[0].is_err());
    let error = rig.commit(vec![(events(7, 9), false)]).remove(0).unwrap_err();
    assert!(error.to_string().starts_with("repairing the journal: "), "{error}");
    rig.faults(|disk| disk.room = None);
    assert!(rig.commit(vec![(events(2, 4), false)])[0].is_ok());
    assert_eq!(rig.platter.replayed(false), events(1, 4));
}

#[test]
fn outcomes_still_fit_on_a_full_disk_and_what_does_not_leaves_the_reserve_alone() {
    let (mut rig, room) = Rig::reserving(u64::MAX, 4000);
    assert!(rig.commit(vec![(events(1, 2), true)])[0].is_ok());
    assert!(room.has_reserve());
    rig.faults(|disk| disk.room = Some(0));
    let mut next = 2;
    while room.has_reserve() {
        assert!(rig.commit(vec![(events(next, next + 1), true)])[0].is_ok(), "{next}");
        next += 1;
    }
    // Half of it is used up, and told. The rest is for what is under way.
    let error = rig.commit(vec![(events(100, 200), true)]).remove(0).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    for _ in 0..3 {
        assert!(rig.commit(vec![(events(next, next + 1), true)])[0].is_ok(), "{next}");
        next += 1;
    }
    assert!(!room.has_reserve());
    assert_eq!(rig.platter.replayed(true), rig.acknowledged);
    rig.faults(|disk| disk.room = Some(10_000));
    assert!(rig.commit(vec![(Vec::new(), false)])[0].is_ok());
    assert!(room.has_reserve(), "the reserve is made whole once there is room");
}

#[test]
fn no_segment_is_begun_on_a_full_disk() {
    let (mut rig, room) = Rig::reserving(900, 6000);
    assert!(rig.commit(vec![(events(1, 2), true)])[0].is_ok());
    rig.faults(|disk| disk.room = Some(0));
    let mut next = 2;
    while room.has_reserve() {
        assert!(rig.commit(vec![(events(next, next + 1), true)])[0].is_ok(), "{next}");
        next += 1;
    }
    let begun = rig.platter.0.lock().unwrap().segments.len();
    for _ in 0..3 {
        assert!(rig.commit(vec![(events(next, next + 1), true)])[0].is_ok(), "{next}");
        next += 1;
    }
    assert_eq!(rig.platter.0.lock().unwrap().segments.len(), begun);
    assert_eq!(rig.platter.replayed(true), rig.acknowledged);
}

#[test]
fn without_a_reserve_everything_goes_on_as_far_as_the_disk_does() {
    let (mut rig, room) = Rig::reserving(u64::MAX, 4000);
    rig.faults(|disk| disk.keeps_none = true);
    assert!(rig.commit(vec![(events(1, 4), true)])[0].is_ok());
    assert!(room.has_reserve(), "what is free tells");
    rig.faults(|disk| disk.room = Some(100));
    assert!(rig.commit(vec![(events(4, 8), true)])[0].is_err());
    assert_eq!(rig.platter.replayed(true), events(1, 4));
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(u64, bool)>),
    Room(usize),
    Fail { syncs: u32, cuts: u32, starts: u32 },
    Heal,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec((0_u64..4, any::<bool>()), 1..4).prop_map(Step::Commit),
        1 => (0_usize..3000).prop_map(Step::Room),
        1 => (0_u32..3, 0_u32..3, 0_u32..3)
            .prop_map(|(syncs, cuts, starts)| Step::Fail { syncs, cuts, starts }),
        1 => Just(Step::Heal),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_acknowledged_is_lost_and_nothing_refused_is_found(
        steps in proptest::collection::vec(step(), 1..24),
        reserve in prop_oneof![Just(0_u64), Just(1000), Just(5000)],
    ) {
        let (mut rig, _) = Rig::reserving(1500, reserve);
        let mut next = 1;
        for step in steps {
            match step {
                Step::Commit(groups) => {
                    let mut batch = Vec::new();
                    for (count, durable) in groups {
                        batch.push((events(next, next + count), durable));
                        next += count;
                    }
                    drop(rig.commit(batch));
                }
                Step::Room(room) => rig.faults(|disk| disk.room = Some(room)),
                Step::Fail { syncs, cuts, starts } => rig.faults(|disk| {
                    (disk.syncs, disk.cuts, disk.starts) = (syncs, cuts, starts);
                }),
                Step::Heal => rig.faults(|disk| {
                    (disk.room, disk.syncs, disk.cuts, disk.starts) = (None, 0, 0, 0);
                }),
            }
            rig.check_safe();
        }
        rig.faults(|disk| (disk.room, disk.syncs, disk.cuts, disk.starts) = (None, 0, 0, 0));
        prop_assert!(rig.commit(vec![(Vec::new(), true)])[0].is_ok());
        prop_assert_eq!(rig.platter.replayed(true), rig.acknowledged);
    }
}
