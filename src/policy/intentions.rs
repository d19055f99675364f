//! What tasks mean to write and to bind, told beforehand, and whether two of them would collide.
//!
//! Two globs overlap when their literal beginnings (all up to the first of `*?[{`) allow it: equal,
//! or the one begins with the other. That is careful rather than exact: `**/*.rs` and `**/*.md`
//! overlap. Of two plain paths it is exact: the same, or the one a folder above the other.

use std::collections::BTreeSet;

use crate::domain::plan::TaskSpec;

/// What a task has told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intention {
    /// Ports by number; 0, for any, is none.
    ports: BTreeSet<u16>,
    /// Globs relative to the root.
    writes: Vec<String>,
}

impl Intention {
    /// That of a task.
    #[must_use]
    pub fn of(task: &TaskSpec) -> Self {
        let ports = task.ports.values().copied().filter(|port| *port != 0).collect();
        Self { ports, writes: task.writes.clone() }
    }

    /// True for a task that has told nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.writes.is_empty()
    }

    /// What both want: `port/*/N`, or `file/GLOB` in the words of this one.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> Option<String> {
        if let Some(port) = self.ports.intersection(&other.ports).next() {
            return Some(format!("port/*/{port}"));
        }
        let mut writes = self.writes.iter();
        let shared = writes.find(|mine| other.writes.iter().any(|theirs| overlap(mine, theirs)));
        shared.map(|glob| format!("file/{glob}"))
    }
}

/// Whether two globs may name the same file.
#[must_use]
pub fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_start_matches("./"), other.trim_start_matches("./"));
    match (literal(one), literal(other)) {
        (None, None) => one == other || is_below(one, other) || is_below(other, one),
        (a, b) => {
            let (a, b) = (a.unwrap_or(one), b.unwrap_or(other));
            a.starts_with(b) || b.starts_with(a)
        }
    }
}

/// The literal beginning of a glob; `None` for a plain path.
fn literal(glob: &str) -> Option<&str> {
    glob.find(['*', '?', '[', '{', '\\']).map(|end| &glob[..end])
}

fn is_below(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_overlap_by_their_literal_beginnings() {
        for (one, other, expected) in [
            ("a.txt", "a.txt", true),
            ("./a.txt", "a.txt", true),
            ("a.txt", "b.txt", false),
            ("src", "src/lib.rs", true),
            ("src", "srcs", false),
            ("src/**", "src/lib.rs", true),
            ("src/**", "docs/**", false),
            ("**", "docs/a.md", true),
            ("src/a*", "src/b*", false),
            ("src/a*", "src/ab.rs", true),
            ("web/{a,b}", "web/c", true),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }

    #[test]
    fn what_two_tasks_share() {
        let task = |ports: &[u16], writes: &[&str]| {
            let mut spec = TaskSpec::new("t", &["true"]);
            spec.ports = ports.iter().map(|port| (format!("p{port}"), *port)).collect();
            spec.writes = writes.iter().map(|glob| (*glob).to_owned()).collect();
            Intention::of(&spec)
        };
        let shared = |a: &Intention, b: &Intention| a.shared_with(b);
        assert_eq!(shared(&task(&[0], &[]), &task(&[0], &[])), None, "0 is any port");
        assert!(task(&[0], &[]).is_empty());
        let port = shared(&task(&[80, 90], &[]), &task(&[90], &[]));
        assert_eq!(port.as_deref(), Some("port/*/90"));
        let file = shared(&task(&[], &["docs/**", "src/a"]), &task(&[], &["src/**"]));
        assert_eq!(file.as_deref(), Some("file/src/a"));
    }
}
