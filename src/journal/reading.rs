//! Reading a journal from its first line: for replay, `audit` and `report`.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::error::JournalError;
use super::line::{Chain, Line, LineFault, holds_a_seam};
use super::segment::{Lines, Next, Segment, list};
use super::{snapshot, spare};

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The number of the last line; 0 when there is none.
    pub last_seq: u64,
    /// The last line's hash, 64 hex digits; zeros when there is none. Kept elsewhere, it shows
    /// later whether the journal up to there is still the same.
    pub head: String,
    /// How many segments.
    pub segments: usize,
    /// What a crash left behind the last whole line.
    pub torn: Option<Torn>,
}

/// A torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub segment: PathBuf,
    /// Where the last whole line ends in it.
    pub offset: u64,
    /// How many bytes lie behind.
    pub bytes: u64,
}

/// Where reading came to: all that a writer needs to go on.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) chain: Chain,
    pub(super) segments: Vec<Segment>,
    /// Length of the whole lines in the last segment.
    pub(super) end: u64,
    pub(super) torn: Option<Torn>,
}

/// Hands every line to `on_line`, checked, until it breaks off. Changes nothing on disk and needs
/// no coordinator; beside a running one, the line being written may show as a torn tail.
///
/// # Errors
/// When there is no journal, it cannot be read, or it is damaged.
pub fn read(
    dir: &Path,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Replay, JournalError> {
    walk(dir, on_line).map(|reached| reached.replay())
}

/// The same of every line that is still there, also of those that a snapshot has made spare.
///
/// # Errors
/// As `read`.
pub fn read_whole(
    dir: &Path,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Replay, JournalError> {
    walk_whole(dir, on_line).map(|reached| reached.replay())
}

/// Checks numbers, chain and events of the whole journal. Changes nothing on disk.
///
/// # Errors
/// As `read`: the first thing that is wrong, with its place.
pub fn verify(dir: &Path) -> Result<Replay, JournalError> {
    read_whole(dir, &mut |_| ControlFlow::Continue(()))
}

/// Checks the last segment alone, which is where a crash leaves its marks. Takes the word of the
/// segment's first line for what comes before. Changes nothing on disk.
///
/// # Errors
/// As `read`.
pub fn check_tail(
    dir: &Path,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Replay, JournalError> {
    let segments = list(dir)?;
    let mut reached = Reached { chain: Chain::START, segments: Vec::new(), end: 0, torn: None };
    if let Some(last) = segments.last().cloned() {
        let io = JournalError::io;
        let mut lines = Lines::open(&last.path)?;
        let first = lines.next().map_err(io("reading", &last.path))?;
        if let Next::Line(range) = first {
            reached.chain = Chain::before(lines.bytes(range)).unwrap_or(Chain::START);
        }
        reached.segments = segments;
        // A break is the reader's wish, and no fault.
        let _wish = reached.read_segment(&last.path, true, on_line)?;
    }
    Ok(reached.replay())
}

impl Reached {
    pub(super) fn replay(&self) -> Replay {
        Replay {
            last_seq: self.chain.last_seq(),
            head: self.chain.head(),
            segments: self.segments.len(),
            torn: self.torn.clone(),
        }
    }
}

/// Reads the latest snapshot, where there is one, and then all that follows it.
pub(super) fn walk(
    dir: &Path,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Reached, JournalError> {
    walk_before(dir, u64::MAX, on_line)
}

/// The same up to the beginning of the last segment, where somebody may be writing.
pub(super) fn walk_closed(
    dir: &Path,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Reached, JournalError> {
    let last = list(dir)?.last().map_or(0, |segment| segment.first_seq);
    walk_before(dir, last, on_line)
}

fn walk_before(
    dir: &Path,
    before: u64,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Reached, JournalError> {
    let mut chain = Chain::START;
    if let Some(snapshot) = snapshot::latest(dir)? {
        chain = snapshot.chain;
        for line in snapshot.lines {
            if on_line(line).is_break() {
                return Ok(Reached { chain, segments: Vec::new(), end: 0, torn: None });
            }
        }
    }
    walk_from(dir, chain, before, on_line)
}

/// Reads every line that is still there, from the first segment on.
fn walk_whole(
    dir: &Path,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Reached, JournalError> {
    let first = list(dir)?.first().map_or(1, |segment| segment.first_seq);
    let chain = if first == 1 {
        Some(Chain::START)
    } else {
        spare::chain_before(dir, first).or_else(|| snapshot::chain_before(dir, first))
    };
    // Where nobody says what its beginning hangs on, the first segment does not follow 1.
    walk_from(dir, chain.unwrap_or(Chain::START), u64::MAX, on_line)
}

fn walk_from(
    dir: &Path,
    chain: Chain,
    before: u64,
    on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
) -> Result<Reached, JournalError> {
    let mut segments = list(dir)?;
    segments.retain(|segment| (chain.next_seq..before).contains(&segment.first_seq));
    let mut reached = Reached { chain, segments: Vec::new(), end: 0, torn: None };
    for (index, segment) in segments.iter().enumerate() {
        let (expected, found) = (reached.chain.next_seq, segment.first_seq);
        if found != expected {
            let segment = segment.path.clone();
            return Err(JournalError::SegmentMissing { segment, expected, found });
        }
        let is_last = index + 1 == segments.len() && before == u64::MAX;
        reached.segments.push(segment.clone());
        if reached.read_segment(&segment.path, is_last, on_line)?.is_break() {
            break;
        }
    }
    Ok(reached)
}

impl Reached {
    fn read_segment(
        &mut self,
        path: &Path,
        is_last: bool,
        on_line: &mut dyn FnMut(Line) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, JournalError> {
        let io = JournalError::io;
        let mut lines = Lines::open(path)?;
        loop {
            let offset = lines.offset();
            self.end = offset;
            let (range, terminated) = match lines.next().map_err(io("reading", path))? {
                Next::End => return Ok(ControlFlow::Continue(())),
                Next::TooLong => return Err(damaged(path, offset, LineFault::TooLong)),
                Next::Line(range) => (range, true),
                Next::Unterminated(range) => (range, false),
            };
            let length = range.len() as u64 + u64::from(terminated);
            let bytes = lines.bytes(range);
            let fault = if terminated {
                match self.chain.read(bytes) {
                    Ok(line) => {
                        if on_line(line).is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                        continue;
                    }
                    Err(fault) => fault,
                }
            } else {
                LineFault::Damaged("it has no end")
            };
            let may_be_torn = is_last
                && matches!(fault, LineFault::Damaged(_))
                && !holds_a_seam(bytes)
                && (!terminated || lines.at_end().map_err(io("reading", path))?);
            if !may_be_torn {
                return Err(damaged(path, offset, fault));
            }
            self.torn = Some(Torn { segment: path.to_owned(), offset, bytes: length });
            return Ok(ControlFlow::Continue(()));
        }
    }
}

fn damaged(segment: &Path, offset: u64, fault: LineFault) -> JournalError {
    let segment = segment.to_owned();
    match fault {
        LineFault::Event(source) => JournalError::Newer { segment, offset, source },
        fault => JournalError::Damaged { segment, offset, fault },
    }
}

/// Removes a torn tail from its file, for good.
pub(super) fn cut(torn: &Torn) -> io::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).open(&torn.segment)?;
    file.set_len(torn.offset)?;
    file.sync_all()
}
