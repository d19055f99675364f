//! Just enough of Rust's grammar to read a file's imports: tokens, paths, `use` trees, test modules.
//!
//! Comments, strings and character literals are dropped; macros are read as plain tokens. That is
//! well enough for the floor plan: a path that is hidden from this reader would have to be made by
//! a macro, and a reviewer sees those.

use std::ops::Range;

/// A word or a mark, and the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A path as it is written, `use` trees taken apart: `crate::domain::ids`, `super::x`, `std::fs::File`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// How many inline modules of its file it is in.
    pub(crate) inline_depth: usize,
}

/// One file, read.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Self { tokens: tokens(text) }
    }

    /// Every path of two or more segments.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let depths = self.inline_depths();
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let depth = depths[at];
            if self.is(at, "use") {
                at = self.use_tree(at + 1, &mut Vec::new(), depth, &mut paths);
            } else if is_word(self.text(at)) && self.is(at + 1, "::") {
                at = self.plain_path(at, depth, &mut paths);
            } else {
                at += 1;
            }
        }
        paths
    }

    /// The token ranges of `#[cfg(test)] mod name { … }`, attribute included, and the names of
    /// `#[cfg(test)] mod name;`.
    pub(crate) fn test_modules(&self) -> (Vec<Range<usize>>, Vec<String>) {
        let (mut inline, mut files) = (Vec::new(), Vec::new());
        for start in 0..self.tokens.len() {
            if !self.sequence(start, &["#", "[", "cfg", "(", "test", ")", "]"]) {
                continue;
            }
            let mut at = start + 7;
            while self.sequence(at, &["#", "["]) {
                at = self.closing(at + 1) + 1;
            }
            if self.is(at, "pub") {
                at += 1;
                if self.is(at, "(") {
                    at = self.closing(at) + 1;
                }
            }
            match (self.is(at, "mod"), self.text(at + 2)) {
                (true, "{") => inline.push(start..self.closing(at + 2) + 1),
                (true, ";") => files.push(self.text(at + 1).to_owned()),
                _ => {}
            }
        }
        (inline, files)
    }

    /// The index of the bracket that closes the one at `open`; the last token when none does.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..self.tokens.len() {
            match self.text(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len() - 1
    }

    pub(crate) fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    pub(crate) fn is(&self, at: usize, text: &str) -> bool {
        self.text(at) == text
    }

    pub(crate) fn sequence(&self, at: usize, texts: &[&str]) -> bool {
        texts.iter().enumerate().all(|(n, text)| self.is(at + n, text))
    }

    /// For each token, how many inline modules enclose it.
    fn inline_depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.tokens.len()];
        for at in 0..self.tokens.len() {
            if self.is(at, "mod") && is_word(self.text(at + 1)) && self.is(at + 2, "{") {
                for depth in &mut depths[at + 2..=self.closing(at + 2)] {
                    *depth += 1;
                }
            }
        }
        depths
    }

    fn plain_path(&self, start: usize, inline_depth: usize, paths: &mut Vec<Path>) -> usize {
        let mut segments = vec![self.text(start).to_owned()];
        let mut at = start + 1;
        while self.is(at, "::") && is_word(self.text(at + 1)) {
            segments.push(self.text(at + 1).to_owned());
            at += 2;
        }
        if segments.len() > 1 {
            paths.push(Path { segments, line: self.tokens[start].line, inline_depth });
        }
        at
    }

    /// Takes a `use` tree apart from `at` on; returns the index behind it.
    fn use_tree(
        &self,
        mut at: usize,
        prefix: &mut Vec<String>,
        inline_depth: usize,
        paths: &mut Vec<Path>,
    ) -> usize {
        let (kept, line) = (prefix.len(), self.tokens.get(at).map_or(0, |token| token.line));
        let mut grouped = false;
        loop {
            match self.text(at) {
                "::" => at += 1,
                "{" => {
                    grouped = true;
                    at += 1;
                    while at < self.tokens.len() && !self.is(at, "}") {
                        let behind = self.use_tree(at, prefix, inline_depth, paths);
                        // A comma, and what is no `use` tree after all, is stepped over.
                        at = behind + usize::from(behind == at || self.is(behind, ","));
                    }
                    at += 1;
                }
                "as" => at += 2,
                word if is_word(word) || word == "*" => {
                    if word != "self" || prefix.is_empty() {
                        prefix.push(word.to_owned());
                    }
                    at += 1;
                }
                _ => break,
            }
        }
        if !grouped && !prefix.is_empty() {
            paths.push(Path { segments: prefix.clone(), line, inline_depth });
        }
        prefix.truncate(kept);
        at
    }
}

fn is_word(text: &str) -> bool {
    text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
}

fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let start = at;
        let kept = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => {
                at = find(&chars, at, '\n');
                false
            }
            '/' if chars.get(at + 1) == Some(&'*') => {
                at = behind_block_comment(&chars, at);
                false
            }
            '"' => {
                at = behind_string(&chars, at);
                false
            }
            '\'' => {
                at = behind_quote(&chars, at);
                false
            }
            first if first.is_alphanumeric() || first == '_' => {
                while chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                    at += 1;
                }
                match behind_prefixed_literal(&chars, start, at) {
                    Some(end) => {
                        at = end;
                        false
                    }
                    None => true,
                }
            }
            ':' if chars.get(at + 1) == Some(&':') => {
                at += 2;
                true
            }
            other => {
                at += 1;
                !other.is_whitespace()
            }
        };
        if kept {
            tokens.push(Token { text: chars[start..at].iter().collect(), line });
        }
        line += chars[start..at].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

fn find(chars: &[char], from: usize, wanted: char) -> usize {
    chars[from..].iter().position(|c| *c == wanted).map_or(chars.len(), |n| from + n)
}

fn behind_block_comment(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Behind the string whose opening quote is at `start`.
fn behind_string(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// Behind a character literal, or behind the quote alone where it begins a lifetime.
fn behind_quote(chars: &[char], start: usize) -> usize {
    match (chars.get(start + 1), chars.get(start + 2)) {
        (Some('\\'), _) => (find(chars, start + 3, '\'') + 1).min(chars.len()),
        (Some(_), Some('\'')) => start + 3,
        _ => start + 1,
    }
}

/// Behind `r"…"`, `r#"…"#`, `b"…"`, `c"…"`, `b'…'` and their kin, where the word from `start` to
/// `end` is such a prefix.
fn behind_prefixed_literal(chars: &[char], start: usize, end: usize) -> Option<usize> {
    let prefix: String = chars[start..end].iter().collect();
    match (prefix.as_str(), chars.get(end)?) {
        ("b" | "c", '"') => Some(behind_string(chars, end)),
        ("b", '\'') => Some(behind_quote(chars, end)),
        ("r" | "br" | "cr", '"' | '#') => {
            let hashes = chars[end..].iter().take_while(|c| **c == '#').count();
            if chars.get(end + hashes) != Some(&'"') {
                return None;
            }
            let mut at = end + hashes + 1;
            while at < chars.len() {
                let closes = chars[at] == '"'
                    && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
                if closes {
                    return Some(at + 1 + hashes);
                }
                at += 1;
            }
            Some(chars.len())
        }
        _ => None,
    }
}

fn written(text: &str) -> Vec<String> {
    Source::new(text).paths().into_iter().map(|path| path.segments.join("::")).collect()
}

#[test]
fn paths_are_read_wherever_they_stand() {
    let table: &[(&str, &[&str])] = &[
        ("use crate::board::Key;", &["crate::board::Key"]),
        (
            "pub use crate::{a::{self, B}, c as d, e::*};",
            &["crate::a", "crate::a::B", "crate::c", "crate::e::*"],
        ),
        ("use {std::fs, crate::b};", &["std::fs", "crate::b"]),
        ("use ::std::fs;", &["std::fs"]),
        (
            "fn f(x: &crate::board::Key) -> super::super::Y { crate::c::d(x) }",
            &["crate::board::Key", "super::super::Y", "crate::c::d"],
        ),
        ("let x = Vec::<crate::a::B>::new();", &["crate::a::B"]),
        ("use self::super::x;", &["self::super::x"]),
        (
            "// use crate::a::b;\n/* crate::c::d /* crate::e::f */ */ use crate::g::h;",
            &["crate::g::h"],
        ),
        (
            r##"let s = "crate::a::b"; let t = r#"crate::"c"::d"#; let u = b"crate::e::f"; crate::g::h"##,
            &["crate::g::h"],
        ),
        (
            "let q = '\"'; crate::a::b; let r = '\\''; let l: &'a str = x; crate::c::d",
            &["crate::a::b", "crate::c::d"],
        ),
        ("r#type::x; let s = \"a\\\"crate::b::c\";", &["type::x"]),
    ];
    for (text, wanted) in table {
        assert_eq!(written(text), *wanted, "{text}");
    }
}

#[test]
fn lines_and_inline_modules_are_counted() {
    let source = Source::new(
        "use a::b;\nmod m {\n  \"\n\";\n  use c::d;\n  mod n { use e::f; }\n}\nuse g::h;",
    );
    let seen: Vec<(usize, usize)> =
        source.paths().iter().map(|path| (path.line, path.inline_depth)).collect();
    assert_eq!(seen, [(1, 0), (5, 1), (6, 2), (8, 0)]);
}

#[test]
fn test_modules_are_told_from_others() {
    let source = Source::new(
        "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\n#[expect(x)]\npub(crate) mod c {\n fn f() {}\n}\nfn g() {}\n#[cfg(test)]\nfn h() {}",
    );
    let (inline, files) = source.test_modules();
    assert_eq!(files, ["b"]);
    let lines: Vec<(usize, usize)> = inline
        .iter()
        .map(|range| (source.tokens[range.start].line, source.tokens[range.end - 1].line))
        .collect();
    assert_eq!(lines, [(4, 8)]);
}
