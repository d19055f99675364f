//! The workspace's root as a manifest names it, before and beside the check: the agents may lie in
//! it, and only the disk knows whether it is there.

use std::ops::Range;
use std::path::Path;

use toml::de::DeTable;

use super::failure::{Failure, Problem};

/// `[workspace] root` of a manifest that has not been checked yet. What is wrong with the rest of
/// the file is for the check to say.
pub(super) struct OwnRoot {
    /// The folder, as it is written.
    pub(super) folder: String,
    line: usize,
    column: usize,
    text: String,
}

impl OwnRoot {
    /// Reads it; `None` where the manifest names none, or is too broken to tell.
    pub(super) fn read(manifest: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(manifest).ok()?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        memchr::memmem::find(manifest, b"root")?;
        let tree = DeTable::parse(text).ok()?;
        let workspace = tree.get_ref().get("workspace")?.get_ref().as_table()?;
        let root = workspace.get("root")?;
        let folder = root.get_ref().as_str()?.to_owned();
        let Range { start, end } = root.span();
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Some(Self {
            folder,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            text: text[start..end].to_owned(),
        })
    }

    /// Adds to what the check found, in the order of lines, that there is no such folder.
    /// `manifest` is the file's name, and `root` what `folder` leads to.
    pub(super) fn check(&self, root: &Path, manifest: &str, problems: &mut Vec<Problem>) {
        // A variable that is not filled in yet says nothing of the folder.
        if root.is_dir() || self.folder.is_empty() || self.folder.contains("${{") {
            return;
        }
        let what = if root.exists() { "is not a folder" } else { "does not exist" };
        let message = format!("the root `{}` {what}", root.display());
        let place = (self.line, self.column);
        let is_before =
            |problem: &Problem| problem.file == manifest && (problem.line, problem.column) < place;
        let at = problems.iter().take_while(|problem| is_before(problem)).count();
        problems.insert(
            at,
            Problem {
                file: manifest.to_owned(),
                line: self.line,
                column: self.column,
                text: self.text.clone(),
                message,
                hint: Some("it is relative to the manifest's folder; make it first".to_owned()),
            },
        );
    }
}

/// Adds to a failure that the root which was told is not there either.
pub(super) fn told_too(failure: Failure, root: &Path) -> Failure {
    if root.is_dir() {
        return failure;
    }
    failure.hint(format!("--workspace: there is no folder `{}` either", root.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_with_its_place() {
        let at = |manifest: &str| {
            OwnRoot::read(manifest.as_bytes()).map(|root| (root.folder, root.line, root.column))
        };
        let found = |line, column| Some(("gone".to_owned(), line, column));
        assert_eq!(at("[workspace]\nid = \"é\"\r\n  root = \"gone\"\n"), found(3, 10));
        assert_eq!(at("\u{feff}workspace = { id = \"é\", root = 'gone' }"), found(1, 32));
        for none in ["", "root = \"x\"", "[workspace]\nroot = 1", "[workspace]\nroot = "] {
            assert_eq!(at(none), None, "{none}");
        }
    }
}
