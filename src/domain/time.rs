//! Points in time and spans, as plain numbers that the shell hands in.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since the Unix epoch. Written as RFC 3339 in UTC.
///
/// The coordinator feeds the pure machines a clock that never goes back: the wall time at its
/// start plus what the monotonic clock says has passed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This point plus `ms` milliseconds; stops at the ends of the range.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds since `earlier`, 0 when that lies ahead.
    pub fn ms_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let point = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{point:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let point: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(point.as_millisecond()))
    }
}

/// Reads a duration as manifests and flags write it: a whole number and one of `ms`, `s`, `m`,
/// `h`, as in `2500ms`, `30s`, `5m`. The answer is in milliseconds.
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => {
            return Err(format!(
                "`{text}` is not a duration: write a whole number and ms, s, m or h, as in `30s`"
            ));
        }
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().map_err(|_| {
        if is_number {
            format!("`{text}` is too long a duration")
        } else {
            format!("`{text}` is not a duration: it has to begin with a whole number")
        }
    })?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too long a duration"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [("2500ms", 2500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000)] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.5s", "1 s", "1d", "99999999999999999h"] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn timestamps_are_rfc_3339() {
        let text = serde_json::to_string(&Timestamp(1_764_543_600_123)).unwrap_or_default();
        assert_eq!(text, "\"2025-11-30T23:00:00.123Z\"");
        let back: Timestamp = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(back, Timestamp(1_764_543_600_123));
    }
}
