//! Where a name leads: the kernel walks it, from the working directory, root or descriptors that
//! its process has, and nothing is opened by that (`O_PATH`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, Stat, access, fstat, openat, readlinkat, statat,
};

use super::calls::Name;

/// A place in the file system.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its real path, absolute; the parent folder's links are followed.
    pub path: PathBuf,
    /// What is there; `None`: nothing yet.
    pub is: Option<Stat>,
    /// Whether its process may write there, as far as can be told without trying.
    pub may_write: bool,
}

/// A file as itself, whatever its name.
pub(super) type Identity = (u64, u64);

/// Which file that is.
pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// What is at a path now, links not followed.
pub(super) fn look(path: &Path) -> Option<Stat> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()
}

/// True for these names, which are nobody's resource and often written to.
fn is_device(path: &[u8]) -> bool {
    [&b"/dev/"[..], b"/proc/", b"/sys/"].iter().any(|start| path.starts_with(start))
}

/// Where the process `pid` gets with a name. `follow`: a link at its end is followed.
pub(super) fn resolve(pid: i32, name: &Name, follow: bool) -> Option<Place> {
    if is_device(&name.path) {
        return None;
    }
    let full = full_name(pid, name);
    let follows = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    match openat(CWD, &full, OFlags::PATH | OFlags::CLOEXEC | follows, Mode::empty()) {
        Ok(found) => {
            let path = real_path(&found)?;
            let is = fstat(&found).ok()?;
            let by_itself = own_descriptor(&found);
            let may_write = access(&by_itself, Access::WRITE_OK).is_ok() && is_allowed(pid, &is);
            Some(Place { path, is: Some(is), may_write })
        }
        Err(rustix::io::Errno::NOENT) => new_place(&full),
        Err(_) => None,
    }
}

/// A place that is to be made: its folder is there.
fn new_place(full: &[u8]) -> Option<Place> {
    let end = full.iter().rposition(|&byte| byte != b'/')? + 1;
    let slash = full[..end].iter().rposition(|&byte| byte == b'/')?;
    let (folder, name) = (&full[..slash], &full[slash + 1..end]);
    if name == b"." || name == b".." {
        return None;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let folder = openat(CWD, folder, flags, Mode::empty()).ok()?;
    let path = real_path(&folder)?.join(OsString::from_vec(name.to_vec()));
    // Whether it may is seen by whether it does.
    Some(Place { path, is: None, may_write: true })
}

/// The name as this process would have to say it.
fn full_name(pid: i32, name: &Name) -> Vec<u8> {
    let mut full = format!("/proc/{pid}/").into_bytes();
    match name.from {
        _ if name.path.starts_with(b"/") => full.extend_from_slice(b"root"),
        None => full.extend_from_slice(b"cwd/"),
        Some(descriptor) if name.path.is_empty() => {
            full.extend_from_slice(format!("fd/{descriptor}").as_bytes());
        }
        Some(descriptor) => full.extend_from_slice(format!("fd/{descriptor}/").as_bytes()),
    }
    full.extend_from_slice(&name.path);
    full
}

fn own_descriptor(open: &impl std::os::fd::AsRawFd) -> String {
    format!("/proc/self/fd/{}", open.as_raw_fd())
}

fn real_path(open: &impl std::os::fd::AsRawFd) -> Option<PathBuf> {
    let path = readlinkat(CWD, own_descriptor(open), Vec::new()).ok()?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    path.is_absolute().then_some(path)
}

/// Where we are root and its process is somebody else, our own access says nothing about its.
fn is_allowed(pid: i32, file: &Stat) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let Ok(process) = statat(CWD, format!("/proc/{pid}"), AtFlags::empty()) else { return true };
    let (user, mode) = (process.st_uid, file.st_mode);
    user == 0
        || (file.st_uid == user && mode & 0o200 != 0)
        || mode & 0o002 != 0
        || (mode & 0o020 != 0 && groups(pid).contains(&file.st_gid))
}

fn groups(pid: i32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let lines = status
        .lines()
        .filter_map(|line| line.strip_prefix("Groups:").or_else(|| line.strip_prefix("Gid:")));
    lines.flat_map(str::split_whitespace).filter_map(|word| word.parse().ok()).collect()
}

/// Whether a port of that process is one of ours.
pub(super) fn shares_network(pid: i32) -> bool {
    let of = |pid: &str| statat(CWD, format!("/proc/{pid}/ns/net"), AtFlags::empty());
    match (of("self"), of(&pid.to_string())) {
        (Ok(ours), Ok(its)) => identity(&ours) == identity(&its),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_lead_to_real_places() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/file"), "x").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("a/file", root.join("to-file")).unwrap();
        let odd = std::ffi::OsStr::from_bytes(b"a/\xff");
        std::fs::write(root.join(odd), "x").unwrap();
        let handle = std::fs::File::open(&root).unwrap();
        let file = std::fs::File::open(root.join("a/file")).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let text = root.to_str().unwrap();
        let at = |path: &[u8]| Name { from: Some(handle.as_raw_fd()), path: path.to_vec() };
        for (name, follow, expected, is_there) in [
            (at(b"a/file"), true, "a/file", true),
            (at(b"a/../a/./file"), true, "a/file", true),
            (at(b"link/file"), true, "a/file", true),
            (at(b"to-file"), true, "a/file", true),
            (at(b"to-file"), false, "to-file", true),
            (at(b"link/new"), true, "a/new", false),
            (at(b"link/b/../new"), true, "a/new", false),
            (at(b"a/b/"), false, "a/b", true),
            (at(b"a/new/"), false, "a/new", false),
            (at(format!("{text}/link/new").as_bytes()), true, "a/new", false),
            (Name { from: Some(file.as_raw_fd()), path: Vec::new() }, true, "a/file", true),
        ] {
            let place = resolve(pid, &name, follow).unwrap();
            assert_eq!(place.path, root.join(expected), "{name:?}");
            assert_eq!(place.is.is_some(), is_there, "{name:?}");
        }
        let place = resolve(pid, &at(b"a/\xff"), true).unwrap();
        assert_eq!(place.path, root.join(odd));
        for nowhere in [&b"none/x"[..], b"a/file/x", b"none/..", b"/dev/null", b"/proc/self/x"] {
            assert!(resolve(pid, &at(nowhere), true).is_none());
        }
        assert!(resolve(pid, &Name { from: Some(999), path: b"x".to_vec() }, true).is_none());
    }
}
