//! UTF-16 in a terminal's output, found by its mark or by the zero bytes of its ASCII part.
//!
//! It rarely comes alone: a shell's own lines may stand before and after it. And a terminal puts a
//! CR before each byte 10, which tears it apart.

use std::ops::Range;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};

/// What is looked at to find it.
const SAMPLE: usize = 4096;

/// The encoding, if `bytes` hold UTF-16.
pub(super) fn encoding_of(bytes: &[u8]) -> Option<&'static Encoding> {
    let rest = &bytes[start_of(bytes)?..];
    if let Some(encoding) = mark_of(rest) {
        return Some(encoding);
    }
    let (len, even, odd) = zeros_of(rest);
    let enough = |zeros: usize| zeros >= 4 && zeros * 10 >= len * 3;
    match () {
        () if enough(odd) && even * 10 <= odd => Some(UTF_16LE),
        () if enough(even) && odd * 10 <= even => Some(UTF_16BE),
        () => None,
    }
}

/// Which part of `bytes` is UTF-16, if they hold some.
pub(super) fn range_of(encoding: &'static Encoding, bytes: &[u8]) -> Range<usize> {
    let Some(mut start) = start_of(bytes) else { return 0..0 };
    let is_little = encoding == UTF_16LE;
    let rest = &bytes[start..];
    let (_, even, odd) = zeros_of(rest);
    // It may begin in the middle of a unit, behind the first half of a line end.
    if mark_of(rest).is_none() && if is_little { even > odd } else { odd > even } {
        start += 1;
    }
    // Up to its last line end, if lines of another kind follow.
    let last = memchr::memrchr(0, bytes).unwrap_or(0);
    let (end, ends_line) = match &bytes[last..] {
        _ if is_little => (last + 1, bytes[..last].ends_with(b"\n")),
        [_, b'\r', b'\n', ..] => (last + 3, true),
        [_, b'\n', ..] => (last + 2, true),
        rest => (last + rest.len().min(2), false),
    };
    let follows = &bytes[end..];
    let is_other = ends_line && follows.ends_with(b"\n") && is_text(follows);
    start..if is_other { end.max(start) } else { bytes.len() }
}

/// Reads what is UTF-16 throughout.
pub(super) fn decode(encoding: &'static Encoding, bytes: &[u8]) -> String {
    encoding.decode_with_bom_removal(&without_added_crs(bytes)).0.into_owned()
}

/// The beginning of the first line that has a mark or a zero byte in it.
fn start_of(bytes: &[u8]) -> Option<usize> {
    if mark_of(bytes).is_some() {
        return Some(0);
    }
    let zero = memchr::memchr(0, bytes);
    let before = &bytes[..zero.unwrap_or(bytes.len()).min(SAMPLE)];
    let marked = |at: &usize| mark_of(&bytes[at + 1..]).is_some();
    if let Some(line) = memchr::memchr_iter(b'\n', before).find(marked) {
        return Some(line + 1);
    }
    let line = |bytes: &[u8]| memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    let start = line(&bytes[..zero?]);
    // A zero byte right after a line end may be its other half. The line before it then has no
    // zeros, and is hardly ever good UTF-8.
    match bytes[..start].strip_suffix(b"\n") {
        Some(before) if Some(start) == zero && std::str::from_utf8(before).is_err() => {
            Some(line(before))
        }
        _ => Some(start),
    }
}

/// UTF-8 as programs print it.
fn is_text(bytes: &[u8]) -> bool {
    let is_odd = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b);
    std::str::from_utf8(bytes).is_ok() && !bytes.iter().any(is_odd)
}

fn mark_of(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [0xff, 0xfe, ..] => Some(UTF_16LE),
        [0xfe, 0xff, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// How many bytes there are, and zeros at even and at odd places among them.
fn zeros_of(bytes: &[u8]) -> (usize, usize, usize) {
    let sample = without_added_crs(&bytes[..bytes.len().min(SAMPLE)]);
    let zeros = |odd: usize| sample.iter().skip(odd).step_by(2).filter(|&&byte| byte == 0).count();
    (sample.len(), zeros(0), zeros(1))
}

fn without_added_crs(bytes: &[u8]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for lf in memchr::memchr_iter(b'\n', bytes) {
        let end = if bytes[from..lf].ends_with(b"\r") { lf - 1 } else { lf };
        rest.extend_from_slice(&bytes[from..end]);
        from = lf;
    }
    rest.extend_from_slice(&bytes[from..]);
    rest
}
