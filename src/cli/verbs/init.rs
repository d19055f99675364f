//! `callboard init`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use clap::Args;

use crate::cli::examples::{EXAMPLES, Example, STARTER};
use crate::cli::failure::Failure;
use crate::cli::{exit, output, sources};

/// Write a manifest and an agents.toml to start from.
///
/// They go into the current folder. Nothing that exists is overwritten: if any of the files is
/// there already, none is written.
#[derive(Debug, Args)]
pub(in crate::cli) struct Init {
    /// Write the files of an example that runs as it is
    #[arg(long, value_name = "NAME", value_parser = names())]
    example: Option<String>,
}

impl Init {
    /// Writes the files.
    ///
    /// # Errors
    /// When one of them exists, or cannot be written.
    pub(in crate::cli) fn run(self) -> Result<u8, Failure> {
        let example = match &self.example {
            None => &STARTER,
            Some(name) => EXAMPLES
                .iter()
                .find(|example| example.name == name.as_str())
                .ok_or_else(|| Failure::usage(format!("there is no example `{name}`")))?,
        };
        write(example, &sources::current_folder()?)?;
        let listed: Vec<_> =
            example.files.iter().map(|file| format!("  {}\n", file.path)).collect();
        output::print(format!("wrote\n{}next: callboard run callboard.toml\n", listed.concat()))?;
        Ok(exit::SUCCEEDED)
    }
}

fn names() -> clap::builder::PossibleValuesParser {
    EXAMPLES.iter().map(|example| example.name).collect::<Vec<_>>().into()
}

/// Writes all files of the example below `folder`, or none where one is there already.
fn write(example: &Example, folder: &Path) -> Result<(), Failure> {
    let there: Vec<_> = example
        .files
        .iter()
        .filter(|file| folder.join(file.path).symlink_metadata().is_ok())
        .map(|file| format!("`{}`", file.path))
        .collect();
    if !there.is_empty() {
        let (verb, words) = (if there.len() == 1 { "exists" } else { "exist" }, there.join(", "));
        return Err(Failure::usage(format!("{words} {verb} already; nothing was written"))
            .hint("use an empty folder, or move what is there away"));
    }
    for file in example.files {
        let path = folder.join(file.path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| Failure::file(parent, "make", &error))?;
        // Never over a file that has come to be there in the meantime.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|mut written| written.write_all(file.bytes))
            .map_err(|error| Failure::file(&path, "write", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sources::{PlanArgs, load_to_show};

    #[test]
    fn what_is_written_is_sound() {
        for example in EXAMPLES.iter().chain([&STARTER]) {
            let folder = tempfile::tempdir().unwrap();
            write(example, folder.path()).unwrap();
            let manifest = folder.path().join("callboard.toml");
            let plan = load_to_show(&manifest, &PlanArgs::default()).unwrap();
            assert!(plan.tasks.len() > 1, "{}", example.name);
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let agents = folder.path().join("agents.toml");
        fs::write(&agents, "mine").unwrap();
        let failure = write(&STARTER, folder.path()).unwrap_err();
        assert_eq!(failure.exit_code(), exit::USAGE);
        assert!(failure.message.contains("`agents.toml` exists"), "{}", failure.message);
        assert_eq!(fs::read_to_string(agents).unwrap(), "mine");
        assert!(!folder.path().join("callboard.toml").exists());
    }
}
