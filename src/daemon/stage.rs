//! Starting the stage, and the folders of sessions.

use std::path::Path;

use crate::session::link::Stage;

/// Starts the process that forks holders. Its environment is all that `/proc` will ever show of a
/// holder's: nothing but where programs are.
///
/// # Errors
/// When this program's own file cannot be executed again.
pub(super) fn start_stage() -> std::io::Result<Stage> {
    let path = std::env::var("PATH").unwrap_or_default();
    Stage::start(Path::new("/proc/self/exe"), [("PATH", path.as_str())])
}

/// Makes a folder, and what leads to it, closed to others.
///
/// # Errors
/// When it cannot be made.
pub(super) fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
