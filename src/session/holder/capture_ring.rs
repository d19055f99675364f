//! What of a transcript stays on disk: a command's beginning and its end, and of a session the
//! newest. Decided in blocks, so that little has to be remembered of any amount of output.

use std::collections::VecDeque;
use std::ops::Range;

use crate::domain::session::SessionLimits;

/// Least that a command is given: a few pieces of output.
const COMMAND_BYTES_MIN: u64 = 512 * 1024;
const BLOCK_BYTES_MIN: u64 = 32 * 1024;
const BLOCK_BYTES_MAX: u64 = 1024 * 1024;
/// A disk that fails again and again leaves small blocks; so many are remembered.
const BLOCKS_MAX: usize = 4096;

/// A stretch of the transcript that is stored without a gap, and the records that speak for it. It
/// begins with a record of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub raw: Range<u64>,
    pub idx: Range<u64>,
    /// How many of the bytes came over the second terminal.
    pub stderr: u64,
}

impl Block {
    fn bytes(&self) -> u64 {
        self.raw.end - self.raw.start + self.idx.end - self.idx.start
    }
}

/// Whether there is room.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    /// Once this is given up there may be.
    GiveUp(Block),
    /// Nothing can be given up.
    None,
}

/// The blocks that are stored, oldest first.
pub(super) struct Ring {
    command_max: u64,
    session_max: u64,
    head: u64,
    block_max: u64,
    blocks: VecDeque<Block>,
    kept: u64,
    /// Where the running command's output begins, or what has come since the last one.
    start: u64,
    /// What is kept from there on.
    kept_here: u64,
    /// Where its beginning ends, once it is so long.
    head_end: Option<u64>,
}

impl Ring {
    pub(super) fn new(limits: &SessionLimits) -> Self {
        let command_max = limits.command_disk.max(COMMAND_BYTES_MIN);
        Self {
            command_max,
            session_max: limits.session_disk.max(command_max),
            head: command_max / 4,
            block_max: (command_max / 16).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
            blocks: VecDeque::new(),
            kept: 0,
            start: 0,
            kept_here: 0,
            head_end: None,
        }
    }

    /// What comes from here on has a beginning and an end of its own.
    pub(super) fn begin(&mut self, raw_end: u64) {
        self.start = raw_end;
        self.kept_here = 0;
        self.head_end = None;
    }

    /// True when the bytes at `raw` begin a block, and need a record of their own.
    pub(super) fn opens_block(&self, raw: u64, idx: u64) -> bool {
        self.blocks.back().is_none_or(|last| {
            let is_full = last.bytes() >= self.block_max;
            is_full
                || self.head_end == Some(last.raw.end)
                || (last.raw.end, last.idx.end) != (raw, idx)
        })
    }

    /// Something was stored.
    pub(super) fn add(&mut self, raw: Range<u64>, idx: Range<u64>, stderr: u64) {
        let opens = self.opens_block(raw.start, idx.start);
        let block = Block { raw, idx, stderr };
        self.kept += block.bytes();
        self.kept_here += block.bytes();
        if self.kept_here >= self.head {
            self.head_end.get_or_insert(block.raw.end);
        }
        match self.blocks.back_mut() {
            Some(last) if !opens => {
                last.raw.end = block.raw.end;
                last.idx.end = block.idx.end;
                last.stderr += stderr;
            }
            _ => self.blocks.push_back(block),
        }
    }

    /// Looks for room for `more` bytes; `gives` says whether room can be given back.
    pub(super) fn room(&mut self, more: u64, gives: impl FnOnce() -> bool) -> Room {
        let over_session = self.kept + more > self.session_max || self.blocks.len() > BLOCKS_MAX;
        if !over_session && self.kept_here + more <= self.command_max {
            return Room::Enough;
        }
        if !gives() {
            return Room::None;
        }
        let is_old = |block: &Block| block.raw.end <= self.start;
        if over_session && self.blocks.front().is_some_and(is_old) {
            return self.give_up(0);
        }
        let head_end = self.head_end.unwrap_or(u64::MAX);
        let middle = self.blocks.partition_point(|block| block.raw.start < head_end);
        if middle < self.blocks.len() { self.give_up(middle) } else { Room::None }
    }

    fn give_up(&mut self, index: usize) -> Room {
        let Some(block) = self.blocks.remove(index) else { return Room::None };
        self.kept -= block.bytes();
        if block.raw.start >= self.start {
            self.kept_here = self.kept_here.saturating_sub(block.bytes());
        }
        Room::GiveUp(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn ring(command: u64, session: u64) -> Ring {
        Ring::new(&SessionLimits {
            command_disk: command,
            session_disk: session,
            ..SessionLimits::default()
        })
    }

    /// Feeds `bytes` in pieces and answers with what was given up.
    fn feed(ring: &mut Ring, at: &mut (u64, u64), bytes: u64) -> Vec<Range<u64>> {
        let mut given_up: Vec<Range<u64>> = Vec::new();
        let until = at.0 + bytes;
        while at.0 < until {
            let piece = 64_000.min(until - at.0);
            loop {
                match ring.room(piece + 24, || true) {
                    Room::Enough => break,
                    Room::GiveUp(block) => match given_up.last_mut() {
                        Some(last) if last.end == block.raw.start => last.end = block.raw.end,
                        _ => given_up.push(block.raw),
                    },
                    Room::None => panic!("nothing to give up"),
                }
            }
            ring.add(at.0..at.0 + piece, at.1..at.1 + 24, 0);
            *at = (at.0 + piece, at.1 + 24);
            assert!(ring.kept <= ring.session_max && ring.kept_here <= ring.command_max);
        }
        given_up
    }

    #[test]
    fn a_command_keeps_its_head_and_its_tail() {
        let mut ring = ring(8 * MIB, 100 * MIB);
        let mut at = (0, 0);
        assert_eq!(feed(&mut ring, &mut at, 7 * MIB), []);
        let given_up = feed(&mut ring, &mut at, 93 * MIB);
        assert_eq!(given_up.len(), 1, "{given_up:?}");
        assert!((2 * MIB..2 * MIB + 64_000).contains(&given_up[0].start), "{given_up:?}");
        let tail = 100 * MIB - given_up[0].end;
        assert!((5 * MIB..6 * MIB).contains(&tail), "{given_up:?}");
        assert!(ring.blocks.len() < 40);
    }

    #[test]
    fn a_session_gives_up_its_oldest_first() {
        let mut ring = ring(4 * MIB, 8 * MIB);
        let mut at = (0, 0);
        for command in 0..6 {
            ring.begin(at.0);
            let given_up = feed(&mut ring, &mut at, 2 * MIB);
            let oldest = given_up.first().map_or(0, |range| range.start);
            assert_eq!(given_up.is_empty(), command < 3, "{command}: {given_up:?}");
            assert!(oldest < at.0.saturating_sub(7 * MIB) || given_up.is_empty());
        }
        // Small commands share a block.
        for _ in 0..10_000 {
            ring.begin(at.0);
            feed(&mut ring, &mut at, 10);
        }
        assert!(ring.blocks.len() < 100, "{}", ring.blocks.len());
    }

    #[test]
    fn where_nothing_can_be_given_up_there_is_no_room() {
        let mut first = self::ring(0, 0);
        assert_eq!(first.room(64_000, || true), Room::Enough);
        first.add(0..64_000, 0..24, 0);
        assert_eq!(first.room(600_000, || true), Room::None, "the head stays");
        let mut full = self::ring(MIB, 2 * MIB);
        feed(&mut full, &mut (0, 0), MIB - 1000);
        assert_eq!(full.room(64_000, || false), Room::None);
        assert!(matches!(full.room(64_000, || true), Room::GiveUp(_)));
    }
}
