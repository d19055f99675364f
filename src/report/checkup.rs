//! What `doctor` finds: the machine and a workspace, looked at thing by thing.

use serde::Serialize;

use crate::domain::result::SCHEMA_VERSION;

mod machine;

pub use machine::judge;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Something works less well than it could, or room is wasted.
    Warning,
    /// Something does not work.
    Problem,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, which stays.
    pub id: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What it is for, and what is done without it.
    pub means: String,
    /// What to do; `None` where nothing has to be done.
    pub todo: Option<String>,
    /// True when `--fix` would do it.
    pub fixable: bool,
    /// What `--fix` has done, each in words.
    pub fixed: Vec<String>,
}

impl Finding {
    /// All is well with it.
    pub fn ok(id: &'static str, found: impl Into<String>, means: &str) -> Self {
        Self::new(id, Level::Ok, found, means)
    }

    /// Something to be known.
    pub fn new(id: &'static str, level: Level, found: impl Into<String>, means: &str) -> Self {
        let (found, means) = (found.into(), means.to_owned());
        Self { id, level, found, means, todo: None, fixable: false, fixed: Vec::new() }
    }

    /// Says what to do.
    #[must_use]
    pub fn todo(self, todo: impl Into<String>) -> Self {
        Self { todo: Some(todo.into()), ..self }
    }

    /// `--fix` does it.
    #[must_use]
    pub fn fixable(self) -> Self {
        Self { fixable: true, ..self }
    }
}

/// Everything that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checkup {
    /// Version of this document.
    pub schema_version: u32,
    /// The workspace's root; `None` where there is no workspace.
    pub workspace: Option<String>,
    /// The worst of all levels.
    pub level: Level,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Checkup {
    /// Of these findings.
    pub fn of(workspace: Option<String>, findings: Vec<Finding>) -> Self {
        let level = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        Self { schema_version: SCHEMA_VERSION, workspace, level, findings }
    }

    /// How many findings are of a level.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// The check-up in words: a line a finding, and what to do below those that matter.
    pub fn words(&self) -> String {
        let mut lines = Vec::new();
        for finding in &self.findings {
            lines.push(format!("{:<8} {}: {}", finding.level.as_str(), finding.id, finding.found));
            if finding.level != Level::Ok {
                lines.push(format!("         {}", finding.means));
            }
            lines.extend(finding.fixed.iter().map(|done| format!("         done: {done}")));
            if let Some(todo) = &finding.todo {
                lines.push(format!("         do: {todo}"));
            }
            if finding.fixable && finding.fixed.is_empty() {
                lines.push("         `callboard doctor --fix` does it".to_owned());
            }
        }
        let counts = [Level::Problem, Level::Warning, Level::Note, Level::Ok]
            .map(|level| format!("{} {}", self.count(level), level.as_str()));
        lines.push(String::new());
        lines.push(counts.join(", "));
        lines.join("\n") + "\n"
    }
}
