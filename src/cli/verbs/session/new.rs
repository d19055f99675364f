//! `callboard session new`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::client::{Connection, WireError};
use crate::cli::coordinator::{self, Place};
use crate::cli::failure::Failure;
use crate::cli::verbs::exec::environment;
use crate::cli::{exit, output, sources, starter};
use crate::control::{Answer, Call, NewSession, SessionLine};
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::session::{Shell, Size};
use crate::domain::time::parse_duration_ms;

/// How often it is asked of another coordinator when one was just on its way out.
const TRIES: usize = 5;

/// Open a session, and keep it
///
/// Prints its id once its shell is there. `exec --session` runs commands in it, one after the other.
#[derive(Debug, Args)]
pub(in crate::cli) struct New {
    /// A name of its own in the workspace
    name: Option<String>,
    /// Start in DIR [default: here]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Which shell: bash, zsh, fish or sh [default: `shell` of agents.toml, or else bash]
    #[arg(long, value_name = "S", value_parser = str::parse::<Shell>)]
    shell: Option<Shell>,
    /// Columns and rows of its terminal [default: 120x40]
    #[arg(long, value_name = "COLSxROWS", value_parser = parse_size)]
    size: Option<Size>,
    /// Set a variable (repeatable)
    #[arg(long, value_name = "K=V", value_parser = sources::parse_pair)]
    env: Vec<(String, String)>,
    /// Close it once nobody has used it for D, as in 90s or 2h [default: `session_ttl` of
    /// agents.toml, or else 30m]
    #[arg(long, value_name = "D", value_parser = parse_ttl)]
    ttl: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl New {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be opened, or too many are open.
    pub(super) fn run(self) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            #[serde(flatten)]
            session: &'a SessionLine,
        }
        let cwd = match &self.cwd {
            Some(folder) => sources::real_folder(folder)?,
            None => sources::current_folder()?,
        };
        let place = coordinator::for_command(&cwd)?;
        let agents = sources::load_agents_to_run(&place.root)?;
        let mut defaults = agents.session_defaults;
        defaults.ttl_ms = self.ttl.or(defaults.ttl_ms);
        let wanted = NewSession {
            name: self.name,
            cwd,
            shell: self.shell.unwrap_or(agents.default_shell),
            size: self.size.unwrap_or_default(),
            env: sources::own_env(&agents, environment(&self.env)?),
            policy: agents.policy,
            defaults,
        };
        let session = open(&place, &wanted)?;
        if self.json {
            output::print_json(&Document { schema_version: SCHEMA_VERSION, session: &session })?;
        } else {
            output::print(format!("{}\n", session.session_id))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

fn open(place: &Place, wanted: &NewSession) -> Result<SessionLine, Failure> {
    let mut tries = 1..=TRIES;
    loop {
        let last = tries.next().is_none_or(|number| number == TRIES);
        let mut connection = place.connect_or_start()?;
        match open_once(&mut connection, wanted) {
            Err(error) if !last && starter::is_absence(&error) => {}
            answer => return Ok(answer?),
        }
    }
}

fn open_once(connection: &mut Connection, wanted: &NewSession) -> Result<SessionLine, WireError> {
    let call = Call::OpenSession { new: Box::new(wanted.clone()) };
    match connection.ask(call)? {
        Answer::SessionOpened { session } => Ok(*session),
        _ => Err(WireError::Unexpected { call: "open_session" }),
    }
}

fn parse_size(text: &str) -> Result<Size, String> {
    let number = |part: &str| part.parse::<u16>().ok().filter(|number| *number > 0);
    let size = text
        .split_once('x')
        .and_then(|(cols, rows)| Some(Size { cols: number(cols)?, rows: number(rows)? }));
    size.ok_or_else(|| {
        "it has to have the form COLSxROWS, each from 1 to 65535, as in 120x40".to_owned()
    })
}

fn parse_ttl(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        0 => Err("it has to be more than 0".to_owned()),
        ms => Ok(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("80x24"), Ok(Size { cols: 80, rows: 24 }));
        for text in ["80", "80x", "x24", "0x24", "80x24x1", "80X24", "70000x1"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_ttl("0s").is_err());
    }
}
