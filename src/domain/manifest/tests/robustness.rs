//! Nothing panics, whatever the bytes.

use proptest::prelude::*;

use super::Case;

const SEED: &str = r#"
[workspace]
id = "w"
root = "."
[defaults]
env = { A = "1" }
[[task]]
id = "a"
needs = ["t"]
run = ["true", """
two
"""]
ports = { web = 80 }
service = { ready = "port:web" }
on_input = [{ match = "x", send = "y" }, "fail"]
stop_on = [{ match = "z" }]
timeout = "5s"
hard_timeout = "10s"
retries = 3
[[task]]
id = "ä"
after = ["a", { task = "a", when = "done" }]
run = "echo ${{V}}"
artifacts = ["**/*.log"]
[[task]]
id = "c"
run = "x"
after = ["c", "ä"]
"#;

/// Pieces that stand for values, keys and structure.
const PIECES: &[&str] = &[
    "=",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "\"",
    "'",
    "\"\"\"",
    "\n",
    "\r\n",
    "#",
    "[[task]]",
    "[task]",
    "[defaults]",
    "[task.env]",
    "id",
    "run",
    "after",
    "0",
    "-1",
    "1e400",
    "99999999999999999999",
    "0xffffffffffffffffffff",
    "inf",
    "nan",
    "true",
    "1979-05-27",
    "${{",
    "}}",
    "\\u0000",
    "\u{feff}",
    "é",
    "😀",
    "\u{202e}",
    "\u{1b}[",
    "a.b.c",
    "task.x",
    "[[task.run]]",
    "[[defaults]]",
    "[[[[[[[[",
];

fn survives(manifest: &[u8], agents: &[u8]) {
    let vars = &[("V", "1")][..];
    let result = Case { manifest, agents: Some(agents), vars }.check();
    if let Err(problems) = result {
        assert!(!problems.is_empty());
        for problem in problems {
            assert!(problem.line >= 1 && problem.column >= 1);
            assert!(problem.text.chars().count() <= 400);
            assert!(!problem.message.chars().any(char::is_control), "{problem:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_bytes(manifest in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,200}") {
        survives(&manifest, text.as_bytes());
    }

    #[test]
    fn mutated_manifests(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, prop::sample::select(PIECES)), 1..8)) {
        let mut manifest = SEED.to_owned();
        for (at, cut, piece) in edits {
            let start = manifest.floor_char_boundary(at.index(manifest.len() + 1));
            let end = manifest.ceil_char_boundary((start + cut).min(manifest.len()));
            manifest.replace_range(start..end, piece);
        }
        survives(manifest.as_bytes(), manifest.as_bytes());
    }

    #[test]
    fn heaps_of_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        let text = pieces.join(" ");
        survives(text.as_bytes(), pieces.concat().as_bytes());
    }
}

#[test]
fn deep_and_huge() {
    let deep = 200_000;
    for text in [
        format!("a = {}", "[".repeat(deep)),
        format!("a = {}{}", "[".repeat(deep), "]".repeat(deep)),
        format!("a = {}", "{a=".repeat(deep)),
        format!("{} = 1", vec!["a"; deep].join(".")),
        format!("[{}]", vec!["a"; deep].join(".")),
        format!(
            "[[task]]\nid='a'\nrun='x'\n{}",
            format!("[{}]\n", vec!["task"; 79].join(".")).repeat(3)
        ),
        format!("[[task]]\nid='a'\nrun='x'\nretries = {}", "9".repeat(deep)),
        format!("[[task]]\nid='a'\nrun='x'\ntimeout = '{}s'", "9".repeat(deep)),
        format!("[[task]]\nid='a'\nrun='x'\nstop_on = [{{ match = '{}' }}]", "(".repeat(10_000)),
        format!("[[task]]\nid='a'\nrun='x'\nartifacts = ['{}']", "{".repeat(10_000)),
        "x = \"\"\"".to_owned(),
        "\"".repeat(deep),
    ] {
        let said = Case::of(&text).said();
        assert!(!said.is_empty());
    }
    let huge = vec![b' '; 33 * 1024 * 1024];
    let case = Case { manifest: &huge, agents: None, vars: &[] };
    assert!(case.said()[0].contains("over the limit"));
}
