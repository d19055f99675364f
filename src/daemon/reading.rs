//! Reading transcripts: from a command's part of `out.raw` to the texts of its result.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::story::CommandStory;
use crate::domain::outcome::CommandState;
use crate::domain::result::{CommandResult, Note, Order};
use crate::domain::session::Size;
use crate::session::wire::{CommandEnd, Span};
use crate::transcript::decode::Hint;
use crate::transcript::plan::Planner;
use crate::transcript::texts::{Setting, Texts, texts};

/// How much of a failed command's end is looked at for the environment's words.
const TAIL_KEEP: usize = 2 * 1024;
/// How much of an index is read at a time.
const INDEX_CHUNK: usize = 64 * 1024;

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
    let read =
        read(&story.transcript, span, story.keep, setting(story.charset.as_deref(), end.is_none()));
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
            .unwrap_or_else(|| story.cwd.to_string_lossy().into_owned()),
        started_at,
        duration_ms: end
            .map_or_else(|| started_at.map_or(0, |at| now.ms_since(at)), |end| end.duration_ms),
        children: end.map_or_else(Vec::new, |end| end.children.clone()),
        notes,
        awaiting: awaiting.filter(|_| record.state() != CommandState::Completed),
        touched: Vec::new(),
        parsed: None,
    }
}

/// The end of a command's standard error, clean; of its output where one terminal carried both or
/// nothing came on standard error.
pub(super) fn tail(transcript: &Path, end: &CommandEnd, charset: Option<&str>) -> String {
    let read = read(transcript, end.span, TAIL_KEEP, setting(charset, false));
    let texts = read.unwrap_or_default();
    if texts.stderr.is_empty() { texts.output } else { texts.stderr }
}

fn setting(charset: Option<&str>, running: bool) -> Setting {
    let hint =
        charset.map_or_else(Hint::default, |charset| Hint::of_locale(&format!("x.{charset}")));
    Setting { hint, size: Size::default(), running }
}

/// Reads head and tail of a span, within `keep` bytes each. What lies past the end of the files
/// is taken for missing: after a power loss they may be shorter than was said.
fn read(transcript: &Path, span: Span, keep: usize, setting: Setting) -> io::Result<Texts> {
    if span.raw_start >= span.raw_end {
        return Ok(Texts::default());
    }
    let raw = File::open(transcript.join("out.raw"))?;
    let raw_end = span.raw_end.min(raw.metadata()?.len());
    let mut planner = Planner::new(span.raw_start.min(raw_end)..raw_end, keep);
    let index = File::open(transcript.join("out.idx"))?;
    let mut at = span.idx_start;
    let mut chunk = vec![0; INDEX_CHUNK];
    while at < span.idx_end {
        let most = usize::try_from(span.idx_end - at).unwrap_or(INDEX_CHUNK).min(INDEX_CHUNK);
        let count = index.read_at(&mut chunk[..most], at)?;
        if count == 0 {
            break;
        }
        planner.feed(&chunk[..count]);
        at += count as u64;
    }
    let plan = planner.finish();
    let pieces = plan
        .reads()
        .iter()
        .map(|range| {
            let length = usize::try_from(range.end - range.start).unwrap_or(0);
            let mut piece = vec![0; length];
            let count = read_up_to(&raw, &mut piece, range.start)?;
            piece.truncate(count);
            Ok(piece)
        })
        .collect::<io::Result<Vec<_>>>()?;
    Ok(texts(&plan, &pieces, &setting))
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
