//! A command's texts, made from the bytes that its plan asked for.

use std::ops::Range;

use super::clean::Cleaner;
use super::decode::{Hint, Reading};
use super::plan::{LOOK_BACK, Part, Piece, Plan};
use super::seam::{first_switch, head_end, open_end, tail_start};
use crate::domain::ids::SessionId;
use crate::domain::result::{Note, Omitted, Truncation};
use crate::domain::session::Size;

/// What else has to be known to read a command's bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// What the session's locale says.
    pub hint: Hint,
    /// The session's window.
    pub size: Size,
    /// True while the command runs: a character that is not complete yet may still become so.
    pub running: bool,
}

/// The texts of a `CommandResult` and what goes with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Clean standard output.
    pub stdout: String,
    /// Clean standard error.
    pub stderr: String,
    /// Both, in order of arrival.
    pub output: String,
    /// The encoding's name.
    pub encoding: String,
    /// True when it was guessed from few bytes.
    pub guessed: bool,
    /// True when a program used the alternate screen.
    pub full_screen: bool,
    omitted: [Option<Omitted>; 3],
    start: u64,
}

impl Texts {
    /// What was left out; `None` when nothing was.
    pub fn truncated(&self, session: &SessionId) -> Option<Truncation> {
        let [stdout, stderr, output] = self.omitted;
        if self.omitted.iter().all(Option::is_none) {
            return None;
        }
        Some(Truncation { stdout, stderr, output, reference: format!("{session}@{}", self.start) })
    }

    /// The remarks that the texts call for.
    pub fn notes(&self) -> impl Iterator<Item = Note> {
        let guess = self.guessed.then_some(Note::EncodingGuess);
        guess.into_iter().chain(self.full_screen.then_some(Note::FullScreen))
    }
}

/// Makes the texts. `bytes` holds what was read for each of `plan.reads()`, in that order; what
/// could not be read is simply missing.
pub fn texts(plan: &Plan, bytes: &[Vec<u8>], setting: &Setting) -> Texts {
    let source = Source { reads: plan.reads(), bytes };
    let raws = [&plan.stdout, &plan.stderr, &plan.output].map(|part| Raw::of(part, plan, &source));
    let all = raws[..2].iter().flat_map(|raw| [raw.head.as_slice(), &raw.tail]);
    let reading = Reading::of(all.collect::<Vec<_>>(), &setting.hint);
    let writer = Writer { reading, setting, limit: plan.limit };
    let stdout = writer.write(&raws[0]);
    // One stream: both together are the same.
    let (stderr, output) = if plan.stderr.total == 0 {
        (Excerpt::default(), stdout.clone())
    } else {
        (writer.write(&raws[1]), writer.write(&raws[2]))
    };
    Texts {
        omitted: [stdout.omitted, stderr.omitted, output.omitted],
        full_screen: stdout.full_screen || stderr.full_screen || output.full_screen,
        stdout: stdout.text,
        stderr: stderr.text,
        output: output.text,
        encoding: reading.label(),
        guessed: reading.guessed,
        start: plan.start,
    }
}

/// The bytes that were read.
struct Source<'a> {
    reads: &'a [Range<u64>],
    bytes: &'a [Vec<u8>],
}

impl Source<'_> {
    fn get(&self, range: &Range<u64>) -> &[u8] {
        let after = self.reads.partition_point(|read| read.start <= range.start);
        let Some(at) = after.checked_sub(1) else { return &[] };
        let (Some(read), Some(bytes)) = (self.reads.get(at), self.bytes.get(at)) else {
            return &[];
        };
        let place = |offset: u64| usize::try_from(offset - read.start).unwrap_or(usize::MAX);
        let (start, end) = (place(range.start), place(range.end).min(bytes.len()));
        bytes.get(start..end).unwrap_or_default()
    }

    /// The bytes of pieces in order. Where two streams take turns in the middle of a character or
    /// a sequence, its parts are brought together.
    fn join<'p>(&self, pieces: impl IntoIterator<Item = &'p Piece>) -> Vec<u8> {
        let mut joined = Vec::new();
        let mut open: [Vec<u8>; 2] = Default::default();
        let mut before = None;
        for piece in pieces {
            let stream = piece.stream as usize;
            if before.is_some_and(|before| before != stream) {
                let keep = joined.len() - open_end(&joined);
                if let Some(before) = before {
                    open[before] = joined.split_off(keep);
                }
                joined.append(&mut open[stream]);
            }
            joined.extend_from_slice(self.get(&piece.range));
            before = Some(stream);
        }
        open.iter_mut().for_each(|open| joined.append(open));
        joined
    }
}

/// The bytes of one text, cut where it may be cut.
#[derive(Debug, Default)]
struct Raw {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Bytes between them, when there are any.
    omitted: Option<u64>,
}

impl Raw {
    fn of(part: &Part, plan: &Plan, source: &Source<'_>) -> Self {
        if !part.is_cut() {
            let head = source.join(part.head.iter().chain(&part.tail));
            return Self { head, ..Self::default() };
        }
        let mut head = source.join(&part.head);
        head.truncate(head_end(&head));
        let mut tail = source.join(&part.tail);
        // Room for the line that says what was left out.
        let most = plan.limit.saturating_sub(MARK_ROOM);
        let early = tail.len().saturating_sub(most).max(usize::try_from(LOOK_BACK).unwrap_or(0));
        tail.drain(..tail_start(&tail, early));
        let kept = (head.len() + tail.len()) as u64;
        Self { head, tail, omitted: Some(part.total.saturating_sub(kept)) }
    }
}

/// Upper bound for the line that stands for what was left out.
const MARK_ROOM: usize = 64;

#[derive(Clone, Debug, Default)]
struct Excerpt {
    text: String,
    full_screen: bool,
    omitted: Option<Omitted>,
}

struct Writer<'a> {
    reading: Reading,
    setting: &'a Setting,
    limit: usize,
}

impl Writer<'_> {
    fn write(&self, raw: &Raw) -> Excerpt {
        let Some(omitted) = raw.omitted else { return self.whole(&raw.head) };
        let (head, lost) = self.fit_head(&raw.head);
        let begins_alternate = match first_switch(&raw.tail) {
            Some(on) => !on,
            None => head.alternate,
        };
        let (tail, more) = self.fit_tail(&raw.tail, begins_alternate);
        let omitted_bytes = omitted + lost + more;
        let line_end = if head.text.is_empty() || head.text.ends_with('\n') { "" } else { "\n" };
        Excerpt {
            text: format!("{}{line_end}{}{}", head.text, mark(omitted_bytes), tail.text),
            full_screen: head.full_screen || tail.full_screen,
            omitted: Some(Omitted { omitted_bytes }),
        }
    }

    /// All of a text, if it is short enough as text too; decoding can make it longer.
    fn whole(&self, bytes: &[u8]) -> Excerpt {
        let text = self.clean(bytes, false, !self.setting.running);
        if text.text.len() <= self.limit.saturating_mul(2) {
            return Excerpt { text: text.text, full_screen: text.full_screen, omitted: None };
        }
        let half = bytes.len() / 2;
        let (head, tail) = (head_end(&bytes[..half]), tail_start(bytes, half));
        let (head, tail, omitted) = (&bytes[..head], &bytes[tail..], tail - head);
        let omitted = Some(omitted as u64);
        self.write(&Raw { head: head.to_vec(), tail: tail.to_vec(), omitted })
    }

    fn fit_head(&self, mut bytes: &[u8]) -> (Piecewise, u64) {
        let all = bytes.len();
        loop {
            let mut piece = self.clean(bytes, false, true);
            let Some(len) = self.shorter(bytes.len(), piece.text.len(), self.limit) else {
                return (piece, (all - bytes.len()) as u64);
            };
            if len == 0 {
                piece.text.truncate(piece.text.floor_char_boundary(self.limit));
                return (piece, (all - bytes.len()) as u64);
            }
            bytes = &bytes[..head_end(&bytes[..len])];
        }
    }

    fn fit_tail(&self, bytes: &[u8], alternate: bool) -> (Piecewise, u64) {
        let limit = self.limit.saturating_sub(MARK_ROOM);
        let mut start = 0;
        loop {
            let rest = &bytes[start..];
            let mut piece = self.clean(rest, alternate, !self.setting.running);
            let Some(len) = self.shorter(rest.len(), piece.text.len(), limit) else {
                return (piece, start as u64);
            };
            if len == 0 {
                let at = piece.text.ceil_char_boundary(piece.text.len() - limit);
                piece.text.drain(..at);
                return (piece, start as u64);
            }
            start = tail_start(bytes, bytes.len() - len);
        }
    }

    /// How many raw bytes to try instead of `raw`, whose text was `text` long: `None` when that
    /// fits, 0 when trying on is of no use.
    fn shorter(&self, raw: usize, text: usize, limit: usize) -> Option<usize> {
        if text <= limit {
            return None;
        }
        let len = raw.saturating_mul(limit) / text;
        Some(len.min(raw - raw / 16 - 1))
    }

    fn clean(&self, bytes: &[u8], alternate: bool, ended: bool) -> Piecewise {
        let bytes = if ended { bytes } else { &bytes[..bytes.len() - open_end(bytes)] };
        let mut cleaner = Cleaner::new(self.setting.size);
        if alternate {
            cleaner = cleaner.on_alternate_screen();
        }
        cleaner.feed(&self.reading.decode(bytes));
        let alternate = cleaner.is_on_alternate_screen();
        let cleaned = cleaner.finish();
        Piecewise { text: cleaned.text, full_screen: cleaned.full_screen, alternate }
    }
}

/// A cleaned head or tail, and the screen it ends on.
struct Piecewise {
    text: String,
    full_screen: bool,
    alternate: bool,
}

fn mark(omitted_bytes: u64) -> String {
    format!("[… {omitted_bytes} bytes left out …]\n")
}

#[cfg(test)]
#[path = "texts_tests.rs"]
mod tests;
