//! `callboard session read`.

use std::time::{Duration, Instant};

use clap::Args;

use super::reading::hint;
use super::source::{Next, Source};
use super::telling::{Outcome, Teller};
use super::until::{Standing, Until};
use crate::cli::exit;
use crate::cli::failure::Failure;
use crate::cli::sessions::Which;
use crate::cli::tape::Piece;
use crate::domain::time::parse_duration_ms;
use crate::transcript::echo::{Typed, Unechoed};
use crate::transcript::find::{As, Finder};

/// How much is read at a time, and at most where nothing is followed: what comes after it is told
/// by its offset.
pub(super) const READ_BYTES_MAX: usize = 1024 * 1024;
/// A line that has no end for so long is shown as it stands.
const PATIENCE: Duration = Duration::from_millis(100);

/// Read what a session printed, by offset, and wait for more
///
/// Reads from the beginning of its latest command, or from the byte N of its transcript: `next` of
/// an earlier reading, `offset` of a `send`, `ref` of a result. Ended sessions and commands can be
/// read as well, until their retention is over. Without --follow at most 1 MiB is read at a time.
///
/// --until waits: `exit` for the command's end, `input` until it waits for input, `idle:D` until
/// nothing was printed for D, and anything else is a regular expression (`pattern:` may stand before
/// it), looked for in each line of the clean output, or with --raw in the bytes. What was typed and is echoed by
/// the terminal never matches. Waiting for an end or a pattern also ends when the command surely
/// waits for input.
///
/// Exit codes: 0 it is so; 1 it can no longer be, for the command has ended; 124 --timeout passed;
/// 125 the command waits for input; 130 interrupted. In each case the output up to then is printed,
/// and the offset to go on from is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  callboard session read build --until exit --timeout 10m\n  \
    callboard session read web --until 'listening on \\d+' --timeout 30s --json\n  callboard \
    session read web --from 4096\n  callboard session read web --follow")]
pub(in crate::cli) struct Read {
    #[command(flatten)]
    which: Which,
    /// Begin at the byte N of the transcript [default: the latest command's first]
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Wait for `exit`, `input`, `idle:D` or a pattern
    #[arg(long, value_name = "WHAT", value_parser = Until::parse)]
    until: Option<Until>,
    /// Wait no longer than D
    #[arg(long, value_name = "D", value_parser = parse_duration_ms)]
    timeout: Option<u64>,
    /// Print what comes as it comes, to the session's end, or as far as --until says
    #[arg(long)]
    follow: bool,
    /// The bytes as they came
    #[arg(long)]
    raw: bool,
    /// Print one JSON document; with --follow, JSON lines. Raw bytes are in base 64
    #[arg(long)]
    pub(super) json: bool,
}

impl Read {
    /// Reads.
    ///
    /// # Errors
    /// When there is no such session, or the offset lies past its end.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let deadline = self.timeout.map(|ms| Instant::now() + Duration::from_millis(ms));
        let mut source = Source::open(self.which.find()?)?;
        let from = match self.from {
            Some(from) => from,
            None => source.view.command.as_ref().and_then(|c| c.from).unwrap_or(0),
        };
        if self.until.is_some() {
            source.pin();
        }
        let end = source.end()?;
        if from > end {
            let message = format!("--from {from} lies past the transcript's end, which is {end}");
            return Err(Failure::usage(message));
        }
        let reading = if self.raw {
            As::Raw
        } else {
            As::Text { hint: hint(source.charset.as_deref()), size: source.view.session.size }
        };
        let mut search = Search::new(self.until.as_ref(), &reading, from)?;
        let mut teller = Teller::new(&source.id, reading, from, self.follow, self.json);
        let mut at = from;
        let mut is_fresh = false;
        loop {
            // What is known of the command first, then the bytes: all that it printed until then
            // is among them.
            at = self.take(&source, at, &mut search, &mut teller)?;
            if let Some(outcome) = self.outcome(&source, &search, deadline) {
                teller.flush()?;
                return self.end(&source, &mut teller, at, &outcome);
            }
            teller.state(&source.view)?;
            let awaits = source.view.command.as_ref().is_some_and(|c| c.awaiting.is_some());
            if awaits || !is_fresh {
                teller.flush()?;
            }
            let due =
                self.until.as_ref().and_then(|until| until.due_in(&source.view, source.quiet()));
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let show = (teller.holds() && self.follow).then_some(PATIENCE);
            let patience = [due, left, show].into_iter().flatten().min();
            match source.next(patience)? {
                Next::News => is_fresh = true,
                Next::Quiet => is_fresh = false,
                Next::Interrupted => {
                    teller.flush()?;
                    return self.end(&source, &mut teller, at, &Outcome::Interrupted);
                }
            }
        }
    }

    /// Takes in all that there is by now.
    fn take(
        &self,
        source: &Source,
        mut at: u64,
        search: &mut Search,
        teller: &mut Teller,
    ) -> Result<u64, Failure> {
        let end = source.end()?;
        while at < end && search.found.is_none() {
            let (pieces, next) = source.read(at, end, READ_BYTES_MAX)?;
            if next == at {
                break;
            }
            at = next;
            for piece in pieces {
                if let Piece::Bytes { offset, bytes } = &piece {
                    search.take(*offset, bytes, source);
                }
                teller.take(piece)?;
            }
            if search.finder.is_none() && !self.follow && teller.is_full() {
                break;
            }
        }
        if source.is_over() {
            search.finish();
        }
        Ok(at)
    }

    fn outcome(
        &self,
        source: &Source,
        search: &Search,
        deadline: Option<Instant>,
    ) -> Option<Outcome> {
        let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
        let is_closed = source.view.session.closed.is_some();
        let Some(until) = &self.until else {
            return match (self.follow, is_closed, is_late) {
                (false, ..) => Some(Outcome::Read),
                (true, true, _) => Some(Outcome::Closed),
                (true, false, true) => Some(Outcome::TimedOut),
                (true, false, false) => None,
            };
        };
        match until.standing(&source.view, source.quiet(), search.found.is_some()) {
            Standing::Holds => Some(Outcome::Holds { found: search.found.clone() }),
            Standing::Awaiting => Some(Outcome::Awaiting),
            Standing::Ended => Some(Outcome::Ended),
            Standing::NotYet => is_late.then_some(Outcome::TimedOut),
        }
    }

    fn end(
        &self,
        source: &Source,
        teller: &mut Teller,
        at: u64,
        outcome: &Outcome,
    ) -> Result<u8, Failure> {
        teller.end(&source.view, at.max(source.end()?), self.until.as_ref(), outcome)?;
        Ok(match outcome {
            Outcome::Read | Outcome::Closed | Outcome::Holds { .. } => exit::SUCCEEDED,
            Outcome::Ended => exit::FAILED,
            Outcome::TimedOut => exit::EXEC_TIMED_OUT,
            Outcome::Awaiting => exit::EXEC_AWAITING_INPUT,
            Outcome::Interrupted => exit::INTERRUPTED,
        })
    }
}

/// The pattern that is waited for, if one is.
struct Search {
    finder: Option<Finder>,
    /// The same before any byte: what lies across a gap is no match.
    fresh: Option<Finder>,
    echoes: Unechoed,
    /// Where the next byte is expected.
    next: u64,
    found: Option<String>,
}

impl Search {
    fn new(until: Option<&Until>, reading: &As, from: u64) -> Result<Self, Failure> {
        let finder = match until {
            Some(Until::Pattern(pattern)) => {
                Some(Finder::new(pattern, reading).map_err(|error| {
                    Failure::usage(format!("--until `{pattern}` is not a pattern: {error}"))
                })?)
            }
            _ => None,
        };
        let echoes = Unechoed::new(from);
        Ok(Self { fresh: finder.clone(), finder, echoes, next: from, found: None })
    }

    /// Output goes on with these bytes.
    fn take(&mut self, offset: u64, bytes: &[u8], source: &Source) {
        let Some(finder) = &mut self.finder else { return };
        if offset != self.next
            && let Some(fresh) = &self.fresh
        {
            finder.clone_from(fresh);
        }
        let mut output = Vec::with_capacity(bytes.len());
        self.echoes.feed(offset, bytes, &typed(source), &mut output);
        self.next = offset + bytes.len() as u64;
        self.found = finder.feed(&output).map(|found| found.matched.clone());
    }

    /// Nothing follows: what is left is looked at as it stands.
    fn finish(&mut self) {
        if let (Some(mut finder), None) = (self.finder.take(), &self.found) {
            finder.feed(self.echoes.rest());
            self.found = finder.finish().map(|found| found.matched);
        }
    }
}

fn typed(source: &Source) -> Vec<Typed> {
    let echoes = source.view.echoes.iter();
    echoes.map(|echo| Typed { offset: echo.offset, text: echo.text.clone() }).collect()
}
