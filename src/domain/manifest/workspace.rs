//! `[workspace]`.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::findings::Findings;
use super::keys::WORKSPACE;
use super::read::{entries, filled, name};
use crate::domain::ids::WorkspaceId;

/// What the manifest says of its workspace.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) id: Option<WorkspaceId>,
    root: Option<PathBuf>,
}

impl Workspace {
    pub(super) fn read(table: &DeTable<'_>, findings: &mut Findings<'_>) -> Self {
        let mut workspace = Self::default();
        for (key, item) in entries(table, WORKSPACE, findings) {
            match key {
                "id" => {
                    workspace.id = name(key, item, findings).map(|id| WorkspaceId::new(id.value));
                }
                "root" => workspace.root = filled(key, item, findings).map(|it| it.value.into()),
                _ => {}
            }
        }
        workspace
    }

    /// The root: told from outside, else by the manifest, else its folder.
    pub(super) fn root(&self, base: &Path, told: Option<&Path>) -> PathBuf {
        let root = match (told, &self.root) {
            (Some(told), _) => base.join(told),
            (None, Some(own)) => base.join(own),
            (None, None) => base.to_owned(),
        };
        // `.` goes; `..` stays, since only the disk knows what it means behind a symbolic link.
        root.components().collect()
    }
}
