//! Sizes as people write them.

/// Reads a size as manifests write it: a whole number and one of `B`, `kB`, `MB`, `GB`, `KiB`,
/// `MiB`, `GiB`, as in `10MiB`. The answer is in bytes.
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => {
            return Err(format!(
                "`{text}` is not a size: write a whole number and B, kB, MB, GB, KiB, MiB or GiB, \
                 as in `10MiB`"
            ));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a size: it has to begin with a whole number"))?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large a size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("0B", 0), ("12kB", 12_000), ("10MiB", 10 << 20), ("2GB", 2_000_000_000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "5", "MiB", "-1B", "1.5MiB", "1 MiB", "1M", "1mib", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
