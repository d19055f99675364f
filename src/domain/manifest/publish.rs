//! `publish`: what a task puts on the board.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::de::DeValue;

use super::findings::Findings;
use super::read::table;
use super::shape::Shape;
use super::syntax::Item;
use super::words::shown;
use crate::domain::board::key::{self, VALUE_BYTES_MAX};
use crate::domain::plan::Publication;

/// Reads a `{key = value}` table.
pub(super) fn publish(
    item: &Item<'_>,
    findings: &mut Findings<'_>,
) -> BTreeMap<String, Publication> {
    let mut published = BTreeMap::new();
    let Some(table) = table("publish", Shape::Published, item, findings) else { return published };
    for (name, item) in table {
        let told = name.get_ref();
        let board_key =
            if told.contains('/') { told.to_string() } else { format!("contract/{told}") };
        let fault = match key::check(&board_key) {
            Err(fault) => Some(fault.to_string()),
            Ok(kind) if !kind.is_told() => {
                Some("such entries are observed, and not published".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(fault) = fault {
            let message = format!("`publish`: `{}`: {fault}", shown(told));
            let hint = "publish a bare name, or `contract/…`, `note/…`, `service/…`".to_owned();
            findings.wrong_hinted(name.span(), message, hint);
            continue;
        }
        let Some(publication) = publication(item.get_ref()) else {
            let message = format!("`publish.{}` is not a value, nor \"@file\"", shown(told));
            findings.wrong(item.span(), message);
            continue;
        };
        if let Publication::Value(value) = &publication
            && value.to_string().len() > VALUE_BYTES_MAX
        {
            let message =
                format!("`publish.{}` is over the limit of {VALUE_BYTES_MAX} bytes", shown(told));
            findings.wrong(item.span(), message);
        }
        published.insert(board_key, publication);
    }
    published
}

/// A text that begins with `@` names a file; with `@@`, it is a text that begins with `@`.
fn publication(value: &DeValue<'_>) -> Option<Publication> {
    let text = value.as_str();
    if let Some(text) = text.and_then(|text| text.strip_prefix("@@")) {
        return Some(Publication::Value(Value::String(format!("@{text}"))));
    }
    if let Some(file) = text.and_then(|text| text.strip_prefix('@')) {
        return (!file.is_empty()).then(|| Publication::File(file.into()));
    }
    json(value).map(Publication::Value)
}

fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok()?.into()
        }
        DeValue::Float(number) => {
            Value::Number(serde_json::Number::from_f64(number.as_str().parse().ok()?)?)
        }
        DeValue::Datetime(date) => Value::String(date.to_string()),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(fields) => {
            let fields = fields
                .iter()
                .map(|(name, item)| Some((name.get_ref().to_string(), json(item.get_ref())?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::domain::manifest::{File, Sources, check};

    fn checked(publish: &str) -> Result<BTreeMap<String, Publication>, Vec<String>> {
        let text = format!("[[task]]\nid = 'a'\nrun = 'x'\npublish = {publish}\n");
        let sources = Sources {
            manifest: File { name: "m.toml", bytes: text.as_bytes() },
            agents: None,
            base: Path::new("/b"),
            root_override: None,
            variables: &BTreeMap::new(),
            passed: &|_| false,
            local_capacity: 1,
        };
        match check(&sources) {
            Ok(plan) => Ok(plan.tasks[0].publish.clone()),
            Err(problems) => Err(problems.iter().map(|problem| problem.message.clone()).collect()),
        }
    }

    #[test]
    fn values_and_files() {
        let told = "{ api = '@out/api.json', 'note/x' = { a = [1, 2.5, true], b = '@@x' }, n = 7 }";
        let published = checked(told).unwrap();
        let value = |key: &str| published[key].clone();
        assert_eq!(value("contract/api"), Publication::File("out/api.json".into()));
        assert_eq!(value("contract/n"), Publication::Value(json!(7)));
        let nested = json!({ "a": [1, 2.5, true], "b": "@@x" });
        assert_eq!(value("note/x"), Publication::Value(nested), "only a value itself is a file");
        assert_eq!(
            checked("{ a = '@@b' }").unwrap()["contract/a"],
            Publication::Value(json!("@b"))
        );
    }

    #[test]
    fn what_cannot_be_published() {
        for (told, words) in [
            ("{ 'port/localhost/80' = 1 }", "observed"),
            ("{ 'file/x' = 1 }", "observed"),
            ("{ 'other/x' = 1 }", "a key begins with"),
            ("{ '' = 1 }", "no part of a key"),
            ("{ a = '@' }", "is not a value"),
            ("'x'", "table"),
        ] {
            let problems = checked(told).unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains(words), "{told}: {problems:?}");
        }
        let long = format!("{{ a = '{}' }}", "x".repeat(VALUE_BYTES_MAX));
        assert!(checked(&long).unwrap_err()[0].contains("over the limit"));
    }
}
