//! Tables of files and what is said of them.

use std::collections::BTreeMap;
use std::path::Path;

use super::{File, Problem, Sources, check};
use crate::domain::plan::Plan;

mod files;
mod plans;
mod relations;
mod robustness;
mod scale;
mod values;

/// What a test hands in; the rest is as a plain caller has it.
#[derive(Clone, Copy)]
struct Case<'a> {
    manifest: &'a [u8],
    agents: Option<&'a [u8]>,
    vars: &'a [(&'a str, &'a str)],
}

impl<'a> Case<'a> {
    fn of(manifest: &'a str) -> Self {
        Self { manifest: manifest.as_bytes(), agents: None, vars: &[] }
    }

    fn with(manifest: &'a str, agents: &'a str) -> Self {
        Self { agents: Some(agents.as_bytes()), ..Self::of(manifest) }
    }

    fn check(self) -> Result<Plan, Vec<Problem>> {
        let variables: BTreeMap<String, String> = self
            .vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        check(&Sources {
            manifest: File { name: "job.toml", bytes: self.manifest },
            agents: self.agents.map(|bytes| File { name: "agents.toml", bytes }),
            base: Path::new("/srv/project"),
            root_override: None,
            variables: &variables,
            passed: &|name| name.starts_with("MY_"),
            local_capacity: 2,
        })
    }

    fn plan(self) -> Plan {
        self.check().unwrap_or_else(|problems| panic!("{problems:#?}"))
    }

    /// Each problem as `line:column: message`, with ` | hint` where it has one, and the file's name
    /// in front unless it is the manifest.
    fn said(self) -> Vec<String> {
        let problems = self.check().err().unwrap_or_default();
        problems.iter().map(one_line).collect()
    }
}

fn one_line(problem: &Problem) -> String {
    let line = problem.to_string();
    let line = line.strip_prefix("job.toml:").unwrap_or(&line).to_owned();
    match &problem.hint {
        Some(hint) => format!("{line} | {hint}"),
        None => line,
    }
}

/// `said` with a task around: `body` begins on line 3.
fn said_of_task(body: &str) -> Vec<String> {
    Case::of(&format!("[[task]]\nid = \"t\"\n{body}\n")).said()
}
