//! `callboard session replay`: a session's transcript again, at its own pace or as a recording.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::coordinator::Shelved;
use crate::cli::failure::{Failure, Kind};
use crate::cli::inbox::{Event, Inbox};
use crate::cli::sessions::{Found, Which};
use crate::cli::tape::{Piece, Tape};
use crate::cli::{exit, output};
use crate::domain::time::parse_duration_ms;
use crate::transcript::cast::{Cast, Header, Mark, What, pause};
use crate::transcript::index::{Segment, Walk};
use crate::transcript::unasked::Unasked;

/// How much output is taken at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Puts back what a recording may have left in the terminal.
const RESET: &[u8] = b"\x1b[?1049l\x1b[?2004l\x1b[?1000l\x1b[0m\x1b[?25h";

/// Play what a session said, at its own pace
///
/// Also after its end, until the retention is over, and of an open one as far as it has come.
/// Where the output is no terminal, a recording is written instead: asciicast v3, with a marker for
/// each command and each new size of the window. What is not UTF-8 is replaced in it; the bytes
/// themselves are those of `callboard session read --raw`.
///
/// Exit codes: 0, 2 usage or no such session, 3 the machine cannot, 130 interrupted.
#[derive(Debug, Args)]
pub(in crate::cli) struct Replay {
    #[command(flatten)]
    which: Which,
    /// Play so many times as fast
    #[arg(long, value_name = "X", default_value = "1", value_parser = parse_speed)]
    speed: f64,
    /// Wait no longer than this where nothing was printed, as in `2s`
    #[arg(long, value_name = "D", value_parser = parse_duration_ms)]
    idle_limit: Option<u64>,
    /// What to write [default: `play` on a terminal, `cast` elsewhere]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The bytes, each at its time
    Play,
    /// A recording for asciinema and its like
    Cast,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if speed.is_finite() && speed > 0.0 {
        Ok(speed)
    } else {
        Err("it has to be above 0".to_owned())
    }
}

/// Where the parts of a transcript go.
trait Stage {
    /// Bytes of a segment, from `offset` on. False ends it.
    fn bytes(&mut self, segment: &Segment, offset: u64, bytes: &[u8]) -> Result<bool, Failure>;
    /// Bytes that are not kept.
    fn gap(&mut self, segment: &Segment, bytes: u64) -> Result<bool, Failure>;
}

impl Replay {
    /// Plays it, or writes the recording.
    ///
    /// # Errors
    /// When there is no such session, or its transcript cannot be read.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let Found { id, shelf, .. } = self.which.find()?;
        let shelved = shelf.read(&id)?;
        let tape = Tape::open(&shelf.folder(&id))?;
        let (Some(shelved), Some(tape)) = (shelved, tape) else {
            let message = format!("session `{id}` has said nothing that is kept");
            return Err(Failure::new(Kind::NotFound, message));
        };
        let on_terminal = std::io::stdout().is_terminal();
        match self.format.unwrap_or(if on_terminal { Format::Play } else { Format::Cast }) {
            Format::Play => self.play(&tape),
            Format::Cast => record(&tape, &shelved),
        }
    }

    fn play(&self, tape: &Tape) -> Result<u8, Failure> {
        let inbox = Inbox::new();
        inbox.hear_interrupts()?;
        let mut player = Player {
            inbox,
            speed: self.speed,
            idle_limit: self.idle_limit.map(|ms| ms.saturating_mul(1000)),
            micros: None,
            filter: Unasked::default(),
        };
        let whole = walk(tape, &mut player)?;
        output::print(RESET)?;
        Ok(if whole { exit::SUCCEEDED } else { exit::INTERRUPTED })
    }
}

struct Player {
    inbox: Inbox,
    speed: f64,
    idle_limit: Option<u64>,
    micros: Option<u64>,
    filter: Unasked,
}

impl Player {
    /// Waits until the segment's time; false when interrupted.
    fn wait(&mut self, segment: &Segment) -> bool {
        let before = self.micros.replace(segment.micros).unwrap_or(segment.micros);
        let interval = segment.micros.saturating_sub(before);
        let left = pause(interval, self.idle_limit, self.speed);
        left == Duration::ZERO || !matches!(self.inbox.next(left), Event::Interrupt)
    }
}

impl Stage for Player {
    fn bytes(&mut self, segment: &Segment, _: u64, bytes: &[u8]) -> Result<bool, Failure> {
        if !self.wait(segment) {
            return Ok(false);
        }
        let mut shown = Vec::with_capacity(bytes.len());
        self.filter.feed(bytes, &mut shown);
        output::print(shown)?;
        Ok(true)
    }

    fn gap(&mut self, segment: &Segment, bytes: u64) -> Result<bool, Failure> {
        let on = self.wait(segment);
        output::print(format!("\r\n[{bytes} bytes are not kept]\r\n"))?;
        Ok(on)
    }
}

struct Recorder {
    cast: Cast,
    out: std::io::BufWriter<std::io::Stdout>,
}

impl Recorder {
    fn write(&mut self, text: &str) -> Result<bool, Failure> {
        match self.out.write_all(text.as_bytes()) {
            Ok(()) => Ok(true),
            // Whoever read it has enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Stage for Recorder {
    fn bytes(&mut self, segment: &Segment, offset: u64, bytes: &[u8]) -> Result<bool, Failure> {
        let mut text = String::new();
        self.cast.output(segment, offset, bytes, &mut text);
        self.write(&text)
    }

    fn gap(&mut self, segment: &Segment, bytes: u64) -> Result<bool, Failure> {
        let mut text = String::new();
        self.cast.note(segment.micros, &format!("{bytes} bytes are not kept"), &mut text);
        self.write(&text)
    }
}

/// Writes the recording.
fn record(tape: &Tape, shelved: &Shelved) -> Result<u8, Failure> {
    let sizes = tape.sizes()?;
    let header = Header {
        size: sizes.first().map_or(shelved.session.size, |resize| resize.size),
        term: Some("xterm-256color".to_owned()),
        began: Some(shelved.session.opened_at),
        title: shelved.session.name.clone().or(Some(shelved.session.session_id.to_string())),
    };
    let mut marks: Vec<Mark> = sizes
        .iter()
        .skip(1)
        .map(|resize| Mark {
            offset: resize.offset,
            micros: Some(resize.micros),
            what: What::Resize(resize.size),
        })
        .collect();
    let mut exit_code = None;
    for index in 0..shelved.command_count() {
        let Some(view) = shelved.view(index) else { continue };
        if let Some(offset) = view.from {
            marks.push(Mark { offset, micros: None, what: What::Command(view.command) });
        }
        exit_code = view.exit_code;
    }
    marks.sort_by_key(|mark| mark.offset);
    let ended = shelved
        .session
        .closed
        .as_ref()
        .is_some_and(|closed| closed.why == crate::control::ClosedWhy::ShellEnded);
    let (cast, line) = Cast::new(&header, marks, 0);
    let mut recorder = Recorder { cast, out: std::io::BufWriter::new(std::io::stdout()) };
    if recorder.write(&line)? && walk(tape, &mut recorder)? {
        let Recorder { cast, mut out } = recorder;
        let mut text = String::new();
        // The shell's own status is that of the command that ended it.
        cast.finish(exit_code.filter(|_| ended), &mut text);
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    Ok(exit::SUCCEEDED)
}

/// Hands the whole transcript to `stage`, as far as it has come; false when that had enough.
fn walk(tape: &Tape, stage: &mut impl Stage) -> Result<bool, Failure> {
    let end = tape.end()?;
    let mut walk = Walk::new();
    let mut more = true;
    tape.read_index(|chunk| {
        let mut segments = Vec::new();
        walk.feed(chunk, |segment| segments.push(segment));
        for segment in segments {
            more = more && hand(tape, &segment, end, stage)?;
        }
        Ok(more)
    })?;
    match walk.finish(end).filter(|_| more) {
        Some(segment) => hand(tape, &segment, end, stage),
        None => Ok(more),
    }
}

fn hand(tape: &Tape, segment: &Segment, end: u64, stage: &mut impl Stage) -> Result<bool, Failure> {
    let mut at = segment.start;
    while at < segment.end.min(end) {
        let (pieces, next) = tape.read(at, segment.end.min(end), CHUNK_BYTES)?;
        if next == at {
            break;
        }
        at = next;
        for piece in pieces {
            let on = match piece {
                Piece::Bytes { offset, bytes } => stage.bytes(segment, offset, &bytes)?,
                Piece::Gap { start, end } => stage.gap(segment, end - start)?,
            };
            if !on {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
