//! `--report FORMAT=PATH`: reports for other programs, written when the run is over.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::failure::{Failure, Kind};
use super::output;
use crate::report::format::{Format, render};
use crate::report::record::RunReport;

/// A report to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    format: Format,
    to: To,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    Stdout,
    File(PathBuf),
}

impl Target {
    /// `FORMAT=PATH`.
    ///
    /// # Errors
    /// A sentence for the usage error.
    pub(super) fn parse(text: impl AsRef<OsStr>) -> Result<Self, String> {
        let bytes = text.as_ref().as_bytes();
        let parts = bytes.iter().position(|&byte| byte == b'=').map(|at| bytes.split_at(at));
        let (format, path) =
            parts.ok_or("it has to have the form FORMAT=PATH, as in junit=run.xml")?;
        let to = match &path[1..] {
            b"" => return Err("it has no path after the `=`".to_owned()),
            b"-" => To::Stdout,
            path => To::File(PathBuf::from(OsStr::from_bytes(path))),
        };
        let format = String::from_utf8_lossy(format);
        let format = format.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { format, to })
    }

    /// Whether stdout is taken by this report.
    pub(super) fn is_stdout(&self) -> bool {
        self.to == To::Stdout
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, report: &RunReport) -> Result<(), Failure> {
        let text = render(report, self.format)
            .map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
        match &self.to {
            To::Stdout => Ok(output::print(text)?),
            To::File(path) => {
                fs::write(path, text).map_err(|error| Failure::file(path, "write", &error))
            }
        }
    }
}

/// Refuses before the run what would only fail after it, or do harm then: a folder that is not
/// there, one of the `sources` that the run comes from, one place for two reports.
///
/// # Errors
/// When the reports could not all be written.
pub(super) fn check(targets: &[Target], sources: &[PathBuf], json: bool) -> Result<(), Failure> {
    let sources: Vec<_> = sources.iter().map(|source| real(source)).collect();
    let mut taken = Vec::new();
    let mut stdout_is_taken = json;
    for target in targets {
        let To::File(path) = &target.to else {
            if std::mem::replace(&mut stdout_is_taken, true) {
                let other = if json { "--json" } else { "another report" };
                let message = format!("--report: `-` and {other} cannot both have stdout");
                return Err(Failure::usage(message).hint("write one of them to a file"));
            }
            continue;
        };
        check_folder(path)?;
        let shown = path.display();
        let real = real(path);
        if sources.contains(&real) {
            let message = format!("--report: `{shown}` is what the run is read from");
            return Err(Failure::usage(message).hint("the report would overwrite it"));
        }
        if taken.contains(&real) {
            return Err(Failure::usage(format!("--report: two reports to `{shown}`")));
        }
        taken.push(real);
    }
    Ok(())
}

fn check_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let message = format!("--report: there is no folder `{}`", folder.display());
        return Err(Failure::usage(message).hint("make it first"));
    }
    if path.is_dir() {
        return Err(Failure::usage(format!("--report: `{}` is a folder", path.display())));
    }
    Ok(())
}

/// The place that a path leads to, whether there is a file yet or not.
fn real(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
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
            ("junit=-", true),
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
            Target::parse(format!("markdown={}", path.display())).unwrap()
        };
        let refused = |targets: &[Target], json| {
            let source = folder.path().join("m.toml");
            check(targets, &[source], json).err().map(|failure| failure.exit_code())
        };
        fs::write(folder.path().join("m.toml"), "").unwrap();
        std::os::unix::fs::symlink("m.toml", folder.path().join("link")).unwrap();
        let stdout = || Target::parse("html=-").unwrap();
        for (targets, json, taken) in [
            (vec![target("gone/a.md")], false, false),
            (vec![target("")], false, false),
            (vec![target("m.toml")], false, false),
            (vec![target("link")], false, false),
            (vec![target("a.md"), target("./a.md")], false, false),
            (vec![target("a.md"), target("b.md"), stdout()], false, true),
            (vec![target("a.md")], true, true),
            (vec![stdout()], true, false),
            (vec![stdout(), stdout()], false, false),
        ] {
            assert_eq!(refused(&targets, json), (!taken).then_some(2), "{targets:?}");
        }
        let good = target("a.md");
        good.write(&ended_report(1)).unwrap();
        assert!(fs::read_to_string(folder.path().join("a.md")).unwrap().contains("R1"));
    }
}
