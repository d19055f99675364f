//! What kind of value a key takes: one list for the check of types, for messages and for the JSON
//! Schemas.

use toml::de::DeValue;

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A name: not empty, no `/`, no control character, at most 128 bytes.
    Name,
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `30s`.
    Duration,
    /// `10MiB`.
    Size,
    /// `limits`.
    Limits,
    /// A whole number in this range.
    Number(i64, i64),
    /// `true` or `false`.
    Flag,
    /// A list of tags: like names, but a `/` is allowed.
    Tags,
    /// A list of globs.
    Globs,
    /// A list of names of environment variables.
    Variables,
    /// Environment variables with their values.
    Env,
    /// A list of texts.
    Texts,
    /// One script, or several.
    Script,
    /// Named ports.
    Ports,
    /// `after`.
    Dependencies,
    /// `on_input`.
    OnInput,
    /// `stop_on`.
    StopRules,
    /// `service`.
    Service,
    /// `shard`.
    Shard,
    /// `[policy]`.
    Permissions,
    /// `publish`.
    Published,
    /// A table.
    Table,
    /// A list of tables.
    Tables,
    /// Anything; the part that brings the key will say what.
    Any,
}

impl Shape {
    /// True when `value` is of the right TOML type; its content may still be wrong.
    pub(super) fn fits(self, value: &DeValue<'_>) -> bool {
        match self {
            Self::Name | Self::Text | Self::Word(_) | Self::Duration | Self::Size => value.is_str(),
            Self::Number(..) => value.is_integer(),
            Self::Flag => value.is_bool(),
            Self::Tags
            | Self::Globs
            | Self::Variables
            | Self::Texts
            | Self::Dependencies
            | Self::StopRules
            | Self::Tables => value.is_array(),
            Self::Env
            | Self::Ports
            | Self::Service
            | Self::Shard
            | Self::Permissions
            | Self::Limits
            | Self::Published
            | Self::Table => value.is_table(),
            Self::Script | Self::OnInput => value.is_str() || value.is_array(),
            Self::Any => true,
        }
    }

    /// What it has to be, for a message.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Name | Self::Text | Self::Word(_) => "a string",
            Self::Duration => "a duration",
            Self::Size => "a size",
            Self::Limits => "a table of limits",
            Self::Number(..) => "a whole number",
            Self::Flag => "`true` or `false`",
            Self::Tags | Self::Globs | Self::Variables | Self::Texts => "a list of strings",
            Self::Env => "a table of strings",
            Self::Script => "a string or a list of strings",
            Self::Ports => "a table of port numbers",
            Self::Dependencies => "a list of task ids or `{task, when}` tables",
            Self::OnInput => "\"escalate\", \"fail\" or a list of `{match, send}` tables",
            Self::StopRules => "a list of `{match, reason}` tables",
            Self::Service => "a `{ready}` table",
            Self::Shard => "a `{runner, count}` table",
            Self::Permissions => "a `{allow, ask, deny}` table",
            Self::Published => "a table of board entries",
            Self::Table => "a table",
            Self::Tables => "a list of tables",
            Self::Any => "a value",
        }
    }

    /// How such a value is written, where the type alone does not say it.
    pub(super) fn example(self) -> Option<&'static str> {
        match self {
            Self::Duration => Some("write it with its unit, as in \"30s\""),
            Self::Size => Some("write it with its unit, as in \"10MiB\""),
            Self::Limits => Some("write it as in { memory = \"1GiB\" }"),
            Self::Tags | Self::Globs | Self::Variables | Self::Texts => {
                Some("write it as a list, as in [\"one\", \"two\"]")
            }
            Self::Dependencies => Some("write it as a list, as in [\"build\"]"),
            Self::StopRules => Some("write it as in [{ match = \"panicked at\" }]"),
            Self::Env => Some("write it as in { NAME = \"value\" }"),
            Self::Published => Some("write it as in { api = \"@openapi.json\" }"),
            Self::Ports => Some("write it as in { web = 8080 }"),
            Self::Service => Some("write it as in { ready = \"port:web\" }"),
            Self::Name | Self::Text | Self::Word(_) => Some("put it in quotes"),
            _ => None,
        }
    }
}

/// The TOML type of a value, for a message.
pub(super) fn noun_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
