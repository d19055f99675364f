//! What the programs of a script would start in their turn.

use super::invocation::{Invocation, Word};
use super::script::{DEPTH_MAX, Feed, Feeds, Walk};
use super::wrapped::{Inner, inner};

impl Walk {
    /// A program, and those that it would start.
    pub(super) fn invocation(&mut self, words: Vec<Word>, feeds: &Feeds) {
        let invocation = Invocation { words };
        let depth = self.depth;
        self.follow(&invocation, feeds, depth);
    }

    fn follow(&mut self, invocation: &Invocation, feeds: &Feeds, depth: usize) {
        self.found.invocations.push(invocation.clone());
        if depth > DEPTH_MAX {
            return self.hide("programs are nested too deeply");
        }
        for inner in inner(invocation) {
            match inner {
                Inner::Program(words) => self.follow(&Invocation { words }, feeds, depth + 1),
                Inner::Script(Word::Known(text)) => {
                    let start = self.found.invocations.len();
                    self.script(&text, depth + 1);
                    // What `eval` runs is the shell's own.
                    if invocation.name() != Some("eval") {
                        self.scope_from(start);
                    }
                }
                Inner::Script(Word::Unknown) => {
                    let name = invocation.name().unwrap_or("it").to_owned();
                    self.hide(format!("`{name}` is given a script that is not known"));
                }
                Inner::Input => self.input(invocation, feeds, depth),
                Inner::Hidden(why) => self.hide(why),
            }
        }
    }

    /// A shell that takes its script from standard input.
    fn input(&mut self, invocation: &Invocation, feeds: &Feeds, depth: usize) {
        let name = invocation.name().unwrap_or("a shell").to_owned();
        match feeds.texts.last() {
            Some(Word::Known(text)) => self.script(text, depth + 1),
            Some(Word::Unknown) => {
                self.hide(format!("`{name}` is given a script that is not known"));
            }
            None if feeds.feed == Feed::Given => {
                self.hide(format!("`{name}` reads a script that cannot be seen"));
            }
            // The terminal: what is typed is looked at when it is typed.
            None => {}
        }
    }
}
