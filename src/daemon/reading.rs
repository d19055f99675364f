//! Reading transcripts: from a command's part of `out.raw` to the texts of its result.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;

use super::story::CommandStory;
use crate::domain::outcome::CommandState;
use crate::domain::result::{CommandResult, Note, Order};
use crate::domain::session::Size;
use crate::domain::shown_path;
use crate::session::wire::{CommandEnd, Span, Unstored};
use crate::transcript::decode::Hint;
use crate::transcript::gaps::{Gap, Gaps, Stretch};
use crate::transcript::index::{RECORD_BYTES, Record, Stream, resizes};
use crate::transcript::plan::Planner;
use crate::transcript::texts::{Setting, Texts, texts};

/// How much of a failed command's end is looked at for the environment's words.
const TAIL_KEEP: usize = 2 * 1024;
/// How much of an index is read at a time: whole entries.
const INDEX_CHUNK: usize = 2730 * RECORD_BYTES;
/// A command that outgrows its share of the disk while it is read is read so often.
const TRIES_MAX: u32 = 5;

/// How many bytes of output a command has.
pub(super) fn bytes(story: &CommandStory) -> u64 {
    let end = story.record.end.as_ref();
    end.map_or(u64::MAX, |end| end.span.raw_end.saturating_sub(end.span.raw_start))
}

/// The whole result of a command, as far as it has come.
pub(super) fn result(story: &CommandStory) -> CommandResult {
    let CommandStory { record, session, now, .. } = story;
    let end = record.end.as_ref();
    let span = end.map_or_else(
        || Span {
            raw_start: record.started.map_or(u64::MAX, |(_, offset)| offset),
            raw_end: u64::MAX,
            idx_start: 0,
            idx_end: u64::MAX,
        },
        |end| end.span,
    );
    let unstored = end.map_or(&[][..], |end| &end.unstored);
    let source = Source { transcript: &story.transcript, span, unstored };
    let read = read(&source, story.keep, setting(story.charset.as_deref(), end.is_none()));
    let mut notes = end.map_or_else(|| record.notes.clone(), |end| end.notes.clone());
    let texts = read.unwrap_or_else(|error| {
        // The session's folder may never have been made; any other trouble is worth a note.
        if error.kind() != io::ErrorKind::NotFound {
            notes.push(Note::CaptureDegraded { message: error.to_string() });
        }
        Texts::default()
    });
    notes.extend(texts.notes());
    let started_at = record.started.map(|(at, _)| at).or(end.and_then(|end| end.started_at));
    // A call that returned because its command waits says nothing of what was done to it then.
    let ended = end.filter(|_| !record.left_waiting);
    let awaiting = match ended {
        Some(end) => end.awaiting.clone(),
        None => record.awaiting.clone(),
    };
    CommandResult {
        command_id: record.id.clone(),
        session_id: session.clone(),
        command: record.text.clone(),
        state: record.state(),
        reason: ended.and_then(|end| end.reason.clone()),
        exit_code: ended.and_then(|end| end.exit_code),
        pipe_status: ended.and_then(|end| end.pipe_status.clone()),
        truncated: texts.truncated(session),
        order: if end.is_some_and(|end| end.merged) { Order::Exact } else { Order::Approximate },
        encoding: if texts.encoding.is_empty() { "utf-8".to_owned() } else { texts.encoding },
        stdout: texts.stdout,
        stderr: texts.stderr,
        output: texts.output,
        cwd: end
            .map(|end| end.cwd.clone())
            .filter(|cwd| !cwd.is_empty())
            .unwrap_or_else(|| shown_path::show(&story.cwd)),
        started_at,
        duration_ms: end
            .map_or_else(|| started_at.map_or(0, |at| now.ms_since(at)), |end| end.duration_ms),
        children: end.map_or_else(Vec::new, |end| end.children.clone()),
        notes,
        awaiting: awaiting.filter(|_| record.state() != CommandState::Completed),
        touched: record.touched.clone(),
        parsed: None,
    }
}

/// The end of a command's standard error, clean; of its output where one terminal carried both or
/// nothing came on standard error.
pub(super) fn tail(transcript: &Path, end: &CommandEnd, charset: Option<&str>) -> String {
    let source = Source { transcript, span: end.span, unstored: &end.unstored };
    let read = read(&source, TAIL_KEEP, setting(charset, false));
    let texts = read.unwrap_or_default();
    if texts.stderr.is_empty() { texts.output } else { texts.stderr }
}

fn setting(charset: Option<&str>, running: bool) -> Setting {
    let hint =
        charset.map_or_else(Hint::default, |charset| Hint::of_locale(&format!("x.{charset}")));
    Setting { hint, size: Size::default(), running }
}

/// Where a command's output is.
struct Source<'a> {
    transcript: &'a Path,
    span: Span,
    /// What of it is not in the files.
    unstored: &'a [Unstored],
}

/// Reads head and tail of a span, within `keep` bytes each. What is not stored is counted, and so
/// is what lies past the end of the files: after a power loss they may be shorter than was said.
fn read(source: &Source<'_>, keep: usize, setting: Setting) -> io::Result<Texts> {
    let Source { transcript, span, unstored } = source;
    if span.raw_start >= span.raw_end {
        return Ok(Texts::default());
    }
    let raw = File::open(transcript.join("out.raw"))?;
    // It is made with its first entry.
    let index = File::open(transcript.join("out.idx")).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => File::open("/dev/null"),
        _ => Err(error),
    })?;
    let mut setting = setting;
    let mut tries = 0;
    loop {
        let length = raw.metadata()?.len();
        let mut gaps = gaps(transcript)?;
        let end = if span.raw_end == u64::MAX { length } else { span.raw_end };
        if end > length {
            gaps.add(Gap { start: length.max(span.raw_start), end, stderr: 0 });
        }
        let before = gaps.clone();
        unstored.iter().for_each(|piece| gaps.fill(&range_of(piece)));
        let mut planner = Planner::new(span.raw_start.min(end)..end, keep).without(gaps);
        plan_from(&index, *span, &mut planner, &mut setting.size)?;
        for piece in *unstored {
            let stream = if piece.stderr { Stream::Stderr } else { Stream::Main };
            planner.feed(&Record { offset: piece.offset, stream, ..Record::default() }.to_bytes());
        }
        let plan = planner.finish();
        let mut pieces = plan
            .reads()
            .iter()
            .map(|range| {
                let length = usize::try_from(range.end - range.start).unwrap_or(0);
                let mut piece = vec![0; length];
                let count = read_up_to(&raw, &mut piece, range.start)?;
                if unstored.is_empty() {
                    piece.truncate(count);
                }
                Ok(piece)
            })
            .collect::<io::Result<Vec<_>>>()?;
        // The holder may have given up what was being read; it says so before it does.
        tries += 1;
        let lost = self::gaps(transcript)?;
        let was_there = plan.reads().iter().flat_map(|read| before.cut(read.clone()));
        let is_torn = was_there.into_iter().any(|stretch| match stretch {
            Stretch::Stored(range) => {
                lost.cut(range).any(|now| matches!(now, Stretch::Missing { .. }))
            }
            Stretch::Missing { .. } => false,
        });
        if is_torn && tries < TRIES_MAX {
            continue;
        }
        for (range, piece) in plan.reads().iter().zip(&mut pieces) {
            unstored.iter().for_each(|unstored| lay_over(piece, range.start, unstored));
        }
        return Ok(texts(&plan, &pieces, &setting));
    }
}

fn range_of(piece: &Unstored) -> Range<u64> {
    piece.offset..piece.offset + piece.bytes.len() as u64
}

fn gaps(transcript: &Path) -> io::Result<Gaps> {
    match std::fs::read(transcript.join("out.gap")) {
        Ok(bytes) => Ok(Gaps::read(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Gaps::default()),
        Err(error) => Err(error),
    }
}

/// Puts what was kept elsewhere into bytes that were read from `start` on.
fn lay_over(piece: &mut [u8], start: u64, unstored: &Unstored) {
    let end = start + piece.len() as u64;
    let range = range_of(unstored);
    let (from, to) = (range.start.max(start), range.end.min(end));
    let place = |offset: u64, base: u64| usize::try_from(offset - base).unwrap_or(usize::MAX);
    if from < to
        && let Some(into) = piece.get_mut(place(from, start)..place(to, start))
        && let Some(bytes) = unstored.bytes.get(place(from, range.start)..place(to, range.start))
    {
        into.copy_from_slice(bytes);
    }
}

/// Makes the plan from the command's part of the index; `size` becomes that of its window.
fn plan_from(index: &File, span: Span, planner: &mut Planner, size: &mut Size) -> io::Result<()> {
    let mut at = span.idx_start;
    let mut chunk = vec![0; INDEX_CHUNK];
    while at < span.idx_end {
        let most = usize::try_from(span.idx_end - at).unwrap_or(INDEX_CHUNK).min(INDEX_CHUNK);
        // An entry that is being written is whole the next time.
        let count = read_up_to(index, &mut chunk[..most], at)? / RECORD_BYTES * RECORD_BYTES;
        if count == 0 {
            break;
        }
        if chunk[..count].iter().all(|byte| *byte == 0) {
            // The records of a long gap are gone; the next one is looked for where data begins.
            let Ok(data) = rustix::fs::seek(index, SeekFrom::Data(at)) else { break };
            let whole = RECORD_BYTES as u64;
            let skipped = data.saturating_sub(at) / whole * whole;
            if skipped > count as u64 {
                at += skipped;
                continue;
            }
        }
        planner.feed(&chunk[..count]);
        if let Some(last) = resizes(&chunk[..count]).last() {
            *size = last.size;
        }
        at += count as u64;
    }
    Ok(())
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
