//! Paths as people and programs are shown them, and as they are read back: for `cwd` and its like in
//! JSON, and for `#[serde(with = "shown_path::optional")]`.
//!
//! A path that is UTF-8 is itself. Any other is `$'…'`, as bash reads it: its text as it is, `\` and
//! `'` after a `\`, and each byte that is no text as `\NNN`, octal. So is one that begins with `$'`,
//! which makes every text the form of one path.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const OPENING: &str = "$'";

/// The path as text.
#[must_use]
pub fn show(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.starts_with(OPENING) => text.to_owned(),
        _ => escaped(path.as_os_str().as_bytes()),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = OPENING.to_owned();
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', r"\\").replace('\'', r"\'"));
        for byte in chunk.invalid() {
            let _infallible = write!(text, "\\{byte:03o}");
        }
    }
    text.push('\'');
    text
}

/// The path that `show` was given. What is not of its making is taken as it stands.
#[must_use]
pub fn read(text: &str) -> PathBuf {
    let inside = text.strip_prefix(OPENING).and_then(|text| text.strip_suffix('\''));
    match inside.and_then(unescaped) {
        Some(bytes) => OsString::from_vec(bytes).into(),
        None => text.into(),
    }
}

fn unescaped(inside: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let escape = after.chars().next()?;
        let width = if matches!(escape, '\\' | '\'') { 1 } else { 3 };
        let (escape, after) = after.split_at_checked(width)?;
        if width == 1 {
            bytes.extend_from_slice(escape.as_bytes());
        } else {
            bytes.push(u8::from_str_radix(escape, 8).ok()?);
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

/// For serde, of a path that may be missing.
pub mod optional {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// For serde.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::show).serialize(serializer)
    }

    /// For serde.
    ///
    /// # Errors
    /// Those of the format.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        Ok(text.map(|text| super::read(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_readable_stays_as_it_is() {
        for (bytes, text) in [
            (&b"/home/a b/\"q\"\n100%"[..], "/home/a b/\"q\"\n100%"),
            ("/ключ".as_bytes(), "/ключ"),
            (b"/a\xffb'\\7", r"$'/a\377b\'\\7'"),
            (b"$'x", r"$'$\'x'"),
        ] {
            let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
            assert_eq!(show(path), text);
            assert_eq!(read(text), path);
        }
        for text in [r"$'\9'", r"$'\'", "$'", "$'x", r"$'\777'"] {
            assert_eq!(read(text), Path::new(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(bytes in proptest::collection::vec(any::<u8>(), 0..20),
            start in "(\\$'|/|)") {
            let path = PathBuf::from(OsString::from_vec([start.as_bytes(), &bytes].concat()));
            prop_assert_eq!(read(&show(&path)), path);
        }
    }
}
