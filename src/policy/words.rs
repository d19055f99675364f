//! One word of a script: what it will be, if that can be known, and the scripts inside it.

use brush_parser::word::{WordPiece, WordPieceWithSource, parse, parse_heredoc};

use super::invocation::Word;
use super::script::OPTIONS;

/// What a word holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) word: Word,
    /// The texts of its command substitutions.
    pub(super) scripts: Vec<String>,
    /// The parser does not understand it.
    pub(super) obscure: bool,
}

/// Reads a word as it stands in a command.
pub(super) fn read(raw: &str) -> Reading {
    let mut reader = Reader::default();
    match parse(raw, &OPTIONS) {
        Ok(pieces) => reader.pieces(raw, &pieces, false),
        Err(_) => reader.obscure = true,
    }
    reader.finish()
}

/// Reads text in which only `$` and back-ticks mean something: a here-document, an arithmetic
/// expression, the inside of `${…}`.
pub(super) fn read_plain(raw: &str) -> Reading {
    let mut reader = Reader::default();
    match parse_heredoc(raw, &OPTIONS) {
        Ok(pieces) => reader.pieces(raw, &pieces, true),
        Err(_) => reader.obscure = true,
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    text: String,
    unknown: bool,
    scripts: Vec<String>,
    obscure: bool,
}

impl Reader {
    fn finish(self) -> Reading {
        let unknown = self.unknown || self.obscure;
        let word = if unknown { Word::Unknown } else { Word::Known(self.text) };
        Reading { word, scripts: self.scripts, obscure: self.obscure }
    }

    fn pieces(&mut self, raw: &str, pieces: &[WordPieceWithSource], quoted: bool) {
        for piece in pieces {
            self.piece(raw, piece, quoted);
        }
    }

    fn piece(&mut self, raw: &str, piece: &WordPieceWithSource, quoted: bool) {
        match &piece.piece {
            WordPiece::Text(text) => {
                // File names and braces are expanded outside of quotes.
                self.unknown |= !quoted && expands(text);
                self.text.push_str(text);
            }
            WordPiece::SingleQuotedText(text) => self.text.push_str(text),
            WordPiece::AnsiCQuotedText(text) => {
                self.unknown |= text.contains('\\');
                self.text.push_str(text);
            }
            WordPiece::DoubleQuotedSequence(pieces) => self.pieces(raw, pieces, true),
            // What it says depends on the locale's translations.
            WordPiece::GettextDoubleQuotedSequence(pieces) => {
                self.unknown = true;
                self.pieces(raw, pieces, true);
            }
            WordPiece::EscapeSequence(sequence) => {
                let escaped = sequence.strip_prefix('\\').unwrap_or(sequence);
                // A backslash at a line's end joins the lines.
                if escaped != "\n" {
                    self.text.push_str(escaped);
                }
            }
            WordPiece::TildeExpansion(_) => self.text.push('~'),
            WordPiece::CommandSubstitution(script) => {
                self.unknown = true;
                self.scripts.push(script.clone());
            }
            WordPiece::BackquotedCommandSubstitution(script) => {
                self.unknown = true;
                self.scripts.push(unescaped(script));
            }
            WordPiece::ParameterExpansion(_) => {
                self.unknown = true;
                let source = raw.get(piece.start_index..piece.end_index);
                let inside = source
                    .and_then(|source| source.strip_prefix("${"))
                    .map(|inside| inside.strip_suffix('}').unwrap_or(inside));
                match inside {
                    Some(inside) => self.inside(inside),
                    // `$x`, in which nothing else can be.
                    None => self.obscure |= source.is_none_or(|source| !source.starts_with('$')),
                }
            }
            WordPiece::ArithmeticExpression(expression) => {
                self.unknown = true;
                self.inside(&expression.value);
            }
        }
    }

    /// Looks for scripts in the inside of an expansion. It is shorter than what it is inside of.
    fn inside(&mut self, inside: &str) {
        if inside.contains(['$', '`']) {
            let reading = read_plain(inside);
            self.scripts.extend(reading.scripts);
            self.obscure |= reading.obscure;
        }
    }
}

/// Whether unquoted text may become another word, or several.
fn expands(text: &str) -> bool {
    let is_glob = text.contains(['*', '?', '[']) && text != "[" && text != "[[";
    let is_brace = text.contains('{') && (text.contains(',') || text.contains(".."));
    is_glob || is_brace
}

/// Inside of back-ticks a backslash before `` ` ``, `$` or another backslash goes.
fn unescaped(script: &str) -> String {
    let mut answer = String::with_capacity(script.len());
    let mut characters = script.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\\'
            && let Some(next) = characters.next_if(|next| matches!(next, '`' | '$' | '\\'))
        {
            answer.push(next);
        } else {
            answer.push(character);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_the_shell_makes_of_them() {
        for (raw, expected) in [
            ("touch", Some("touch")),
            ("\"to\"uch", Some("touch")),
            ("to'uc'h", Some("touch")),
            ("to\\uch", Some("touch")),
            ("$'touch'", Some("touch")),
            ("$'to\\x75ch'", None),
            ("t${x}ouch", None),
            ("$cmd", None),
            ("$(echo touch)", None),
            ("`echo touch`", None),
            ("{touch,x}", None),
            ("/usr/bin/tou?h", None),
            ("\"a*b\"", Some("a*b")),
            ("[", Some("[")),
            ("~/bin/x", Some("~/bin/x")),
            ("a=b", Some("a=b")),
        ] {
            assert_eq!(read(raw).word.known(), expected, "{raw}");
        }
    }

    #[test]
    fn scripts_are_found_wherever_they_hide() {
        for (raw, expected) in [
            ("$(touch a)", vec!["touch a"]),
            ("\"x $(touch a) y\"", vec!["touch a"]),
            ("`touch a`", vec!["touch a"]),
            ("${x:-$(touch a)}", vec!["touch a"]),
            ("\"${x:-$(touch a)}\"", vec!["touch a"]),
            ("${x/a/`touch a`}", vec!["touch a"]),
            ("$((1 + $(touch a)))", vec!["touch a"]),
            ("'$(touch a)'", vec![]),
            ("plain", vec![]),
        ] {
            let reading = read(raw);
            assert_eq!(reading.scripts, expected, "{raw}");
            assert!(!reading.obscure, "{raw}");
        }
    }
}
