//! Where a shell's program is.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use crate::domain::session::SessionSpec;

use super::table::{self, Table};

/// The program of a session's shell: in its usual places, then in the session's own `PATH`.
///
/// # Errors
/// When this machine has none.
pub(in crate::session) fn find(table: &Table, spec: &SessionSpec) -> io::Result<CString> {
    let path = spec.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    table::file_of(table, path)
        .and_then(|file| CString::new(file.as_os_str().as_bytes()).ok())
        .ok_or_else(|| {
            let name = table.name;
            let message = format!(
                "no {name} on this machine: neither {} nor in the session's PATH",
                table.places.join(", ")
            );
            io::Error::new(io::ErrorKind::NotFound, message)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::shells::table::leads_to;

    #[test]
    fn a_shell_that_goes_by_another_name_is_known() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bash"), "").unwrap();
        std::os::unix::fs::symlink("bash", folder.path().join("sh")).unwrap();
        assert!(leads_to(&folder.path().join("sh"), &["bash"]));
        assert!(!leads_to(&folder.path().join("sh"), &["zsh"]));
        assert!(!leads_to(&folder.path().join("nosuch"), &["bash"]));
    }

    #[test]
    fn a_shell_that_the_machine_lacks_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let spec = SessionSpec {
            traced: false,
            root: None,
            parent: None,
            id: crate::domain::ids::SessionId::new("s"),
            cwd: folder.path().to_owned(),
            env: vec![("PATH".to_owned(), folder.path().display().to_string())],
            shell: crate::domain::session::Shell::Fish,
            profile: None,
            size: crate::domain::session::Size::default(),
            transcript: folder.path().to_owned(),
            tmp: folder.path().to_owned(),
            policy: Vec::new(),
            limits: Default::default(),
            owner: crate::domain::session::SessionOwner::Call,
            door: folder.path().to_owned(),
            patience_ms: 0,
        };
        let lacking = Table { places: &[], ..super::super::table::fish() };
        let error = find(&lacking, &spec).unwrap_err();
        assert!(error.to_string().starts_with("no fish on this machine"), "{error}");
        std::fs::write(folder.path().join("fish"), "").unwrap();
        assert!(find(&lacking, &spec).is_ok());
    }
}
