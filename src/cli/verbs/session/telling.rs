//! How what was read is told: as text, as bytes, as one document or as JSON lines.

use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use super::read::READ_BYTES_MAX;
use super::until::Until;
use crate::cli::{base64, output};
use crate::control::SessionView;
use crate::domain::ids::SessionId;
use crate::domain::result::SCHEMA_VERSION;
use crate::report::words::asked;
use crate::transcript::clean::clean;
use crate::transcript::decode::decode;
use crate::transcript::find::As;
use crate::transcript::flow::Flow;
use crate::transcript::seam::open_end;

use crate::cli::tape::Piece;

/// What the reading came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing was waited for.
    Read,
    /// The session has closed, up to which it was followed.
    Closed,
    /// What was waited for is so; what matched, where it was a pattern.
    Holds {
        /// The match.
        found: Option<String>,
    },
    /// It can no longer be so.
    Ended,
    /// The time is over.
    TimedOut,
    /// The command waits for input.
    Awaiting,
    /// Ctrl-C.
    Interrupted,
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Closed => "closed",
            Self::Holds { .. } => "holds",
            Self::Ended => "ended",
            Self::TimedOut => "timeout",
            Self::Awaiting => "awaiting_input",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Tells it.
pub(super) struct Teller {
    session: SessionId,
    reading: As,
    from: u64,
    follow: bool,
    json: bool,
    /// What was read and is told at the end; when following, nothing.
    kept: Vec<u8>,
    gaps: Vec<(u64, u64)>,
    /// Up to where it was told.
    next: u64,
    /// Up to where it was read, when following.
    fed: u64,
    /// Up to where lines without an end have been shown.
    shown: u64,
    flow: Option<Flow>,
    /// The state that was told last.
    state: Option<Value>,
}

impl Teller {
    pub(super) fn new(
        session: &SessionId,
        reading: As,
        from: u64,
        follow: bool,
        json: bool,
    ) -> Self {
        let flow = match &reading {
            As::Text { hint, size } if follow => Some(Flow::new(hint.clone(), *size)),
            _ => None,
        };
        Self {
            session: session.clone(),
            reading,
            from,
            follow,
            json,
            kept: Vec::new(),
            gaps: Vec::new(),
            next: from,
            fed: from,
            shown: from,
            flow,
            state: None,
        }
    }

    /// True when no more is kept for the one document.
    pub(super) fn is_full(&self) -> bool {
        self.kept.len() >= READ_BYTES_MAX
    }

    /// True while a line waits for its end that has not been shown as it stands.
    pub(super) fn holds(&self) -> bool {
        self.shown < self.fed && self.flow.as_ref().is_some_and(|flow| flow.held() > 0)
    }

    /// Takes a piece in; when following it is told at once.
    pub(super) fn take(&mut self, piece: Piece) -> io::Result<()> {
        match piece {
            Piece::Gap { start, end } => self.gap(start, end),
            Piece::Bytes { offset, bytes } if self.follow => self.bytes(offset, &bytes),
            Piece::Bytes { offset, bytes } => {
                // What does not fit is left for the next reading.
                let room = READ_BYTES_MAX - self.kept.len();
                if self.next == offset && room > 0 {
                    let taken = bytes.len().min(room);
                    self.kept.extend_from_slice(&bytes[..taken]);
                    self.next = offset + taken as u64;
                }
                Ok(())
            }
        }
    }

    fn gap(&mut self, start: u64, end: u64) -> io::Result<()> {
        if !self.follow {
            if self.next == start && !self.is_full() {
                self.gaps.push((start, end));
                self.next = end;
            }
            return Ok(());
        }
        self.flush()?;
        self.next = end;
        if self.json {
            return self.line(&json!({ "type": "gap", "start": start, "end": end }));
        }
        output::note(format!("callboard: {} bytes are not stored\n", end - start));
        Ok(())
    }

    fn bytes(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        let Some(flow) = &mut self.flow else {
            let from = std::mem::replace(&mut self.next, end);
            if self.json {
                let raw = base64::encode(bytes);
                return self
                    .line(&json!({ "type": "raw", "from": from, "next": end, "raw_base64": raw }));
            }
            return output::print(bytes);
        };
        let text = flow.feed(bytes);
        let next = self.next.max(end - flow.held() as u64);
        self.fed = end;
        self.text(&text, next)
    }

    /// Shows a line that has no end yet.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(flow) = &mut self.flow else { return Ok(()) };
        let text = flow.flush();
        self.shown = self.fed;
        self.text(&text, self.fed)
    }

    fn text(&mut self, text: &str, next: u64) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let from = std::mem::replace(&mut self.next, next);
        if self.json {
            return self.line(&json!({ "type": "text", "from": from, "next": next, "text": text }));
        }
        output::print(text)
    }

    /// Tells where the command stands, once for each change.
    pub(super) fn state(&mut self, view: &SessionView) -> io::Result<()> {
        if !(self.follow && self.json) {
            return Ok(());
        }
        let state = json!({
            "type": "state", "state": view.session.state, "command": view.command,
            "awaiting": awaiting(view),
        });
        if self.state.as_ref() == Some(&state) {
            return Ok(());
        }
        self.line(&state)?;
        self.state = Some(state);
        Ok(())
    }

    /// Tells what the reading came to.
    pub(super) fn end(
        &mut self,
        view: &SessionView,
        end: u64,
        until: Option<&Until>,
        outcome: &Outcome,
    ) -> io::Result<()> {
        let mut text = None;
        if !self.follow {
            text = Some(self.excerpt(view, end));
        }
        let matched = match outcome {
            Outcome::Holds { found } => found.clone(),
            _ => None,
        };
        let mut document = json!({
            "session_id": self.session,
            "from": self.from,
            "next": self.next,
            "end": end,
            "state": view.session.state,
            "command": view.command,
            "awaiting": awaiting(view),
            "until": until.map(Until::word),
            "outcome": outcome.word(),
            "matched": matched,
            "gaps": self.gaps.iter().map(|(start, end)| json!({ "start": start, "end": end }))
                .collect::<Vec<_>>(),
        });
        if self.json {
            if let (Some(text), Some(document)) = (text, document.as_object_mut()) {
                match text {
                    Excerpt::Text(text) => document.insert("text".to_owned(), text.into()),
                    Excerpt::Raw(bytes) => {
                        document.insert("raw_base64".to_owned(), base64::encode(&bytes).into())
                    }
                };
                return output::print_json(&Versioned::of(document.clone().into()));
            }
            document["type"] = "end".into();
            return self.line(&document);
        }
        match text {
            Some(Excerpt::Text(text)) => output::print(text)?,
            Some(Excerpt::Raw(bytes)) => output::print(bytes)?,
            None => {}
        }
        output::note(self.remarks(view, end, outcome));
        Ok(())
    }

    /// What was kept, cut where it may be cut.
    fn excerpt(&mut self, view: &SessionView, end: u64) -> Excerpt {
        let As::Text { hint, size } = &self.reading else {
            return Excerpt::Raw(std::mem::take(&mut self.kept));
        };
        let over = view.session.closed.is_some()
            || view.command.as_ref().is_none_or(|command| command.end.is_some());
        if !over || self.next < end {
            // A character or a sequence that is not whole yet is left for the next reading.
            let open = open_end(&self.kept);
            self.kept.truncate(self.kept.len() - open);
            self.next -= open as u64;
        }
        Excerpt::Text(clean(&decode(&self.kept, hint), *size).text)
    }

    fn remarks(&self, view: &SessionView, end: u64, outcome: &Outcome) -> String {
        let mut remarks: Vec<String> = self
            .gaps
            .iter()
            .map(|(start, end)| format!("{} bytes from {start} on are not stored", end - start))
            .collect();
        let on = format!("go on with --from {}", self.next);
        match outcome {
            Outcome::Ended => {
                remarks.push("the command has ended: what was waited for cannot come".to_owned());
            }
            Outcome::TimedOut => remarks.push(format!("the time is over; {on}")),
            Outcome::Interrupted => remarks.push(format!("interrupted; {on}")),
            Outcome::Awaiting => {
                let prompt = view.command.as_ref().and_then(|c| c.awaiting.as_ref());
                let prompt = prompt.map(|awaiting| asked(&awaiting.prompt)).unwrap_or_default();
                remarks.push(format!("waits for input{prompt}; {on}"));
            }
            Outcome::Read | Outcome::Holds { .. } if self.next < end => {
                remarks.push(format!("{} bytes more; {on}", end - self.next));
            }
            Outcome::Read | Outcome::Closed | Outcome::Holds { .. } => {}
        }
        remarks.iter().map(|remark| format!("callboard: {remark}\n")).collect()
    }

    fn line(&self, value: &Value) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(&Versioned::of(value.clone()))?;
        bytes.push(b'\n');
        output::print(bytes)
    }
}

enum Excerpt {
    Text(String),
    Raw(Vec<u8>),
}

/// A document with the version of its shape.
#[derive(Serialize)]
struct Versioned {
    schema_version: u32,
    #[serde(flatten)]
    value: Value,
}

impl Versioned {
    fn of(value: Value) -> Self {
        Self { schema_version: SCHEMA_VERSION, value }
    }
}

fn awaiting(view: &SessionView) -> Value {
    let awaiting = view.command.as_ref().and_then(|command| command.awaiting.as_ref());
    awaiting.map_or(Value::Null, |awaiting| json!(awaiting))
}
