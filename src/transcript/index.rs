//! The index of a transcript: which bytes of `out.raw` came when, over which terminal, in which
//! command.
//!
//! `out.idx` is a row of 24-byte records in the order of their offsets. A record speaks for the
//! bytes from its offset up to the next record's; the last one up to the end of `out.raw`. A new
//! record begins wherever the stream or the command changes, and each command begins with a record
//! of its own.
//!
//! ```text
//!  0        8         16       20      21      24
//!  | offset | micros  | command| stream| zeros |      all little-endian
//! ```
//!
//! An entry with the stream code 3 is no record but the window's size: its `command` holds the
//! columns in the lower and the rows in the upper half. It says what holds from its offset on, and
//! stands before the first record of each command as well.
//!
//! Where the middle of a command is not kept (`gaps`), its records are taken away, too: there is a
//! stretch of zeros then, and a record stands wherever the kept bytes go on.
//!
//! The raw bytes are written before the record that points at them, and neither file is synced: so
//! after a power loss a reader may find a torn last record, offsets past the end of the raw file,
//! or a page of zeros. Such records are passed over; bytes that none speaks for belong to the
//! segment before them.

use crate::domain::session::Size;

/// Size of one record.
pub const RECORD_BYTES: usize = 24;

/// Which of a session's terminals the bytes came over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The session's own terminal.
    #[default]
    Main,
    /// The second terminal, given to commands as standard error.
    Stderr,
}

impl Stream {
    fn code(self) -> u8 {
        match self {
            Self::Main => 1,
            Self::Stderr => 2,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Main),
            2 => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// One record of `out.idx`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Where its bytes begin in `out.raw`.
    pub offset: u64,
    /// Microseconds since the session's start.
    pub micros: u64,
    /// The command's number in the session; 0 between commands.
    pub command: u32,
    /// Over which terminal.
    pub stream: Stream,
}

impl Record {
    /// The record as it is written.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.micros.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.command.to_le_bytes());
        bytes[20] = self.stream.code();
        bytes
    }

    /// Reads a record back; `None` for bytes that are none.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let [.., stream, 0, 0, 0] = *bytes else { return None };
        Some(Self {
            offset: u64::from_le_bytes(*bytes.first_chunk()?),
            micros: u64::from_le_bytes(*bytes[8..].first_chunk()?),
            command: u32::from_le_bytes(*bytes[16..].first_chunk()?),
            stream: Stream::from_code(stream)?,
        })
    }
}

/// The window's size from `offset` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// How far `out.raw` had come.
    pub offset: u64,
    /// Microseconds since the session's start.
    pub micros: u64,
    /// The size.
    pub size: Size,
}

/// Stream code of a `Resize`.
const RESIZE: u8 = 3;

impl Resize {
    /// The entry as it is written.
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let command = u32::from(self.size.cols) | u32::from(self.size.rows) << 16;
        let (offset, micros) = (self.offset, self.micros);
        let mut bytes = Record { offset, micros, command, ..Record::default() }.to_bytes();
        bytes[20] = RESIZE;
        bytes
    }

    /// Reads an entry back; `None` for bytes that are none.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let [.., RESIZE, 0, 0, 0] = *bytes else { return None };
        Some(Self {
            offset: u64::from_le_bytes(*bytes.first_chunk()?),
            micros: u64::from_le_bytes(*bytes[8..].first_chunk()?),
            size: Size {
                cols: u16::from_le_bytes(*bytes[16..].first_chunk()?),
                rows: u16::from_le_bytes(*bytes[18..].first_chunk()?),
            },
        })
    }
}

/// The window's sizes in an index that begins at an entry, in order.
pub fn resizes(idx: &[u8]) -> impl Iterator<Item = Resize> {
    idx.as_chunks::<RECORD_BYTES>().0.iter().filter_map(Resize::from_bytes)
}

/// A stretch of `out.raw` that one record speaks for. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub start: u64,
    /// End.
    pub end: u64,
    /// Microseconds since the session's start.
    pub micros: u64,
    /// The command's number in the session; 0 between commands.
    pub command: u32,
    /// Over which terminal.
    pub stream: Stream,
}

/// Turns an index into segments while it is read, in pieces of any size. Segments come in order,
/// touch one another and never overlap.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    torn: [u8; RECORD_BYTES],
    torn_len: usize,
    open: Option<Record>,
}

impl Walk {
    /// A walk from the first record on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on. Each segment is handed out once the record after it is seen.
    pub fn feed(&mut self, mut idx: &[u8], mut each: impl FnMut(Segment)) {
        if self.torn_len > 0 {
            let (rest, after) = idx.split_at(idx.len().min(RECORD_BYTES - self.torn_len));
            self.torn[self.torn_len..self.torn_len + rest.len()].copy_from_slice(rest);
            self.torn_len += rest.len();
            idx = after;
            if self.torn_len < RECORD_BYTES {
                return;
            }
            let whole = self.torn;
            self.torn_len = 0;
            self.step(&whole, &mut each);
        }
        let (records, torn) = idx.as_chunks::<RECORD_BYTES>();
        for record in records {
            self.step(record, &mut each);
        }
        self.torn[..torn.len()].copy_from_slice(torn);
        self.torn_len = torn.len();
    }

    /// The last segment, up to `end`: the end of `out.raw`, or of the part that is looked at.
    pub fn finish(self, end: u64) -> Option<Segment> {
        segment(self.open?, end)
    }

    fn step(&mut self, bytes: &[u8; RECORD_BYTES], each: &mut impl FnMut(Segment)) {
        let Some(next) = Record::from_bytes(bytes) else { return };
        // Offsets only grow: one that does not was never written by a holder.
        if self.open.is_some_and(|open| next.offset < open.offset) {
            return;
        }
        if let Some(done) = self.open.replace(next).and_then(|open| segment(open, next.offset)) {
            each(done);
        }
    }
}

fn segment(record: Record, end: u64) -> Option<Segment> {
    let Record { offset: start, micros, command, stream } = record;
    (start < end).then_some(Segment { start, end, micros, command, stream })
}

/// The segments of a whole index in memory. `end` is the length of `out.raw`, or the end of the
/// part that is looked at: nothing beyond it is handed out.
pub fn segments(idx: &[u8], end: u64) -> impl Iterator<Item = Segment> {
    let mut walk = Some(Walk::new());
    let mut records = idx.as_chunks::<RECORD_BYTES>().0.iter();
    std::iter::from_fn(move || {
        loop {
            let Some(record) = records.next() else { return walk.take()?.finish(end) };
            let mut done = None;
            walk.as_mut()?.feed(record, |segment| done = Some(segment));
            if done.is_some() {
                return done;
            }
        }
    })
    .filter_map(move |found| {
        let end = found.end.min(end);
        (found.start < end).then_some(Segment { end, ..found })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(offset: u64, stream: Stream, command: u32) -> Record {
        Record { offset, micros: offset * 7, command, stream }
    }

    fn index(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(|record| record.to_bytes()).collect()
    }

    fn brief(idx: &[u8], end: u64) -> Vec<(u64, u64, Stream, u32)> {
        segments(idx, end).map(|s| (s.start, s.end, s.stream, s.command)).collect()
    }

    #[test]
    fn layout() {
        let record = Record {
            offset: 0x0102_0304_0506_0708,
            micros: 0x1112_1314_1516_1718,
            command: 0x2122_2324,
            stream: Stream::Stderr,
        };
        let bytes = [
            8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23,
            0x22, 0x21, 2, 0, 0, 0,
        ];
        assert_eq!(record.to_bytes(), bytes);
        assert_eq!(Record::from_bytes(&bytes), Some(record));
        assert_eq!(Record::from_bytes(&[0; RECORD_BYTES]), None);
        assert_eq!(Record::from_bytes(&[1; RECORD_BYTES]), None);
    }

    #[test]
    fn sizes_stand_between_records() {
        use Stream::Main;
        let size = Size { cols: 500, rows: 0x0304 };
        let resize = Resize { offset: 10, micros: 77, size };
        assert_eq!(resize.to_bytes()[16..], [0xf4, 1, 4, 3, 3, 0, 0, 0]);
        assert_eq!(Resize::from_bytes(&resize.to_bytes()), Some(resize));
        assert_eq!(Record::from_bytes(&resize.to_bytes()), None);
        let mut idx = index(&[record(0, Main, 1)]);
        assert_eq!(Resize::from_bytes(idx.first_chunk().unwrap()), None);
        idx.extend(resize.to_bytes());
        idx.extend(index(&[record(10, Main, 2)]));
        assert_eq!(brief(&idx, 20), [(0, 10, Main, 1), (10, 20, Main, 2)]);
        assert_eq!(resizes(&idx).collect::<Vec<_>>(), [resize]);
    }

    #[test]
    fn segments_reach_to_the_next_record() {
        use Stream::{Main, Stderr};
        let idx = index(&[record(0, Main, 1), record(10, Stderr, 1), record(30, Main, 2)]);
        let all = [(0, 10, Main, 1), (10, 30, Stderr, 1), (30, 42, Main, 2)];
        assert_eq!(brief(&idx, 42), all);
        // A torn last record.
        assert_eq!(brief(&idx[..60], 42), [(0, 10, Main, 1), (10, 42, Stderr, 1)]);
        // Records past the end of the raw file, and one that reaches beyond it.
        assert_eq!(brief(&idx, 20), [(0, 10, Main, 1), (10, 20, Stderr, 1)]);
        assert_eq!(brief(&idx, 0), []);
        assert_eq!(brief(&[], 10), []);
    }

    #[test]
    fn garbage_is_passed_over() {
        use Stream::Main;
        let mut idx = index(&[record(0, Main, 1)]);
        idx.extend([0; RECORD_BYTES]);
        idx.extend([0xff; RECORD_BYTES]);
        idx.extend(index(&[record(8, Main, 2), record(4, Main, 3), record(8, Main, 4)]));
        assert_eq!(brief(&idx, 9), [(0, 8, Main, 1), (8, 9, Main, 4)]);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces(
            idx in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), any::<u8>()], 0..200),
            piece in 1usize..50,
            end in 0u64..1000,
        ) {
            let whole: Vec<_> = segments(&idx, end).collect();
            let mut walk = Walk::new();
            let mut pieces = Vec::new();
            for part in idx.chunks(piece) {
                walk.feed(part, |segment| pieces.push(segment));
            }
            pieces.extend(walk.finish(end));
            pieces.retain(|segment| segment.start < end);
            for segment in &mut pieces {
                segment.end = segment.end.min(end);
            }
            prop_assert_eq!(&whole, &pieces);
            prop_assert!(whole.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }
}
