//! `callboard audit verify`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::cli::failure::{Failure, reason};
use crate::cli::{coordinator, exit, output};
use crate::domain::result::SCHEMA_VERSION;
use crate::domain::time::Timestamp;
use crate::journal::{self, JournalError, snapshot};

/// Check every record: its bytes, its number, and that it hangs on the one before.
///
/// Begins with the oldest record that is kept. Tells the hash of the last one: kept elsewhere, it shows
/// later that nothing up to there was changed.
///
/// Exit codes: 0 the journal is whole, 1 it is not, 2 usage.
#[derive(Debug, Args)]
pub(in crate::cli) struct Verify {
    /// The workspace's root [default: the workspace around here, or else your private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    schema_version: u32,
    whole: bool,
    journal: PathBuf,
    /// How many records were good.
    records: u64,
    first_seq: Option<u64>,
    last_seq: Option<u64>,
    first_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
    segments: usize,
    /// SHA-256 of the last record.
    head: Option<String>,
    /// How many records of each kind.
    counts: BTreeMap<String, u64>,
    /// What a crash left at the end, or somebody is just writing.
    torn: Option<Torn>,
    /// The first bad place.
    problem: Option<Problem>,
    snapshots: Vec<Snapshot>,
}

#[derive(Debug, Serialize)]
struct Torn {
    segment: PathBuf,
    offset: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Problem {
    segment: Option<PathBuf>,
    offset: Option<u64>,
    message: String,
}

#[derive(Debug, Serialize)]
struct Snapshot {
    file: PathBuf,
    /// What is wrong with it: it is passed over.
    problem: Option<String>,
}

impl Verify {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let place = coordinator::look(self.workspace.as_deref())?.place;
        let verdict = match place {
            Some(place) => verify(&place.state.join("journal")),
            None => Verdict { schema_version: SCHEMA_VERSION, whole: true, ..Verdict::default() },
        };
        if self.json {
            output::print_json(&verdict)?;
        } else {
            output::print(words(&verdict))?;
        }
        Ok(if verdict.whole { exit::SUCCEEDED } else { exit::FAILED })
    }
}

fn verify(journal: &Path) -> Verdict {
    let mut verdict = Verdict {
        schema_version: SCHEMA_VERSION,
        journal: journal.to_owned(),
        ..Verdict::default()
    };
    let read = journal::read_whole(journal, &mut |line| {
        verdict.records += 1;
        verdict.first_seq.get_or_insert(line.seq);
        verdict.first_at.get_or_insert(line.at);
        verdict.last_seq = Some(line.seq);
        verdict.last_at = Some(line.at);
        *verdict.counts.entry(line.event.name().to_owned()).or_default() += 1;
        ControlFlow::Continue(())
    });
    match read {
        Ok(replay) => {
            verdict.whole = true;
            verdict.segments = replay.segments;
            verdict.head = (replay.last_seq > 0).then_some(replay.head);
            verdict.torn = replay.torn.map(|torn| Torn {
                segment: torn.segment,
                offset: torn.offset,
                bytes: torn.bytes,
            });
        }
        Err(JournalError::Missing { .. }) => verdict.whole = true,
        Err(error) => verdict.problem = Some(problem(&error)),
    }
    let look = |(file, problem): (PathBuf, Option<std::io::Error>)| Snapshot {
        file,
        problem: problem.map(|error| reason(&error)),
    };
    verdict.snapshots =
        snapshot::check(journal).unwrap_or_default().into_iter().map(look).collect();
    verdict
}

fn problem(error: &JournalError) -> Problem {
    let (segment, offset) = match error {
        JournalError::Damaged { segment, offset, .. }
        | JournalError::Newer { segment, offset, .. } => (Some(segment.clone()), Some(*offset)),
        JournalError::SegmentMissing { segment, .. } => (Some(segment.clone()), None),
        JournalError::Io { path, .. } => (Some(path.clone()), None),
        JournalError::Missing { .. } | JournalError::Locked { .. } => (None, None),
    };
    Problem { segment, offset, message: error.to_string() }
}

fn words(verdict: &Verdict) -> String {
    let mut text = match (verdict.first_seq, verdict.last_seq) {
        (Some(first), Some(last)) => {
            format!("{} records, {first} to {last}, are good\n", verdict.records)
        }
        _ => "no record\n".to_owned(),
    };
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    if let Some(head) = &verdict.head {
        line(format!("the last one's hash is {head}"));
    }
    if let Some(torn) = &verdict.torn {
        line(format!(
            "{} bytes of a record lie behind byte {} of `{}`: it is being written, or was when a crash \
             came; the next coordinator cuts it off",
            torn.bytes,
            torn.offset,
            torn.segment.display()
        ));
    }
    for snapshot in &verdict.snapshots {
        if let Some(problem) = &snapshot.problem {
            line(format!("snapshot `{}` is passed over: {problem}", snapshot.file.display()));
        }
    }
    if let Some(problem) = &verdict.problem {
        line(problem.message.clone());
        line("what comes behind was not looked at".to_owned());
    }
    text
}
