//! The JSON Schemas of both files, made from the tables in `keys`, and the test that those in
//! `schemas/` are these. `BLESS=1 cargo test manifest::schema` writes them anew.

use serde_json::{Map, Value, json};

use super::keys::{
    AGENT, AGENT_DEFAULTS, AGENTS, DEPENDENCY, INPUT_RULE, Key, LIMITS, MANIFEST, POLICY, SERVICE,
    SHARD, STOP_RULE, Support, TASK, WORKSPACE,
};
use super::shape::Shape;

fn manifest() -> Value {
    let mut schema = object(MANIFEST, &["task"]);
    schema["properties"]["workspace"] = described(object(WORKSPACE, &[]), MANIFEST, "workspace");
    let defaults = Value::Object(properties(TASK.iter().filter(|key| key.name != "id")));
    let defaults =
        json!({ "type": "object", "additionalProperties": false, "properties": defaults });
    schema["properties"]["defaults"] = described(defaults, MANIFEST, "defaults");
    let tasks = json!({ "type": "array", "minItems": 1, "items": object(TASK, &["id"]) });
    schema["properties"]["task"] = described(tasks, MANIFEST, "task");
    titled(
        schema,
        "callboard manifest",
        "What a run works from: tasks, and the workspace they share.",
    )
}

fn agents() -> Value {
    let mut schema = object(AGENTS, &[]);
    let defaults = object(AGENT_DEFAULTS, &[]);
    schema["properties"]["defaults"] = described(defaults, AGENTS, "defaults");
    let agents = json!({ "type": "array", "items": object(AGENT, &["name"]) });
    schema["properties"]["agent"] = described(agents, AGENTS, "agent");
    titled(schema, "callboard agents.toml", "The workers, and what holds for every session.")
}

fn titled(mut schema: Value, title: &str, about: &str) -> Value {
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema["description"] = json!(about);
    schema
}

fn object(keys: &[Key], required: &[&str]) -> Value {
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": Value::Object(properties(keys)),
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn properties<'k>(keys: impl IntoIterator<Item = &'k Key>) -> Map<String, Value> {
    keys.into_iter().map(|key| (key.name.to_owned(), property(key))).collect()
}

fn property(key: &Key) -> Value {
    let mut schema = shape(key.shape);
    let about = match key.support {
        Support::Full => key.about.to_owned(),
        Support::Only(value) => format!("{} Only {value} is supported yet.", key.about),
        Support::None => format!("{} Not supported yet.", key.about),
    };
    schema["description"] = json!(about);
    schema
}

fn described(mut schema: Value, keys: &[Key], name: &str) -> Value {
    let key = keys.iter().find(|key| key.name == name).unwrap();
    schema["description"] = json!(key.about);
    schema
}

fn shape(shape: Shape) -> Value {
    let variable = "^[A-Za-z_][A-Za-z0-9_]*$";
    let name = json!({ "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[^/]+$" });
    let tag = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let glob = json!({ "type": "string", "minLength": 1 });
    match shape {
        Shape::Name => name,
        Shape::Text => json!({ "type": "string" }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::Duration => json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" }),
        Shape::Size => json!({ "type": "string", "pattern": "^[0-9]+(B|kB|MB|GB|KiB|MiB|GiB)$" }),
        Shape::Limits => object(LIMITS, &[]),
        Shape::Number(i64::MIN, i64::MAX) => json!({ "type": "integer" }),
        Shape::Number(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Tags => json!({ "type": "array", "items": tag }),
        Shape::Globs => json!({ "type": "array", "items": glob }),
        Shape::Variables => {
            json!({ "type": "array", "items": { "type": "string", "pattern": variable } })
        }
        Shape::Env => json!({
            "type": "object",
            "propertyNames": { "pattern": variable },
            "additionalProperties": { "type": "string" },
        }),
        Shape::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Shape::Script => json!({ "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } },
        ] }),
        Shape::Published => json!({ "type": "object" }),
        Shape::Ports => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_-]+$" },
            "additionalProperties": { "type": "integer", "minimum": 0, "maximum": 65535 },
        }),
        Shape::Dependencies => {
            json!({ "type": "array", "items": { "anyOf": [name, object(DEPENDENCY, &["task"])] } })
        }
        Shape::OnInput => {
            let fallback = json!({ "enum": ["escalate", "fail"] });
            let rule = object(INPUT_RULE, &["match", "send"]);
            let rules = json!({ "type": "array", "items": { "anyOf": [rule, fallback] } });
            json!({ "anyOf": [fallback, rules] })
        }
        Shape::StopRules => json!({ "type": "array", "items": object(STOP_RULE, &["match"]) }),
        Shape::Service => object(SERVICE, &["ready"]),
        Shape::Shard => object(SHARD, &[]),
        Shape::Permissions => object(POLICY, &[]),
        Shape::Table => json!({ "type": "object" }),
        Shape::Tables => json!({ "type": "array", "items": { "type": "object" } }),
        Shape::Any => json!({}),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "compares with the files that ship")]
fn the_schemas_that_ship_are_made_from_the_key_tables() {
    for (file, schema) in [("manifest", manifest()), ("agents", agents())] {
        let path = format!("{}/schemas/{file}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let expected = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let shipped = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(shipped == expected, "{path} is not what the key tables say: BLESS=1 writes it");
    }
}
