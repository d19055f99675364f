//! `callboard session attach`: a person at a session's own terminal.

use std::io::{Read as _, Write as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::detach::{DetachKey, Leaving};
use super::growth;
use super::picture::present;
use crate::cli::client::{Connection, WireError};
use crate::cli::coordinator::Shelf;
use crate::cli::failure::{Failure, Kind, reason};
use crate::cli::interrupt;
use crate::cli::sessions::{FoundOpen, Which, why_words};
use crate::cli::tape::{Piece, Tape};
use crate::cli::terminal::{self, Raw};
use crate::cli::{exit, output};
use crate::control::{Answer, Call, Response, Seen, SessionView};
use crate::domain::ids::{CommandId, SessionId};
use crate::report::words::reason_words;
use crate::transcript::unasked::Unasked;

/// How much output is shown at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// What is typed goes out in pieces of at most this size.
const TYPED_BYTES: usize = 4096;
/// How many events may wait for the loop: whoever types faster waits.
const EVENTS_MAX: usize = 256;
/// How long the hand-back may take to be confirmed.
const GOODBYE: Duration = Duration::from_secs(5);
/// What Ctrl-C sends in raw mode.
const CTRL_C: u8 = 0x03;

/// Take a session's terminal over, in person
///
/// An idle session's shell shows its own prompt: variables, functions, folder and jobs are those of
/// the session, and what you do stays. A command that runs goes on, and what you type goes to it;
/// its time limit stands still, and further commands wait until you leave. The keys of --detach-key
/// leave; the session goes on. What is half typed at the prompt is dropped then.
///
/// Exit codes: 0 detached, or the session ended meanwhile; 1 its shell cannot be taken over;
/// 2 no such session, or another client holds it; 130 ended by a signal.
#[derive(Debug, Args)]
pub(in crate::cli) struct Attach {
    #[command(flatten)]
    which: Which,
    /// Only look on: nothing typed reaches the session, and nothing in it changes
    #[arg(long)]
    read_only: bool,
    /// The keys that leave, one after the other; as in `ctrl-a d`
    #[arg(long, value_name = "KEYS", default_value = r"ctrl-\ d")]
    detach_key: DetachKey,
}

/// Something to react to.
enum Heard {
    Typed(Vec<u8>),
    /// The keyboard is gone.
    Hung,
    /// The transcript may have grown.
    Grown,
    Resized,
    Wire(Result<Response, WireError>),
    Signal,
}

/// Why somebody is not at the terminal any more.
enum Left {
    Detached,
    Signalled,
    /// The session is over: why.
    Closed(String),
    /// The shell was not, or is no longer, this person's.
    Ended(String),
}

/// A person at a session's terminal.
struct Visit {
    id: SessionId,
    shelf: Shelf,
    connection: Connection,
    heard: Receiver<Heard>,
    /// How often the transcript is looked at when nothing tells of it.
    tick: Duration,
    tape: Tape,
    /// Shown up to here.
    shown: u64,
    filter: Unasked,
    leaving: Leaving,
    /// What the stay is called; `None` for one who only looks on.
    stay: Option<CommandId>,
    seen: Seen,
    /// The number of the look that is not answered yet.
    asked: Option<u64>,
}

impl Attach {
    /// Goes there, and comes back.
    ///
    /// # Errors
    /// When there is no such session, it is not to be had, or this is no terminal.
    pub(super) fn run(self) -> Result<u8, Failure> {
        if !terminal::is_one() {
            let message = "attach needs a terminal as its input and output".to_owned();
            return Err(Failure::new(Kind::Usage, message)
                .hint("`callboard session send` and `callboard session read --follow` need none"));
        }
        let mut found = self.which.find_open()?;
        let (stay, view) = begin(&mut found, self.read_only)?;
        let FoundOpen { id, shelf, mut connection, .. } = found;
        let folder = shelf.folder(&id);
        let Some(tape) = Tape::open(&folder)? else {
            let message = format!("session `{id}` has no transcript yet");
            return Err(Failure::new(Kind::Machine, message).hint("try again in a moment"));
        };
        let charset = shelf.read(&id)?.and_then(|shelved| shelved.charset);
        let (sender, heard) = mpsc::sync_channel(EVENTS_MAX);
        let tick = listen(&sender, &folder, &mut connection)?;
        let size = terminal::size().unwrap_or(view.session.size);
        let (mut screen, shown) = present(&tape, size, charset.as_deref())?;
        screen.resize(size);
        let picture = format!("\x1b[H\x1b[2J{}", screen.redrawn());
        output::note(format!("[{}]\r\n", self.greeting(&id)));
        let mut visit = Visit {
            id,
            shelf,
            connection,
            heard,
            tick,
            tape,
            shown,
            filter: Unasked::default(),
            leaving: Leaving::new(self.detach_key),
            stay,
            seen: Seen { changes: view.changes, end: u64::MAX },
            asked: None,
        };
        let raw = Raw::enter()?;
        let left = visit.show_bytes(picture.as_bytes()).and_then(|()| visit.stay());
        let left = left.map(|left| (visit.say_goodbye(&left), left).1);
        drop(raw);
        let id = &visit.id;
        let (code, words) = match left? {
            Left::Detached => (exit::SUCCEEDED, format!("left session {id}; it goes on")),
            Left::Signalled => (exit::INTERRUPTED, format!("left session {id}; it goes on")),
            Left::Closed(why) => (exit::SUCCEEDED, format!("session {id} is over: {why}")),
            Left::Ended(why) => (exit::FAILED, format!("session {id}: {why}")),
        };
        output::note(format!("[{words}]\n"));
        Ok(code)
    }

    fn greeting(&self, id: &SessionId) -> String {
        let keys = if self.read_only { "Ctrl-C, or the detach keys," } else { "the detach keys" };
        let what = if self.read_only { "looking at" } else { "at" };
        format!("{what} session {id}; {keys} leave (`--help`)")
    }
}

/// Claims the terminal, or only looks at it.
fn begin(
    found: &mut FoundOpen,
    read_only: bool,
) -> Result<(Option<CommandId>, SessionView), Failure> {
    let session = found.id.clone();
    if read_only {
        let call = Call::Look { session, command: None, seen: None };
        return match found.ask(call)? {
            Answer::View { view } => Ok((None, *view)),
            _ => Err(WireError::Unexpected { call: "look" }.into()),
        };
    }
    let size = terminal::size().unwrap_or_default();
    match found.ask(Call::Attach { session, size })? {
        Answer::Attached { command, view } => Ok((Some(command), *view)),
        _ => Err(WireError::Unexpected { call: "attach" }.into()),
    }
}

/// Starts everything that tells of something. Gives how often the transcript has to be looked at.
fn listen(
    sender: &SyncSender<Heard>,
    folder: &std::path::Path,
    connection: &mut Connection,
) -> Result<Duration, Failure> {
    // Whoever sends when nobody listens any more has nothing to say.
    let to = sender.clone();
    connection.follow(move |response| drop(to.send(Heard::Wire(response))))?;
    let cannot = |error: std::io::Error| {
        let message = format!("cannot listen to signals: {}", reason(&error));
        Failure::new(Kind::Machine, message)
    };
    let to = sender.clone();
    interrupt::watch(move || drop(to.send(Heard::Signal))).map_err(cannot)?;
    let to = sender.clone();
    interrupt::watch_window(move || drop(to.send(Heard::Resized))).map_err(cannot)?;
    let to = sender.clone();
    // A full queue has the loop look at the transcript anyway.
    let told = growth::watch(&folder.join("out.raw"), move || drop(to.try_send(Heard::Grown)));
    let to = sender.clone();
    thread::Builder::new()
        .name("keyboard".to_owned())
        .spawn(move || read_keyboard(&to))
        .map_err(cannot)?;
    Ok(if told { Duration::from_secs(1) } else { Duration::from_millis(20) })
}

fn read_keyboard(to: &SyncSender<Heard>) {
    let mut stdin = std::io::stdin().lock();
    let mut buffer = [0; TYPED_BYTES];
    loop {
        let heard = match stdin.read(&mut buffer) {
            Ok(count) if count > 0 => Heard::Typed(buffer[..count].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => Heard::Hung,
        };
        let over = matches!(heard, Heard::Hung);
        if to.send(heard).is_err() || over {
            return;
        }
    }
}

impl Visit {
    fn stay(&mut self) -> Result<Left, Failure> {
        loop {
            self.ask_for_news()?;
            self.show()?;
            let left = match self.heard.recv_timeout(self.tick) {
                Ok(Heard::Typed(bytes)) => self.typed(&bytes)?,
                Ok(Heard::Hung) => Some(Left::Detached),
                Ok(Heard::Signal) => Some(Left::Signalled),
                Ok(Heard::Resized) => self.resized()?,
                Ok(Heard::Wire(response)) => self.told(response?)?,
                Ok(Heard::Grown) | Err(RecvTimeoutError::Timeout) => None,
                // We hold no sender; the keyboard's thread does as long as there is one.
                Err(RecvTimeoutError::Disconnected) => Some(Left::Detached),
            };
            if let Some(left) = left {
                self.show()?;
                return Ok(left);
            }
        }
    }

    fn ask_for_news(&mut self) -> Result<(), Failure> {
        if self.asked.is_none() {
            let call = Call::Look {
                session: self.id.clone(),
                command: self.stay.clone(),
                seen: Some(self.seen),
            };
            self.asked = Some(self.connection.send(call)?);
        }
        Ok(())
    }

    /// Shows what has come.
    fn show(&mut self) -> Result<(), Failure> {
        loop {
            let end = self.tape.end()?;
            if end <= self.shown {
                return Ok(());
            }
            let (pieces, next) = self.tape.read(self.shown, end, CHUNK_BYTES)?;
            if next == self.shown {
                return Ok(());
            }
            self.shown = next;
            for piece in pieces {
                match piece {
                    Piece::Bytes { bytes, .. } => self.show_bytes(&bytes)?,
                    Piece::Gap { start, end } => {
                        let words = format!("\r\n[{} bytes are not kept]\r\n", end - start);
                        self.show_bytes(words.as_bytes())?;
                    }
                }
            }
        }
    }

    fn show_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut shown = Vec::with_capacity(bytes.len());
        self.filter.feed(bytes, &mut shown);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&shown).and_then(|()| stdout.flush()).map_err(|error| {
            let message = format!("the terminal takes no output: {}", reason(&error));
            Failure::new(Kind::Machine, message)
        })
    }

    fn typed(&mut self, bytes: &[u8]) -> Result<Option<Left>, Failure> {
        let (through, left) = self.leaving.typed(bytes);
        if self.stay.is_none() {
            let left = left || through.contains(&CTRL_C);
            return Ok(left.then_some(Left::Detached));
        }
        if !through.is_empty() {
            let session = self.id.clone();
            self.connection.send(Call::Type { session, bytes: through })?;
        }
        Ok(left.then_some(Left::Detached))
    }

    fn resized(&mut self) -> Result<Option<Left>, Failure> {
        if let (Some(_), Some(size)) = (&self.stay, terminal::size()) {
            self.connection.send(Call::Resize { session: self.id.clone(), size })?;
        }
        Ok(None)
    }

    /// The coordinator has said something: of the session, or that it refuses.
    fn told(&mut self, response: Response) -> Result<Option<Left>, Failure> {
        match response {
            Response::Reply { id, answer } if self.asked == Some(id) => {
                self.asked = None;
                let Answer::View { view } = *answer else {
                    return Err(WireError::Unexpected { call: "look" }.into());
                };
                self.seen.changes = view.changes;
                Ok(self.left_by(&view))
            }
            Response::Refusal { id, .. } if self.asked == Some(id) => {
                // Asked a moment after its end: its record knows.
                let closed = self.shelf.read(&self.id)?.and_then(|shelved| shelved.session.closed);
                let why = closed.map_or("it has ended", |closed| why_words(closed.why));
                Ok(Some(Left::Closed(why.to_owned())))
            }
            Response::Refusal { failure, .. } => Err(failure.into()),
            Response::Reply { .. } | Response::Notice { .. } => Ok(None),
        }
    }

    fn left_by(&self, view: &SessionView) -> Option<Left> {
        if let Some(closed) = &view.session.closed {
            return Some(Left::Closed(why_words(closed.why).to_owned()));
        }
        let stay = view.command.as_ref().filter(|command| {
            self.stay.as_ref() == Some(&command.command_id) && command.state.is_terminal()
        })?;
        // A shell that was ended closes its session, which is told in a moment.
        match &stay.reason {
            Some(why) if stay.exit_code.is_none() => Some(Left::Ended(reason_words(why))),
            None if stay.exit_code.is_none() => {
                Some(Left::Ended("it was handed back from elsewhere".to_owned()))
            }
            _ => None,
        }
    }

    /// Hands the terminal back, unless it is gone.
    fn say_goodbye(&mut self, left: &Left) {
        if self.stay.is_none() || matches!(left, Left::Closed(_)) {
            return;
        }
        let Ok(asked) = self.connection.send(Call::Detach { session: self.id.clone() }) else {
            return;
        };
        let until = Instant::now() + GOODBYE;
        loop {
            match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Heard::Wire(Ok(Response::Reply { id, .. } | Response::Refusal { id, .. })))
                    if id == asked =>
                {
                    return;
                }
                Ok(Heard::Wire(Err(_))) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}
