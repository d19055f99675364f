//! The package around the code: one manifest that nobody else edits, one lint, links that lead
//! somewhere, examples that keep to their own folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn our_manifest_is_no_workspace() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert!(!manifest.contains_key("workspace"), "`cargo new` would add itself to [workspace]");
}

#[test]
fn cargo_new_below_workspaces_leaves_our_manifest_alone() {
    let copy = tempfile::tempdir().unwrap();
    let manifest = copy.path().join("Cargo.toml");
    fs::copy(root().join("Cargo.toml"), &manifest).unwrap();
    for source in ["src/lib.rs", "src/main.rs", "tests/it/main.rs"] {
        let source = copy.path().join(source);
        fs::create_dir_all(source.parent().unwrap()).unwrap();
        fs::write(source, "fn main() {}\n").unwrap();
    }
    let folder = copy.path().join("workspaces/fullstack");
    fs::create_dir_all(&folder).unwrap();
    let before = fs::read(&manifest).unwrap();

    cargo(&folder, &["new", "--vcs", "none", "scratch"]);

    assert_eq!(fs::read(&manifest).unwrap(), before, "`cargo new` has edited our manifest");
    // What it made stands on its own.
    cargo(
        &folder.join("scratch"),
        &["metadata", "--offline", "--no-deps", "--format-version", "1"],
    );
}

fn cargo(folder: &Path, arguments: &[&str]) {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(program).current_dir(folder).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "cargo {}: {said}", arguments.join(" "));
}

#[test]
fn just_lint_is_the_lint_of_ci() {
    let just = read("justfile");
    let ci = read(".ci/run");
    let recipe = just.lines().skip_while(|line| *line != "lint:").skip(1);
    let lint: Vec<&str> = recipe.take_while(|line| line.starts_with(' ')).map(str::trim).collect();
    assert!(!lint.is_empty(), "the justfile has no recipe `lint`");
    for command in lint {
        assert!(ci.lines().any(|line| line.trim() == command), ".ci/run does not have: {command}");
    }
}

#[test]
fn the_commands_of_the_readme_are_those_of_ci() {
    let test = "cargo test";
    assert!(code_lines(&read("README.md")).any(|line| line == test), "README.md lacks `{test}`");
    assert!(read(".ci/run").lines().any(|line| line.trim() == test), ".ci/run lacks `{test}`");
}

/// The lines of a text that are indented as code.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with("    ")).map(str::trim)
}

#[test]
fn examples_write_into_a_folder_that_git_ignores() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join("workspaces")).unwrap() {
        let folder = entry.unwrap().path();
        for file in ["callboard.toml", "agents.toml", "README.md"] {
            assert!(folder.join(file).is_file(), "{}: no {file}", folder.display());
        }
        let ignored = fs::read_to_string(folder.join(".gitignore")).unwrap();
        assert!(ignored.lines().any(|line| line == "/build/"), "{}", folder.display());
        seen += 1;
    }
    assert_eq!(seen, 3, "fullstack, migration and shards");
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for file in documents() {
        let text = fs::read_to_string(&file).unwrap();
        for (line, target) in links(&text) {
            let foreign = target.contains("://") || target.starts_with("mailto:");
            if !foreign && !leads_somewhere(&file, &target) {
                broken.push(format!("{}:{line}: {target}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn every_document_is_reached_from_the_readme() {
    let mut waiting = vec![root().join("README.md")];
    let mut reached: BTreeMap<PathBuf, ()> = BTreeMap::new();
    while let Some(file) = waiting.pop() {
        if file.extension().is_none_or(|ending| ending != "md") || reached.contains_key(&file) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        let folder = file.parent().unwrap().to_owned();
        for (_, target) in links(&text) {
            let path = target.split('#').next().unwrap();
            waiting.push(plain(&folder.join(path)));
        }
        reached.insert(file, ());
    }
    for file in documents() {
        assert!(reached.contains_key(&file), "{} is linked from nowhere", file.display());
    }
}

/// Our own documents: those at the root, in `docs/` and one in each example.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    let mut folders = vec![root().join("docs"), root().join("workspaces")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["build", ".callboard"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The targets of `[text](target)` outside code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (n, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || line.starts_with("    ") {
            continue;
        }
        // Every other piece between back-ticks is code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            found.extend(rest.find(')').map(|end| (n + 1, rest[..end].to_owned())));
        }
    }
    found
}

fn leads_somewhere(from: &Path, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => from.to_owned(),
        _ => plain(&from.parent().unwrap().join(path)),
    };
    if anchor.is_empty() {
        return file.exists();
    }
    fs::read_to_string(file).is_ok_and(|text| headings(&text).any(|heading| heading == anchor))
}

/// The anchors that a page's headings get.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[test]
fn links_and_headings_are_read_as_they_are_meant() {
    let page = "# A, b\nsee [x](a.md#c) and `[no](code)` ([y](b.md))\n    [no](block)\n```\n[no](fence)\n```\n";
    assert_eq!(links(page), [(2, "a.md#c".to_owned()), (2, "b.md".to_owned())]);
    assert_eq!(headings(page).collect::<Vec<_>>(), ["a-b"]);
}
