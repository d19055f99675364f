//! From text to a TOML tree, with as much of it as can be had from a file that is not TOML.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::findings::Findings;

/// A value and where it stands.
pub(super) type Item<'i> = Spanned<DeValue<'i>>;

/// The tree, or what could be made of it; syntax errors are among the findings then.
///
/// The parser bounds nesting (80 levels of values, 80 of dotted keys), so that walking and
/// dropping the tree stay within the stack whatever the bytes.
pub(super) fn parse<'t>(content: &'t str, findings: &mut Findings<'_>) -> DeTable<'t> {
    let (tree, errors) = DeTable::parse_recoverable(content);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        findings.not_toml(span, error.message());
    }
    tree.into_inner()
}
