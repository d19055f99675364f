//! (placeholder)

use std::path::PathBuf;

/// What to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The workspace's root.
    pub root: PathBuf,
    /// True when a client started it: it ends once nobody needs it.
    pub for_client: bool,
}

/// Why it cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process has the workspace.
    #[error("the workspace is owned by process {pid}")]
    Held {
        /// Which.
        pid: u32,
    },
    /// Not yet.
    #[error("the coordinator is not part of this build")]
    Absent,
}

/// Serves a workspace.
///
/// # Errors
/// Always, so far.
pub fn serve(_options: ServeOptions) -> Result<(), ServeError> {
    Err(ServeError::Absent)
}
