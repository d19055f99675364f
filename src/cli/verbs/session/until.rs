//! What a reader waits for, and whether it is so.

use std::time::Duration;

use crate::control::{CommandView, SessionView};
use crate::domain::result::Certainty;
use crate::domain::time::parse_duration_ms;
use crate::transcript::find::{As, Finder};

/// What a reader waits for.
#[derive(Clone, Debug)]
pub(super) enum Until {
    /// The command's end.
    Exit,
    /// The command waits for input.
    Input,
    /// Nothing was printed for so long.
    Idle(Duration),
    /// A pattern in the output.
    Pattern(String),
}

/// Whether it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is.
    Holds,
    /// The command waits for input first, and nobody else will give it any.
    Awaiting,
    /// It cannot become so any more: the command, or the session, has ended.
    Ended,
    /// Not yet.
    NotYet,
}

impl Until {
    /// Reads `exit`, `input`, `idle:D`, or a pattern; `pattern:` may stand before one.
    ///
    /// # Errors
    /// A sentence for the usage error.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "exit" => return Ok(Self::Exit),
            "input" => return Ok(Self::Input),
            _ => {}
        }
        if let Some(duration) = text.strip_prefix("idle:") {
            return Ok(Self::Idle(Duration::from_millis(parse_duration_ms(duration)?)));
        }
        let pattern = text.strip_prefix("pattern:").unwrap_or(text);
        if pattern.is_empty() {
            return Err("an empty pattern is found at once".to_owned());
        }
        // Whatever is one for text is one for bytes, too.
        match Finder::new(pattern, &As::Raw) {
            Ok(_) => Ok(Self::Pattern(pattern.to_owned())),
            Err(error) => Err(format!("`{pattern}` is not a pattern: {error}")),
        }
    }

    /// Its word in documents.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Input => "input",
            Self::Idle(_) => "idle",
            Self::Pattern(_) => "pattern",
        }
    }

    /// Whether it is so: `quiet` for how long nothing was printed, `found` whether the pattern was.
    pub(super) fn standing(&self, view: &SessionView, quiet: Duration, found: bool) -> Standing {
        let closed = view.session.closed.is_some();
        let command = view.command.as_ref();
        let ended = closed || command.is_none_or(|command| command.end.is_some());
        let awaits = command.is_some_and(|command| command.awaiting.is_some());
        let holds = match self {
            Self::Exit => ended,
            Self::Input => awaits,
            Self::Idle(wanted) => closed || quiet >= *wanted,
            Self::Pattern(_) => found,
        };
        if holds {
            return Standing::Holds;
        }
        let waits = command.is_some_and(|command| awaits_in_earnest(command, quiet));
        if matches!(self, Self::Exit | Self::Pattern(_)) && waits {
            return Standing::Awaiting;
        }
        let prints_on = !closed && command.is_some_and(|command| command.left_running > 0);
        let could_be = match self {
            Self::Idle(_) => true,
            Self::Pattern(_) => prints_on,
            Self::Exit | Self::Input => false,
        };
        if ended && !could_be { Standing::Ended } else { Standing::NotYet }
    }

    /// When it is to be looked at again although nothing has happened.
    pub(super) fn due_in(&self, view: &SessionView, quiet: Duration) -> Option<Duration> {
        match self {
            Self::Idle(wanted) => Some(wanted.saturating_sub(quiet)),
            Self::Input => None,
            Self::Exit | Self::Pattern(_) => {
                let command = view.command.as_ref();
                let may_wait = command.is_some_and(|command| command.awaiting.is_some());
                may_wait.then(|| POSSIBLE_QUIET.saturating_sub(quiet))
            }
        }
    }
}

/// What only looks as if it waited (a REPL, an editor) may go on by itself: it is believed when
/// nothing has come for so long.
const POSSIBLE_QUIET: Duration = Duration::from_secs(2);

fn awaits_in_earnest(command: &CommandView, quiet: Duration) -> bool {
    command
        .awaiting
        .as_ref()
        .is_some_and(|awaiting| awaiting.certainty == Certainty::Certain || quiet >= POSSIBLE_QUIET)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(command: &str, closed: bool) -> SessionView {
        let closed = if closed {
            r#"{"at": "2026-01-01T00:00:00Z", "why": "closed", "survivors": []}"#
        } else {
            "null"
        };
        let text = format!(
            r#"{{"session": {{"session_id": "s", "name": null, "state": "busy", "origin":
            {{"purpose": "session", "command": null, "task": null, "service": false}}, "pid": 1,
            "shell": "bash", "cwd": "/", "size": {{"cols": 80, "rows": 24}},
            "opened_at": "2026-01-01T00:00:00Z", "used_at": "2026-01-01T00:00:00Z", "ttl_ms": 1,
            "command_count": 1, "claim": {{"kind": "client", "client_id": "c"}}, "closed": {closed}}}, "changes": 1, "end": 0, "quiet_ms": 0,
            "command": {command}, "echoes": []}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn command(end: &str, certainty: Option<&str>) -> String {
        command_with(end, certainty, 0)
    }

    fn command_with(end: &str, certainty: Option<&str>, left: usize) -> String {
        let awaiting = certainty.map_or("null".to_owned(), |certainty| {
            format!(
                r#"{{"prompt": "?", "secret": false, "evidence": "tty_read", "certainty":
                "{certainty}", "idle_ms": 1}}"#
            )
        });
        format!(
            r#"{{"command_id": "s.1", "command": "x", "state": "running", "reason": null,
            "exit_code": null, "awaiting": {awaiting}, "from": 0, "end": {end},
            "left_running": {left}}}"#
        )
    }

    #[test]
    fn words_and_patterns() {
        for (text, word) in [
            ("exit", "exit"),
            ("input", "input"),
            ("idle:2s", "idle"),
            ("ERROR|done", "pattern"),
            ("pattern:exit", "pattern"),
        ] {
            assert_eq!(Until::parse(text).unwrap().word(), word, "{text}");
        }
        for text in ["", "idle:", "idle:2", "(", "pattern:"] {
            assert!(Until::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_holds_and_what_no_longer_can() {
        use Standing::{Awaiting, Ended, Holds, NotYet};
        let running = command("null", None);
        let ended = command("9", None);
        let asks = command("null", Some("certain"));
        let server = command_with("9", None, 1);
        let may_ask = command("null", Some("possible"));
        for (until, command, closed, standing) in [
            ("exit", &running, false, NotYet),
            ("exit", &ended, false, Holds),
            ("exit", &running, true, Holds),
            ("exit", &asks, false, Awaiting),
            ("exit", &may_ask, false, NotYet),
            ("input", &running, false, NotYet),
            ("input", &asks, false, Holds),
            ("input", &may_ask, false, Holds),
            ("input", &ended, false, Ended),
            ("idle:1s", &running, false, NotYet),
            ("idle:1s", &ended, false, NotYet),
            ("idle:1s", &ended, true, Holds),
            ("x", &running, false, NotYet),
            ("x", &ended, false, Ended),
            ("x", &asks, false, Awaiting),
            ("x", &server, false, NotYet),
            ("x", &server, true, Ended),
            ("exit", &server, false, Holds),
        ] {
            let view = view(command, closed);
            let seen = Until::parse(until).unwrap().standing(&view, Duration::ZERO, false);
            assert_eq!(seen, standing, "{until} {command} {closed}");
        }
        let view_of_prompt = view(&may_ask, false);
        for until in ["exit", "x"] {
            let until = Until::parse(until).unwrap();
            assert_eq!(until.standing(&view_of_prompt, POSSIBLE_QUIET, false), Awaiting);
            let due = until.due_in(&view_of_prompt, Duration::from_millis(500));
            assert_eq!(due, Some(Duration::from_millis(1_500)));
            assert_eq!(until.due_in(&view(&running, false), Duration::ZERO), None);
        }
        let quiet = Duration::from_secs(1);
        let idle = Until::parse("idle:1s").unwrap();
        assert_eq!(idle.standing(&view(&running, false), quiet, false), Holds);
        let found = Until::parse("x").unwrap();
        assert_eq!(found.standing(&view(&ended, false), Duration::ZERO, true), Holds);
    }
}
