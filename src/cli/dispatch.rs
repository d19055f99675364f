//! argv to exit code.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use super::arguments::{Arguments, Verb};
use super::failure::Failure;
use super::{exit, log, output};

/// Does what this process's arguments ask for.
#[must_use]
pub fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    ExitCode::from(match Arguments::try_parse_from(&argv) {
        Ok(Arguments { verb }) => {
            log::begin(&verb);
            let json = verb.json();
            verb.run().unwrap_or_else(|failure| failure.tell(json))
        }
        Err(error) => not_understood(&error, wants_json(&argv)),
    })
}

impl Verb {
    fn json(&self) -> bool {
        match self {
            Self::Init(_) | Self::Serve(_) => false,
            Self::Run(run) => run.json(),
            Self::Plan(plan) => plan.json,
            Self::Exec(exec) => exec.json,
            Self::Session(session) => session.json(),
            Self::Task(task) => task.json(),
            Self::Agent(agent) => agent.json(),
            Self::Board(board) => board.json(),
            Self::Escalation(escalation) => escalation.json(),
            Self::Report(report) => report.json,
            Self::Policy(policy) => policy.json(),
            Self::ExplainEnv(explain) => explain.json,
            Self::Status(status) => status.json,
            Self::Doctor(doctor) => doctor.json,
            Self::Gc(gc) => gc.json,
            Self::Audit(audit) => audit.json(),
        }
    }

    fn run(self) -> Result<u8, Failure> {
        match self {
            Self::Init(init) => init.run(),
            Self::Run(run) => run.run(),
            Self::Plan(plan) => plan.run(),
            Self::Exec(exec) => exec.run(),
            Self::Session(session) => session.run(),
            Self::Task(task) => task.run(),
            Self::Agent(agent) => agent.run(),
            Self::Board(board) => board.run(),
            Self::Escalation(escalation) => escalation.run(),
            Self::Report(report) => report.run(),
            Self::Policy(policy) => policy.run(),
            Self::ExplainEnv(explain) => explain.run(),
            Self::Status(status) => status.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Gc(gc) => gc.run(),
            Self::Audit(audit) => audit.run(),
            Self::Serve(serve) => serve.run(),
        }
    }
}

/// Help and version are answers; the rest is a usage error, in clap's words.
fn not_understood(error: &clap::Error, json: bool) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match output::print(error.render().to_string()) {
                Ok(()) => exit::SUCCEEDED,
                Err(error) => Failure::from(error).tell(false),
            }
        }
        _ if json => usage_failure(&error.render().to_string()).tell(true),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::note(error.render().to_string());
            exit::USAGE
        }
        _ => {
            let words = error.render();
            let coloured = std::io::stderr().is_terminal();
            output::note(if coloured { words.ansi().to_string() } else { words.to_string() });
            exit::USAGE
        }
    }
}

/// clap's words as a failure: its first paragraph, and its tip where there is one.
fn usage_failure(words: &str) -> Failure {
    let first = words.split("\n\n").next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let tip = words.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    Failure::usage(message).hint(tip.unwrap_or("`--help` shows what there is"))
}

/// Whether `--json` is among the flags, before anything is known of the verb.
fn wants_json(argv: &[OsString]) -> bool {
    argv.iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == OsStr::new("--json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claps_words_become_a_failure() {
        let error = Arguments::try_parse_from(["callboard", "run", "m.toml", "--jbos", "2"]);
        let failure = usage_failure(&error.unwrap_err().render().to_string());
        assert_eq!(failure.message, "unexpected argument '--jbos' found");
        assert_eq!(failure.hint.as_deref(), Some("a similar argument exists: '--jobs'"));
        let error = Arguments::try_parse_from(["callboard", "report", "--json"]).unwrap_err();
        let failure = usage_failure(&error.render().to_string());
        assert_eq!(failure.message, "the following required arguments were not provided: <RUN>");
    }

    #[test]
    fn flags_of_the_command_to_run_are_not_ours() {
        let argv = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&argv("callboard run m.toml --json")));
        assert!(!wants_json(&argv("callboard exec -- cargo metadata --json")));
    }
}
