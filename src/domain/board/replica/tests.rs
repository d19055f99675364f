//! Replicas agree: by law, and in a simulated network that loses, repeats and reorders.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::board::Writer;

fn any_entry() -> impl Strategy<Value = BoardEntry> {
    let parts = (0..4_u8, proptest::option::of(0..3_i64), 0..4_i64, 0..2_u32, 0..2_u8);
    parts.prop_map(|(key, value, wall_ms, logical, node)| BoardEntry {
        key: format!("note/{key}"),
        value: value.map(|n| json!(n)),
        version: Version { wall_ms, logical, node: format!("n{node}") },
        writer: Writer::default(),
    })
}

fn replica(entries: impl IntoIterator<Item = BoardEntry>) -> Replica {
    let mut replica = Replica::default();
    for entry in entries {
        replica.merge(entry);
    }
    replica
}

fn joined(mut left: Replica, right: &Replica) -> Replica {
    left.adopt(right.after(None));
    for entry in right.entries.values() {
        left.merge(entry.clone());
    }
    left
}

fn counts(replica: &Replica) -> (usize, usize) {
    let live = replica.entries.values().filter(|entry| entry.value.is_some());
    (live.clone().count(), live.map(size).sum())
}

proptest! {
    #[test]
    fn order_and_repetition_do_not_matter(
        (writes, other) in proptest::collection::vec(any_entry(), 0..40)
            .prop_flat_map(|writes| (Just(writes.clone()), Just(writes).prop_shuffle())),
    ) {
        let left = replica(writes.clone());
        let right = replica(other.iter().chain(&other).chain(&writes).cloned());
        prop_assert_eq!(&left, &right);
        prop_assert_eq!((left.len(), left.bytes()), counts(&left));
    }

    #[test]
    fn a_join_of_replicas_is_associative_commutative_and_idempotent(
        a in proptest::collection::vec(any_entry(), 0..12),
        b in proptest::collection::vec(any_entry(), 0..12),
        c in proptest::collection::vec(any_entry(), 0..12),
    ) {
        // The entries of all, whatever was joined first.
        let fold = |parts: &[&Vec<BoardEntry>]| {
            replica(parts.iter().flat_map(|part| replica((*part).clone()).entries.into_values()))
        };
        prop_assert_eq!(fold(&[&a, &b]), fold(&[&b, &a]));
        prop_assert_eq!(fold(&[&a, &a]), fold(&[&a]));
        let left = replica(fold(&[&a, &b]).entries.into_values().chain(c.clone()));
        let right = replica(a.clone().into_iter().chain(fold(&[&b, &c]).entries.into_values()));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn the_clock_never_goes_back_however_the_wall_jumps(
        walls in proptest::collection::vec(any::<i64>(), 1..50),
        logical in prop_oneof![Just(0_u32), Just(u32::MAX - 1)],
    ) {
        let mut clock = Version { wall_ms: 5, logical, node: "n".to_owned() };
        for wall in walls {
            // No wall shows the end of time, where nothing is greater.
            let next = clock.next(wall.min(i64::MAX - 1000), "n");
            prop_assert!(next > clock, "{next} after {clock}");
            clock = next;
        }
    }

    #[test]
    fn a_version_is_read_as_it_is_written(wall in any::<i64>(), l in any::<u32>(), node in "[a-z.]{1,9}") {
        let version = Version { wall_ms: wall, logical: l, node };
        prop_assert_eq!(version.to_string().parse::<Version>().unwrap(), version.clone());
        let json = serde_json::to_string(&version).unwrap();
        prop_assert_eq!(json.parse::<Version>().unwrap(), version);
    }

    // Catching up from whatever was known before gives what the source has.
    #[test]
    fn whoever_catches_up_has_everything(
        before in proptest::collection::vec((0..6_u8, proptest::option::of(0..9_i64)), 0..20),
        after in proptest::collection::vec((0..6_u8, proptest::option::of(0..9_i64)), 0..20),
        collects in any::<bool>(),
    ) {
        let mut source = Source::default();
        before.into_iter().for_each(|(key, value)| drop(source.write(key, value)));
        let mut mirror = Replica::default();
        let first = source.board.after(None);
        let known = first.through.clone();
        mirror.adopt(first);
        after.into_iter().for_each(|(key, value)| drop(source.write(key, value)));
        if collects {
            source.board.collect(i64::MAX);
            prop_assert_eq!(source.board.tombstones(), 0);
        }
        mirror.adopt(source.board.after(known.as_ref()));
        prop_assert_eq!(live(&mirror), live(&source.board));
        let again = source.board.after(source.board.newest().max(source.board.horizon.as_ref()));
        prop_assert!(again.entries.is_empty(), "nothing twice");
    }
}

/// The one writer, as a coordinator is.
#[derive(Default)]
struct Source {
    board: Replica,
    clock: Option<Version>,
    now: i64,
}

impl Source {
    fn write(&mut self, key: u8, value: Option<i64>) -> BoardEntry {
        self.now += 1;
        let last = self.clock.take();
        let first = Version { wall_ms: 0, logical: 0, node: "c".to_owned() };
        let version = last.unwrap_or(first).next(self.now, "c");
        self.clock = Some(version.clone());
        let value = value.map(|n| json!(n));
        let key = format!("note/{key}");
        let entry = BoardEntry { key, value, version, writer: Writer::default() };
        self.board.merge(entry.clone());
        entry
    }
}

fn live(replica: &Replica) -> Vec<&BoardEntry> {
    replica.beginning("").collect()
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// A mirror in a network: notices on their way, and up to where it has everything.
#[derive(Default)]
struct Mirror {
    board: Replica,
    known: Option<Version>,
    under_way: Vec<BoardEntry>,
}

#[test]
fn replicas_converge_under_loss_repetition_and_reordering() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let mut source = Source::default();
        let mut mirrors: Vec<Mirror> = (0..3).map(|_| Mirror::default()).collect();
        for _ in 0..200 {
            match dice.below(10) {
                // The wall clock jumps about.
                0 => source.now = source.now.saturating_add_unsigned(dice.below(5000)) - 2500,
                1 => drop(source.board.collect(source.now + TOMBSTONE_KEPT_MS)),
                2..=6 => {
                    let value = (dice.below(3) > 0).then(|| i64::try_from(dice.below(99)).unwrap());
                    let entry = source.write(u8::try_from(dice.below(8)).unwrap(), value);
                    for mirror in &mut mirrors {
                        // Lost, sent once, or twice.
                        for _ in 0..dice.below(3) {
                            mirror.under_way.push(entry.clone());
                        }
                    }
                }
                7 => {
                    let which = usize::try_from(dice.below(3)).unwrap();
                    let mirror = &mut mirrors[which];
                    let catchup = source.board.after(mirror.known.as_ref());
                    mirror.known = catchup.through.clone().or(mirror.known.take());
                    mirror.board.adopt(catchup);
                }
                _ => {
                    let which = usize::try_from(dice.below(3)).unwrap();
                    let mirror = &mut mirrors[which];
                    if !mirror.under_way.is_empty() {
                        let at = dice.below(mirror.under_way.len() as u64);
                        let entry = mirror.under_way.swap_remove(usize::try_from(at).unwrap());
                        mirror.board.merge(entry);
                    }
                }
            }
        }
        for (at, mirror) in mirrors.iter_mut().enumerate() {
            // What was late comes in the end, and then everybody catches up.
            for entry in std::mem::take(&mut mirror.under_way) {
                mirror.board.merge(entry);
            }
            mirror.board.adopt(source.board.after(mirror.known.as_ref()));
            assert_eq!(live(&mirror.board), live(&source.board), "seed {seed}, mirror {at}");
        }
    }
}

#[test]
fn tombstones_are_few_and_nothing_comes_back() {
    let mut source = Source::default();
    let old = source.write(0, Some(1));
    for round in 0..3 * TOMBSTONES_MAX {
        source.now += 1;
        let version = Version { wall_ms: source.now, logical: 0, node: "c".to_owned() };
        let key = format!("file/{round}");
        source.board.merge(BoardEntry { key, value: None, version, writer: Writer::default() });
        source.board.collect(source.now);
        assert!(source.board.tombstones() <= TOMBSTONES_MAX);
    }
    assert!(source.board.tombstones() >= TOMBSTONES_MAX / 2, "as many as can be");
    let removed = source.write(0, None);
    source.board.collect(i64::MAX);
    assert!(!source.board.merge(old), "an older write that comes late");
    assert!(!source.board.merge(removed));
    assert!(source.board.is_empty() && source.board.tombstones() == 0);
    let joined = joined(Replica::default(), &source.board);
    assert_eq!(live(&joined), live(&source.board));
}
