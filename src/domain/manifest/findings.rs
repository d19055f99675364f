//! Problems while they are being collected, and as they are told.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::source::Text;
use super::words::{Speller, shown};

/// As many problems of one file are told; a last one says how many more there are.
const PROBLEMS_MAX: usize = 1000;

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The file's name, as it was given.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What stands there, shortened.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// How a finding stands to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Not TOML.
    Syntax,
    /// TOML, and wrong by itself.
    Plain,
    /// Something is not there. Left unsaid where the file is no TOML, since it may just be what
    /// the parser lost.
    Absence,
}

struct Finding {
    span: Range<usize>,
    standing: Standing,
    message: String,
    hint: Option<String>,
}

/// What was found in one file so far.
pub(super) struct Findings<'t> {
    /// The file.
    pub(super) text: &'t Text<'t>,
    /// For suggestions.
    pub(super) speller: Speller,
    list: Vec<Finding>,
    /// Values that something was said about already, by where they begin.
    spoiled: HashSet<usize>,
}

impl<'t> Findings<'t> {
    pub(super) fn of(text: &'t Text<'t>) -> Self {
        Self { text, speller: Speller::default(), list: Vec::new(), spoiled: HashSet::new() }
    }

    /// Something is wrong with what stands at `span`.
    pub(super) fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.wrong_hinted(span, message, None);
    }

    /// Likewise, with what to do about it.
    pub(super) fn wrong_hinted(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        self.push(Standing::Plain, span, message.into(), hint.into());
    }

    /// Something that should be at `span`, or that what stands there names, is nowhere.
    pub(super) fn absent(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        self.push(Standing::Absence, span, message.into(), hint.into());
    }

    /// The file is not TOML at `span`.
    pub(super) fn not_toml(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.push(Standing::Syntax, span, message.into(), None);
    }

    /// `word` is none of `candidates`: the hint for it.
    pub(super) fn did_you_mean<'c>(
        &mut self,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<String> {
        let near = self.speller.near(word, candidates)?;
        Some(format!("did you mean `{}`?", shown(near)))
    }

    /// Nothing more is said about the value that begins at `offset`.
    pub(super) fn spoil(&mut self, offset: usize) {
        self.spoiled.insert(offset);
    }

    /// True when the file is not TOML: what it lacks proves nothing.
    pub(super) fn has_syntax_errors(&self) -> bool {
        self.list.iter().any(|finding| finding.standing == Standing::Syntax)
    }

    fn push(
        &mut self,
        standing: Standing,
        span: Range<usize>,
        message: String,
        hint: Option<String>,
    ) {
        if !self.spoiled.contains(&span.start) {
            self.list.push(Finding { span, standing, message, hint });
        }
    }

    /// In the order of the file, each once, with positions.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        self.drop_consequences();
        self.list.sort_by(|a, b| {
            (a.span.start, a.standing, &a.message).cmp(&(b.span.start, b.standing, &b.message))
        });
        self.list.dedup_by(|a, b| a.span.start == b.span.start && a.message == b.message);
        let mut problems = Vec::new();
        let mut cursor = Cursor::default();
        for (count, finding) in self.list.iter().enumerate() {
            let (line, column) = cursor.advance(self.text, finding.span.start);
            let mut problem = Problem {
                file: self.text.name().to_owned(),
                line,
                column,
                text: self.text.excerpt(&finding.span),
                message: finding.message.clone(),
                hint: finding.hint.clone(),
            };
            if count == PROBLEMS_MAX {
                problem.message = format!("{} more problems from here on", self.list.len() - count);
                problem.hint = None;
                problems.push(problem);
                break;
            }
            problems.push(problem);
        }
        problems
    }

    /// One thing is said of a line that is no TOML; in such a file, nothing of what is missing.
    fn drop_consequences(&mut self) {
        let mut broken_lines = BTreeSet::new();
        let text = self.text;
        self.list.sort_by_key(|finding| (finding.standing, finding.span.start));
        self.list.retain(|finding| match finding.standing {
            Standing::Syntax => broken_lines.insert(text.line(finding.span.start)),
            Standing::Plain => !broken_lines.contains(&text.line(finding.span.start)),
            Standing::Absence => broken_lines.is_empty(),
        });
    }
}

/// Columns of ascending offsets, each character counted once.
#[derive(Default)]
struct Cursor {
    line: usize,
    offset: usize,
    column: usize,
}

impl Cursor {
    fn advance(&mut self, text: &Text<'_>, offset: usize) -> (usize, usize) {
        let offset = text.content().floor_char_boundary(offset);
        let line = text.line(offset);
        if line != self.line {
            *self = Self { line, offset: text.line_start(offset), column: 1 };
        }
        self.column += text.content()[self.offset..offset].chars().count();
        self.offset = offset;
        (line, self.column)
    }
}
