//! Reading single values: each function says what is wrong with a value and answers with what is
//! left of it.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use globset::Glob;
use toml::de::{DeTable, DeValue};

use super::findings::Findings;
use super::keys::{Key, LIMITS, SHARD, SHELLS, SYNONYMS, Support, TABLES, TRACING};
use super::shape::{Shape, noun_of};
use super::syntax::Item;
use super::words::{listed, name_fault, shown, tag_fault, variable_fault};
use crate::domain::conflict::Tracing;
use crate::domain::plan::ResourceLimits;
use crate::domain::session::Shell;
use crate::domain::size::parse_size;
use crate::domain::time::parse_duration_ms;

/// A value that has been read, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// The entries of `table` whose key is known, of the right type and supported.
pub(super) fn entries<'t, 'i>(
    table: &'t DeTable<'i>,
    keys: &'static [Key],
    findings: &mut Findings<'_>,
) -> Vec<(&'static str, &'t Item<'i>)> {
    let mut known = Vec::with_capacity(table.len());
    for (name, item) in table {
        match keys.iter().find(|key| key.name == name.get_ref()) {
            Some(key) => {
                if fits(key.name, key.shape, item, findings)
                    && is_supported(key, name.span(), item, findings)
                {
                    known.push((key.name, item));
                }
            }
            None => unknown_key(name.get_ref(), name.span(), keys, findings),
        }
    }
    known
}

fn unknown_key(name: &str, span: Range<usize>, keys: &[Key], findings: &mut Findings<'_>) {
    let names = || keys.iter().map(|key| key.name);
    let synonym = SYNONYMS
        .iter()
        .find(|(foreign, ours)| *foreign == name && names().any(|known| known == *ours))
        .map(|(_, ours)| format!("did you mean `{ours}`?"));
    let elsewhere = || {
        let (table, _) = TABLES.iter().find(|(_, keys)| keys.iter().any(|key| key.name == name))?;
        Some(format!("`{name}` belongs in {table}"))
    };
    let hint = synonym
        .or_else(|| findings.did_you_mean(name, names()))
        .or_else(elsewhere)
        .or_else(|| (keys.len() <= 6).then(|| format!("known here: {}", listed(names(), "and"))));
    findings.wrong_hinted(span, format!("unknown key `{}`", shown(name)), hint);
}

/// Checks the TOML type alone.
pub(super) fn fits(what: &str, shape: Shape, item: &Item<'_>, findings: &mut Findings<'_>) -> bool {
    let value = item.get_ref();
    if shape.fits(value) {
        return true;
    }
    let message = format!("`{what}` has to be {}, not {}", shape.noun(), noun_of(value));
    let hint = match shape {
        Shape::Tables => Some(format!("write it as [[{what}]]")),
        _ => shape.example().map(str::to_owned),
    };
    findings.wrong_hinted(item.span(), message, hint);
    false
}

fn is_supported(
    key: &Key,
    name: Range<usize>,
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> bool {
    match key.support {
        Support::Full => true,
        Support::None => {
            findings.wrong(name, format!("`{}` is not supported yet", key.name));
            look_inside(key, item, findings);
            false
        }
        Support::Only(value) => {
            let (given, is_default) = match item.get_ref() {
                DeValue::String(text) => (format!("\"{}\"", shown(text)), text == value),
                DeValue::Boolean(flag) => (flag.to_string(), flag.to_string() == value),
                _ => return true,
            };
            let known = match key.shape {
                Shape::Word(words) => word(key.name, words, item, findings).is_some(),
                _ => true,
            };
            if known && !is_default {
                let message = format!("`{} = {given}` is not supported yet", key.name);
                findings.wrong_hinted(item.span(), message, only_hint(key.shape, value));
            }
            known && is_default
        }
    }
}

/// What is wrong inside a value that is refused anyway, so that it is in order when its time comes.
fn look_inside(key: &Key, item: &Item<'_>, findings: &mut Findings<'_>) {
    match key.shape {
        Shape::Name => drop(name(key.name, item, findings)),
        Shape::Tags => drop(tags(key.name, item, findings)),
        Shape::Globs => drop(globs(key.name, item, findings)),
        Shape::Texts => {
            for item in list(key.name, key.shape, item, findings) {
                text(key.name, item, findings);
            }
        }
        Shape::Duration => drop(duration(key.name, item, findings)),
        Shape::Number(least, most) => {
            number(key.name, (least, most), item, findings);
        }
        Shape::Shard => {
            if let Some(table) = table(key.name, key.shape, item, findings) {
                entries(table, SHARD, findings);
            }
        }
        _ => {}
    }
}

fn only_hint(shape: Shape, value: &str) -> String {
    match shape {
        Shape::Flag => format!("leave it out or write {value}"),
        _ => format!("leave it out or write \"{value}\""),
    }
}

/// A string.
pub(super) fn text(what: &str, item: &Item<'_>, findings: &mut Findings<'_>) -> Option<At<String>> {
    fits(what, Shape::Text, item, findings).then_some(())?;
    let text = item.get_ref().as_str()?;
    Some(At { value: text.to_owned(), span: item.span() })
}

/// A string that is not empty and has no NUL in it.
pub(super) fn filled(
    what: &str,
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> Option<At<String>> {
    let text = text(what, item, findings)?;
    if text.value.trim().is_empty() {
        findings.wrong(text.span, format!("`{what}` is empty"));
        return None;
    }
    if let Some(at) = memchr::memchr(0, text.value.as_bytes()) {
        findings.wrong(text.span, format!("`{what}` has a NUL at byte {at}"));
        return None;
    }
    Some(text)
}

/// A name.
pub(super) fn name(what: &str, item: &Item<'_>, findings: &mut Findings<'_>) -> Option<At<String>> {
    sound(what, name_fault, item, findings)
}

/// A string that `fault` has nothing to say against.
fn sound(
    what: &str,
    fault: fn(&str) -> Option<&'static str>,
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> Option<At<String>> {
    let text = text(what, item, findings)?;
    let Some(fault) = fault(&text.value) else { return Some(text) };
    let message = match text.value.as_str() {
        "" => format!("`{what}` {fault}"),
        value => format!("`{what}`: `{}` {fault}", shown(value)),
    };
    findings.wrong(text.span, message);
    None
}

/// One of `words`.
pub(super) fn word(
    what: &str,
    words: &'static [&'static str],
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> Option<&'static str> {
    let given = text(what, item, findings)?;
    let known = words.iter().copied().find(|word| *word == given.value);
    if known.is_none() {
        let hint = findings
            .did_you_mean(&given.value, words.iter().copied())
            .unwrap_or_else(|| format!("write {}", listed(words.iter().copied(), "or")));
        let message = format!("`{what}` cannot be `{}`", shown(&given.value));
        findings.wrong_hinted(given.span, message, hint);
    }
    known
}

/// `true` or `false`.
pub(super) fn flag(what: &str, item: &Item<'_>, findings: &mut Findings<'_>) -> Option<bool> {
    fits(what, Shape::Flag, item, findings).then_some(())?;
    item.get_ref().as_bool()
}

/// A shell that there is a driver for.
pub(super) fn shell(item: &Item<'_>, findings: &mut Findings<'_>) -> Option<Shell> {
    word("shell", SHELLS, item, findings)?.parse().ok()
}

/// How closely a task is watched.
pub(super) fn tracing(item: &Item<'_>, findings: &mut Findings<'_>) -> Option<Tracing> {
    Some(match word("tracing", TRACING, item, findings)? {
        "on" => Tracing::On,
        "off" => Tracing::Off,
        _ => Tracing::Auto,
    })
}

/// A whole number within the bounds.
pub(super) fn number(
    what: &str,
    (least, most): (i64, i64),
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> Option<i64> {
    fits(what, Shape::Number(least, most), item, findings).then_some(())?;
    let integer = item.get_ref().as_integer()?;
    let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
    let number = number.filter(|number| (least..=most).contains(number));
    if number.is_none() {
        findings.wrong(item.span(), format!("`{what}` has to lie between {least} and {most}"));
    }
    number
}

/// A duration in ms, more than 0.
pub(super) fn duration(
    what: &str,
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> Option<At<u64>> {
    fits(what, Shape::Duration, item, findings).then_some(())?;
    // A duration is left as it is by `shown`, and what is none may be quoted in the message.
    match parse_duration_ms(&shown(item.get_ref().as_str()?)) {
        Ok(0) => findings.wrong(item.span(), format!("`{what}` has to be more than 0")),
        Ok(ms) => return Some(At { value: ms, span: item.span() }),
        Err(message) => findings.wrong(item.span(), format!("`{what}`: {message}")),
    }
    None
}

/// With less memory than this not every shell can start.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// `limits`.
pub(super) fn limits(item: &Item<'_>, findings: &mut Findings<'_>) -> ResourceLimits {
    let mut limits = ResourceLimits::default();
    let Some(table) = table("limits", Shape::Limits, item, findings) else { return limits };
    for (key, item) in entries(table, LIMITS, findings) {
        match key {
            "output" => limits.output = size("limits.output", 1, item, findings),
            "memory" => {
                limits.memory = size("limits.memory", MEMORY_BYTES_MIN, item, findings);
            }
            "processes" => {
                limits.processes =
                    number("limits.processes", (1, i64::from(u32::MAX)), item, findings)
                        .and_then(|most| u64::try_from(most).ok());
            }
            "cpu" => {
                limits.cpu_ms = duration("limits.cpu", item, findings).map(|cpu| cpu.value);
            }
            _ => {}
        }
    }
    limits
}

/// A size in bytes, `least` or more.
fn size(what: &str, least: u64, item: &Item<'_>, findings: &mut Findings<'_>) -> Option<u64> {
    fits(what, Shape::Size, item, findings).then_some(())?;
    match parse_size(&shown(item.get_ref().as_str()?)) {
        Ok(0) => findings.wrong(item.span(), format!("`{what}` has to be more than 0")),
        Ok(bytes) if bytes < least => {
            let message = format!("`{what}` has to be {}MiB or more", least >> 20);
            findings.wrong_hinted(item.span(), message, "the shell itself needs some".to_owned());
        }
        Ok(bytes) => return Some(bytes),
        Err(message) => findings.wrong(item.span(), format!("`{what}`: {message}")),
    }
    None
}

/// The elements of a list.
pub(super) fn list<'t, 'i>(
    what: &str,
    shape: Shape,
    item: &'t Item<'i>,
    findings: &mut Findings<'_>,
) -> &'t [Item<'i>] {
    if !fits(what, shape, item, findings) {
        return &[];
    }
    item.get_ref().as_array().map_or(&[], |array| array)
}

/// The entries of a table.
pub(super) fn table<'t, 'i>(
    what: &str,
    shape: Shape,
    item: &'t Item<'i>,
    findings: &mut Findings<'_>,
) -> Option<&'t DeTable<'i>> {
    fits(what, shape, item, findings).then_some(())?;
    item.get_ref().as_table()
}

/// A list of tags, each once.
pub(super) fn tags(what: &str, item: &Item<'_>, findings: &mut Findings<'_>) -> Vec<At<String>> {
    let mut tags = Vec::new();
    let mut known = HashSet::new();
    for item in list(what, Shape::Tags, item, findings) {
        if let Some(tag) = sound(what, tag_fault, item, findings)
            && known.insert(item.get_ref().as_str())
        {
            tags.push(tag);
        }
    }
    tags
}

/// A list of globs, relative to the root and inside it.
pub(super) fn globs(what: &str, item: &Item<'_>, findings: &mut Findings<'_>) -> Vec<String> {
    let mut globs = Vec::new();
    for item in list(what, Shape::Globs, item, findings) {
        let Some(glob) = filled(what, item, findings) else { continue };
        let fault = match Glob::new(&glob.value) {
            Err(error) => Some(error.kind().to_string()),
            Ok(_) if glob.value.starts_with('/') => Some("has to be relative to the root".into()),
            Ok(_) if glob.value.split('/').any(|part| part == "..") => {
                Some("leads out of the root".into())
            }
            Ok(_) => None,
        };
        match fault {
            Some(fault) => {
                let message = format!("`{what}`: bad glob `{}`: {fault}", shown(&glob.value));
                findings.wrong(glob.span, message);
            }
            None => globs.push(glob.value),
        }
    }
    globs
}

/// Environment variables.
pub(super) fn env(
    what: &str,
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(table) = table(what, Shape::Env, item, findings) else { return env };
    for (name, item) in table {
        if let Some(fault) = variable_fault(name.get_ref()) {
            let message = format!("`{what}`: `{}` {fault}", shown(name.get_ref()));
            findings.wrong(name.span(), message);
            continue;
        }
        let Some(value) = text(&format!("{what}.{name}"), item, findings) else { continue };
        match memchr::memchr(0, value.value.as_bytes()) {
            Some(at) => {
                findings.wrong(value.span, format!("`{what}.{name}` has a NUL at byte {at}"));
            }
            None => {
                env.insert(name.get_ref().clone().into_owned(), value.value);
            }
        }
    }
    env
}

/// Names of variables that the caller's environment has, each once.
pub(super) fn env_pass(
    what: &str,
    item: &Item<'_>,
    passed: &dyn Fn(&str) -> bool,
    findings: &mut Findings<'_>,
) -> Vec<String> {
    let mut names = Vec::new();
    let mut known = HashSet::new();
    for item in list(what, Shape::Variables, item, findings) {
        let Some(name) = text(what, item, findings) else { continue };
        if let Some(fault) = variable_fault(&name.value) {
            findings.wrong(name.span, format!("`{what}`: `{}` {fault}", shown(&name.value)));
        } else if !passed(&name.value) {
            findings.wrong_hinted(
                name.span,
                format!("`{}` is not set in the environment", name.value),
                format!("export {}=… first, or take it out of `{what}`", name.value),
            );
        } else if known.insert(item.get_ref().as_str()) {
            names.push(name.value);
        }
    }
    names
}
