//! Which bytes of a transcript to read for a command's texts: head and tail of each stream and of
//! both together, however much lies between.
//!
//! The plan is made from the index alone, in one pass, and is bounded by the limit; so are the
//! bytes that it asks for.

use std::collections::VecDeque;
use std::ops::Range;

use super::gaps::{Gap, Gaps, Stretch};
use super::index::{Segment, Stream, Walk};

/// Default limit for head and tail each, in bytes (design, section 7.2).
pub const RESULT_LIMIT: usize = 64 * 1024;
/// The same for results within run reports.
pub const REPORT_LIMIT: usize = 16 * 1024;
/// Bytes read before a tail, to see what it begins in the middle of.
pub(super) const LOOK_BACK: u64 = 1024;
/// Bytes between two ranges that are rather read than skipped.
const GAP: u64 = 64;

/// A stretch of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) stream: Stream,
    pub(super) range: Range<u64>,
}

/// The pieces of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) head: Vec<Piece>,
    pub(super) head_len: u64,
    /// Begins up to `LOOK_BACK` bytes early when something was left out.
    pub(super) tail: VecDeque<Piece>,
    pub(super) tail_len: u64,
    pub(super) total: u64,
    /// Something in the middle is not stored: what comes from here on is the tail's.
    closed: bool,
}

/// Which bytes to read, and what they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) start: u64,
    pub(super) limit: usize,
    pub(super) stdout: Part,
    pub(super) stderr: Part,
    pub(super) output: Part,
    reads: Vec<Range<u64>>,
}

impl Plan {
    /// The plan for an index in memory. See `Planner`.
    pub fn of(idx: &[u8], raw: Range<u64>, limit: usize) -> Self {
        let mut planner = Planner::new(raw, limit);
        planner.feed(idx);
        planner.finish()
    }

    /// The ranges of `out.raw` to read, in order.
    pub fn reads(&self) -> &[Range<u64>] {
        &self.reads
    }

    /// Where the command's bytes begin in `out.raw`.
    pub fn start(&self) -> u64 {
        self.start
    }
}

/// Makes a plan while the index is read.
#[derive(Clone, Debug)]
pub struct Planner {
    walk: Walk,
    sorter: Sorter,
}

impl Planner {
    /// A planner for the bytes `raw` of `out.raw`, as a command's span gives them. `limit` is for
    /// head and tail each.
    pub fn new(raw: Range<u64>, limit: usize) -> Self {
        let part = Part::default;
        let plan = Plan {
            start: raw.start,
            limit,
            stdout: part(),
            stderr: part(),
            output: part(),
            reads: Vec::new(),
        };
        let (next, end, stream) = (raw.start, raw.end, Stream::Main);
        let sorter = Sorter { plan, next, end, stream, gaps: Gaps::default() };
        Self { walk: Walk::new(), sorter }
    }

    /// These bytes are not stored: they are counted, and never asked for.
    #[must_use]
    pub fn without(mut self, gaps: Gaps) -> Self {
        self.sorter.gaps = gaps;
        self
    }

    /// Reads on in the command's part of the index.
    pub fn feed(&mut self, idx: &[u8]) {
        let Self { walk, sorter } = self;
        walk.feed(idx, |segment| sorter.take(&segment));
    }

    /// The plan.
    pub fn finish(mut self) -> Plan {
        if let Some(last) = self.walk.finish(self.sorter.end) {
            self.sorter.take(&last);
        }
        // Bytes that no record speaks for: the index fell short.
        let Sorter { next, end, stream, .. } = self.sorter;
        self.sorter.add(stream, next..end);
        let mut plan = self.sorter.plan;
        plan.reads = reads(&[&plan.stdout, &plan.stderr, &plan.output]);
        plan
    }
}

#[derive(Clone, Debug)]
struct Sorter {
    plan: Plan,
    next: u64,
    end: u64,
    stream: Stream,
    gaps: Gaps,
}

impl Sorter {
    fn take(&mut self, segment: &Segment) {
        let start = segment.start.clamp(self.next, self.end.max(self.next));
        self.add(self.stream, self.next..start);
        self.stream = segment.stream;
        self.add(self.stream, start..segment.end.min(self.end));
    }

    fn add(&mut self, stream: Stream, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.next = range.end;
        let limit = self.plan.limit as u64;
        let plan = &mut self.plan;
        for stretch in self.gaps.cut(range) {
            match stretch {
                Stretch::Stored(range) => {
                    let single = match stream {
                        Stream::Main => &mut plan.stdout,
                        Stream::Stderr => &mut plan.stderr,
                    };
                    single.add(stream, range.clone(), limit);
                    plan.output.add(stream, range, limit);
                }
                Stretch::Missing { range, gap } => {
                    plan.skip(stream, &range, gap, plan.start..self.end);
                }
            }
        }
    }
}

impl Plan {
    /// Counts bytes that are not stored. A gap that is all the command's says itself how its bytes
    /// were shared out, and is counted where it begins; of another only the stream is known over
    /// which the bytes before it came.
    fn skip(&mut self, stream: Stream, range: &Range<u64>, gap: Gap, command: Range<u64>) {
        let whole = command.start <= gap.start && gap.end <= command.end;
        let (all, stderr) = match (whole, stream) {
            (true, _) if range.start == gap.start => (gap.end - gap.start, gap.stderr),
            (true, _) => return,
            (false, Stream::Main) => (range.end - range.start, 0),
            (false, Stream::Stderr) => (range.end - range.start, range.end - range.start),
        };
        self.stdout.skip(all - stderr);
        self.stderr.skip(stderr);
        self.output.skip(all);
    }
}

impl Part {
    fn add(&mut self, stream: Stream, mut range: Range<u64>, limit: u64) {
        self.total += range.end - range.start;
        let room = if self.closed { 0 } else { limit - self.head_len };
        let middle = range.end.min(range.start + room);
        if range.start < middle {
            self.head_len += middle - range.start;
            match self.head.last_mut() {
                Some(last) if last.range.end == range.start && last.stream == stream => {
                    last.range.end = middle;
                }
                _ => self.head.push(Piece { stream, range: range.start..middle }),
            }
            range.start = middle;
        }
        if range.is_empty() {
            return;
        }
        self.tail_len += range.end - range.start;
        match self.tail.back_mut() {
            Some(last) if last.range.end == range.start && last.stream == stream => {
                last.range.end = range.end;
            }
            _ => self.tail.push_back(Piece { stream, range }),
        }
        self.drop_front(limit + LOOK_BACK);
    }

    /// Nothing is shown from between two gaps: there is one place where something is left out.
    fn skip(&mut self, len: u64) {
        if len > 0 {
            self.total += len;
            self.closed = true;
            self.tail.clear();
            self.tail_len = 0;
        }
    }

    fn drop_front(&mut self, most: u64) {
        while self.tail_len > most
            && let Some(first) = self.tail.front_mut()
        {
            let excess = self.tail_len - most;
            let len = first.range.end - first.range.start;
            if len > excess {
                first.range.start += excess;
                self.tail_len = most;
            } else {
                self.tail.pop_front();
                self.tail_len -= len;
            }
        }
    }

    /// True when something lies between head and tail.
    pub(super) fn is_cut(&self) -> bool {
        self.head_len + self.tail_len < self.total
    }
}

fn reads(parts: &[&Part]) -> Vec<Range<u64>> {
    let pieces = parts.iter().flat_map(|part| part.head.iter().chain(&part.tail));
    let mut ranges: Vec<_> = pieces.map(|piece| piece.range.clone()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut reads: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match reads.last_mut() {
            Some(last) if range.start <= last.end + GAP => last.end = last.end.max(range.end),
            _ => reads.push(range),
        }
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::index::Record;

    fn index(records: &[(u64, Stream)]) -> Vec<u8> {
        let record = |&(offset, stream)| Record { offset, micros: 0, command: 1, stream };
        records.iter().flat_map(|at| record(at).to_bytes()).collect()
    }

    #[test]
    fn small_commands_are_read_whole() {
        use Stream::{Main, Stderr};
        let plan = Plan::of(&index(&[(10, Main), (20, Stderr), (25, Main)]), 10..40, 100);
        assert_eq!(plan.reads(), std::slice::from_ref(&(10..40)));
        assert_eq!((plan.stdout.total, plan.stderr.total, plan.output.total), (25, 5, 30));
        assert!(!plan.output.is_cut());
        let plan = Plan::of(&index(&[(10, Main), (20, Stderr), (25, Main)]), 10..40, 14);
        assert_eq!(plan.stdout.head.len() + plan.stdout.tail.len(), 3);
        assert!(!plan.stdout.is_cut());
    }

    #[test]
    fn large_commands_are_read_at_their_ends() {
        use Stream::{Main, Stderr};
        let idx = index(&[(0, Main), (500_000, Stderr), (500_010, Main)]);
        let plan = Plan::of(&idx, 0..1_000_000, 1000);
        assert_eq!(plan.reads(), [0..1000, 500_000..500_010, 997_976..1_000_000]);
        assert!(plan.stdout.is_cut() && plan.output.is_cut() && !plan.stderr.is_cut());
    }

    #[test]
    fn without_an_index_all_is_standard_output() {
        let plan = Plan::of(&[], 5..15, 100);
        assert_eq!((plan.stdout.total, plan.stderr.total), (10, 0));
        // A record that comes late, and one past the end.
        let plan = Plan::of(&index(&[(10, Stream::Stderr), (90, Stream::Main)]), 5..15, 100);
        assert_eq!((plan.stdout.total, plan.stderr.total), (5, 5));
        assert_eq!(Plan::of(&[], Range { start: 15, end: 5 }, 100).output.total, 0);
    }

    #[test]
    fn what_is_not_stored_is_counted_and_never_asked_for() {
        use Stream::{Main, Stderr};
        let idx = index(&[(10, Main), (20, Stderr), (25, Main), (60, Stderr), (70, Main)]);
        let gaps = |of: &[(u64, u64, u64)]| {
            let mut gaps = Gaps::default();
            of.iter().for_each(|&(start, end, stderr)| gaps.add(Gap { start, end, stderr }));
            gaps
        };
        let plan = |of: &[(u64, u64, u64)]| {
            let mut planner = Planner::new(10..90, 100).without(gaps(of));
            planner.feed(&idx);
            planner.finish()
        };
        // Reads may go across a small gap; nothing is taken from within.
        let shown = |plan: &Plan| -> Vec<Range<u64>> {
            let pieces = plan.output.head.iter().chain(&plan.output.tail);
            pieces.map(|piece| piece.range.clone()).collect()
        };
        // All the command's: the gap says how many bytes were whose, whatever the index says.
        let cut = plan(&[(15, 40, 5)]);
        assert_eq!(shown(&cut), [10..15, 40..60, 60..70, 70..90]);
        assert_eq!((cut.stdout.total, cut.stderr.total, cut.output.total), (65, 15, 80));
        assert!(cut.stdout.is_cut() && cut.stderr.is_cut() && cut.output.is_cut());
        let cut = plan(&[(15, 18, 0)]);
        assert!(cut.stdout.is_cut() && !cut.stderr.is_cut());
        // One that reaches into the command from before it.
        let cut = plan(&[(0, 22, 9)]);
        assert_eq!((cut.stdout.total, cut.stderr.total, cut.output.total), (65, 15, 80));
        assert_eq!(cut.output.head_len + cut.output.tail_len, 68);
        // Several: what lies between them is left out as well.
        let cut = plan(&[(15, 20, 0), (30, 40, 0)]);
        assert_eq!(shown(&cut), [10..15, 40..60, 60..70, 70..90]);
        let nothing = plan(&[(0, 200, 100)]);
        assert_eq!((nothing.reads().len(), nothing.output.total), (0, 80));
        assert!(nothing.output.is_cut());
    }

    #[test]
    fn a_plan_is_bounded() {
        let mut planner = Planner::new(0..3_000_000, 100);
        for at in 0..1_000_000 {
            let stream = if at % 2 == 0 { Stream::Main } else { Stream::Stderr };
            planner.feed(&Record { offset: at * 3, micros: at, command: 1, stream }.to_bytes());
            assert!(planner.sorter.plan.output.tail.len() <= 400);
        }
        let plan = planner.finish();
        assert_eq!(plan.output.total, 3_000_000);
        assert!(plan.reads().iter().map(|range| range.end - range.start).sum::<u64>() < 5000);
    }
}
