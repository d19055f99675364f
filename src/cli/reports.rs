//! `--report FORMAT=PATH`: reports for other programs, written when the run is over.

use std::fs;
use std::path::PathBuf;

use super::failure::{Failure, Kind};
use crate::report::format::{Format, render};
use crate::report::record::RunReport;

/// A report to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    format: Format,
    path: PathBuf,
}

impl Target {
    /// `FORMAT=PATH`.
    ///
    /// # Errors
    /// A sentence for the usage error.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (format, path) = text
            .split_once('=')
            .ok_or("it has to have the form FORMAT=PATH, as in junit=run.xml")?;
        if path.is_empty() {
            return Err("it has no path after the `=`".to_owned());
        }
        let format = format.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { format, path: PathBuf::from(path) })
    }

    /// Refuses before the run what would only fail after it: a folder that is not there.
    ///
    /// # Errors
    /// When the report could not be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let message = format!("--report: there is no folder `{}`", folder.display());
            return Err(Failure::usage(message).hint("make it first"));
        }
        if self.path.is_dir() {
            let message = format!("--report: `{}` is a folder", self.path.display());
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, report: &RunReport) -> Result<(), Failure> {
        let text = render(report, self.format)
            .map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
        fs::write(&self.path, text).map_err(|error| Failure::file(&self.path, "write", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::ended_report;
    use super::*;

    #[test]
    fn targets_are_read() {
        for (text, taken) in [
            ("json=a.json", true),
            ("junit=out/a=b.xml", true),
            ("yaml=a", false),
            ("json", false),
            ("json=", false),
        ] {
            assert_eq!(Target::parse(text).is_ok(), taken, "{text}");
        }
    }

    #[test]
    fn what_could_not_be_written_is_refused_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        let target = |path: &str| {
            let path = folder.path().join(path);
            Target::parse(&format!("markdown={}", path.display())).unwrap()
        };
        assert_eq!(target("gone/a.md").check().unwrap_err().exit_code(), 2);
        assert_eq!(target("").check().unwrap_err().exit_code(), 2);
        let good = target("a.md");
        good.check().unwrap();
        good.write(&ended_report(1)).unwrap();
        assert!(fs::read_to_string(folder.path().join("a.md")).unwrap().contains("R1"));
    }
}
