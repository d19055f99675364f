//! `policy`: rules of what may be run, of the workspace, an agent or a task.

use super::findings::Findings;
use super::keys::POLICY;
use super::read::{entries, list, table, text};
use super::shape::Shape;
use super::syntax::Item;
use super::words::shown;
use crate::domain::permission::{Permissions, RULES_MAX, Rule};

/// Reads a `{allow, ask, deny}` table.
pub(super) fn permissions(
    what: &str,
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> Option<Permissions> {
    let mut permissions = Permissions::default();
    let table = table(what, Shape::Permissions, item, findings)?;
    for (key, item) in entries(table, POLICY, findings) {
        let rules = rules(key, item, findings);
        match key {
            "allow" => permissions.allow = rules,
            "ask" => permissions.ask = rules,
            _ => permissions.deny = rules,
        }
    }
    Some(permissions)
}

fn rules(what: &str, item: &Item<'_>, findings: &mut Findings<'_>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let items = list(what, Shape::Texts, item, findings);
    if items.len() > RULES_MAX {
        findings.wrong(item.span(), format!("`{what}` has more than {RULES_MAX} rules"));
    }
    for item in items {
        let Some(rule) = text(what, item, findings) else { continue };
        match Rule::parse(&rule.value) {
            Ok(rule) => rules.push(rule),
            Err(fault) => {
                let message = format!("`{what}`: the rule `{}` {fault}", shown(&rule.value));
                let hint = "name a program and, if need be, arguments, as in \"git push\"";
                findings.wrong_hinted(rule.span, message, hint.to_owned());
            }
        }
    }
    rules
}
