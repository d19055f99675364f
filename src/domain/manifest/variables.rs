//! `${{NAME}}` in the strings of a manifest, filled in from `--var NAME=VALUE`.
//!
//! The form is chosen because no shell reads `${{` as anything valid, so scripts lose nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::findings::Findings;
use super::syntax::Item;
use super::words::shown;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// Fills in every string value of `tree`. Unknown variables are problems, and so are variables
/// that nothing uses: one of the two is misspelt.
pub(super) fn fill_in(
    tree: &mut DeTable<'_>,
    variables: &BTreeMap<String, String>,
    findings: &mut Findings<'_>,
) {
    if variables.is_empty() && !findings.text.content().contains(OPEN) {
        return;
    }
    let mut filler =
        Filler { variables, used: BTreeSet::new(), unknown: BTreeSet::new(), findings };
    for (_, item) in tree.iter_mut() {
        filler.item(item);
    }
    let Filler { used, unknown, findings, .. } = filler;
    for name in variables.keys().filter(|name| !used.contains(name.as_str())) {
        let near = findings.speller.near(name, unknown.iter().map(String::as_str));
        let hint = match near {
            Some(near) => format!("did you mean `{}`, which the manifest uses?", shown(near)),
            None => format!("write ${{{{{}}}}} where it is wanted", shown(name)),
        };
        let message = format!("the variable `{}` (--var) is not used anywhere", shown(name));
        findings.absent(0..0, message, hint);
    }
}

struct Filler<'f, 't, 'v> {
    variables: &'v BTreeMap<String, String>,
    used: BTreeSet<&'v str>,
    unknown: BTreeSet<String>,
    findings: &'f mut Findings<'t>,
}

impl Filler<'_, '_, '_> {
    /// Recursion is bounded by the parser's limit on nesting.
    fn item(&mut self, item: &mut Item<'_>) {
        let span = item.span();
        match item.get_mut() {
            DeValue::String(text) if text.contains(OPEN) => {
                *text = Cow::Owned(self.text(text, span));
            }
            DeValue::Array(array) => array.iter_mut().for_each(|item| self.item(item)),
            DeValue::Table(table) => table.iter_mut().for_each(|(_, item)| self.item(item)),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, span: Range<usize>) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, from)) = rest.split_once(OPEN) {
            filled.push_str(before);
            let Some((inner, after)) = from.split_once(CLOSE) else {
                let hint = "write ${{NAME}}".to_owned();
                self.refuse(OPEN, span, "`${{` has no `}}` after it".to_owned(), hint);
                filled.push_str(OPEN);
                rest = from;
                break;
            };
            let name = inner.trim();
            match self.variables.get_key_value(name) {
                Some((name, value)) => {
                    self.used.insert(name);
                    filled.push_str(value);
                }
                None => self.unknown_variable(name, &format!("{OPEN}{inner}{CLOSE}"), &span),
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn unknown_variable(&mut self, name: &str, written: &str, span: &Range<usize>) {
        let known = self.variables.keys().map(String::as_str);
        let hint = self
            .findings
            .did_you_mean(name, known)
            .unwrap_or_else(|| format!("give it with --var {}=…", shown(name)));
        let message = format!("unknown variable `{}`", shown(name));
        self.unknown.insert(name.to_owned());
        self.refuse(written, span.clone(), message, hint);
    }

    /// Says it at the place in the value, where that can be found, and nothing more of the value.
    fn refuse(&mut self, written: &str, span: Range<usize>, message: String, hint: String) {
        let source = self.findings.text.content().get(span.clone()).unwrap_or_default();
        let place = match source.find(written) {
            Some(at) => span.start + at..span.start + at + written.len(),
            None => span.clone(),
        };
        self.findings.wrong_hinted(place, message, hint);
        self.findings.spoil(span.start);
    }
}
