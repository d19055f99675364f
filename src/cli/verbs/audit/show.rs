//! `callboard audit show`.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::telling::{Subject, Subjects, words};
use crate::cli::failure::{Failure, Kind};
use crate::cli::verbs::session::reading::now;
use crate::cli::{coordinator, exit, output};
use crate::domain::ids::{RunId, SessionId, TaskId};
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::{Timestamp, parse_duration_ms};
use crate::journal::{self, JournalError, Line};

/// How much is gathered before it is printed.
const PRINT_BYTES: usize = 64 * 1024;

/// Show the records, oldest first.
///
/// With more than one filter a record has to pass them all. What goes on in a session counts as its
/// task's and its run's. Records that retention has removed are not shown; --json prints one
/// JSON object a line.
///
/// Exit codes: 0 whatever there is, 2 usage or no such task, 3 the journal cannot be read to its end.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// Only what concerns this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Only what concerns this task: RUN/ID, or an ID of the newest run that has it
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Only what concerns this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only what happened since: a time like 2026-01-31T12:00:00Z, or so long ago, as in 30m
    #[arg(long, value_name = "TIME|D", value_parser = since)]
    since: Option<Since>,
    /// The workspace's root [default: the workspace around here, or else your private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug)]
enum Since {
    At(Timestamp),
    Ago(u64),
}

/// What a record has to concern.
#[derive(Debug, Default)]
struct Filter {
    run: Option<RunId>,
    task: Option<(RunId, TaskId)>,
    session: Option<SessionId>,
    since: Option<Timestamp>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    line: &'a Line,
}

impl Show {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let Some(place) = coordinator::look(self.workspace.as_deref())?.place else {
            return Ok(exit::SUCCEEDED);
        };
        let journal = place.state.join("journal");
        let filter = self.filter(&journal)?;
        let (mut subjects, mut text, mut trouble) = (Subjects::default(), Vec::new(), None);
        let read = journal::read_whole(&journal, &mut |line| {
            let subject = subjects.of(&line);
            if !filter.admits(&line, &subject) {
                return ControlFlow::Continue(());
            }
            let told = self.tell(&line, &subject, &mut text);
            let told = told.and_then(|()| match text.len() >= PRINT_BYTES {
                true => output::print(std::mem::take(&mut text)),
                false => Ok(()),
            });
            match told {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    trouble = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        output::print(text)?;
        if let Some(error) = trouble {
            return Err(error.into());
        }
        match read {
            Ok(_) | Err(JournalError::Missing { .. }) => Ok(exit::SUCCEEDED),
            Err(error) => Err(error.into()),
        }
    }

    fn tell(&self, line: &Line, subject: &Subject, text: &mut Vec<u8>) -> io::Result<()> {
        if self.json {
            serde_json::to_writer(&mut *text, &Document { schema_version: SCHEMA_VERSION, line })?;
            text.push(b'\n');
        } else {
            text.extend_from_slice(words(line, subject).as_bytes());
        }
        Ok(())
    }

    fn filter(&self, journal: &Path) -> Result<Filter, Failure> {
        let task = self.task.as_deref().map(|told| task(journal, told)).transpose()?;
        Ok(Filter {
            run: self.run.as_deref().map(RunId::new),
            task,
            session: self.session.as_deref().map(SessionId::new),
            since: self.since.map(|since| match since {
                Since::At(at) => at,
                Since::Ago(ms) => Timestamp(now().0.saturating_sub_unsigned(ms)),
            }),
        })
    }
}

impl Filter {
    fn admits(&self, line: &Line, subject: &Subject) -> bool {
        let of_run = |run: &RunId| subject.run.as_ref() == Some(run);
        self.since.is_none_or(|since| line.at >= since)
            && self.run.as_ref().is_none_or(of_run)
            && self.session.as_ref().is_none_or(|id| subject.session.as_ref() == Some(id))
            && self
                .task
                .as_ref()
                .is_none_or(|(run, task)| of_run(run) && subject.task.as_ref() == Some(task))
    }
}

/// The task that is meant, and its run: the newest that has it, where none is told.
fn task(journal: &Path, told: &str) -> Result<(RunId, TaskId), Failure> {
    if let Some((run, task)) = told.split_once('/') {
        return Ok((run.into(), task.into()));
    }
    let mut subjects = Subjects::default();
    let read = journal::read_whole(journal, &mut |line| {
        subjects.of(&line);
        ControlFlow::Continue(())
    });
    let task = TaskId::new(told);
    match subjects.newest_with(&task) {
        Some(run) => Ok((run, task)),
        None => match read {
            Err(error) if !matches!(error, JournalError::Missing { .. }) => Err(error.into()),
            _ => Err(Failure::new(Kind::NotFound, format!("no run has a task `{told}`"))
                .hint("`callboard task ls --all` lists the tasks")),
        },
    }
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(Since::At(Timestamp(at.as_millisecond())));
    }
    parse_duration_ms(text).map(Since::Ago).map_err(|_| {
        format!(
            "`{text}` is no time: write one like 2026-01-31T12:00:00Z, or how long ago, as in 30m"
        )
    })
}
