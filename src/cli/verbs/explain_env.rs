//! `callboard explain-env`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::sources;
use crate::cli::table::table;
use crate::cli::verbs::whose::Whose;
use crate::cli::{exit, output};
use crate::domain::environment::{Layers, Origin, SessionFacts, Variable, missing, snapshot};
use crate::domain::result::SCHEMA_VERSION;

/// What stands for a value that only a session has.
const OF_SESSION: &str = "(each session its own)";

/// Show each variable of a session's environment and where it comes from.
///
/// A session inherits nothing: this is all of it. Values of secrets are hidden.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainEnv {
    #[command(flatten)]
    whose: Whose,
    /// Print one JSON document
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    agent: Option<&'a str>,
    task: Option<&'a str>,
    variables: Vec<Line<'a>>,
    missing: Vec<&'a str>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    /// Null where it is secret, or not known before there is a session.
    value: Option<&'a str>,
    origin: Origin,
    secret: bool,
}

impl ExplainEnv {
    /// Shows it.
    ///
    /// # Errors
    /// When a file is wrong, or names no such agent or task.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let plan = self.whose.plan()?;
        let task = self.whose.task(&plan)?;
        let agent = self.whose.agent(&plan)?;
        let client = sources::client_env(&plan);
        let facts = session_facts(task.is_some());
        let layers = Layers {
            client: &client,
            default_env: &plan.default_env,
            default_env_pass: &plan.default_env_pass,
            agent,
            task,
            command_line: &BTreeMap::new(),
            session: &facts,
        };
        let variables = snapshot(&layers);
        let document = Document {
            schema_version: SCHEMA_VERSION,
            agent: agent.map(|agent| agent.name.as_str()),
            task: task.map(|task| task.id.as_str()),
            variables: variables.iter().map(line).collect(),
            missing: missing(&layers),
        };
        if self.json {
            output::print_json(&document)?;
        } else {
            output::print(words(&document))?;
        }
        Ok(exit::SUCCEEDED)
    }
}

fn session_facts(of_task: bool) -> SessionFacts {
    let own = || Some(OF_SESSION.to_owned());
    SessionFacts {
        session: OF_SESSION.to_owned(),
        tmp: OF_SESSION.to_owned(),
        socket: own(),
        board: own(),
        task: own().filter(|_| of_task),
        attempt: of_task.then_some(1),
        inputs: own().filter(|_| of_task),
    }
}

fn line(variable: &Variable) -> Line<'_> {
    let known = !variable.secret && variable.value != OF_SESSION;
    Line {
        name: &variable.name,
        value: known.then_some(variable.value.as_str()),
        origin: variable.origin,
        secret: variable.secret,
    }
}

fn words(document: &Document<'_>) -> String {
    let rows: Vec<_> = document
        .variables
        .iter()
        .map(|line| {
            let value = match (line.value, line.secret) {
                (Some(value), _) => value.escape_debug().to_string(),
                (None, true) => "(hidden)".to_owned(),
                (None, false) => OF_SESSION.to_owned(),
            };
            vec![line.name.to_owned(), origin(line.origin).to_owned(), value]
        })
        .collect();
    let mut text = table(&["NAME", "FROM", "VALUE"], &rows);
    for name in &document.missing {
        let _infallible = writeln!(text, "\nmissing: env_pass names {name}, which is not set here");
    }
    text
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::AllowList => "your environment (allow-list)",
        Origin::BuiltIn => "built in",
        Origin::AgentDefaults => "agents.toml [defaults] env",
        Origin::Agent => "agents.toml [[agent]] env",
        Origin::EnvPass => "your environment (env_pass)",
        Origin::Manifest => "manifest env",
        Origin::CommandLine => "--env",
        Origin::Port => "manifest ports",
        Origin::Callboard => "callboard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str, origin: Origin, secret: bool) -> Variable {
        Variable { name: name.to_owned(), value: value.to_owned(), origin, secret }
    }

    #[test]
    fn secrets_never_show() {
        let variables = [
            variable("API_TOKEN", "hunter2", Origin::EnvPass, true),
            variable("PAGER", "cat", Origin::BuiltIn, false),
            variable("TMPDIR", OF_SESSION, Origin::Callboard, false),
        ];
        let document = Document {
            schema_version: 1,
            agent: None,
            task: None,
            variables: variables.iter().map(line).collect(),
            missing: vec!["NPM_TOKEN"],
        };
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json["variables"][0]["value"], serde_json::Value::Null);
        assert_eq!(json["variables"][0]["origin"], "env_pass");
        assert_eq!(json["variables"][1]["value"], "cat");
        assert_eq!(json["variables"][2]["value"], serde_json::Value::Null);
        let words = words(&document);
        assert!(!words.contains("hunter2") && !json.to_string().contains("hunter2"));
        assert!(words.contains("API_TOKEN  your environment (env_pass)  (hidden)"), "{words}");
        assert!(words.contains("missing: env_pass names NPM_TOKEN"), "{words}");
    }
}
