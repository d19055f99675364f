//! Is the text of a command whole? A scanner that knows plain commands and answers "certainly"
//! for those alone; everything else is for the shell's own parser to judge.
//!
//! The scanner errs on one side only: what it calls complete, bash parses to an end. Quotes it
//! follows; any word or sign that could open something longer (a reserved word, a substitution, a
//! here-document, a group, an assignment to an array) makes it give up.

use crate::domain::session::Shell;

/// Words that begin or continue a compound command, and `time`, `!` and such that want another.
const RESERVED: [&str; 23] = [
    "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do",
    "done", "in", "function", "time", "coproc", "{", "}", "!", "[[", "]]", "alias",
];

/// Words that begin or continue something longer in zsh or fish, and nowhere else.
fn further_words(shell: Shell) -> &'static [&'static str] {
    match shell {
        Shell::Bash | Shell::Sh => &[],
        Shell::Zsh => &["foreach", "end", "repeat", "always", "nocorrect"],
        Shell::Fish => &["begin", "end", "switch", "and", "or", "not"],
    }
}

/// True when `shell` would certainly parse `text` to its end. False says nothing.
pub fn certainly_complete_in(shell: Shell, text: &str) -> bool {
    let words = further_words(shell);
    let has_one = || {
        let mut parts = text.split(|sign: char| !sign.is_ascii_alphanumeric());
        parts.any(|part| words.contains(&part))
    };
    certainly_complete(text) && (words.is_empty() || !has_one())
}

/// True when bash would certainly parse `text` to its end. False says nothing.
pub fn certainly_complete(text: &str) -> bool {
    Scan { bytes: text.as_bytes(), at: 0 }.list()
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What ended a simple command.
enum Edge {
    /// The text is over, or a list goes on after `;`, `&` or a new line: nothing is owed.
    Closed,
    /// `|`, `&&`, `||`: another command has to follow.
    Owing,
}

impl Scan<'_> {
    fn list(&mut self) -> bool {
        let mut owing = false;
        loop {
            self.blanks();
            match self.peek() {
                None => return !owing,
                // A new line right after an operator is skipped, so what is owed stays owed.
                Some(b'\n') => {
                    self.at += 1;
                    continue;
                }
                Some(b'#') => {
                    self.comment();
                    continue;
                }
                Some(_) => {}
            }
            match self.simple() {
                Some(Edge::Closed) => owing = false,
                Some(Edge::Owing) => owing = true,
                None => return false,
            }
        }
    }

    /// One simple command and the sign that ends it. `None`: not a plain one.
    fn simple(&mut self) -> Option<Edge> {
        let mut words = 0_usize;
        loop {
            self.blanks();
            match self.peek() {
                None => return (words > 0).then_some(Edge::Closed),
                Some(b'#') => self.comment(),
                Some(b'\n' | b';') => {
                    let sign = self.peek();
                    self.at += 1;
                    if words == 0 || (sign == Some(b';') && self.peek() == Some(b';')) {
                        return None;
                    }
                    return Some(Edge::Closed);
                }
                Some(b'|') => {
                    self.at += 1;
                    if matches!(self.peek(), Some(b'|' | b'&')) {
                        self.at += 1;
                    }
                    return (words > 0).then_some(Edge::Owing);
                }
                Some(b'&') => {
                    self.at += 1;
                    let twice = self.peek() == Some(b'&');
                    self.at += usize::from(twice);
                    if words == 0 || self.peek() == Some(b'>') {
                        return None;
                    }
                    return Some(if twice { Edge::Owing } else { Edge::Closed });
                }
                Some(b'>') => self.redirection()?,
                Some(_) => {
                    self.word()?;
                    words += 1;
                }
            }
        }
    }

    /// `>word`, `>>word`, `>&word`. Input redirections are left to the shell: `<` may open a
    /// here-document.
    fn redirection(&mut self) -> Option<()> {
        self.at += 1;
        if matches!(self.peek(), Some(b'>' | b'&' | b'|')) {
            self.at += 1;
        }
        self.blanks();
        match self.peek() {
            None | Some(b'\n' | b';' | b'|' | b'&' | b'>' | b'#') => None,
            Some(_) => self.word(),
        }
    }

    fn word(&mut self) -> Option<()> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'>' => break,
                b'\'' => self.single_quoted()?,
                b'"' => self.double_quoted()?,
                b'\\' => {
                    self.at += 1;
                    // A backslash has to have something to quote; a continued line is given up.
                    if matches!(self.peek()?, b'\n') {
                        return None;
                    }
                    self.at += 1;
                }
                b'$' => {
                    self.at += 1;
                    if matches!(self.peek(), Some(b'(' | b'{' | b'[' | b'\'' | b'"')) {
                        return None;
                    }
                }
                // `name[` is read up to its `]`, over lines.
                b'[' if self.at > start => return None,
                b'(' | b')' | b'`' | b'<' | b'{' | b'}' | b'\r' | 0 => return None,
                _ => self.at += 1,
            }
        }
        let word = &self.bytes[start..self.at];
        (!RESERVED.iter().any(|reserved| reserved.as_bytes() == word)).then_some(())
    }

    fn single_quoted(&mut self) -> Option<()> {
        self.at += 1;
        let end = memchr::memchr(b'\'', &self.bytes[self.at..])?;
        self.at += end + 1;
        Some(())
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    self.at += 1;
                    self.peek()?;
                }
                b'`' => return None,
                b'$' if matches!(self.bytes.get(self.at + 1), Some(b'(' | b'{' | b'[')) => {
                    return None;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
        Some(())
    }

    fn comment(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
}

/// What the shell's own parser said of a text (`bash -n`), as far as its completeness goes.
/// `None`: whole, or wrong in a way that running it will tell.
pub fn incomplete_in(parser_says: &str) -> Option<String> {
    parser_says
        .lines()
        .find(|line| {
            line.contains("unexpected EOF")
                || line.contains("unexpected end of file")
                || (line.contains("here-document") && line.contains("delimited by end-of-file"))
        })
        .map(|line| line.split_once(": ").map_or(line, |(_, words)| words).to_owned())
}

/// True when the text ends in an odd run of backslashes: whether the last one is live only the
/// parser can tell (`# a comment \` is whole).
pub fn ends_in_backslash(text: &str) -> bool {
    let run = text.bytes().rev().take_while(|&byte| byte == b'\\').count();
    run % 2 == 1
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "asks the real bash what it calls unfinished")]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn bash_says(text: &str) -> String {
        let mut child = Command::new("bash")
            .arg("-n")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A text in which bash finds a fault is not read to its end.
        drop(child.stdin.take().unwrap().write_all(text.as_bytes()));
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned()
    }

    #[test]
    fn plain_commands_need_no_parser() {
        for text in [
            "true",
            "echo hi; echo $HOME",
            "git --version # which version",
            "a | b && c || d &",
            "echo 'a\nb' \"c $d \\\" e\"",
            "make -j2 > log 2>&1",
            "echo 他说 ✅",
            "",
            "# nothing\n",
            "false\n\ntrue\n",
            "A=1 b c=d",
            "cargo test --lib -- a::b",
        ] {
            assert!(certainly_complete(text), "{text}");
        }
    }

    #[test]
    fn whatever_may_be_open_is_left_to_the_parser() {
        for text in [
            "echo \"unclosed",
            "echo 'x",
            "echo a\\",
            "cat <<EOF\nno end",
            "if true; then",
            "a &&",
            "a |\n",
            "echo $(",
            "f() {",
            "{ a",
            "a=(",
            "[[ a",
            "! ",
            "time",
            "echo a\\\n",
            "echo `",
            "echo \"$(",
            "a=b; case",
        ] {
            assert!(!certainly_complete(text), "{text}");
        }
    }

    #[test]
    fn other_shells_have_words_of_their_own() {
        assert!(certainly_complete_in(Shell::Fish, "echo a; git commit --amend"));
        assert!(!certainly_complete_in(Shell::Fish, "begin; echo a"));
        assert!(!certainly_complete_in(Shell::Zsh, "repeat 3"));
        assert!(certainly_complete_in(Shell::Bash, "begin; echo a"));
    }

    #[test]
    fn the_words_of_the_parser() {
        for (text, incomplete) in [
            ("echo \"x", true),
            ("cat <<EOF\nfoo", true),
            ("if true; then", true),
            ("a &&", true),
            ("echo $(", true),
            ("echo )", false),
            ("fi", false),
            ("echo a", false),
        ] {
            assert_eq!(incomplete_in(&bash_says(text)).is_some(), incomplete, "{text}");
        }
        assert!(ends_in_backslash("a\\") && !ends_in_backslash("a\\\\"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn never_calls_complete_what_bash_calls_unfinished(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a", "echo", " ", " ", "\n", ";", "&", "|", "&&", "||", "'", "\"", "\\", "$", "(",
                    ")", "{", "}", "<", "<<E", "\nE\n", ">", "#", "if", "then", "fi", "case", "x=1",
                    "!", "[[", "`", "for", "do", "done", "time", "é", "$x", "''", "[", "]", "a[", "+=", "~", "*", "\"a b\"", ">f", "2>&1", "in", "-p", "--",
                ]),
                0..12,
            )
        ) {
            let text = parts.concat();
            if certainly_complete(&text) {
                let says = bash_says(&text);
                prop_assert!(incomplete_in(&says).is_none(), "{text:?}: {says}");
                prop_assert!(!ends_in_backslash(&text) || text.contains('#'), "{text:?}");
            }
        }
    }
}
