//! `callboard policy`.

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::failure::{Failure, Kind};
use crate::cli::verbs::whose::Whose;
use crate::cli::{exit, output};
use crate::domain::permission::{Permissions, Verdict};
use crate::domain::result::SCHEMA_VERSION;
use crate::policy::{self, Judgement};

/// Ask what the policy says
///
/// The policy is the `[policy]` of agents.toml, and what `policy` says of an agent or a task:
/// lists of rules, each a program with its first arguments. `deny` beats `ask` beats `allow`. It is
/// a guard against accidents, and no boundary: what a program does once it runs is out of its
/// sight.
#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Check(Check),
}

/// Say whether a script may run; runs nothing
///
/// Exits with 0 for allow, 126 for ask and deny.
#[derive(Debug, Args)]
struct Check {
    /// The script
    #[arg(short = 'c', value_name = "SCRIPT")]
    script: String,
    #[command(flatten)]
    whose: Whose,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    judgement: &'a Judgement,
}

impl Policy {
    /// Whether it prints JSON.
    pub(in crate::cli) fn json(&self) -> bool {
        let What::Check(check) = &self.what;
        check.json
    }

    /// Says it.
    ///
    /// # Errors
    /// When a file is wrong, or names no such agent or task.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let What::Check(check) = self.what;
        check.run()
    }
}

impl Check {
    fn run(self) -> Result<u8, Failure> {
        let layers = self.layers()?;
        let script = self.script;
        let judgement = judge(layers, script)?;
        if self.json {
            let document = Document { schema_version: SCHEMA_VERSION, judgement: &judgement };
            output::print_json(&document)?;
        } else {
            let verdict = match judgement.verdict {
                Verdict::Allow => "allow",
                Verdict::Ask => "ask",
                Verdict::Deny => "deny",
            };
            output::print(format!("{verdict}: {}\n", judgement.reason))?;
        }
        Ok(match judgement.verdict {
            Verdict::Allow => exit::SUCCEEDED,
            Verdict::Ask | Verdict::Deny => exit::EXEC_DENIED,
        })
    }

    /// The workspace's rules, the agent's and the task's.
    fn layers(&self) -> Result<Vec<Permissions>, Failure> {
        let plan = self.whose.plan()?;
        let agent = self.whose.agent(&plan)?.map(|agent| agent.policy.clone());
        let task = self.whose.task(&plan)?.map(|task| task.policy.clone());
        Ok([Some(plan.policy), agent, task].into_iter().flatten().collect())
    }
}

/// A script that is not certain to be read in no time is read by a thread that may take long: it
/// is given up on, and ends with this process.
fn judge(layers: Vec<Permissions>, script: String) -> Result<Judgement, Failure> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
    const STACK_BYTES: usize = 512 * 1024 * 1024;
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let layers: Vec<_> = layers.iter().collect();
            let _gone = told.send(policy::judge(&layers, &script));
        })
        .map_err(|error| Failure::new(Kind::Machine, format!("cannot start a thread: {error}")))?;
    Ok(heard.recv_timeout(PATIENCE).unwrap_or_else(|_| Judgement {
        verdict: Verdict::Ask,
        rule: None,
        reason: "what it would run cannot be told beforehand: it takes too long to read".to_owned(),
    }))
}
