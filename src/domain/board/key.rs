//! The keys of the board: what each kind is, and which a key or a prefix speaks of.

use std::fmt;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest value, in bytes of JSON.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// The most entries that a board has, removed ones left out.
pub const ENTRIES_MAX: usize = 10_000;
/// The most bytes that keys and values have together.
pub const BOARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The first part of a key: what the entry is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// `dep/<ecosystem>/<name>`: something installed.
    Dep,
    /// `port/<host>/<n>`: somebody listens.
    Port,
    /// `file/<path>`: modified.
    File,
    /// `service/<name>`: it runs.
    Service,
    /// `contract/<name>`: what agents agree on.
    Contract,
    /// `git/<repo>`.
    Git,
    /// `note/<…>`: anything.
    Note,
}

const KINDS: [(&str, KeyKind); 7] = [
    ("dep", KeyKind::Dep),
    ("port", KeyKind::Port),
    ("file", KeyKind::File),
    ("service", KeyKind::Service),
    ("contract", KeyKind::Contract),
    ("git", KeyKind::Git),
    ("note", KeyKind::Note),
];

/// What is wrong with a key that somebody has written. `Display` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// Empty, or too long: its bytes.
    Length(usize),
    /// It has a control character.
    Control,
    /// It does not begin with a kind.
    Kind,
    /// A part between two slashes is empty.
    EmptyPart,
    /// It has too few or too many parts, or they are not of their kind; how it is written.
    Form(&'static str),
}

impl KeyKind {
    /// True for kinds that agents put up by themselves; the others are filled by observation.
    #[must_use]
    pub fn is_told(self) -> bool {
        matches!(self, Self::Service | Self::Contract | Self::Note)
    }

    /// The kind of a key, whatever the rest of it is.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        let (first, _) = key.split_once('/')?;
        KINDS.iter().find(|(name, _)| *name == first).map(|(_, kind)| *kind)
    }
}

/// Checks a key that somebody wants to write.
///
/// # Errors
/// What is wrong with it.
pub fn check(key: &str) -> Result<KeyKind, KeyFault> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(KeyFault::Length(key.len()));
    }
    if key.chars().any(char::is_control) {
        return Err(KeyFault::Control);
    }
    let kind = KeyKind::of(key).ok_or(KeyFault::Kind)?;
    let rest: Vec<&str> = key.split('/').skip(1).collect();
    if rest.iter().any(|part| part.is_empty()) {
        return Err(KeyFault::EmptyPart);
    }
    match kind {
        KeyKind::Dep if rest.len() < 2 => Err(KeyFault::Form("dep/<ecosystem>/<name>")),
        KeyKind::Port if rest.len() != 2 || rest[1].parse::<u16>().is_err() => {
            Err(KeyFault::Form("port/<host>/<number>"))
        }
        _ => Ok(kind),
    }
}

/// Whether a key or prefix as people write it speaks of `key`: the key itself, or all below it.
/// `dep/npm` and `dep/npm/` speak of `dep/npm/react`; `dep/np` does not. Nothing speaks of all.
#[must_use]
pub fn covers(told: &str, key: &str) -> bool {
    if told.is_empty() || told == key {
        return true;
    }
    let below = key.strip_prefix(told);
    below.is_some_and(|below| told.ends_with('/') || below.starts_with('/'))
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(bytes) => {
                write!(f, "a key has 1 to {KEY_BYTES_MAX} bytes, and this one {bytes}")
            }
            Self::Control => f.write_str("a key has no control characters"),
            Self::Kind => f.write_str(
                "a key begins with `note/`, `contract/`, `service/`, `dep/`, `port/`, `file/` or `git/`",
            ),
            Self::EmptyPart => f.write_str("no part of a key between slashes is empty"),
            Self::Form(form) => write!(f, "such a key is written `{form}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_taken_and_those_that_are_not() {
        for (key, expected) in [
            ("note/a", Ok(KeyKind::Note)),
            ("note/a/b c/é", Ok(KeyKind::Note)),
            ("contract/api", Ok(KeyKind::Contract)),
            ("dep/npm/@types/node", Ok(KeyKind::Dep)),
            ("dep/npm", Err(KeyFault::Form("dep/<ecosystem>/<name>"))),
            ("port/127.0.0.1/8080", Ok(KeyKind::Port)),
            ("port/::/8080", Ok(KeyKind::Port)),
            ("port/localhost/http", Err(KeyFault::Form("port/<host>/<number>"))),
            ("port/localhost/70000", Err(KeyFault::Form("port/<host>/<number>"))),
            ("", Err(KeyFault::Length(0))),
            ("note", Err(KeyFault::Kind)),
            ("notes/a", Err(KeyFault::Kind)),
            ("/note/a", Err(KeyFault::Kind)),
            ("note/", Err(KeyFault::EmptyPart)),
            ("note//a", Err(KeyFault::EmptyPart)),
            ("note/a/", Err(KeyFault::EmptyPart)),
            ("note/a\nb", Err(KeyFault::Control)),
        ] {
            assert_eq!(check(key), expected, "{key:?}");
        }
        assert_eq!(check(&format!("note/{}", "x".repeat(1020))), Err(KeyFault::Length(1025)));
    }

    #[test]
    fn a_prefix_goes_by_whole_parts() {
        for (told, key, expected) in [
            ("", "note/a", true),
            ("note/a", "note/a", true),
            ("note/a", "note/a/b", true),
            ("note/a", "note/ab", false),
            ("note/", "note/a", true),
            ("note", "note/a", true),
            ("not", "note/a", false),
            ("note/a/", "note/a", false),
        ] {
            assert_eq!(covers(told, key), expected, "{told} {key}");
        }
    }
}
