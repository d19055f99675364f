//! Which bytes of a transcript are not stored.
//!
//! `out.gap` is there once something is missing from `out.raw`: the middle of a command's output
//! that outgrew its share of the disk, what was said while the disk was full, the oldest of a
//! session that outgrew its own share. It is a row of 24-byte entries in the order of their
//! offsets. Bytes never said are in no gap; bytes in a gap were said, counted and not kept.
//!
//! ```text
//!  0       8      16       24
//!  | start | end  | stderr |      all little-endian
//! ```
//!
//! `stderr` is how many of the bytes came over the second terminal. The file is written before the
//! bytes are taken away, so whoever reads it after them never takes a hole for output.

use std::ops::Range;

/// Size of one entry.
pub const GAP_BYTES: usize = 24;

/// A stretch of `out.raw` that is not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// First byte.
    pub start: u64,
    /// End.
    pub end: u64,
    /// How many of them came over the second terminal.
    pub stderr: u64,
}

impl Gap {
    fn to_bytes(self) -> [u8; GAP_BYTES] {
        let mut bytes = [0; GAP_BYTES];
        bytes[..8].copy_from_slice(&self.start.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        bytes[16..].copy_from_slice(&self.stderr.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; GAP_BYTES]) -> Option<Self> {
        let [start, end, stderr] = [0, 8, 16].map(|at| bytes[at..].first_chunk());
        let gap = Self {
            start: u64::from_le_bytes(*start?),
            end: u64::from_le_bytes(*end?),
            stderr: u64::from_le_bytes(*stderr?),
        };
        (gap.start < gap.end && gap.stderr <= gap.end - gap.start).then_some(gap)
    }
}

/// All gaps of a transcript, in order. They neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps(Vec<Gap>);

/// A part of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// These bytes can be read.
    Stored(Range<u64>),
    /// These cannot; `gap` is all of what they belong to.
    Missing {
        /// The part of the range that is missing.
        range: Range<u64>,
        /// The whole gap.
        gap: Gap,
    },
}

impl Gaps {
    /// Reads `out.gap`. What is torn or makes no sense is passed over.
    pub fn read(bytes: &[u8]) -> Self {
        let mut gaps = Self::default();
        for entry in bytes.as_chunks::<GAP_BYTES>().0 {
            if let Some(gap) = Gap::from_bytes(entry) {
                gaps.add(gap);
            }
        }
        gaps
    }

    /// The file's content.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|gap| gap.to_bytes()).collect()
    }

    /// Adds a gap. Whatever it touches becomes one with it; bytes in both are counted once.
    pub fn add(&mut self, gap: Gap) {
        if gap.start >= gap.end {
            return;
        }
        let from = self.0.partition_point(|old| old.end < gap.start);
        let to = self.0.partition_point(|old| old.start <= gap.end);
        let mut whole = gap;
        for old in &self.0[from..to] {
            whole.start = whole.start.min(old.start);
            whole.end = whole.end.max(old.end);
            whole.stderr = whole.stderr.saturating_add(old.stderr);
        }
        whole.stderr = whole.stderr.min(whole.end - whole.start);
        self.0.splice(from..to, [whole]);
    }

    /// True when nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The gaps.
    pub fn all(&self) -> &[Gap] {
        &self.0
    }

    /// The gap that ends at `end`, or reaches across it.
    pub fn before(&self, end: u64) -> Option<Gap> {
        let index = self.0.partition_point(|gap| gap.end < end);
        self.0.get(index).copied().filter(|gap| gap.start < end)
    }

    /// Says that `range` can be read after all. Its bytes count as the first terminal's as far as
    /// there are any.
    pub fn fill(&mut self, range: &Range<u64>) {
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for gap in &self.0 {
            let parts =
                [(gap.start, gap.end.min(range.start)), (gap.start.max(range.end), gap.end)];
            let mut stderr = gap.stderr;
            for (start, end) in parts {
                if start < end {
                    let part = stderr.min(end - start);
                    stderr -= part;
                    left.push(Gap { start, end, stderr: part });
                }
            }
        }
        if !range.is_empty() {
            self.0 = left;
        }
    }

    /// Cuts a range into what is stored and what is not, in order.
    pub fn cut(&self, range: Range<u64>) -> impl Iterator<Item = Stretch> {
        let mut index = self.0.partition_point(|gap| gap.end <= range.start);
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let gap = self.0.get(index).copied().filter(|gap| gap.start < range.end);
            let Some(gap) = gap else {
                let part = Stretch::Stored(at..range.end);
                at = range.end;
                return Some(part);
            };
            if at < gap.start {
                let part = Stretch::Stored(at..gap.start);
                at = gap.start;
                return Some(part);
            }
            let missing = at..gap.end.min(range.end);
            at = missing.end;
            index += 1;
            Some(Stretch::Missing { range: missing, gap })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gap(start: u64, end: u64, stderr: u64) -> Gap {
        Gap { start, end, stderr }
    }

    fn gaps(of: &[(u64, u64, u64)]) -> Gaps {
        let mut gaps = Gaps::default();
        of.iter().for_each(|&(start, end, stderr)| gaps.add(gap(start, end, stderr)));
        gaps
    }

    #[test]
    fn gaps_that_touch_are_one() {
        for (added, left) in [
            (&[(10, 20, 1), (20, 30, 2)][..], &[(10, 30, 3)][..]),
            (&[(10, 20, 1), (21, 30, 2)], &[(10, 20, 1), (21, 30, 2)]),
            (&[(21, 30, 2), (10, 20, 1), (20, 21, 1)], &[(10, 30, 4)]),
            (&[(10, 20, 0), (12, 15, 0)], &[(10, 20, 0)]),
            (&[(10, 20, 0), (5, 40, 7)], &[(5, 40, 7)]),
            (&[(10, 20, 10), (10, 20, 10)], &[(10, 20, 10)]),
            (&[(5, 5, 0)], &[]),
        ] {
            let expected: Vec<Gap> = left.iter().map(|&(a, b, c)| gap(a, b, c)).collect();
            assert_eq!(gaps(added).all(), expected, "{added:?}");
        }
    }

    #[test]
    fn ranges_are_cut_at_gaps() {
        let gaps = gaps(&[(10, 20, 3), (30, 40, 0)]);
        let missing =
            |start, end, whole| Stretch::Missing { range: Range { start, end }, gap: whole };
        for (range, parts) in [
            (0..10, vec![Stretch::Stored(0..10)]),
            (20..30, vec![Stretch::Stored(20..30)]),
            (12..15, vec![missing(12, 15, gap(10, 20, 3))]),
            (
                5..35,
                vec![
                    Stretch::Stored(5..10),
                    missing(10, 20, gap(10, 20, 3)),
                    Stretch::Stored(20..30),
                    missing(30, 35, gap(30, 40, 0)),
                ],
            ),
            (7..7, vec![]),
        ] {
            assert_eq!(gaps.cut(range.clone()).collect::<Vec<_>>(), parts, "{range:?}");
        }
        assert_eq!(gaps.before(20), Some(gap(10, 20, 3)));
        assert_eq!(gaps.before(15), Some(gap(10, 20, 3)));
        assert_eq!((gaps.before(10), gaps.before(25)), (None, None));
    }

    #[test]
    fn what_is_kept_elsewhere_is_no_gap() {
        let mut all = gaps(&[(10, 20, 4), (30, 40, 0)]);
        all.fill(&(15..35));
        assert_eq!(all.all(), [gap(10, 15, 4), gap(35, 40, 0)]);
        all.fill(&(0..100));
        assert!(all.is_empty());
    }

    #[test]
    fn the_file() {
        let all = gaps(&[(10, 20, 4), (30, 40, 0)]);
        let mut bytes = all.to_bytes();
        assert_eq!(Gaps::read(&bytes), all);
        assert_eq!(Gaps::read(&bytes[..30]), gaps(&[(10, 20, 4)]));
        bytes.extend([0; GAP_BYTES]);
        bytes.extend([0xff; GAP_BYTES]);
        assert_eq!(Gaps::read(&bytes), all);
    }

    proptest! {
        #[test]
        fn every_byte_is_in_exactly_one_part(
            added in prop::collection::vec((0u64..200, 0u64..30, 0u64..30), 0..20),
            start in 0u64..200,
            len in 0u64..100,
        ) {
            let mut gaps = Gaps::default();
            let mut missing = [false; 400];
            for (start, len, stderr) in added {
                gaps.add(gap(start, start + len, stderr.min(len)));
                for at in start..start + len {
                    missing[usize::try_from(at).unwrap()] = true;
                }
            }
            prop_assert!(gaps.all().windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(&Gaps::read(&gaps.to_bytes()), &gaps);
            let mut at = start;
            for part in gaps.cut(start..start + len) {
                let (range, is_missing) = match part {
                    Stretch::Stored(range) => (range, false),
                    Stretch::Missing { range, .. } => (range, true),
                };
                prop_assert!(range.start == at && !range.is_empty());
                for byte in range.clone() {
                    prop_assert_eq!(missing[usize::try_from(byte).unwrap()], is_missing);
                }
                at = range.end;
            }
            prop_assert_eq!(at, start + len);
        }

        #[test]
        fn any_file(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let gaps = Gaps::read(&bytes);
            prop_assert!(gaps.all().windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
