//! Numbers in words. Reasons, states and spans are in `report::words`.

/// `1 problem`, `2 problems`.
pub(super) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
