//! A script as the list of programs that it would start.

use std::ops::Range;
use std::sync::LazyLock;

use brush_parser::ast::{
    AndOr, AndOrList, Assignment, AssignmentName, AssignmentValue, Command,
    CommandPrefixOrSuffixItem, CompoundCommand, CompoundList, ExtendedTestExpr,
    IoFileRedirectTarget, IoRedirect, Pipeline, RedirectList, SeparatorOperator, SimpleCommand,
};
use brush_parser::{Parser, ParserOptions};

use super::invocation::{Invocation, Word};
use super::words::{read, read_plain};

/// How scripts are read.
pub(super) static OPTIONS: LazyLock<ParserOptions> = LazyLock::new(ParserOptions::default);

/// Scripts inside of scripts are followed so far.
pub(super) const DEPTH_MAX: usize = 12;
/// A longer script is not read.
const BYTES_MAX: usize = 256 * 1024;
/// A script with more that may be nested is not read: the parser recurses.
const OPENERS_MAX: usize = 2_000;
/// What is short and flat is read in no time. The parser tries both ways at some brackets, so its
/// time may double with each: with this many it takes a millisecond at the worst.
const QUICK_BYTES_MAX: usize = 16 * 1024;
const QUICK_OPENERS_MAX: usize = 10;
/// More programs than this are not looked at.
const INVOCATIONS_MAX: usize = 20_000;

/// Variables whose values a shell runs as scripts.
const RUN_VARIABLES: &[&str] = &[
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "BASH_ENV",
    "ENV",
    "LESSOPEN",
    "GIT_EDITOR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "GIT_PAGER",
    "GIT_SSH_COMMAND",
];

/// What a script would do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// The programs that it would start, as far as they can be seen.
    pub(super) invocations: Vec<Invocation>,
    /// What cannot be seen, and why.
    pub(super) hidden: Vec<String>,
    /// Which of them run in a shell of their own: what they change of its folder ends with it.
    pub(super) scoped: Vec<Range<usize>>,
    /// Which of them nobody waits for, or are only defined: how they end, the script does not tell.
    pub(super) untold: Vec<Range<usize>>,
}

/// True when reading the script is certain to take little time and stack. Of others neither is
/// known: whoever judges them does it where it may fail.
pub fn is_quickly_read(text: &str) -> bool {
    text.len() <= QUICK_BYTES_MAX && openers(text) <= QUICK_OPENERS_MAX
}

/// Reads a script.
pub(super) fn contents(text: &str) -> Contents {
    let mut walk = Walk::default();
    walk.script(text, 0);
    walk.found
}

#[derive(Default)]
pub(super) struct Walk {
    pub(super) found: Contents,
    pub(super) depth: usize,
    /// The script that is being read, as its parser counts it.
    text: Vec<char>,
}

/// Where a command's standard input comes from, as far as it matters to a shell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// From where the script's own does.
    Inherited,
    /// From a pipe, a file or text of the script.
    Given,
}

impl Walk {
    pub(super) fn hide(&mut self, why: impl Into<String>) {
        self.found.hidden.push(why.into());
    }

    pub(super) fn script(&mut self, text: &str, depth: usize) {
        if text.trim().is_empty() {
            return;
        }
        if text.len() > BYTES_MAX {
            return self.hide(format!("the script is longer than {} KiB", BYTES_MAX / 1024));
        }
        if depth > DEPTH_MAX || openers(text) > OPENERS_MAX {
            return self.hide("it is nested too deeply, or has too much in it that may be");
        }
        let mut parser = Parser::new(text.as_bytes(), &OPTIONS);
        match parser.parse_program() {
            Ok(program) => {
                let before = std::mem::replace(&mut self.depth, depth);
                let outer = std::mem::replace(&mut self.text, text.chars().collect());
                for list in &program.complete_commands {
                    self.list(list);
                }
                self.text = outer;
                self.depth = before;
            }
            Err(error) => self.hide(format!("it cannot be read: {error}")),
        }
    }

    fn inside(&mut self, text: &str) {
        let start = self.found.invocations.len();
        self.script(text, self.depth + 1);
        self.scope_from(start);
    }

    pub(super) fn scope_from(&mut self, start: usize) {
        let end = self.found.invocations.len();
        if end > start {
            self.found.scoped.push(start..end);
        }
    }

    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            let start = self.found.invocations.len();
            self.and_or(&item.0);
            if matches!(item.1, SeparatorOperator::Async) {
                self.found.untold.push(start..self.found.invocations.len());
                self.scope_from(start);
            }
        }
    }

    fn and_or(&mut self, list: &AndOrList) {
        self.pipeline(&list.first);
        for AndOr::And(pipeline) | AndOr::Or(pipeline) in &list.additional {
            self.pipeline(pipeline);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for (at, command) in pipeline.seq.iter().enumerate() {
            let feed = if at == 0 { Feed::Inherited } else { Feed::Given };
            let start = self.found.invocations.len();
            self.command(command, feed);
            if pipeline.seq.len() > 1 {
                self.scope_from(start);
            }
        }
    }

    fn command(&mut self, command: &Command, feed: Feed) {
        if self.found.invocations.len() > INVOCATIONS_MAX {
            return;
        }
        match command {
            Command::Simple(simple) => self.simple(simple, feed),
            Command::Compound(compound, redirects) => {
                self.redirects(redirects.as_ref());
                self.compound(compound);
            }
            Command::Function(function) => {
                let start = self.found.invocations.len();
                self.redirects(function.body.1.as_ref());
                self.compound(&function.body.0);
                self.found.untold.push(start..self.found.invocations.len());
                self.scope_from(start);
            }
            Command::ExtendedTest(test, redirects) => {
                self.redirects(redirects.as_ref());
                self.test(&test.expr);
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => {
                let (start, end) = (arithmetic.loc.start.index, arithmetic.loc.end.index);
                if self.is_arithmetic(start, end) {
                    self.plain(&arithmetic.expr.value);
                } else {
                    self.inside(&arithmetic.expr.value);
                    self.hide("it may be read in two ways: write `((` and `))` without blanks");
                }
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                let parts = [&clause.initializer, &clause.condition, &clause.updater];
                for part in parts.into_iter().flatten() {
                    self.plain(&part.value);
                }
                self.list(&clause.body.list);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => {
                let start = self.found.invocations.len();
                self.list(&subshell.list);
                self.scope_from(start);
            }
            CompoundCommand::ForClause(clause) => {
                for value in clause.values.iter().flatten() {
                    self.word(&value.value);
                }
                self.list(&clause.body.list);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value.value);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(&pattern.value);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list);
                    }
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for branch in clause.elses.iter().flatten() {
                    if let Some(condition) = &branch.condition {
                        self.list(condition);
                    }
                    self.list(&branch.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.command(&coprocess.body, Feed::Inherited);
            }
        }
    }

    /// The parser takes `( (a) )` for `((a))`, which to a shell are a subshell in a subshell and an
    /// arithmetic expression.
    fn is_arithmetic(&self, start: usize, end: usize) -> bool {
        let there = |from: usize, to: usize| self.text.get(from..to);
        there(start, start + 2) == Some(&['(', '('])
            && there(end.saturating_sub(2), end) == Some(&[')', ')'])
    }

    fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left);
                self.test(right);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner);
            }
            ExtendedTestExpr::UnaryTest(_, word) => {
                self.word(&word.value);
            }
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.word(&left.value);
                self.word(&right.value);
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand, feed: Feed) {
        let mut words = Vec::new();
        let mut feeds = Feeds { feed, texts: Vec::new() };
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in prefix {
            self.item(item, &mut words, &mut feeds, true);
        }
        if let Some(word) = &simple.word_or_name {
            let word = self.word(&word.value);
            words.push(word);
        }
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        for item in suffix {
            self.item(item, &mut words, &mut feeds, false);
        }
        if !words.is_empty() {
            self.invocation(words, &feeds);
        }
    }

    fn item(
        &mut self,
        item: &CommandPrefixOrSuffixItem,
        words: &mut Vec<Word>,
        feeds: &mut Feeds,
        is_prefix: bool,
    ) {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, feeds),
            CommandPrefixOrSuffixItem::Word(word) => words.push(self.word(&word.value)),
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                self.assignment(assignment);
                if !is_prefix {
                    words.push(self.word(&word.value));
                }
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list);
                words.push(Word::Unknown);
            }
        }
    }

    fn assignment(&mut self, assignment: &Assignment) {
        let name = match &assignment.name {
            AssignmentName::VariableName(name) => name,
            AssignmentName::ArrayElementName(name, index) => {
                self.plain(index);
                name
            }
        };
        let runs = RUN_VARIABLES.contains(&name.as_str());
        let values: Vec<&str> = match &assignment.value {
            AssignmentValue::Scalar(word) => vec![&word.value],
            AssignmentValue::Array(elements) => {
                elements.iter().map(|(_, word)| word.value.as_str()).collect()
            }
        };
        for value in values {
            match self.word(value) {
                Word::Known(text) if runs && name.starts_with("PS") => self.plain(&text),
                Word::Known(text) if runs => self.inside(&text),
                Word::Unknown if runs => {
                    self.hide(format!("`{name}` is run as a script, and its value is not known"));
                }
                Word::Known(_) | Word::Unknown => {}
            }
        }
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) {
        let mut feeds = Feeds { feed: Feed::Inherited, texts: Vec::new() };
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut feeds);
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect, feeds: &mut Feeds) {
        match redirect {
            IoRedirect::File(fd, _, target) => {
                match target {
                    IoFileRedirectTarget::Filename(word)
                    | IoFileRedirectTarget::Duplicate(word) => {
                        self.word(&word.value);
                    }
                    IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                        self.list(&subshell.list);
                    }
                    IoFileRedirectTarget::Fd(_) => {}
                }
                let is_input = matches!(
                    redirect,
                    IoRedirect::File(
                        _,
                        brush_parser::ast::IoFileRedirectKind::Read
                            | brush_parser::ast::IoFileRedirectKind::ReadAndWrite
                            | brush_parser::ast::IoFileRedirectKind::DuplicateInput,
                        _
                    )
                );
                if is_input && fd.is_none_or(|fd| fd == 0) {
                    feeds.feed = Feed::Given;
                }
            }
            IoRedirect::HereDocument(_, document) => {
                let text = if document.requires_expansion {
                    let reading = read_plain(&document.doc.value);
                    self.nested(reading.scripts, reading.obscure);
                    reading.word
                } else {
                    Word::Known(document.doc.value.clone())
                };
                feeds.texts.push(text);
            }
            IoRedirect::HereString(_, word) => {
                let text = self.word(&word.value);
                feeds.texts.push(text);
            }
            IoRedirect::OutputAndError(word, _) => {
                self.word(&word.value);
            }
        }
    }

    fn word(&mut self, raw: &str) -> Word {
        let reading = read(raw);
        self.nested(reading.scripts, reading.obscure);
        reading.word
    }

    fn plain(&mut self, raw: &str) {
        if raw.contains(['$', '`']) {
            let reading = read_plain(raw);
            self.nested(reading.scripts, reading.obscure);
        }
    }

    fn nested(&mut self, scripts: Vec<String>, obscure: bool) {
        if obscure {
            self.hide("a word of it cannot be read");
        }
        for script in scripts {
            self.inside(&script);
        }
    }
}

/// What a command reads.
pub(super) struct Feeds {
    pub(super) feed: Feed,
    /// Here-documents and here-strings.
    pub(super) texts: Vec<Word>,
}

/// What may begin a bracket, a substitution or a compound command. However the text is quoted,
/// nothing in it is nested deeper than this.
fn openers(text: &str) -> usize {
    let brackets =
        text.bytes().filter(|byte| matches!(byte, b'(' | b'{' | b'[' | b'!' | b'`' | b'?')).count();
    let words = text.split(|character: char| !character.is_ascii_alphabetic());
    let keywords =
        ["if", "elif", "while", "until", "for", "case", "select", "coproc", "time", "function"];
    brackets + words.filter(|word| keywords.contains(word)).count()
}
