//! Words for people: quoting, near misses, names that are in order.

/// Text from a file as a message shows it: at most 80 characters, none of which can move a
/// terminal's cursor.
pub(super) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    let mut out = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == CHARACTERS_MAX - 1 && text.chars().nth(CHARACTERS_MAX).is_some() {
            out.push('…');
            break;
        }
        if is_unprintable(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Control characters, and those that turn the direction of writing.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `a`, `b` and `c`.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{}`", shown(name))).collect();
    match names.split_last() {
        Some((end, [])) => end.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
        None => String::new(),
    }
}

/// Finds the candidate that a misspelt word was meant to be.
///
/// A file with thousands of misspelt words and thousands of candidates would cost their product;
/// once the budget is spent, the rest go without a suggestion.
pub(in crate::domain) struct Speller {
    budget: usize,
}

impl Default for Speller {
    fn default() -> Self {
        Self { budget: 50_000_000 }
    }
}

impl Speller {
    /// True when there will be no more suggestions.
    pub(super) fn is_spent(&self) -> bool {
        self.budget == 0
    }

    /// The nearest candidate, if one is near; the first of several.
    pub(in crate::domain) fn near<'c>(
        &mut self,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        let length = word.chars().count();
        let allowed = match length {
            0 | 1 => return None,
            2..=5 => 1,
            6..=8 => 2,
            9..=64 => 3,
            _ => return None,
        };
        let mut best: Option<(usize, &str)> = None;
        for candidate in candidates {
            if self.budget == 0 {
                break;
            }
            if candidate.len().abs_diff(word.len()) > 4 * allowed {
                self.budget = self.budget.saturating_sub(1);
                continue;
            }
            self.budget = self.budget.saturating_sub(candidate.len() * length + 1);
            let distance = strsim::osa_distance(word, candidate);
            // Of two letters one has to be right, and a word is no near miss of itself.
            let near =
                distance > 0 && distance <= allowed && distance < length.min(candidate.len());
            if near && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }
}

/// What is wrong with a tag.
pub(super) fn tag_fault(tag: &str) -> Option<&'static str> {
    const BYTES_MAX: usize = 128;
    if tag.is_empty() {
        return Some("is empty");
    }
    if tag.len() > BYTES_MAX {
        return Some("is longer than 128 bytes");
    }
    if tag.chars().any(char::is_control) {
        return Some("has a control character in it");
    }
    if tag.trim() != tag {
        return Some("begins or ends with a space");
    }
    None
}

/// What is wrong with a name, of a task, an agent or a workspace: as a tag, and without the `/`
/// that stands between a run and its task.
pub(super) fn name_fault(name: &str) -> Option<&'static str> {
    tag_fault(name).or_else(|| name.contains('/').then_some("has a `/` in it"))
}

/// What is wrong with the name of an environment variable.
pub(super) fn variable_fault(name: &str) -> Option<&'static str> {
    let mut characters = name.chars();
    let first = characters.next();
    if !first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        || !characters.all(|rest| rest.is_ascii_alphanumeric() || rest == '_')
    {
        return Some("is not a name: letters, digits and `_`, not beginning with a digit");
    }
    if name.starts_with("CALLBOARD_") {
        return Some("is one of callboard's own");
    }
    if name == "TMPDIR" {
        return Some("is each session's own");
    }
    None
}
