//! `callboard run`.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::run_lines::{Cancel, List};
use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Place};
use crate::cli::failure::{Failure, Kind};
use crate::cli::follow::{self, Begin, TRIES};
use crate::cli::inbox::{Connect, Inbox};
use crate::cli::progress::Progress;
use crate::cli::reports::{self, Target};
use crate::cli::sources::{self, PlanArgs};
use crate::cli::{exit, output, records, starter, summary, ticket, waves};
use crate::control::{Answer, Submit};
use crate::domain::event::RunOptions;
use crate::domain::ids::RunId;
use crate::domain::outcome::RunOutcome;
use crate::domain::plan::Plan;
use crate::domain::result::SCHEMA_VERSION;
use crate::report::flaky;
use crate::report::record::RunReport;
use crate::report::summary::{Telling, plain};

/// Run a manifest.
///
/// Starts the workspace's coordinator if none runs, follows the run to its end and exits with its
/// code: 0 all succeeded, 1 a task failed, 2 usage or configuration, 3 only the environment failed
/// (or incomplete), 4 escalated and waiting, 5 internal, 130 interrupted. Ctrl-C ends the run,
/// gracefully at first and at once when pressed again; nothing of it survives either way. A
/// coordinator that is lost meanwhile is followed by another one, and the run goes on.
///
/// With --resume RUN a run goes on that ended without success: what has succeeded stays so.
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
    #[arg(long, value_name = "FORMAT=PATH", value_parser = OsStringValueParser::new().try_map(Target::parse))]
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
    /// Go on with RUN, which ended without success: succeeded tasks stay so, unfinished ones are
    /// tried again; --jobs and --fail-fast replace what it had
    #[arg(long, value_name = "RUN", conflicts_with_all = ["manifest", "agents", "vars", "only", "from"])]
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
        let (place, begin) = match (&self.resume, &self.manifest) {
            (Some(run), _) => self.resumption(&RunId::from(run.as_str()))?,
            (None, Some(manifest)) => self.submission(manifest)?,
            (None, None) => return Err(Failure::usage("no manifest was told")),
        };
        if self.detach {
            return self.leave(&place, &begin);
        }
        let mut report = self.follow(&place, &begin)?;
        if self.fail_on_flaky {
            condemn_flaky(&mut report);
        }
        self.finish(&report)
    }

    fn submission(&self, manifest: &Path) -> Result<(Place, Begin), Failure> {
        let (plan, files) = sources::load_to_run(manifest, &self.sources)?;
        reports::check(&self.report, &files, self.json)?;
        let submit = self.submit(plan)?;
        let name = submit.plan.workspace_id.as_ref().map(|id| id.as_str());
        let place = coordinator::open(&submit.plan.root, name)?;
        Ok((place, Begin::Submit(Box::new(submit))))
    }

    /// What a run needs to go on is in the journal; what is never written down comes from here.
    fn resumption(&self, run: &RunId) -> Result<(Place, Begin), Failure> {
        reports::check(&self.report, &[], self.json)?;
        let around = coordinator::look(self.sources.workspace.as_deref())?;
        let Some(place) = around.place else { return Err(records::unknown_run(run)) };
        let (plan, before) = records::to_resume(&place.state, run)?;
        let attended = io::stdin().is_terminal() && io::stderr().is_terminal();
        let options = RunOptions {
            jobs: self.jobs.unwrap_or(before.jobs),
            fail_fast: self.fail_fast || before.fail_fast,
            attended,
            seed: rand::random(),
        };
        let begin = Begin::Resume {
            run: run.clone(),
            options: Some(options),
            env: sources::client_env(&plan),
            detach: self.detach,
        };
        Ok((place, begin))
    }

    fn submit(&self, plan: Plan) -> Result<Submit, Failure> {
        let selected = self.selected(&plan)?;
        let options = RunOptions {
            jobs: self.jobs.unwrap_or_else(|| default_jobs(&plan)),
            fail_fast: self.fail_fast,
            attended: io::stdin().is_terminal() && io::stderr().is_terminal(),
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

    fn leave(&self, place: &Place, begin: &Begin) -> Result<u8, Failure> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema_version: u32,
            run_id: &'a RunId,
        }
        let mut losses = 0;
        let run_id = loop {
            match place.connect_or_start()?.ask(begin.call()) {
                Ok(Answer::Submitted { run, .. }) => break run,
                // It has ended meanwhile, and only the first answer was lost.
                Ok(Answer::Report { report }) => break report.run_id,
                Ok(_) => return Err(WireError::Unexpected { call: "submit" }.into()),
                Err(error) if losses + 1 < TRIES && starter::is_absence(&error) => {}
                Err(error) => return Err(error.into()),
            }
            losses += 1;
            std::thread::sleep(follow::pause(losses));
        };
        if self.json {
            output::print_json(&Document { schema_version: SCHEMA_VERSION, run_id: &run_id })?;
        } else {
            output::print(format!("run {run_id}: callboard report {run_id} shows how it goes\n"))?;
        }
        Ok(exit::SUCCEEDED)
    }

    fn follow(&self, place: &Place, begin: &Begin) -> Result<Box<RunReport>, Failure> {
        let mut inbox = Inbox::new();
        inbox.hear_interrupts()?;
        let mut progress = Progress::choose(self.json || self.quiet);
        let connect: Connect = {
            let place = place.clone();
            Arc::new(move || place.connect_or_start())
        };
        let followed = follow::follow(connect, begin, &mut progress, &mut inbox);
        progress.finish();
        followed.map_err(|failure| match failure.kind {
            Kind::Coordinator => {
                let log = format!("the coordinator's log is `{}`", place.log().display());
                let hint = match &failure.hint {
                    Some(hint) if hint.contains(&*place.log().to_string_lossy()) => hint.clone(),
                    Some(hint) => format!("{hint}; {log}"),
                    None => log,
                };
                failure.hint(hint)
            }
            _ => failure,
        })
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
            let more = match can_go_on(report) && !self.quiet {
                true => format!("to go on with it: callboard run --resume {}\n", report.run_id),
                false => String::new(),
            };
            match self.report.iter().any(Target::is_stdout) {
                true => output::note(plain(report, telling) + &more),
                false => output::print(summary::for_stdout(report, telling) + &more)?,
            }
        }
        Ok(code)
    }
}

/// Whether `--resume` helps: a run that has simply failed would come to the same again.
fn can_go_on(report: &RunReport) -> bool {
    match report.outcome {
        Some(RunOutcome::Cancelled | RunOutcome::Escalated | RunOutcome::Incomplete) => true,
        Some(RunOutcome::Succeeded | RunOutcome::Failed | RunOutcome::Environment) | None => false,
    }
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
