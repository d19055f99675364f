//! Keys by name: `ctrl-c`, `alt-x`, `up`, `f5`, `shift-tab`, `enter`, or a single character.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::domain::manifest::Speller;

/// A key, with those that are held down beside it. There are only such of them as a terminal has
/// bytes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key {
    pub(super) base: Base,
    pub(super) held: Held,
}

/// Which keys are held down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub shift: bool,
    pub alt: bool,
    pub ctrl: bool,
}

/// The key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Base {
    /// As it is typed, capitals included.
    Char(char),
    Up,
    Down,
    Right,
    Left,
    Home,
    End,
    PageUp,
    PageDown,
    Insert,
    Delete,
    /// 1 to 12.
    Function(u8),
    Enter,
    Tab,
    Esc,
    Backspace,
    /// By its character on the number pad.
    Pad(char),
    PadEnter,
}

/// The first name of each key is the one it is shown by.
const NAMES: [(&str, Base); 60] = [
    ("up", Base::Up),
    ("down", Base::Down),
    ("right", Base::Right),
    ("left", Base::Left),
    ("home", Base::Home),
    ("end", Base::End),
    ("pgup", Base::PageUp),
    ("pageup", Base::PageUp),
    ("page-up", Base::PageUp),
    ("pgdn", Base::PageDown),
    ("pagedown", Base::PageDown),
    ("page-down", Base::PageDown),
    ("insert", Base::Insert),
    ("ins", Base::Insert),
    ("delete", Base::Delete),
    ("del", Base::Delete),
    ("enter", Base::Enter),
    ("return", Base::Enter),
    ("cr", Base::Enter),
    ("tab", Base::Tab),
    ("esc", Base::Esc),
    ("escape", Base::Esc),
    ("backspace", Base::Backspace),
    ("bs", Base::Backspace),
    ("space", Base::Char(' ')),
    ("spc", Base::Char(' ')),
    ("f1", Base::Function(1)),
    ("f2", Base::Function(2)),
    ("f3", Base::Function(3)),
    ("f4", Base::Function(4)),
    ("f5", Base::Function(5)),
    ("f6", Base::Function(6)),
    ("f7", Base::Function(7)),
    ("f8", Base::Function(8)),
    ("f9", Base::Function(9)),
    ("f10", Base::Function(10)),
    ("f11", Base::Function(11)),
    ("f12", Base::Function(12)),
    ("minus", Base::Char('-')),
    ("plus", Base::Char('+')),
    ("kp-0", Base::Pad('0')),
    ("kp-1", Base::Pad('1')),
    ("kp-2", Base::Pad('2')),
    ("kp-3", Base::Pad('3')),
    ("kp-4", Base::Pad('4')),
    ("kp-5", Base::Pad('5')),
    ("kp-6", Base::Pad('6')),
    ("kp-7", Base::Pad('7')),
    ("kp-8", Base::Pad('8')),
    ("kp-9", Base::Pad('9')),
    ("kp-plus", Base::Pad('+')),
    ("kp-minus", Base::Pad('-')),
    ("kp-times", Base::Pad('*')),
    ("kp-divide", Base::Pad('/')),
    ("kp-dot", Base::Pad('.')),
    ("kp-comma", Base::Pad(',')),
    ("kp-equals", Base::Pad('=')),
    ("kp-enter", Base::PadEnter),
    ("arrowup", Base::Up),
    ("arrowdown", Base::Down),
];

/// A key that is held down.
#[derive(Clone, Copy)]
enum Hold {
    Ctrl,
    Alt,
    Shift,
}

/// The names of what is held down; `C-c`, `M-x` and `S-up` are how Emacs and tmux write it.
const HOLDS: [(&str, Hold); 9] = [
    ("ctrl", Hold::Ctrl),
    ("control", Hold::Ctrl),
    ("c", Hold::Ctrl),
    ("alt", Hold::Alt),
    ("option", Hold::Alt),
    ("meta", Hold::Alt),
    ("m", Hold::Alt),
    ("shift", Hold::Shift),
    ("s", Hold::Shift),
];

/// A longer text is no name of a key.
const NAME_BYTES_MAX: usize = 64;

/// Why a text names no key that could be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no such key.
    #[error("no key is called `{}`{}", shown(given), meant(near.as_deref()))]
    Unknown {
        /// As it was given.
        given: String,
        /// What may have been meant.
        near: Option<String>,
    },
    /// A keyboard has it, a terminal has no bytes for it.
    #[error("no terminal can send `{}`: {instead}", shown(given))]
    Unsendable {
        /// As it was given.
        given: String,
        /// What to send instead.
        instead: &'static str,
    },
}

fn shown(given: &str) -> String {
    let short: String = given.chars().take(40).collect();
    short.escape_debug().to_string()
}

fn meant(near: Option<&str>) -> String {
    match near {
        Some(near) => format!(": did you mean `{near}`?"),
        None => {
            ": keys are `enter`, `tab`, `esc`, `up`, `f5`, `ctrl-c`, `alt-x`, `shift-tab` or a \
                 single character"
                .to_owned()
        }
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(given: &str) -> Result<Self, KeyError> {
        let unknown = |near| KeyError::Unknown { given: given.to_owned(), near };
        if given.len() > NAME_BYTES_MAX {
            return Err(unknown(None));
        }
        let mut held = Held::default();
        let mut rest = given;
        if let Some(caret) = given.strip_prefix('^').filter(|caret| !caret.is_empty()) {
            held.ctrl = true;
            rest = caret;
        }
        // A whole name goes before its parts: `page-up`, and the characters `-` and `c`.
        while base(rest).is_none() {
            let hold = rest.find(['-', '+']).and_then(|end| {
                let name = rest[..end].to_ascii_lowercase();
                let &(_, hold) = HOLDS.iter().find(|(known, _)| *known == name)?;
                Some((hold, &rest[end + 1..]))
            });
            let Some((hold, after)) = hold else { return Err(unknown(near(given, rest))) };
            match hold {
                Hold::Ctrl => held.ctrl = true,
                Hold::Alt => held.alt = true,
                Hold::Shift => held.shift = true,
            }
            rest = after;
        }
        let base = base(rest).ok_or_else(|| unknown(None))?;
        Self { base, held }
            .settled()
            .map_err(|instead| KeyError::Unsendable { given: given.to_owned(), instead })
    }
}

/// The key of that name, or the single character.
fn base(name: &str) -> Option<Base> {
    let mut characters = name.chars();
    if let (Some(only), None) = (characters.next(), characters.next()) {
        return (!only.is_control()).then_some(Base::Char(only));
    }
    let lower = name.to_ascii_lowercase();
    NAMES.iter().find(|(known, _)| *known == lower).map(|&(_, base)| base)
}

/// What `given` may have meant, whose part `rest` is no key.
fn near(given: &str, rest: &str) -> Option<String> {
    let lower = rest.to_ascii_lowercase();
    let before = given.strip_suffix(rest)?;
    let holds = HOLDS.iter().filter(|(name, _)| name.len() > 1).map(|&(name, _)| name);
    let mut speller = Speller::default();
    // `crtl-c`: the word before the dash is the misspelt one.
    if let Some((hold, key)) = lower.split_once(['-', '+'])
        && let Some(meant) = speller.near(hold, holds)
        && base(key).is_some()
    {
        return Some(format!("{before}{meant}-{key}"));
    }
    let names = NAMES.iter().map(|&(name, _)| name);
    speller.near(&lower, names).map(|meant| format!("{before}{meant}"))
}

impl Key {
    /// The same key in the one form in which it is kept, or what to send instead of one that no
    /// terminal has bytes for.
    fn settled(mut self) -> Result<Self, &'static str> {
        let Held { shift, ctrl, .. } = self.held;
        match self.base {
            Base::Char(character) if ctrl => {
                self.base = Base::Char(character.to_ascii_lowercase());
                self.held.shift = false;
                let known = super::bytes::control(character.to_ascii_lowercase()).is_some();
                // Shift changes nothing that is held with Ctrl.
                let plain = !shift || character.is_ascii_alphabetic();
                (known && plain)
                    .then_some(self)
                    .ok_or("with ctrl it knows a to z, space and `@[\\]^_/?` alone")
            }
            Base::Char(character) if shift => {
                let mut capitals = character.to_uppercase();
                let capital = capitals.next().filter(|_| capitals.next().is_none());
                let capital = capital.filter(|_| character.is_alphabetic());
                self.base =
                    Base::Char(capital.ok_or("send the character itself that shift makes of it")?);
                self.held.shift = false;
                Ok(self)
            }
            Base::Tab if ctrl => Err("only shift and alt can be held with it"),
            Base::Backspace if shift => Err("only ctrl and alt can be held with it"),
            Base::Enter | Base::Esc if shift || ctrl => Err("only alt can be held with it"),
            Base::Pad(_) | Base::PadEnter if self.held != Held::default() => {
                Err("nothing can be held with the number pad")
            }
            _ => Ok(self),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (held, name) in
            [(self.held.ctrl, "ctrl-"), (self.held.alt, "alt-"), (self.held.shift, "shift-")]
        {
            if held {
                f.write_str(name)?;
            }
        }
        match self.base {
            Base::Char(character) if character != ' ' => write!(f, "{character}"),
            base => {
                let name = NAMES.iter().find(|(_, known)| *known == base);
                f.write_str(name.map_or("", |(name, _)| name))
            }
        }
    }
}

impl TryFrom<String> for Key {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.to_string()
    }
}
