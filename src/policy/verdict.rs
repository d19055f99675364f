//! The verdict on a script: the strictest word that any rule has on any program in it.

use serde::{Deserialize, Serialize};

use super::invocation::{Invocation, Match, Word};
use super::script::contents;
use crate::domain::permission::{Permissions, Verdict};

/// A verdict with what led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Allow, ask or deny.
    pub verdict: Verdict,
    /// The rule that decided; `None` where none did.
    pub rule: Option<String>,
    /// Why, as a sentence.
    pub reason: String,
}

/// Judges a script by every layer of rules (the workspace's, the agent's, the task's): the
/// strictest word counts. Within a layer `deny` beats `ask` beats `allow`; where there are rules
/// in `allow`, whatever none of them names is asked for. Without any rule everything is allowed,
/// and nothing is read.
pub fn judge(layers: &[&Permissions], script: &str) -> Judgement {
    let layers: Vec<_> = layers.iter().filter(|layer| !layer.is_empty()).collect();
    if layers.is_empty() {
        return allowed("there are no rules");
    }
    let contents = contents(script);
    let mut strictest = allowed("no rule is against it");
    for layer in layers {
        for invocation in &contents.invocations {
            take(&mut strictest, judge_one(layer, invocation));
        }
    }
    if let Some(why) = contents.hidden.first() {
        let reason = format!("what it would run cannot be told beforehand: {why}");
        take(&mut strictest, Judgement { verdict: Verdict::Ask, rule: None, reason });
    }
    strictest
}

fn allowed(reason: &str) -> Judgement {
    Judgement { verdict: Verdict::Allow, rule: None, reason: reason.to_owned() }
}

/// Of two that are as strict the first is kept.
fn take(strictest: &mut Judgement, other: Judgement) {
    if other.verdict > strictest.verdict
        || (other.verdict == strictest.verdict && strictest.rule.is_none() && other.rule.is_some())
    {
        *strictest = other;
    }
}

fn judge_one(layer: &Permissions, invocation: &Invocation) -> Judgement {
    let shown = shown(invocation);
    let mut perhaps = None;
    for (verdict, rules, words) in [
        (Verdict::Deny, &layer.deny, "is denied"),
        (Verdict::Ask, &layer.ask, "is to be asked for"),
    ] {
        for rule in rules {
            match invocation.is_struck_by(rule) {
                Match::Yes => {
                    return Judgement {
                        verdict,
                        rule: Some(rule.to_string()),
                        reason: format!("`{shown}` {words} by the rule `{rule}`"),
                    };
                }
                Match::Perhaps => {
                    perhaps.get_or_insert(rule);
                }
                Match::No => {}
            }
        }
    }
    if let Some(rule) = perhaps {
        let reason =
            format!("whether the rule `{rule}` is against `{shown}` shows only when it runs");
        return Judgement { verdict: Verdict::Ask, rule: Some(rule.to_string()), reason };
    }
    if let Some(rule) = layer.allow.iter().find(|rule| invocation.is_covered_by(rule)) {
        return Judgement {
            verdict: Verdict::Allow,
            rule: Some(rule.to_string()),
            reason: format!("`{shown}` is allowed by the rule `{rule}`"),
        };
    }
    if layer.allow.is_empty() {
        return allowed("no rule is against it");
    }
    let reason = format!("no rule allows `{shown}`");
    Judgement { verdict: Verdict::Ask, rule: None, reason }
}

/// A command in a message: its first words, so far as they are known.
fn shown(invocation: &Invocation) -> String {
    const WORDS: usize = 4;
    const CHARACTERS: usize = 60;
    let mut text = String::new();
    for word in invocation.words.iter().take(WORDS) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word.known().unwrap_or("…"));
    }
    if invocation.words.len() > WORDS && invocation.words.get(WORDS) != Some(&Word::Unknown) {
        text.push_str(" …");
    }
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(CHARACTERS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
