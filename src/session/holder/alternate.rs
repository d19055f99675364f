//! Is the alternate screen shown? A program that has switched to it is a full-screen program.

use memchr::memmem;

/// How such a switch begins.
const PRIVATE_MODE: &[u8] = b"\x1b[?";
/// The longest list of modes that is understood, with its beginning.
const SWITCH_BYTES_MAX: usize = 24;

/// Follows an output.
#[derive(Debug, Default)]
pub(super) struct Alternate {
    shown: bool,
    /// A switch that has not ended yet.
    open: Vec<u8>,
}

impl Alternate {
    /// True while the alternate screen is shown.
    pub(super) fn is_shown(&self) -> bool {
        self.shown
    }

    /// The output goes on.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut across = std::mem::take(&mut self.open);
        if across.is_empty() {
            self.follow(bytes);
            self.open = unfinished(bytes);
            return;
        }
        across.extend_from_slice(&bytes[..bytes.len().min(SWITCH_BYTES_MAX)]);
        self.follow(&across);
        // What lies in both is followed twice, in order.
        self.follow(bytes);
        self.open = unfinished(if bytes.len() > SWITCH_BYTES_MAX { bytes } else { &across });
    }

    /// The last switch decides.
    fn follow(&mut self, bytes: &[u8]) {
        let last = memmem::rfind_iter(bytes, PRIVATE_MODE)
            .find_map(|at| switch(&bytes[at + PRIVATE_MODE.len()..]));
        self.shown = last.unwrap_or(self.shown);
    }
}

/// What may be the beginning of a switch, at the end of an output.
fn unfinished(bytes: &[u8]) -> Vec<u8> {
    let last = &bytes[bytes.len().saturating_sub(SWITCH_BYTES_MAX)..];
    let Some(escape) = memchr::memrchr(0x1b, last).map(|at| &last[at..]) else { return Vec::new() };
    let is_switch = PRIVATE_MODE.starts_with(escape)
        || escape
            .strip_prefix(PRIVATE_MODE)
            .is_some_and(|modes| modes.iter().all(|byte| byte.is_ascii_digit() || *byte == b';'));
    if is_switch { escape.to_vec() } else { Vec::new() }
}

/// What a list of modes does to the alternate screen.
fn switch(modes: &[u8]) -> Option<bool> {
    let end = modes
        .iter()
        .take(SWITCH_BYTES_MAX)
        .position(|byte| !byte.is_ascii_digit() && *byte != b';')?;
    let shown = match modes[end] {
        b'h' => true,
        b'l' => false,
        _ => return None,
    };
    let is_screen = |mode: &[u8]| matches!(mode, b"47" | b"1047" | b"1049");
    modes[..end].split(|byte| *byte == b';').any(is_screen).then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_count_however_they_are_cut() {
        for (output, shown) in [
            (&b"plain"[..], false),
            (b"a\x1b[?1049h\x1b[?25lb", true),
            (b"\x1b[?1049h\x1b[2J\x1b[?1049l", false),
            (b"\x1b[?25;47h\x1b[31mred", true),
            (b"\x1b[?1049h\x1b[?2004h\x1b[?1h", true),
            (b"\x1b[?1047", false),
        ] {
            for cut in 1..=output.len() {
                let mut alternate = Alternate::default();
                output.chunks(cut).for_each(|part| alternate.feed(part));
                assert_eq!(alternate.is_shown(), shown, "{output:?} by {cut}");
            }
        }
    }
}
