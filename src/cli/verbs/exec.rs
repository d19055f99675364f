//! `callboard exec`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cli::client::{Connection, WireError};
use crate::cli::coordinator::{self, Place, Shelf};
use crate::cli::failure::{Failure, Kind};
use crate::cli::follow::{TRIES, pause};
use crate::cli::inbox::{Connect, Event, Inbox};
use crate::cli::{exit, output, quote, sessions, sources, starter, ticket};
use crate::control::{
    Answer, Call, EnvSources, Exec as Wanted, Failure as Refusal, FailureKind, Response,
};
use crate::domain::ids::SessionId;
use crate::domain::outcome::CommandState;
use crate::domain::permission::Permissions;
use crate::domain::plan::Class;
use crate::domain::result::{CommandResult, Note, SCHEMA_VERSION};
use crate::domain::session::{SessionDefaults, Shell};
use crate::domain::time::parse_duration_ms;
use crate::report::words::{asked, reason_words};

/// How long to listen at a time; nothing is due in between.
const TICK: Duration = Duration::from_secs(60);

/// Run one command in a session of its own, or in a named one.
///
/// Prints what the command printed, cleaned, and exits with its code. Otherwise: 124 timed out, 125
/// stopped at a prompt that no --input answers, 126 denied by policy, 128+n ended by signal n, 130
/// interrupted, 1 failed without a code of its own (as with --stop-on), 2 usage, 3 could not be
/// started, 5 internal. With --json, the result's `reason` tells these from a command's own code.
///
/// A session of its own is gone, with everything in it, once the command is over. A named one keeps
/// its folder, variables and jobs for the next command, for 30 minutes after the last (`session_ttl`
/// of agents.toml); it belongs to the workspace around here, or else to your private one. A command
/// that waits for input goes on waiting in it: `callboard session send` answers, `callboard session
/// read --until exit` waits for its end.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("command").required(true).args(["script", "argv"]))]
pub(in crate::cli) struct Exec {
    /// A script for the shell; `-` reads it from stdin
    #[arg(short = 'c', value_name = "SCRIPT", allow_hyphen_values = true)]
    script: Option<OsString>,
    /// A program and its arguments, taken as they are
    #[arg(last = true, value_name = "ARGV")]
    argv: Vec<OsString>,
    /// Use the session NAME, made if need be, and keep it for the next command; an id will do as well
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Run in DIR [default: here; where the session is, in one that is open]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Which shell runs it: bash, zsh, fish or sh [default: `shell` of agents.toml, or else bash]
    #[arg(long, value_name = "S", value_parser = str::parse::<Shell>)]
    shell: Option<Shell>,
    /// Set a variable (repeatable)
    #[arg(long, value_name = "K=V", value_parser = sources::parse_pair)]
    env: Vec<(String, String)>,
    /// End it after D, as in 2500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = parse_duration_ms)]
    timeout: Option<u64>,
    /// Which time limit holds without --timeout: 30 s, 5 min or 10 min, longer while it works
    /// [default: by the program]
    #[arg(long)]
    class: Option<ClassName>,
    /// Send TEXT when the command next waits for input, byte for byte (repeatable)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    input: Vec<String>,
    /// End it once a line of its output matches PATTERN (repeatable)
    #[arg(long, value_name = "PATTERN")]
    stop_on: Vec<String>,
    /// One terminal for stdout and stderr: the exact order, and nothing on stderr
    #[arg(long)]
    merge: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// `Class` on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClassName {
    Quick,
    Build,
    Test,
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Self {
        match name {
            ClassName::Quick => Self::Quick,
            ClassName::Build => Self::Build,
            ClassName::Test => Self::Test,
        }
    }
}

impl Exec {
    /// Runs it, and says what came of it.
    ///
    /// # Errors
    /// When it cannot be run at all.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let mut wanted = self.wanted()?;
        let place = coordinator::for_command(&wanted.cwd)?;
        let agents = sources::load_agents_to_run(&place.root)?;
        wanted.shell = self.shell.unwrap_or(agents.default_shell);
        wanted.env = sources::own_env(&agents, wanted.env.told);
        wanted.policy = agents.policy;
        wanted.defaults = agents.session_defaults;
        let result =
            ask(&place, &wanted).map_err(|failure| told_by_record(failure, &place, &wanted))?;
        if self.json {
            output::print_json(&document(&result))?;
        } else {
            output::print(&result.stdout)?;
            output::note(&result.stderr);
            output::note(remarks(&result));
        }
        Ok(exit::of_command(&result))
    }

    fn wanted(&self) -> Result<Wanted, Failure> {
        let cwd = match &self.cwd {
            Some(folder) => sources::real_folder(folder)?,
            None => sources::current_folder()?,
        };
        for pattern in &self.stop_on {
            regex::Regex::new(pattern).map_err(|error| {
                Failure::usage(format!("--stop-on `{pattern}` is not a pattern: {error}"))
            })?;
        }
        Ok(Wanted {
            ticket: Some(ticket::command()),
            text: self.text()?,
            cwd,
            cwd_given: self.cwd.is_some(),
            shell: Shell::default(),
            shell_given: self.shell.is_some(),
            env: EnvSources { told: environment(&self.env)?, ..EnvSources::default() },
            timeout_ms: self.timeout,
            class: self.class.map(Class::from),
            inputs: self.input.clone(),
            stop_on: self.stop_on.clone(),
            merge: self.merge,
            policy: Permissions::default(),
            session: self.session.clone(),
            defaults: SessionDefaults::default(),
        })
    }

    fn text(&self) -> Result<String, Failure> {
        match &self.script {
            None => Ok(quote::command_line(&self.argv)),
            Some(script) if script == "-" => script_text(sources::read_stdin()?),
            Some(script) => script_text(script.clone().into_encoded_bytes()),
        }
    }
}

/// A script as text: what no shell can be given is refused with its place.
fn script_text(bytes: Vec<u8>) -> Result<String, Failure> {
    if let Some(offset) = memchr::memchr(0, &bytes) {
        let message = format!("the script has a NUL at byte {offset}, which no shell can take");
        return Err(Failure::usage(message).hint("write it as `printf '\\0'` inside the script"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Failure::usage(format!("the script is not UTF-8 at byte {offset}"))
            .hint("write such bytes as `printf '\\377'` or `$'\\377'` inside the script")
    })
}

/// `--env`; the last one wins, as with `env`.
pub(super) fn environment(pairs: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    for (name, _) in pairs {
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts_well || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let message = format!("--env: `{name}` is not a variable's name");
            return Err(Failure::usage(message).hint("letters, digits and `_`, no digit first"));
        }
    }
    Ok(pairs.iter().cloned().collect())
}

/// Of a session that has ended its record says when and why.
fn told_by_record(failure: Failure, place: &Place, wanted: &Wanted) -> Failure {
    let id = wanted.session.as_deref().map(SessionId::from);
    match id.filter(|_| failure.kind == Kind::SessionClosed) {
        Some(id) => match sessions::past(&id, &Shelf::of(place)) {
            Ok(shelved) => sessions::ended(&shelved.session),
            Err(_) => failure,
        },
        None => failure,
    }
}

/// Has it run once, whatever becomes of coordinators.
///
/// ```text
///   Exec{ticket} ──► Ran
///        lost: Reclaim{ticket} ──► Ran
///                              ──► NotFound: it certainly never began: Exec again
///                              ──► Unknown: nobody can tell, and it is not run again
/// ```
fn ask(place: &Place, wanted: &Wanted) -> Result<CommandResult, Failure> {
    let mut inbox = Inbox::new();
    inbox.hear_interrupts()?;
    let connect: Connect = {
        let place = place.clone();
        Arc::new(move || place.connect_or_start())
    };
    Asking { wanted, connect, interrupted: false, begun: false }.until_the_end(&mut inbox).map_err(
        |failure| match failure.kind {
            Kind::Coordinator if failure.hint.is_none() => {
                failure.hint(format!("its log is `{}`", place.log().display()))
            }
            _ => failure,
        },
    )
}

struct Asking<'a> {
    wanted: &'a Wanted,
    connect: Connect,
    /// Ctrl-C was pressed: the command is told so, and a further one leaves.
    interrupted: bool,
    /// The command may have begun: it is not to be run a second time.
    begun: bool,
}

/// Why there is no result of one coordinator.
enum Stopped {
    /// The person gave up waiting for it.
    Interrupted,
    /// It certainly has not begun, and may be asked for again.
    NotBegun(WireError),
    /// The wire ended after it was asked for.
    Lost(WireError),
    /// There will be no result.
    Failed(Failure),
}

impl Asking<'_> {
    fn until_the_end(&mut self, inbox: &mut Inbox) -> Result<CommandResult, Failure> {
        let interrupted = || Failure::new(Kind::Interrupted, "interrupted");
        let mut losses = 0;
        loop {
            let mut connection = self.connection(inbox)?;
            let error = match self.once(&mut connection, inbox) {
                Ok(result) => return Ok(result),
                Err(Stopped::Interrupted) => return Err(interrupted()),
                Err(Stopped::Failed(failure)) => return Err(failure),
                Err(Stopped::NotBegun(_)) if self.interrupted => return Err(interrupted()),
                Err(Stopped::NotBegun(error)) => {
                    self.begun = false;
                    error
                }
                Err(Stopped::Lost(error)) => {
                    if !self.begun || losses == 0 {
                        output::note(
                            "callboard: the coordinator is gone; asking the next one for the \
                             command\n",
                        );
                    }
                    self.begun = true;
                    error
                }
            };
            losses += 1;
            let is_certain = matches!(&error, WireError::Refused(refusal)
                if refusal.kind == FailureKind::NotFound);
            if losses >= TRIES || !(is_certain || starter::is_absence(&error)) {
                return Err(if self.begun { self.unknown(&error) } else { error.into() });
            }
            std::thread::sleep(pause(losses));
        }
    }

    /// A coordinator, looked for while Ctrl-C is heard.
    fn connection(&mut self, inbox: &mut Inbox) -> Result<Connection, Failure> {
        inbox.look_for(&self.connect)?;
        let mut failed = 0;
        loop {
            match inbox.next(TICK) {
                Event::Connected(Ok(connection)) => return Ok(connection),
                // It may have been killed as the one before it was.
                Event::Connected(Err(failure))
                    if self.begun && failure.kind == Kind::Coordinator && failed + 1 < TRIES =>
                {
                    failed += 1;
                    std::thread::sleep(pause(failed));
                    inbox.look_for(&self.connect)?;
                }
                Event::Connected(Err(failure)) if self.begun => {
                    return Err(self.unknown(&failure.message));
                }
                Event::Connected(Err(failure)) => return Err(failure),
                Event::Interrupt if !self.begun || self.interrupted => {
                    return Err(Failure::new(Kind::Interrupted, "interrupted"));
                }
                Event::Interrupt => self.interrupted = true,
                Event::Wire(_) | Event::Quiet => {}
            }
        }
    }

    /// Asks one coordinator. The first interrupt goes to the command, and its result says so; a
    /// second one leaves: the coordinator ends the command of a client that is gone.
    fn once(
        &mut self,
        connection: &mut Connection,
        inbox: &mut Inbox,
    ) -> Result<CommandResult, Stopped> {
        inbox.hear_wire(connection).map_err(|error| self.stopped(error))?;
        let asked = connection.send(self.call()).map_err(Stopped::Lost)?;
        let mut told = false;
        loop {
            if self.interrupted && !told {
                told = true;
                if connection.send(Call::CancelExec { request: asked }).is_err() {
                    return Err(Stopped::Interrupted);
                }
            }
            match inbox.next(TICK) {
                Event::Wire(Ok(Response::Reply { id, answer })) if id == asked => {
                    return match *answer {
                        Answer::Ran { result } => Ok(*result),
                        _ => Err(Stopped::Failed(WireError::Unexpected { call: "exec" }.into())),
                    };
                }
                Event::Wire(Ok(Response::Refusal { id, failure })) if id == asked => {
                    return Err(self.refused(failure));
                }
                Event::Wire(Ok(_)) | Event::Quiet | Event::Connected(_) => {}
                Event::Wire(Err(_)) if self.interrupted => return Err(Stopped::Interrupted),
                Event::Wire(Err(error)) => return Err(Stopped::Lost(error)),
                Event::Interrupt if self.interrupted => return Err(Stopped::Interrupted),
                Event::Interrupt => self.interrupted = true,
            }
        }
    }

    fn call(&self) -> Call {
        match (&self.wanted.ticket, self.begun) {
            (Some(ticket), true) => {
                Call::Reclaim { ticket: ticket.clone(), session: self.wanted.session.clone() }
            }
            _ => Call::Exec { exec: Box::new(self.wanted.clone()) },
        }
    }

    fn stopped(&self, error: WireError) -> Stopped {
        if self.begun { Stopped::Lost(error) } else { Stopped::NotBegun(error) }
    }

    fn refused(&self, refusal: Refusal) -> Stopped {
        match refusal.kind {
            FailureKind::ShuttingDown => self.stopped(WireError::Refused(refusal)),
            FailureKind::NotFound if self.begun => Stopped::NotBegun(WireError::Refused(refusal)),
            FailureKind::Unknown if self.begun => Stopped::Failed(self.unknown(&refusal.message)),
            _ => Stopped::Failed(refusal.into()),
        }
    }

    /// It may have run, and its result cannot be had.
    fn unknown(&self, why: &dyn std::fmt::Display) -> Failure {
        let session = match (&self.wanted.session, &self.wanted.ticket) {
            (Some(name), _) => name.clone(),
            (None, Some(ticket)) => ticket::session(ticket),
            (None, None) => String::new(),
        };
        let message = format!(
            "lost the coordinator while the command ran, and it is not run a second time: {why}"
        );
        let hint = format!(
            "`callboard session show {session}` shows whether it ran, and `callboard session read \
             {session}` what it printed"
        );
        Failure::new(Kind::Coordinator, message).hint(hint)
    }
}

/// The document: the result, and the version of its shape.
fn document(result: &CommandResult) -> impl Serialize {
    #[derive(Serialize)]
    struct Document<'a> {
        schema_version: u32,
        #[serde(flatten)]
        result: &'a CommandResult,
    }
    Document { schema_version: SCHEMA_VERSION, result }
}

/// One line for each thing that the two streams do not say.
fn remarks(result: &CommandResult) -> String {
    let mut text = String::new();
    let mut remark = |line: String| {
        text.push_str("callboard: ");
        text.push_str(&line);
        text.push('\n');
    };
    if let Some(truncated) = &result.truncated {
        let parts = [&truncated.stdout, &truncated.stderr];
        let omitted: u64 = parts.into_iter().flatten().map(|part| part.omitted_bytes).sum();
        remark(format!("{omitted} bytes left out in the middle"));
    }
    for note in &result.notes {
        if let Note::CaptureDegraded { message } = note {
            remark(format!("the record of this command has gaps: {message}"));
        }
    }
    if result.state == CommandState::AwaitingInput {
        let prompt = result.awaiting.as_ref().map(|awaiting| asked(&awaiting.prompt));
        remark(format!("waits for input{}", prompt.unwrap_or_default()));
    }
    if let Some(reason) = &result.reason {
        remark(reason_words(reason));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::stand_in::{Script, StandIn};

    #[test]
    fn scripts_that_no_shell_can_take_are_refused_with_their_place() {
        let failure = script_text(b"echo a\0b".to_vec()).unwrap_err();
        assert_eq!(failure.exit_code(), exit::USAGE);
        assert!(failure.message.contains("NUL at byte 6"), "{}", failure.message);
        let failure = script_text(b"echo \xff".to_vec()).unwrap_err();
        assert!(failure.message.contains("not UTF-8 at byte 5"), "{}", failure.message);
        assert_eq!(script_text("echo ü".into()).unwrap(), "echo ü");
    }

    #[test]
    fn names_of_variables() {
        let pair = |name: &str| [(name.to_owned(), "1".to_owned())];
        for (name, taken) in [("A", true), ("_a1", true), ("1A", false), ("A-B", false)] {
            assert_eq!(environment(&pair(name)).is_ok(), taken, "{name}");
        }
    }

    fn wanted() -> Wanted {
        Wanted {
            ticket: Some("t".repeat(26)),
            text: "true".to_owned(),
            cwd: "/".into(),
            cwd_given: false,
            shell: Shell::default(),
            shell_given: false,
            env: EnvSources::default(),
            timeout_ms: None,
            class: None,
            inputs: Vec::new(),
            stop_on: Vec::new(),
            merge: false,
            policy: Permissions::default(),
            session: None,
            defaults: SessionDefaults::default(),
        }
    }

    fn result(state: &str, reason: &str) -> CommandResult {
        serde_json::from_str(&format!(
            r#"{{"command_id": "c", "session_id": "s", "command": "true", "state": "{state}",
            "reason": {reason}, "exit_code": null, "pipe_status": null, "stdout": "", "stderr": "",
            "output": "", "order": "approximate", "truncated": null, "encoding": "UTF-8",
            "cwd": "/", "started_at": null, "duration_ms": 1, "children": [], "notes": [],
            "awaiting": null, "touched": [], "parsed": null}}"#
        ))
        .unwrap()
    }

    /// Runs it at one coordinator after the other, each of which keeps to its script.
    fn run(interrupts: usize, scripts: Vec<Script>) -> Result<CommandResult, Failure> {
        let (connect, threads) = StandIn::row(scripts);
        let mut inbox = Inbox::new();
        let wanted = wanted();
        let mut asking = Asking { wanted: &wanted, connect, interrupted: false, begun: false };
        asking.interrupted = interrupts > 0;
        let answer = asking.until_the_end(&mut inbox);
        drop(inbox);
        threads();
        answer
    }

    fn alone(script: impl FnOnce(&mut StandIn) + Send + 'static) -> Vec<Script> {
        vec![Box::new(script)]
    }

    /// A coordinator that is lost once it has been asked for `reclaimed`.
    fn dies(reclaimed: bool) -> Script {
        Box::new(move |stand_in| {
            stand_in.welcome();
            let (_, call) = stand_in.asked();
            assert_eq!(matches!(call, Call::Reclaim { .. }), reclaimed, "{call:?}");
        })
    }

    fn refuses(kind: FailureKind) -> Script {
        Box::new(move |stand_in| {
            stand_in.welcome();
            let (id, _) = stand_in.asked();
            stand_in.refuse(id, Refusal { kind, message: "so".to_owned(), hint: None });
        })
    }

    fn runs(is_expected: fn(&Call) -> bool) -> Script {
        Box::new(move |stand_in| {
            stand_in.welcome();
            let (id, call) = stand_in.asked();
            assert!(is_expected(&call), "{call:?}");
            stand_in.reply(id, Answer::Ran { result: Box::new(result("completed", "null")) });
        })
    }

    #[test]
    fn a_result_comes_back() {
        let result = run(
            0,
            alone(|stand_in| {
                stand_in.welcome();
                let (id, call) = stand_in.asked();
                assert_eq!(call, Call::Exec { exec: Box::new(wanted()) });
                let result = Box::new(result("completed", "null"));
                stand_in.reply(id, Answer::Ran { result });
            }),
        );
        assert!(result.is_ok_and(|result| exit::of_command(&result) == 0));
    }

    #[test]
    fn an_interrupt_goes_to_the_command() {
        let result = run(
            1,
            alone(|stand_in| {
                stand_in.welcome();
                let (exec, _) = stand_in.asked();
                let (id, call) = stand_in.asked();
                assert_eq!(call, Call::CancelExec { request: exec });
                stand_in.reply(id, Answer::Cancelling);
                let result = Box::new(result("failed", r#"{"kind": "interrupted"}"#));
                stand_in.reply(exec, Answer::Ran { result });
            }),
        );
        assert!(result.is_ok_and(|result| exit::of_command(&result) == exit::INTERRUPTED));
    }

    #[test]
    fn a_lost_command_is_reclaimed_by_its_ticket() {
        let reclaims =
            |call: &Call| *call == Call::Reclaim { ticket: "t".repeat(26), session: None };
        let result = run(0, vec![dies(false), dies(true), dies(true), runs(reclaims)]);
        assert!(result.is_ok(), "{result:?}");
    }

    #[test]
    fn what_certainly_never_began_is_asked_for_again() {
        let is_exec = |call: &Call| matches!(call, Call::Exec { .. });
        for scripts in [
            vec![refuses(FailureKind::ShuttingDown), runs(is_exec)],
            vec![dies(false), refuses(FailureKind::NotFound), runs(is_exec)],
        ] {
            let result = run(0, scripts);
            assert!(result.is_ok(), "{result:?}");
        }
    }

    #[test]
    fn what_may_have_begun_is_not_run_again() {
        let failure = run(0, vec![dies(false), refuses(FailureKind::Unknown)]).unwrap_err();
        assert_eq!(failure.exit_code(), exit::INTERNAL);
        let hint = failure.hint.unwrap();
        assert!(hint.contains("callboard session read s-tttttttttttttttt"), "{hint}");
    }

    #[test]
    fn a_refusal_is_told() {
        let failure = run(0, vec![refuses(FailureKind::SessionLimit)]).unwrap_err();
        assert_eq!(failure.kind, Kind::SessionLimit);
    }

    #[test]
    fn remarks_say_what_the_streams_do_not() {
        assert_eq!(remarks(&result("completed", "null")), "");
        assert_eq!(
            remarks(&result("timeout", r#"{"kind": "total", "limit_ms": 1500}"#)),
            "callboard: over its time limit of 1.5 s\n"
        );
    }
}
