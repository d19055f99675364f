//! The files that `init` writes: a starter, and the examples of `workspaces/` as they are there.

/// A set of files to start from.
pub(super) struct Example {
    /// What `--example` calls it.
    pub(super) name: &'static str,
    /// Its files.
    pub(super) files: &'static [File],
}

/// A file.
pub(super) struct File {
    /// Relative to the folder it goes to.
    pub(super) path: &'static str,
    /// All of it.
    pub(super) bytes: &'static [u8],
}

macro_rules! files {
    ($folder:literal, [$($path:literal),+ $(,)?]) => {
        &[$(File { path: $path, bytes: include_bytes!(concat!($folder, "/", $path)) }),+]
    };
}

/// What there is without `--example`.
pub(super) const STARTER: Example =
    Example { name: "starter", files: files!("starters", ["callboard.toml", "agents.toml"]) };

/// The examples; a test compares them with the folders.
pub(super) const EXAMPLES: &[Example] = &[
    Example {
        name: "fullstack",
        files: files!(
            "../../workspaces/fullstack",
            [
                ".gitignore",
                "README.md",
                "agents.toml",
                "backend/box_office/__init__.py",
                "backend/box_office/routes.py",
                "backend/box_office/server.py",
                "backend/box_office/store.py",
                "backend/build.py",
                "backend/contract.py",
                "backend/tests/__init__.py",
                "backend/tests/test_routes.py",
                "backend/tests/test_store.py",
                "callboard.toml",
                "db/check.py",
                "db/migrate.py",
                "db/migrations/001_shows.sql",
                "db/migrations/002_bookings.sql",
                "db/migrations/003_one_booking_a_seat.sql",
                "db/migrations/004_season.sql",
                "frontend/assets/office.css",
                "frontend/assets/office.js",
                "frontend/build.py",
                "frontend/check.py",
                "frontend/pages/about.html",
                "frontend/pages/booking.html",
                "frontend/pages/index.html",
                "frontend/partials/foot.html",
                "frontend/partials/head.html",
                "integration/test_box_office.py",
            ]
        ),
    },
    Example {
        name: "shards",
        files: files!(
            "../../workspaces/shards",
            [
                ".gitignore",
                "README.md",
                "agents.toml",
                "callboard.toml",
                "fetch.py",
                "groups.py",
                "groups/collections.txt",
                "groups/functions.txt",
                "groups/system.txt",
                "groups/text.txt",
                "tally.py",
            ]
        ),
    },
    Example {
        name: "migration",
        files: files!(
            "../../workspaces/migration",
            [
                ".gitignore",
                "README.md",
                "agents.toml",
                "callboard.toml",
                "migrate.py",
                "passwords.py",
                "seed.py",
                "stocktake.py",
                "verify.py",
            ]
        ),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The files below `folder`, without what runs leave behind.
    fn found(folder: &Path, prefix: &str, files: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if ["build", ".callboard", "__pycache__"].contains(&name.as_str())
                && entry.path().is_dir()
            {
                continue;
            }
            let path = format!("{prefix}{name}");
            if entry.path().is_dir() {
                found(&entry.path(), &format!("{path}/"), files);
            } else {
                files.insert(path);
            }
        }
    }

    #[test]
    fn no_file_of_an_example_is_forgotten() {
        let workspaces = Path::new(env!("CARGO_MANIFEST_DIR")).join("workspaces");
        for example in EXAMPLES {
            let mut files = BTreeSet::new();
            found(&workspaces.join(example.name), "", &mut files);
            let listed = example.files.iter().map(|file| file.path.to_owned()).collect();
            assert_eq!(files, listed, "{}", example.name);
        }
    }
}
