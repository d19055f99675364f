//! `callboard run`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::run_lines::{Cancel, List};
use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Place};
use crate::cli::failure::{Failure, Kind};
use crate::cli::follow::{Begin, Lost, follow};
use crate::cli::inbox::Inbox;
use crate::cli::progress::Progress;
use crate::cli::reports::{self, Target};
use crate::cli::sources::{self, PlanArgs};
use crate::cli::{exit, output, records, starter, summary, ticket, waves};
use crate::control::{Answer, Call, Submit};
use crate::domain::event::RunOptions;
use crate::domain::ids::RunId;
use crate::domain::outcome::RunOutcome;
use crate::domain::plan::Plan;
use crate::domain::result::SCHEMA_VERSION;
use crate::report::flaky;
use crate::report::record::RunReport;
use crate::report::summary::{Telling, plain};

/// How often a run is offered to another coordinator when one was just on its way out.
const TRIES: usize = 5;
/// How many coordinators a run may lose before its client gives up. One that ends at once each time
/// would be started for ever.
const LOST_MAX: usize = 50;

/// Run a manifest.
///
/// Starts the workspace's coordinator if none runs, follows the run to its end and exits with its
/// code: 0 all succeeded, 1 a task failed, 2 usage or configuration, 3 only the environment failed
/// (or incomplete), 4 escalated and waiting, 5 internal, 130 interrupted. Ctrl-C ends the run,
/// gracefully at first and at once when pressed again; nothing of it survives either way.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(in crate::cli) struct Run {
    /// The manifest; `-` reads it from stdin
    #[arg(required_unless_present = "resume")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    sources: PlanArgs,
    /// Run at most N tasks at a time [default: the lesser of the cores and the agents' capacities]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// End the run at the first failure
    #[arg(long)]
    fail_fast: bool,
    /// Run only TASK (repeatable)
    #[arg(long, value_name = "TASK", conflicts_with = "from")]
    only: Vec<String>,
    /// Run TASK and what comes after it
    #[arg(long, value_name = "TASK")]
    from: Option<String>,
    /// Return once the run is accepted; it goes on without us
    #[arg(long, conflicts_with_all = ["report", "fail_on_flaky"])]
    detach: bool,
    /// Write the report to PATH, as json, junit, markdown or html (repeatable); `-` is stdout, and
    /// the summary then goes to stderr
    #[arg(long, value_name = "FORMAT=PATH", value_parser = Target::parse)]
    report: Vec<Target>,
    /// Exit with 1 when a task succeeded only after a failure
    #[arg(long)]
    fail_on_flaky: bool,
    /// Print the run's whole record as one JSON document, and nothing else
    #[arg(long)]
    json: bool,
    /// Print only what failed; nothing of a run that succeeded
    #[arg(long, short)]
    quiet: bool,
    /// Go on with a run that was cut off, cancelled, or waits for a decision: what has succeeded
    /// stays so
    #[arg(long, value_name = "RUN", conflicts_with = "manifest")]
    resume: Option<String>,
    #[command(subcommand)]
    verb: Option<RunVerb>,
}

#[derive(Debug, Subcommand)]
enum RunVerb {
    Ls(List),
    Cancel(Cancel),
}

impl Run {
    /// Whether JSON is wanted.
    pub(in crate::cli) fn json(&self) -> bool {
        match &self.verb {
            None => self.json,
            Some(RunVerb::Ls(list)) => list.json,
            Some(RunVerb::Cancel(cancel)) => cancel.json,
        }
    }

    /// Runs it, to the end or until it is accepted.
    ///
    /// # Errors
    /// When it cannot be started, or its end is not known.
    pub(in crate::cli) fn run(mut self) -> Result<u8, Failure> {
        match self.verb.take() {
            Some(RunVerb::Ls(list)) => return list.run(),
            Some(RunVerb::Cancel(cancel)) => return cancel.run(),
            None => {}
        }
        if let Some(run) = &self.resume {
            return self.resume(&RunId::from(run.as_str()));
        }
        let Some(manifest) = self.manifest.as_deref() else {
            return Err(Failure::usage("no manifest is told"));
        };
        let (plan, files) = sources::load_to_run(manifest, &self.sources)?;
        reports::check(&self.report, &files, self.json)?;
        let submit = self.submit(plan)?;
        let name = submit.plan.workspace_id.as_ref().map(|id| id.as_str());
        let place = coordinator::open(&submit.plan.root, name)?;
        if self.detach {
            return self.leave(&place, &submit);
        }
        self.follow_and_finish(&place, Begin::Submit(Box::new(submit)))
    }

    fn follow_and_finish(&self, place: &Place, begin: Begin) -> Result<u8, Failure> {
        let mut report = self.follow(place, begin)?;
        if self.fail_on_flaky {
            condemn_flaky(&mut report);
        }
        self.finish(&report)
    }

    /// Goes on with a run.
    fn resume(&self, run: &RunId) -> Result<u8, Failure> {
        let around = coordinator::look(self.sources.workspace.as_deref())?;
        let Some(place) = around.place else { return Err(records::unknown_run(run)) };
        reports::check(&self.report, &[], self.json)?;
        let (plan, options) = records::to_resume(&place.state, run)?;
        let env = sources::client_env(&plan);
        let options = RunOptions {
            jobs: self.jobs.unwrap_or(options.jobs),
            fail_fast: self.fail_fast || options.fail_fast,
            attended: is_attended(),
            ..options
        };
        let begin =
            Begin::Resume { run: run.clone(), options: Some(options.clone()), env: env.clone() };
        if !self.detach {
            return self.follow_and_finish(&place, begin);
        }
        let (run, options) = (run.clone(), Some(options));
        let call = Call::Resume { run: run.clone(), options, env, detach: true };
        match place.connect_or_start()?.ask(call)? {
            Answer::Submitted { .. } => self.tell_left(&run),
            _ => Err(WireError::Unexpected { call: "resume" }.into()),
        }
    }

    fn submit(&self, plan: Plan) -> Result<Submit, Failure> {
        let selected = self.selected(&plan)?;
        let options = RunOptions {
            jobs: self.jobs.unwrap_or_else(|| default_jobs(&plan)),
            fail_fast: self.fail_fast,
            attended: is_attended(),
            seed: rand::random(),
        };
        let env = sources::client_env(&plan);
        let run = Some(ticket::run());
        Ok(Submit { plan, selected, options, env, run, detach: self.detach })
    }

    /// The tasks of `--only` or `--from`, in the plan's order.
    fn selected(&self, plan: &Plan) -> Result<Option<Vec<usize>>, Failure> {
        if let Some(from) = &self.from {
            return Ok(Some(waves::downstream(plan, task_named(plan, "--from", from)?)));
        }
        if self.only.is_empty() {
            return Ok(None);
        }
        let named = self.only.iter().map(|name| task_named(plan, "--only", name));
        let mut selected = named.collect::<Result<Vec<_>, _>>()?;
        selected.sort_unstable();
        selected.dedup();
        Ok(Some(selected))
    }

    fn leave(&self, place: &Place, submit: &Submit) -> Result<u8, Failure> {
        let mut tries = 1..=TRIES;
        let run_id = loop {
            let last = tries.next().is_none_or(|number| number == TRIES);
            let mut connection = place.connect_or_start()?;
            match connection.ask(Call::Submit { submit: Box::new(submit.clone()) }) {
                Ok(Answer::Submitted { run, .. }) => break run,
                Ok(_) => return Err(WireError::Unexpected { call: "submit" }.into()),
                // The answer may be lost, and the run on its way.
                Err(WireError::Lost) if !last => {
                    if let Some(run) = submit.run.as_ref().filter(|run| is_known(place, run)) {
                        break run.clone();
                    }
                }
                Err(error) if !last && starter::is_absence(&error) => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.tell_left(&run_id)
    }

    fn tell_left(&self, run_id: &RunId) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            run_id: &'a RunId,
        }
        if self.json {
            output::print_json(&Document { schema_version: SCHEMA_VERSION, run_id })?;
        } else {
            output::print(format!("run {run_id}: callboard report {run_id} shows how it goes\n"))?;
        }
        Ok(exit::SUCCEEDED)
    }

    /// Follows a run to its end, over as many coordinators as that takes.
    fn follow(&self, place: &Place, begin: Begin) -> Result<Box<RunReport>, Failure> {
        let mut inbox = Inbox::new();
        inbox.hear_interrupts()?;
        let mut progress = Progress::choose(self.json || self.quiet);
        let (mut interrupts, mut retries, mut lost) = (0, 0, 0);
        let mut next = begin.clone();
        while retries < TRIES && lost < LOST_MAX {
            let mut connection = place.connect_or_start()?;
            let followed =
                follow(&mut connection, next.clone(), &mut interrupts, &mut progress, &mut inbox);
            progress.finish();
            match followed {
                Ok(report) => return Ok(report),
                Err(Lost::Retry) => retries += 1,
                Err(Lost::Coordinator) => {
                    lost += 1;
                    progress.say("the coordinator is gone: starting another one");
                    next = begin.again().unwrap_or(next);
                }
                // It was lost before it had taken the run.
                Err(Lost::Unknown) => {
                    retries += 1;
                    next = begin.clone();
                }
                Err(Lost::Failed(failure)) => {
                    let log = format!("the coordinator's log is `{}`", place.log().display());
                    let hint = failure.hint.clone().map(|hint| format!("{hint}; {log}"));
                    return Err(Failure { hint, ..failure });
                }
            }
        }
        Err(Failure::new(Kind::Coordinator, "one coordinator after the other ended at once")
            .hint(format!("their log is `{}`", place.log().display())))
    }

    /// Writes the reports and says how it went. A report that cannot be written counts as a
    /// failure of the environment, and hides nothing worse.
    fn finish(&self, report: &RunReport) -> Result<u8, Failure> {
        let mut code = report.exit_code.unwrap_or(exit::INTERNAL);
        for target in &self.report {
            if let Err(failure) = target.write(report) {
                code = exit::combine(code, failure.exit_code());
                output::note(format!("error: {}\n", failure.message));
            }
        }
        if self.json {
            output::print_json(report)?;
        } else {
            let telling = if self.quiet { Telling::Failures } else { Telling::All };
            match self.report.iter().any(Target::is_stdout) {
                true => output::note(plain(report, telling)),
                false => output::print(summary::for_stdout(report, telling))?,
            }
        }
        Ok(code)
    }
}

/// Whether a person can be asked.
fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Whether the workspace knows of a run that may or may not have been taken.
fn is_known(place: &Place, run: &RunId) -> bool {
    matches!(records::report(&place.state, run), Ok(Some(_)))
}

/// `--fail-on-flaky`: a flaky task makes the run a failed one, unless it was something worse. All
/// that is said of the run from here on says so.
fn condemn_flaky(report: &mut RunReport) {
    let Some(code) = report.exit_code.filter(|_| flaky::count(report) > 0) else { return };
    if exit::combine(code, exit::FAILED) == exit::FAILED {
        report.exit_code = Some(exit::FAILED);
        report.outcome = Some(RunOutcome::Failed);
    }
}

/// The lesser of the cores and what the agents take together.
pub(super) fn default_jobs(plan: &Plan) -> u32 {
    let capacity = plan.agents.iter().fold(0_u32, |sum, agent| sum.saturating_add(agent.capacity));
    sources::cores().min(capacity).max(1)
}

fn task_named(plan: &Plan, flag: &str, name: &str) -> Result<usize, Failure> {
    if let Some(index) = plan.tasks.iter().position(|task| task.id.as_str() == name) {
        return Ok(index);
    }
    let near = plan
        .tasks
        .iter()
        .map(|task| (strsim::jaro_winkler(task.id.as_str(), name), task.id.as_str()))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let failure = Failure::usage(format!("{flag}: the manifest has no task `{name}`"));
    Err(match near {
        Some((_, near)) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint("`callboard plan` lists the tasks"),
    })
}
