//! Paths as text, whatever bytes they have: for `#[serde(with = "raw_path")]`.
//!
//! A path that is UTF-8 is written as it is, but for `%`, which is `%25`; every other byte is
//! `%XX`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer};

/// The path as text.
pub fn encode(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            let digit = |value| char::from_digit(u32::from(value), 16).unwrap_or_default();
            text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    text
}

/// The path that `encode` was given; `None` when the text is not of its making.
pub fn decode(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(OsString::from_vec(bytes).into())
}

/// For serde.
///
/// # Errors
/// Those of the format.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(path))
}

/// For serde.
///
/// # Errors
/// When the text is not of `encode`'s making.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(deserializer)?;
    decode(&text).ok_or_else(|| serde::de::Error::custom("not a path: `%` without two hex digits"))
}

/// The same for a path that may not be there.
pub mod optional {
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    /// For serde.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::encode).serialize(serializer)
    }

    /// For serde.
    ///
    /// # Errors
    /// When the text is not of `encode`'s making.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let path = super::decode(&text);
        path.map(Some).ok_or_else(|| serde::de::Error::custom("not a path"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_readable_stays_readable() {
        for (bytes, text) in [
            (&b"/home/a b/\"q\""[..], "/home/a b/\"q\""),
            (b"/100%", "/100%25"),
            (b"/a\xffb", "/a%ffb"),
            ("/ключ".as_bytes(), "/ключ"),
        ] {
            assert_eq!(encode(Path::new(std::ffi::OsStr::from_bytes(bytes))), text);
        }
        for text in ["%", "%2", "%zz", "/%+1", "%é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(decode(&encode(&path)), Some(path));
        }
    }
}
