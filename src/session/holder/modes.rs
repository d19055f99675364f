//! The modes of the session's terminals, as far as they change what keys send.

use crate::domain::key::KeyModes;
use crate::transcript::index::Stream;
use crate::transcript::modes;

/// The modes that programs have asked the terminals for.
#[derive(Default)]
pub(super) struct Modes {
    /// Each terminal's: a sequence of one may be cut by output of the other.
    followed: [modes::Modes; 2],
    /// As the last word of either has left them.
    pub(super) modes: KeyModes,
}

impl Modes {
    /// Output has come.
    pub(super) fn follow(&mut self, stream: Stream, bytes: &[u8]) {
        let followed = &mut self.followed[usize::from(stream == Stream::Stderr)];
        let before = *followed;
        followed.feed(bytes);
        let follow = |before: bool, now: bool, mode: &mut bool| {
            if before != now {
                *mode = now;
            }
        };
        let modes = &mut self.modes;
        follow(
            before.application_cursor,
            followed.application_cursor,
            &mut modes.application_cursor,
        );
        follow(
            before.application_keypad,
            followed.application_keypad,
            &mut modes.application_keypad,
        );
        follow(before.bracketed_paste, followed.bracketed_paste, &mut modes.bracketed_paste);
    }
}
