//! What the state folder says of runs while no coordinator runs: `runs/<run>/report.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::failure::{Failure, Kind};
use crate::control::RunLine;
use crate::domain::ids::RunId;
use crate::report::record::RunReport;

/// The report of a run, if it has one.
///
/// # Errors
/// When there is one that cannot be read.
pub(super) fn report(state: &Path, run: &RunId) -> Result<Option<RunReport>, Failure> {
    // The id comes from a command line and becomes part of a path.
    if run.as_str().is_empty() || run.as_str().starts_with('.') || run.as_str().contains('/') {
        return Ok(None);
    }
    read(&state.join("runs").join(run.as_str()).join("report.json"))
}

/// Every run that has a report, newest first. Reports of another version are left out.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn runs(state: &Path) -> Result<Vec<RunLine>, Failure> {
    let folder = state.join("runs");
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::file(&folder, "read", &error)),
    };
    // A line has a part of the report's keys, and the others are skipped.
    let line = |folder: &Path| read::<RunLine>(&folder.join("report.json")).ok().flatten();
    let mut runs: Vec<_> = entries.flatten().filter_map(|entry| line(&entry.path())).collect();
    runs.sort_by(|a, b| (b.started_at, &b.run_id).cmp(&(a.started_at, &a.run_id)));
    Ok(runs)
}

/// No such run.
pub(super) fn unknown_run(run: &RunId) -> Failure {
    Failure::new(Kind::NotFound, format!("no run `{run}` in this workspace"))
        .hint("`callboard run ls` lists the runs")
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, Failure> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file(file, "read", &error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let message = format!("`{}` is not a report of this version: {error}", file.display());
        Failure::new(Kind::Version, message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::ended_report;
    use super::*;
    use crate::domain::time::Timestamp;

    fn keep(state: &Path, run: &str, started_at: i64) {
        let report =
            RunReport { run_id: run.into(), started_at: Timestamp(started_at), ..ended_report(0) };
        let folder = state.join("runs").join(run);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("report.json"), serde_json::to_vec(&report).unwrap()).unwrap();
    }

    #[test]
    fn runs_are_listed_newest_first() {
        let state = tempfile::tempdir().unwrap();
        assert!(runs(state.path()).unwrap().is_empty());
        for (run, started_at) in [("b", 1000), ("a", 3000), ("c", 2000)] {
            keep(state.path(), run, started_at);
        }
        fs::create_dir(state.path().join("runs/unfinished")).unwrap();
        let runs = runs(state.path()).unwrap();
        let ids: Vec<_> = runs.iter().map(|line| line.run_id.as_str()).collect();
        assert_eq!(ids, ["a", "c", "b"]);
    }

    #[test]
    fn a_report_is_found_by_its_run_alone() {
        let state = tempfile::tempdir().unwrap();
        keep(state.path(), "R1", 1000);
        let find = |run: &str| report(state.path(), &run.into()).unwrap();
        assert_eq!(find("R1").unwrap().run_id.as_str(), "R1");
        for run in ["R2", "", "..", "../runs/R1", "R1/../R1"] {
            assert!(find(run).is_none(), "{run}");
        }
        fs::write(state.path().join("runs/R1/report.json"), "{}").unwrap();
        assert_eq!(report(state.path(), &"R1".into()).unwrap_err().kind, Kind::Version);
    }
}
