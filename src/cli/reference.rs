//! `docs/cli.md` is made from the help texts. `BLESS=1 cargo test --lib cli::reference`
//! writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::arguments::Arguments;

const HEAD: &str = "# The command line\n\n\
    <!-- Made from the help texts by a test (src/cli/reference.rs); change those instead. -->\n";

fn reference() -> String {
    let mut text = HEAD.to_owned();
    let mut command = Arguments::command().term_width(100);
    command.build();
    push(&mut text, &mut command, "callboard");
    text
}

fn push(text: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let help: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    let _infallible = write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n"));
    for verb in command.get_subcommands_mut().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{name} {}", verb.get_name());
        push(text, verb, &name);
    }
}

#[test]
fn the_reference_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md");
    let reference = reference();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &reference).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == reference, "docs/cli.md is out of date: see src/cli/reference.rs");
}
