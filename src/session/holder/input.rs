//! Input on its way to a terminal.
//!
//! The kernel takes more than it promises to keep: in line mode it cuts a line after 4095 bytes
//! without a word, and what lies between its two buffers outlives a flush. So no more is ever
//! written than its queue holds beside what nobody has read yet, and a line that is too long is
//! refused. The rest waits here, for a program that does not read not for long.

use std::collections::VecDeque;

use crate::command::event::Event;
use crate::domain::ids::CommandId;
use crate::domain::key::{Input, Refused, Written, pasted};
use crate::domain::result::Note;
use crate::session::wire::FactBody;

use super::super::os::pty::{Terminal, Typing};
use super::modes::Modes;
use super::session::Session;
use super::shell::Doing;
use super::typed::Line;

/// The longest line that a terminal in line mode takes, without its end.
const LINE_BYTES_MAX: usize = 4095;
/// What may wait here, altogether,
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// and in how many pieces.
const PIECES_MAX: usize = 4096;
/// How long an input waits for a program that reads nothing of it.
const PATIENCE_MS: u64 = 2_000;
/// After so long what was written is in the terminal's queue: the kernel brings it there later.
const ARRIVES_MS: u64 = 2;
/// How soon it is looked whether the program has read,
const PAUSE_FIRST_MS: u64 = ARRIVES_MS;
/// and how often while it does not.
const PAUSE_MAX_MS: u64 = 20;

/// The input of a session that is not in a terminal's queue yet.
#[derive(Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    /// Bytes in `pieces`.
    waiting: usize,
    /// What is in each terminal's queue.
    fills: [Fill; 2],
    /// Something was written since the last boundary.
    written: bool,
    /// Of what was to be told at the boundary: bytes that were thrown away before it.
    dropped: u64,
    /// Why an answer of the command's own was not sent.
    unsent: Option<Refused>,
    /// When the terminal is next asked whether it takes more.
    due_ms: Option<u64>,
    pause_ms: u64,
}

/// What is known of a terminal's queue beside the kernel's own count.
#[derive(Default)]
struct Fill {
    /// Length of the unfinished line, which the kernel does not count in line mode.
    open: usize,
    /// Bytes that were written so shortly ago that they may not be in it yet.
    recent: usize,
    /// When the last of them were.
    wrote_ms: u64,
}

/// One input.
struct Piece {
    /// Whose receipt it is; `None`: an answer of the command's own.
    request: Option<u64>,
    bytes: Vec<u8>,
    done: usize,
    secret: bool,
    at_stderr: bool,
    /// When it came, or when anything of it was last written.
    moved_ms: u64,
    /// The modes in which no line of it is too long.
    fits: Option<Typing>,
}

/// What has become of inputs.
#[derive(Default)]
struct Fed {
    receipts: Vec<(u64, Written)>,
    moved: bool,
}

impl Queue {
    /// True while something has not been written yet.
    pub(super) fn waits(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// When it has to be fed next.
    pub(super) fn due(&self) -> Option<u64> {
        self.due_ms
    }

    fn push(&mut self, piece: Piece, now_ms: u64) {
        self.waiting += piece.bytes.len();
        self.pieces.push_back(piece);
        self.due_ms = Some(now_ms);
    }

    /// Writes what the terminals take.
    fn feed(&mut self, terminals: [&Terminal; 2], now_ms: u64) -> Fed {
        let mut fed = Fed::default();
        while let Some(piece) = self.pieces.front_mut() {
            let index = usize::from(piece.at_stderr);
            let before = piece.done;
            let refused = piece.write(terminals[index], &mut self.fills[index], now_ms).err();
            let moved = piece.done - before;
            self.waiting -= moved;
            if moved > 0 {
                fed.moved = true;
                self.written = true;
                self.pause_ms = 0;
            }
            if refused.is_none() && piece.done < piece.bytes.len() {
                break;
            }
            self.take_front(refused, &mut fed.receipts);
        }
        self.give_up_late_ones(now_ms, &mut fed.receipts);
        self.due_ms = self.waits().then(|| {
            self.pause_ms = (self.pause_ms * 2).clamp(PAUSE_FIRST_MS, PAUSE_MAX_MS);
            now_ms + self.pause_ms
        });
        fed
    }

    /// Those behind an input that does not move wait no longer than it.
    fn give_up_late_ones(&mut self, now_ms: u64, receipts: &mut Vec<(u64, Written)>) {
        let waiting = &mut self.waiting;
        self.pieces.retain(|piece| {
            let waited_ms = now_ms.saturating_sub(piece.moved_ms);
            let Some(request) = piece.request.filter(|_| waited_ms >= PATIENCE_MS) else {
                return true;
            };
            *waiting -= piece.rest();
            receipts.push((request, piece.receipt(Some(Refused::QueueFull { waited_ms }))));
            false
        });
    }

    fn take_front(&mut self, refused: Option<Refused>, receipts: &mut Vec<(u64, Written)>) {
        let Some(piece) = self.pieces.pop_front() else { return };
        self.waiting -= piece.rest();
        if let Some(request) = piece.request {
            receipts.push((request, piece.receipt(refused)));
        } else if let Some(refused) = refused {
            self.dropped += piece.rest() as u64;
            if !matches!(refused, Refused::Ended | Refused::Interrupted) {
                self.unsent.get_or_insert(refused);
            }
        }
    }

    /// Drops what was not written.
    fn drop_waiting(&mut self, why: &Refused) -> Vec<(u64, Written)> {
        let mut receipts = Vec::new();
        while self.waits() {
            self.take_front(Some(why.clone()), &mut receipts);
        }
        self.due_ms = None;
        self.fills = Default::default();
        receipts
    }
}

impl Piece {
    fn rest(&self) -> usize {
        self.bytes.len() - self.done
    }

    fn receipt(&self, refused: Option<Refused>) -> Written {
        Written { written: self.done as u64, refused }
    }

    /// Writes as much as the terminal's queue has room for.
    fn write(&mut self, terminal: &Terminal, fill: &mut Fill, now_ms: u64) -> Result<(), Refused> {
        if now_ms.saturating_sub(fill.wrote_ms) >= ARRIVES_MS {
            fill.recent = 0;
        }
        while self.rest() > 0 {
            let Some(typing) = terminal.typing() else { return Err(Refused::Closed) };
            if !typing.in_line_mode {
                fill.open = 0;
            }
            self.check(typing, fill.open)?;
            let unread = usize::try_from(terminal.unread()).unwrap_or(LINE_BYTES_MAX);
            let fitting = self.fitting(typing, unread + fill.recent, fill.open);
            if fitting.is_empty() {
                return Ok(());
            }
            let taken = match rustix::io::write(&terminal.master, fitting) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Ok(taken) => taken,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Err(Refused::Closed),
            };
            if typing.in_line_mode {
                let sent = &self.bytes[self.done..self.done + taken];
                fill.open = typing.lines(sent, fill.open, usize::MAX).unwrap_or(0);
            }
            fill.recent += taken;
            fill.wrote_ms = now_ms;
            self.done += taken;
            self.moved_ms = now_ms;
        }
        Ok(())
    }

    /// What the queue surely has room for, beside `unread` bytes and an unfinished line of `open`.
    /// In line mode whole lines: the kernel counts no others, and does not keep the end of one for
    /// which the queue has room but for its last byte.
    fn fitting(&self, typing: Typing, unread: usize, open: usize) -> &[u8] {
        let rest = &self.bytes[self.done..];
        let room = LINE_BYTES_MAX.saturating_sub(unread + open);
        if rest.len() <= room || !typing.in_line_mode {
            return &rest[..rest.len().min(room)];
        }
        let ends = |byte: &u8| typing.ends_line(*byte);
        match rest[..room].iter().rposition(ends) {
            Some(last) => &rest[..=last],
            // A line of its own may be as long as the queue. That it is no longer was checked.
            None if unread == 0 => match rest.iter().position(ends) {
                Some(first) => &rest[..=first],
                None => rest,
            },
            None => &[],
        }
    }

    fn check(&mut self, typing: Typing, open: usize) -> Result<(), Refused> {
        if self.secret && typing.echoes {
            return Err(Refused::EchoOn);
        }
        if self.secret && !typing.in_line_mode {
            return Err(Refused::RawMode);
        }
        if self.fits == Some(typing) {
            return Ok(());
        }
        if typing.in_line_mode {
            let lines = typing.lines(&self.bytes[self.done..], open, LINE_BYTES_MAX);
            let too_long = |begin: usize| Refused::LineTooLong {
                offset: (self.done + begin) as u64,
                limit: LINE_BYTES_MAX as u64,
            };
            lines.map_err(too_long)?;
        }
        self.fits = Some(typing);
        Ok(())
    }
}

impl Session {
    /// Input from outside, for the running command only. There is a receipt for each.
    pub(super) fn take_input(
        &mut self,
        request: u64,
        command: Option<&CommandId>,
        input: &Input,
        now_ms: u64,
    ) {
        let (bytes, secret) = match input {
            Input::Text { text } => (text.clone().into_bytes(), false),
            Input::Secret { text } => (text.clone().into_bytes(), true),
            Input::Paste { text } => (pasted(text, self.modes.modes).into_bytes(), false),
            Input::Keys { keys } => {
                (keys.iter().flat_map(|key| key.bytes(self.modes.modes)).collect(), false)
            }
        };
        if let Some(refused) = self.refuses_input(command, bytes.len()) {
            self.tell_input(request, Written { written: 0, refused: Some(refused) });
        } else if let Some(refused) = self.policy_refuses(input, self.modes.modes) {
            self.tell_input(request, Written { written: 0, refused: Some(refused) });
        } else if matches!(input, Input::Keys { .. }) && self.typed_signal(&bytes, now_ms) {
            self.tell_input(request, Written { written: bytes.len() as u64, refused: None });
        } else {
            let piece = Piece::new(Some(request), bytes, secret, self.looks.at_stderr(), now_ms);
            self.input.push(piece, now_ms);
            self.feed_input(now_ms);
        }
    }

    fn refuses_input(&self, command: Option<&CommandId>, bytes: usize) -> Option<Refused> {
        if self.closing.is_some() || matches!(self.shell.doing, Doing::Gone(_)) {
            return Some(Refused::Closed);
        }
        let running = self.active.as_ref().filter(|active| active.started.is_some());
        match (running, command) {
            (None, None) => return Some(Refused::Idle),
            (None, Some(_)) => return Some(Refused::NotRunning),
            (Some(active), Some(command)) if *command != active.command.spec().id => {
                return Some(Refused::NotRunning);
            }
            (Some(active), _) if active.command.is_ending() => return Some(Refused::Ended),
            _ => {}
        }
        if bytes > WAITING_BYTES_MAX {
            return Some(Refused::TooLong { limit: WAITING_BYTES_MAX as u64 });
        }
        let is_full =
            self.input.waiting + bytes > WAITING_BYTES_MAX || self.input.pieces.len() >= PIECES_MAX;
        is_full.then_some(Refused::QueueFull { waited_ms: 0 })
    }

    /// A key that the terminal makes a signal of, at once: it does not queue behind what was typed
    /// before, which it throws away. False when it is none.
    fn typed_signal(&mut self, bytes: &[u8], now_ms: u64) -> bool {
        let (&[byte], Some(typing)) = (bytes, self.main.typing()) else { return false };
        if !typing.signals(byte) {
            return false;
        }
        self.flush_input(&Refused::Interrupted);
        let for_shell = self.main.foreground() == Some(self.shell.pid);
        if for_shell && typing.interrupt == Some(byte) {
            // It could hit the shell while it parses, and it would go.
            self.interrupt_soon(now_ms);
            return true;
        }
        let sent = matches!(rustix::io::write(&self.main.master, bytes), Ok(1));
        if sent {
            self.feed(Event::InputSent, now_ms);
            self.looks.soon(now_ms);
        }
        sent
    }

    /// Input that gets no receipt: an answer by a rule, or given with the command.
    pub(super) fn send(&mut self, bytes: &[u8], at_stderr: bool, now_ms: u64) {
        let room = WAITING_BYTES_MAX.saturating_sub(self.input.waiting);
        let kept = &bytes[..bytes.len().min(room)];
        self.input.dropped += (bytes.len() - kept.len()) as u64;
        let piece = Piece::new(None, kept.to_vec(), false, at_stderr, now_ms);
        self.input.push(piece, now_ms);
    }

    /// An answer by a rule, or given with the command, which the policy may refuse.
    pub(super) fn send_answer(&mut self, text: &str, now_ms: u64) {
        let input = Input::Text { text: text.to_owned() };
        let modes = self.modes.modes;
        match (self.policy_refuses(&input, modes), &self.active) {
            (None, _) => self.send(text.as_bytes(), self.looks.at_stderr(), now_ms),
            (Some(refused), Some(active)) => {
                // Told now, and with the command's end.
                self.input.dropped += text.len() as u64;
                let command = active.command.spec().id.clone();
                let bytes = self.input.dropped;
                let note = Note::InputDiscarded { bytes, reason: Some(refused.clone()) };
                self.input.unsent.get_or_insert(refused);
                self.facts.push(FactBody::Noted { command, note });
            }
            (Some(_), None) => {}
        }
    }

    /// Writes what the terminals take.
    pub(super) fn feed_input(&mut self, now_ms: u64) {
        if !self.input.waits() {
            return;
        }
        let unsent_before = self.input.unsent.is_some();
        let fed = self.input.feed([&self.main, &self.stderr], now_ms);
        if let (false, Some(reason), Some(active)) =
            (unsent_before, &self.input.unsent, &self.active)
        {
            let command = active.command.spec().id.clone();
            let (bytes, reason) = (self.input.dropped, Some(reason.clone()));
            let note = Note::InputDiscarded { bytes, reason };
            self.facts.push(FactBody::Noted { command, note });
        }
        if fed.moved {
            self.feed(Event::InputSent, now_ms);
            self.looks.soon(now_ms);
        }
        self.tell_inputs(fed.receipts);
    }

    fn tell_input(&mut self, request: u64, written: Written) {
        self.facts.push(FactBody::Input { request, written });
    }

    fn tell_inputs(&mut self, receipts: Vec<(u64, Written)>) {
        for (request, written) in receipts {
            self.tell_input(request, written);
        }
    }

    /// An interrupt takes with it what was typed before.
    pub(super) fn flush_input(&mut self, why: &Refused) {
        for (index, terminal) in [&self.main, &self.stderr].into_iter().enumerate() {
            self.input.dropped += terminal.flush_input() + self.input.fills[index].open as u64;
        }
        let receipts = self.input.drop_waiting(why);
        self.tell_inputs(receipts);
    }

    /// Input that nobody read would be eaten by the next command, and modes that a program left
    /// behind would change its output and what keys send. Says what input it was.
    pub(super) fn put_terminals_right(&mut self) -> Option<Note> {
        self.modes = Modes::default();
        self.typed = Line::default();
        let receipts = self.input.drop_waiting(&Refused::Ended);
        self.tell_inputs(receipts);
        let mut discarded = std::mem::take(&mut self.input.dropped);
        let answers = self.answers.take_given();
        let written = std::mem::take(&mut self.input.written) || answers > 0;
        for terminal in [&self.main, &self.stderr] {
            if written {
                discarded += terminal.discard_input();
            } else {
                terminal.restore_modes();
            }
        }
        // An answer that nobody read was nobody's input.
        discarded = discarded.saturating_sub(answers);
        let reason = self.input.unsent.take();
        (discarded > 0).then_some(Note::InputDiscarded { bytes: discarded, reason })
    }
}

impl Piece {
    fn new(
        request: Option<u64>,
        bytes: Vec<u8>,
        secret: bool,
        at_stderr: bool,
        now_ms: u64,
    ) -> Self {
        Self { request, bytes, done: 0, secret, at_stderr, moved_ms: now_ms, fits: None }
    }
}
