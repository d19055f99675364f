//! What may be run: the rules of `[policy]` as they are written. What they mean for a script is
//! for room `policy` to say.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A list of rules is no longer than this.
pub const RULES_MAX: usize = 1_000;
/// A rule is no longer than this, in bytes.
pub const RULE_BYTES_MAX: usize = 1_024;

/// One `[policy]`: of the whole workspace, of an agent or of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// What may be run. If there are any, everything else is asked for.
    #[serde(default)]
    pub allow: Vec<Rule>,
    /// What needs a person's word.
    #[serde(default)]
    pub ask: Vec<Rule>,
    /// What may not be run.
    #[serde(default)]
    pub deny: Vec<Rule>,
}

impl Permissions {
    /// True when they say nothing.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.ask.is_empty() && self.deny.is_empty()
    }
}

/// What is to become of a script, from the mildest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It runs once a person has said so.
    Ask,
    /// It does not run.
    Deny,
}

/// A rule: a program and, if given, arguments. Each word may have `*` (any characters) and `?`
/// (any one) in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    text: String,
    words: Vec<String>,
}

impl Rule {
    /// Reads a rule: words with blanks between them, quoted by `'` or `"` where they hold blanks.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence without its subject.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > RULE_BYTES_MAX {
            return Err(format!("is longer than {RULE_BYTES_MAX} bytes"));
        }
        if let Some(control) = text.chars().find(|character| character.is_control()) {
            return Err(format!("has the control character {control:?} in it"));
        }
        let words = split(text)?;
        if words.is_empty() {
            return Err("names no program".to_owned());
        }
        Ok(Self { text: text.trim().to_owned(), words })
    }

    /// The pattern of the program.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The patterns of its arguments.
    pub fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or(&[])
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Rule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|wrong| format!("rule `{text}` {wrong}"))
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.text
    }
}

fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), inside) => word.get_or_insert_default().push(inside),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, outside) => word.get_or_insert_default().push(outside),
        }
    }
    match quote {
        Some(open) => Err(format!("has a {open} that is never closed")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

/// Whether `text` is what the pattern says: `*` stands for any characters, `?` for any one.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Where the last `*` stands, and up to where it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((back, eaten)) = star else { return false };
                star = Some((back, eaten + 1));
                at = back + 1;
                seen = eaten + 1;
            }
        }
    }
    pattern[at..].iter().all(|left| *left == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_words() {
        let rule = Rule::parse("  git   push 'to here'* ").unwrap();
        assert_eq!(rule.program(), "git");
        assert_eq!(rule.arguments(), ["push", "to here*"]);
        assert_eq!(rule.as_str(), "git   push 'to here'*");
        for (text, wrong) in [
            ("", "names no program"),
            ("   ", "names no program"),
            ("a 'b", "has a ' that is never closed"),
            ("a\nb", "has the control character '\\n' in it"),
        ] {
            assert_eq!(Rule::parse(text), Err(wrong.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn patterns_match_whole_words() {
        for (pattern, text, expected) in [
            ("touch", "touch", true),
            ("touch", "touches", false),
            ("t*h", "touch", true),
            ("t?uch", "touch", true),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyybz", false),
            ("*a*a*a*a*a*b", &"a".repeat(2_000), false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
